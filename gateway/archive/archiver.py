"""The archiver: the journals of all gateways of a folder, into one archive.

A journal that cannot be used, because it belongs to another user, is reported once and tried again with each step.

The segments of a gateway become raw files, each row in one file, wherever this is killed:

    group      consecutive segments (`segments`)
    write      a file for each hour of them, under hidden names; all are whole and on the disk before the next step
    reveal     the files get their names, one after the other
    delete     the segments are deleted, the first one first

A file's name says which segments are in it.  So the files and segments tell how far the archiver came:

    no file of a range is visible                     nothing has happened: the hidden files are written anew
    files are visible, and all segments are there     exactly this range is finished: its missing hours are written
    files are visible, and segments are missing       all hours are visible: the other segments are deleted

Files that compaction has put into the history, and that are deleted, count as visible.

An unusable segment is renamed to `.bad`, and is in no range.  A damaged one is a range of its own, with its whole
records, and is kept as `.bad`, too: with its old name it becomes the same file once more.

The segment that grows, `.open`, is left alone, even that of a dead gateway: its next start completes it.  A lock in the
archive keeps two archivers apart, and one in the journal keeps two archives from having half of it each.
"""

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from gateway.files import HIDDEN
from gateway.journal.segments import OPEN, found, order, reason_of

from . import history, layout
from .layout import ArchiveError, BusyError, Range, UnusableError, lock, lock_in
from .parquet_files import HourlyWriters, ParquetWriter
from .segments import SegmentError, SegmentGroup, Tables, began, groups

