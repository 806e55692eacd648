"""What a row of the journal costs the event loop: CPU of the thread that tells, while the other one writes.

Rows are told in bursts, with pauses in which the writer catches up, so that none is dropped; the pauses do not count.
An accepted row has 100 bytes of body and five headers.  Frames that share their headers share the dictionary, as the
decoder gives it; that row has the goal.  The others are there to see what it costs when nothing is shared.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from benchmarks.pipeline.measured import Figure
from gateway.journal import Journal

_BURST = 20_000
_ROUNDS = 7
_BODY = b"x" * 100
_HEADERS = {
    "destination": "/queue/orders",
    "content-type": "application/json",
    "kind": "order",
    "region": "europe",
    "x-trace": "4bf92f3577b34da6a3ce929d0e0e4736",
}


def figures(scale: float) -> Iterator[Figure]:
    """The figures of this part."""
    burst = max(1000, int(_BURST * scale))
    with tempfile.TemporaryDirectory(prefix="journal-bench-") as folder:
        journal = Journal(Path(folder), "bench", run="r")
        journal.start()
        try:
            session = journal.names_of_session("tcp", "127.0.0.1:50000", "anna", "s-1")
            names = journal.names_of_subscription(session, "0", "client-individual", "/queue/orders")
            own = [dict(_HEADERS) for _ in range(burst)]

            def accepted(number: int) -> None:
                journal.accepted(journal.clock(), session, "/queue/orders", number, _HEADERS, _BODY)

            def unshared(number: int) -> None:
                journal.accepted(journal.clock(), session, "/queue/orders", number, own[number], _BODY)

            def delivered(number: int) -> None:
                journal.delivered(journal.clock(), names, number, 100, 1, 1234)

            def acked(number: int) -> None:
                journal.acked(journal.clock(), names, number, 1, 1234)

            for title, tell, goal in (
                ("journal on the loop, accepted row", accepted, 2.0),
                ("journal on the loop, its headers not shared", unshared, None),
                ("journal on the loop, thin row (delivered)", delivered, 0.5),
                ("journal on the loop, thin row (acked)", acked, 0.5),
            ):
                cost = _cost(journal, tell, burst)
                rows = burst * _ROUNDS
                yield Figure(title, cost, "us", goal, at_least=False, rows=rows, cpu=cost * rows / 1e6)
        finally:
            journal.close()
        if journal.rows_dropped:
            raise RuntimeError(f"the journal dropped {journal.rows_dropped} rows, so the figures mean nothing")


def _cost(journal: Journal, tell: Callable[[int], None], burst: int) -> float:
    """Microseconds of CPU for each call, without the call itself: the median of some rounds."""
    rounds = []
    for _ in range(_ROUNDS):
        rounds.append((_spent(tell, burst) - _spent(_nothing, burst)) / burst * 1e6)
        while journal.queued:
            time.sleep(0.01)
    return median(rounds)


def _spent(tell: Callable[[int], None], burst: int) -> float:
    start = time.thread_time()
    for number in range(burst):
        tell(number)
    return time.thread_time() - start


def _nothing(number: int) -> None:
    """What the loop of the measurement costs by itself."""
