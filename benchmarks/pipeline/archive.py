"""Segments to Parquet: how many rows a second the archiver makes, alone on one core.

The journal is that of a queue whose messages are acknowledged: a third each of accepted, with 100 bytes of body and
five headers, delivered and acked.  The bodies are drawn from 5,000 that do not compress.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.pipeline.measured import Figure, watch
from gateway.archive.archiver import Archiver
from gateway.journal import Journal

_MESSAGES = 500_000
_HEADERS = {"destination": "/queue/orders", "content-type": "application/json", "region": "europe", "kind": "order"}
_BODIES = 5_000
_BYTES = 16 * 1024 * 1024


def figures(scale: float) -> Iterator[Figure]:
    """The figure of this part."""
    messages = max(2_000, int(_MESSAGES * scale))
    with tempfile.TemporaryDirectory(prefix="archive-bench-") as name:
        folder = Path(name)
        _write(folder / "journal", messages)
        nbytes = sum([path.stat().st_size for path in (folder / "journal").rglob("*.seg")])
        with watch() as spent, Archiver(folder / "journal", folder / "archive") as archiver:
            if not archiver.step(everything=True):
                raise RuntimeError("the archiver failed")
        size = sum([path.stat().st_size for path in (folder / "archive").rglob("*.parquet")])
    rows = 3 * messages
    note = f"{nbytes / rows:.0f} octets a row become {size / rows:.0f}"
    yield Figure("archiver", rows / spent.seconds, "rows/s", 100_000, rows=rows, cpu=spent.cpu, note=note)


def _write(folder: Path, messages: int) -> None:
    journal = Journal(folder, "bench", run="r", segment_bytes=_BYTES)
    journal.start()
    session = journal.names_of_session("tcp", "127.0.0.1:50000", "anna", "s-1")
    names = journal.names_of_subscription(session, "0", "client-individual", "/queue/orders")
    bodies = [os.urandom(100) for _ in range(_BODIES)]
    for number in range(messages):
        headers = _HEADERS | {"x-number": str(number % 1000)}
        journal.accepted(journal.clock(), session, "/queue/orders", number, headers, bodies[number % len(bodies)])
        journal.delivered(journal.clock(), names, number, 100, 1, number % 5000)
        journal.acked(journal.clock(), names, number, 1, number % 3000)
        while journal.queued > _BYTES:
            time.sleep(0.01)
    journal.close(60)
    if journal.rows_dropped:
        raise RuntimeError("the journal dropped rows")