BAD = ".bad"


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file that is in the archive now."""

    path: Path
    gateway: str
    rows: int
    size: int  # bytes
    segments: int  # how many are in its range
    rate: float  # rows a second, of all files of this range
    lag: float  # seconds since its last row

    def __str__(self) -> str:
        place = self.path.relative_to(self.path.parents[2])
        return f"{place}: {self.rows:,} rows, {self.size:,} bytes, {self.rate:,.0f} rows/s, lag {self.lag:,.1f} s"

    def json(self) -> dict[str, object]:
        return {
            "file": str(self.path),
            "gateway": self.gateway,
            "rows": self.rows,
            "octets": self.size,
            "segments": self.segments,
            "rows_per_second": round(self.rate),
            "lag": round(self.lag, 1),
        }


@dataclass(frozen=True, slots=True)
class ArchiverOptions:
    """The options of an archiver, and its callbacks."""

    roll: float = 60.0  # seconds since its first row, after which a group does not wait for more
    most: int = 64 * 1024 * 1024  # bytes of segments that become one file; a larger one is alone
    tell: Callable[[ArchivedFile], None] = lambda _: None  # called with each file
    warn: Callable[[str], None] = lambda _: None  # called with a sentence on an error
    stopping: Callable[[], bool] = lambda: False  # True: end before the next group
    at: Callable[[str], None] = lambda _: None  # called after each step that a kill may follow
    clock: Callable[[], float] = time.time  # seconds since 1970


class GatewayArchiver:
    """The journal of one gateway.  `UnusableError`: it cannot be used.  `ArchiveError`: the archive cannot be used."""

    def __init__(self, folder: Path, archive: Path, options: ArchiverOptions) -> None:
        self._folder = folder
        self._archive = archive
        self._options = options
        self._is_settled = False  # no visible file has segments any more
        self._left: set[Path] = set()  # segments that this step does not try again
        self._began: tuple[Path, float | None] | None = None  # the first segment of the group that waits
        self._said: set[str] = set()
        name = folder.name
        try:
            self._locks = [lock(folder / "archiver.lock", f"another archiver reads the journal {folder}: end it first")]
        except BusyError:
            raise
        except ArchiveError as error:
            raise UnusableError(unusable(folder, str(error))) from error
        try:
            busy = f"another archiver writes the gateway {name} into {archive}: end it first"
            self._locks.append(lock_in(archive, f"{name}.lock", busy))
        except ArchiveError:
            self.close()
            raise

    def close(self) -> None:
        for descriptor in self._locks:
            os.close(descriptor)
        self._locks.clear()

    def step(self, everything: bool) -> bool:
        self._left.clear()
        try:
            segments = found(self._folder)
            if segments and not self._is_settled:
                self._recover(segments)
            while not self._pass(everything):
                pass
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            self._say(
                f"the journal {self._folder} cannot be archived now: {reason_of(error)}{where}; it is tried again"
            )
            return False
        except ArchiveError as error:
            self._say(str(error))
            return False
        if self._left:
            return False
        self._said.clear()
        return True

    def _pass(self, everything: bool) -> bool:
        """Archive the due groups; False: a segment was left out, and the groups are others now."""
        for group in groups([path for path in found(self._folder) if path not in self._left], self._options.most):
            if self._options.stopping():
                return True
            if not (everything or group.is_closed or self._is_old(group)):
                continue
            try:
                self._archive_range(group.range, group.paths)
                self._is_settled = True
            except _Alone as error:
                self._archive_alone(error.path)
                return False
            except SegmentError as error:
                self._leave(error)
                return False
        return True

    def _is_old(self, group: SegmentGroup) -> bool:
        first = group.paths[0]
        if self._began is None or self._began[0] != first:
            self._began = first, began(first)
        moment = self._began[1]
        # A moment in the future: the clock was set back, and the group does not wait for that time to come again.
        return moment is None or not 0 <= self._options.clock() - moment < self._options.roll

    # one range

    def _archive_range(
        self, which: Range, paths: list[Path], there: frozenset[int] = frozenset(), *, is_visible: bool = False
    ) -> None:
        """Do all the steps for a range; `there`: hours with visible files, of a range that must be finished.

        `SegmentError`: a segment cannot be archived, and nothing has happened.  `OSError`: a step failed.
        """
        begun = time.monotonic()
        parts = HourlyWriters(self._archive / layout.RAW, which.name, there)
        bad: dict[Path, str] = {}
        sentences: list[str] = []
        try:
            for path in paths:
                try:
                    sentences += self._read(path, parts, bad)
                except SegmentError as error:
                    if not (is_visible and error.is_unusable):
                        raise
                    bad[path] = _unusable(error)
                if path in bad and not is_visible and len(paths) > 1:
                    raise _Alone(path)
                self._options.at("segment read")
            parts.finish()
            self._options.at("files written")
            self._is_settled = False
            for part in parts.all:
                part.reveal()
                self._options.at("file visible")
        except BaseException:
            parts.discard()
            raise
        seconds = time.monotonic() - begun
        for part in parts.all:
            self._tell(part, which, sum([each.rows for each in parts.all]) / max(seconds, 1e-3))
        for sentence in sentences:
            self._options.warn(sentence)
        self._delete(paths, bad)

    def _read(self, path: Path, parts: HourlyWriters, bad: dict[Path, str]) -> list[str]:
        """Write a segment into files; returns sentences about it, except why it is bad."""
        tables = Tables(path)
        for table in tables:
            parts.add(table)
        if tables.damaged:
            left_out = f"{tables.damaged + tables.torn} bytes of it are left out"
            kept = f"it is kept as {path.stem}{BAD}; all other rows of it are archived"
            bad[path] = f"{path} is damaged: {left_out}, and {kept}"
        sentences = []
        if tables.torn and not tables.damaged:
            sentences.append(f"{path} ended with {tables.torn} bytes that are no whole record; they are left out")
        if tables.unknown:
            rows = f"{tables.unknown} rows of events that this program does not know"
            sentences.append(f"{path} has {rows}; they are left out, so update the archiver")
        return sentences

    def _tell(self, part: ParquetWriter, which: Range, rate: float) -> None:
        lag = self._options.clock() - part.latest / 1e6
        size = part.path.stat().st_size
        segments = which.last - which.first + 1
        self._options.tell(ArchivedFile(part.path, which.gateway, part.rows, size, segments, rate, lag))

    def _delete(self, paths: list[Path], bad: dict[Path, str]) -> None:
        for path in paths:
            if path in bad:
                self._set_aside(path, bad[path])
            else:
                path.unlink(missing_ok=True)
            self._options.at("segment deleted")

    def _archive_alone(self, path: Path) -> None:
        """Archive a damaged segment as a range of its own."""
        try:
            self._archive_range(SegmentGroup([path], 0, 0).range, [path])
            self._is_settled = True
        except SegmentError as error:
            self._leave(error)

    def _leave(self, error: SegmentError) -> None:
        """Take a segment that cannot be archived out of all groups."""
        if error.is_unusable:
            self._set_aside(error.path, _unusable(error))
        else:
            self._left.add(error.path)
            self._say(f"{error.path} cannot be read: {error}; it is tried again")

    def _set_aside(self, path: Path, sentence: str) -> None:
        path.rename(path.with_suffix(BAD))
        self._options.warn(sentence)
        self._options.at("segment set aside")

    def _say(self, sentence: str) -> None:
        """Report an error, once as long as it lasts."""
        if sentence not in self._said:
            self._said.add(sentence)
            self._options.warn(sentence)

    # what was left undone

    def _recover(self, segments: list[Path]) -> None:
        """Finish the visible ranges, and remove hidden files."""
        self._is_settled = False
        there = self._visible()
        for which in sorted(there):
            paths = [path for path in segments if _is_in(path, which)]
            if len(paths) == which.last - which.first + 1:
                try:
                    self._archive_range(which, paths, frozenset(there[which]), is_visible=True)
                except SegmentError as error:  # perhaps it can be read later; until then no other range may have them
                    self._left.update(paths)
                    self._say(f"{error.path} cannot be read: {error}; it is tried again")
            elif paths:
                self._delete(paths, {})
        self._is_settled = not self._left

    def _visible(self) -> dict[Range, set[int]]:
        """The visible ranges of this gateway, and their hours; hidden files are removed."""
        there: dict[Range, set[int]] = {}
        # `raw` comes first, as in `history`: a manifest lists each file that is gone from there.
        for root in (layout.RAW, layout.HISTORY):
            for hour, folder in layout.hours(self._archive / root):
                names = self._raw_names(folder) if root == layout.RAW else history.read(folder).raw
                for name in names:
                    which = layout.range_of(name)
                    if which is not None and which.gateway == self._folder.name:
                        there.setdefault(which, set()).add(hour)
        return there

    def _raw_names(self, folder: Path) -> list[str]:
        for path in folder.glob(f"{HIDDEN}*{layout.ENDING}"):
            which = layout.range_of(path.name.removeprefix(HIDDEN))
            if which is not None and which.gateway == self._folder.name:
                path.unlink(missing_ok=True)
        return layout.visible(folder)


class _Alone(Exception):
    """A segment must be in no range with others; nothing has happened."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path


