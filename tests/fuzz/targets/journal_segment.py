"""A segment of the journal with octets changed: the rows before the damage are read, or it is refused in words."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from gateway.archive.segments import SegmentError, Tables
from gateway.journal import Journal, found
from tests.fuzz.targets import check_refusal, in_memory


def run(octets: bytes) -> None:
    """Changes, of four octets each: three say where, one what it becomes."""
    content = bytearray(whole())
    for place in range(0, len(octets) - 3, 4):
        content[int.from_bytes(octets[place : place + 3], "big") % len(content)] = octets[place + 3]
    with tempfile.TemporaryDirectory(dir=in_memory()) as folder:
        path = Path(folder) / "1-1.seg"
        path.write_bytes(content)
        segment = Tables(path)
        try:
            rows = sum([len(table) for table in segment])
        except SegmentError as refusal:
            check_refusal(refusal)
            return
        assert rows <= ROWS
        assert content != whole() or (rows, segment.torn) == (ROWS, 0)


ROWS = 30


@functools.cache
def whole() -> bytes:
    """A segment as a gateway leaves it, in octets."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder), "g", run="r")
        names = journal.names_of_session("tcp", "127.0.0.1:1", "ada", "s")
        for number in range(ROWS):
            journal.accepted(number, names, f"/queue/{number % 3}", number, {"k": "v" * number}, b"body")
        journal.close()
        (path,) = found(Path(folder) / "g")
        return path.read_bytes()
