"""Which segments become one file.

A file for each segment of ten seconds would be far too many for Spark, which needs 12 times as long for the same rows
in a thousand files.  So segments wait for others: until they are old enough, or large enough together.

A group ends where a number is missing.  That segment may be one that the gateway could not complete so far; it must be
in no range that says of itself that it is archived.  A group ends, too, where the hour of the files' times does: then
it becomes one file, mostly, and segments of days that nobody archived are not all open at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gateway.journal.segments import order

from .layout import Range


@dataclass(slots=True)
class SegmentGroup:
    """Segments of one epoch that follow one another.

    Attributes:
        is_closed: nothing can join it any more.
    """

    paths: list[Path]
    octets: int
    hour: int
    is_closed: bool = False
    range: Range = field(init=False)

    def __post_init__(self) -> None:
        self.range = self._range()

    def joins(self, path: Path, octets: int, hour: int, most: int) -> bool:
        """Take one more segment; False: it does not belong here."""
        epoch, number = order(path)
        if (epoch, number) != (self.range.epoch, self.range.last + 1) or hour != self.hour:
            return False
        if self.octets + octets > most:
            return False
        self.paths.append(path)
        self.octets += octets
        self.range = self._range()
        return True

    def _range(self) -> Range:
        epoch, first = order(self.paths[0])
        return Range(self.paths[0].parent.name, epoch, first, order(self.paths[-1])[1])


def groups(paths: Iterable[Path], most: int) -> list[SegmentGroup]:
    """Segments in groups.

    Args:
        paths: of one gateway, in order.
        most: octets of a group; a segment that is larger is one alone.

    Raises:
        OSError: a segment cannot be looked at.
    """
    found: list[SegmentGroup] = []
    for path in paths:
        status = path.stat()
        hour = int(status.st_mtime // 3600)
        if not found or not found[-1].joins(path, status.st_size, hour, most):
            if found:
                found[-1].is_closed = True
            found.append(SegmentGroup([path], status.st_size, hour))
    if found and found[-1].octets >= most:
        found[-1].is_closed = True
    return found