def _unusable(error: SegmentError) -> str:
    path = error.path
    return f"{path} is unusable, and is kept as {path.stem}{BAD}; the others are archived ({error})"


def unusable(folder: Path, reason: str) -> str:
    """The sentence about a journal that belongs to another user."""
    return f"the journal {folder} cannot be used: {reason}; the archiver must be run by the user of the gateway"


def _is_in(path: Path, which: Range) -> bool:
    epoch, number = order(path)
    return epoch == which.epoch and which.first <= number <= which.last


class Archiver:
    """Archives the journals of all gateways of a folder.

    `journal` has a folder for each gateway; `archive` is made if it is missing; for the options see `ArchiverOptions`.
    `ArchiveError`: another archiver is at work, or the journal or the archive cannot be used.
    """

    def __init__(
        self,
        journal: Path,
        archive: Path,
        options: ArchiverOptions | None = None,
    ) -> None:
        self._journal = journal
        self._archive = archive
        self._options = options or ArchiverOptions()
        self._gateways: dict[str, GatewayArchiver] = {}
        self._said: set[str] = set()
        try:
            for folder in self._folders():
                with contextlib.suppress(UnusableError):  # the first step reports it
                    self._take(folder)
        except ArchiveError:
            self.close()
            raise

    def step(self, *, everything: bool = False) -> bool:
        """Archive the due segments, or `everything` that is complete; False: something failed."""
        good = self._find()
        for gateway in self._gateways.values():
            if self._options.stopping():
                break
            good = gateway.step(everything) and good
        return good

    def close(self) -> None:
        for gateway in self._gateways.values():
            gateway.close()
        self._gateways.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _find(self) -> bool:
        """Take new gateways; True if that succeeded."""
        sentences: list[str] = []
        try:
            for folder in self._folders():
                try:
                    self._take(folder)
                except ArchiveError as error:
                    sentences.append(str(error))
        except ArchiveError as error:
            sentences.append(str(error))
        for sentence in sentences:
            if sentence not in self._said:
                self._options.warn(sentence)
        self._said = set(sentences)
        return not sentences

    def _take(self, folder: Path) -> None:
        """Take a gateway that is not known yet; raises like `GatewayArchiver`."""
        try:
            is_new = folder.name not in self._gateways and _is_journal(folder)
        except OSError as error:
            raise UnusableError(unusable(folder, reason_of(error))) from error
        if is_new:
            self._gateways[folder.name] = GatewayArchiver(folder, self._archive, self._options)

    def _folders(self) -> list[Path]:
        """Folders that may belong to gateways."""
        try:
            folders = sorted([each for each in self._journal.iterdir() if each.is_dir()])
        except OSError as error:
            raise ArchiveError(f"the journal {self._journal} cannot be read: {reason_of(error)}") from error
        return [each for each in folders if layout.is_gateway(each.name)]


def _is_journal(folder: Path) -> bool:
    """True if a gateway has written there.  `OSError`: the folder cannot be read."""
    return "lock" in os.listdir(folder) or bool(found(folder) or found(folder, OPEN))
