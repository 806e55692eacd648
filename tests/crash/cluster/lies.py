"""Lies that the nodes of a cluster tell: patches that break one promise each, to see that the test notices.

unfenced    a primary ignores that it lost its lease, and that the log refuses it
gappy       a standby leaves out the messages of one commit in three
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from gateway.broker.model.changes import Batch
from gateway.cluster import replica
from gateway.cluster.lease import Lease
from gateway.cluster.log import LogWriter, SequenceRefused

LIES = ("unfenced", "gappy")


def tell(lie: str) -> None:
    """Break one promise."""
    if lie == "unfenced":
        Lease.holds = property(lambda _: True)  # type: ignore[assignment,method-assign]
        Lease._find_out = lambda _: None  # type: ignore[method-assign]
        LogWriter._append = _append_anyway  # type: ignore[method-assign]
    else:
        numbers = itertools.count(1)
        unpack = replica.unpack_batch

        def unpack_batch(number: int, payload: bytes) -> Batch:
            batch = unpack(number, payload)
            # Not its places and ACKs: without these the next primary does not start, or delivers twice.
            return batch if next(numbers) % 3 else replace(batch, rows={}, contents={})

        replica.unpack_batch = unpack_batch


def _append_anyway(writer: LogWriter, part: bytes) -> None:
    while True:
        try:
            writer.last = writer._log.append(part, writer.last)
        except SequenceRefused:
            writer.last = writer._log.bounds().last
        else:
            return
