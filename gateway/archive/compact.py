"""Compaction: the raw files of hours that are over become history: few files, sorted, for reports and replays.  And
retention: old files are deleted.

    clean     remove the leftovers of a killed compaction: hidden files, and pending files that are not in the manifest
    sort      the raw files that the manifest does not list, in bounded memory (`sorting`)
    write     files of about 128 MiB under hidden names, on the disk
    reveal    they get their names; no reader uses them, because they are pending, and no manifest lists them
    commit    the new manifest replaces the old one: it lists the old files and the new ones, and all raw files

A kill before the last step changes nothing for a reader, and the next compaction begins anew.  Later raw files are a
generation of their own.  Raw files are not deleted at once: streams watch them.

A raw file is deleted when its rows are in the history, and when it has been visible for so long that every stream has
seen it.  Empty folders of hours stay: Spark lists `raw` folder by folder, and a query ends if one is removed meanwhile.
Those of a week are removed together, a day after the week, when all are empty.

The history of an hour is deleted when the hour is old enough, and no raw file of it is left: without the manifest such
a file would count again.  The manifest goes first: from then on the hour has no rows, for its files are pending.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gateway.files import HIDDEN, make_folder
from gateway.journal.segments import reason_of

from . import history, layout
from .history import MANIFEST, PENDING, Manifest
from .layout import ArchiveError, lock_in
from .parquet_files import ParquetWriter, aligned
from .sorting import ordered

FILE_BYTES = 128 * 1024 * 1024
SETTLED = timedelta(minutes=15)  # time after the end of an hour, until its rows have been archived


@dataclass(frozen=True, slots=True)
class Compacted:
    """Raw files that are history now."""

    hour: datetime  # its beginning
    raw: int  # number of raw files, and `files`, the number of new ones
    files: int
    rows: int  # in the new files
    size: int  # in the new files
    seconds: float  # duration

    def __str__(self) -> str:
        rate = self.rows / max(self.seconds, 1e-3)
        return (
            f"{self.hour:%Y-%m-%d %H:00}: {self.raw:,} raw files into {self.files:,}, {self.rows:,} rows, "
            f"{self.size:,} bytes, {rate:,.0f} rows/s"
        )


def compact(
    archive: Path,
    before: datetime | None = None,
    *,
    tell: Callable[[Compacted], None] = lambda _: None,
    warn: Callable[[str], None] = lambda _: None,
    stopping: Callable[[], bool] = lambda: False,
    at: Callable[[str], None] = lambda _: None,
) -> bool:
    """Compact the hours that ended before a moment, the oldest first; True if nothing failed.

    `before` has a time zone; None: 15 minutes ago.  `tell` is called with each hour, `warn` with a sentence for one
    that cannot be compacted; `at`, for tests, after each step that a kill may follow.  `ArchiveError`: another
    compaction is at work.
    """
    before = before or datetime.now(UTC) - SETTLED
    held = lock_of(archive)
    good = True
    try:
        for hour in history.hours(archive):
            if stopping():
                break
            if layout.start_of(hour + 1) > before:
                continue
            raw = archive / layout.RAW / layout.folder_of(hour)
            try:
                compacted = _Hour(archive, hour, raw, warn, at).compact()
            except (OSError, ArchiveError, ValueError, pa.ArrowException) as error:
                reason = reason_of(error) if isinstance(error, OSError) else str(error)
                warn(f"{raw} cannot be compacted: {reason}")
                good = False
                continue
            if compacted is not None:
                tell(compacted)
    finally:
        os.close(held)
    return good


def lock_of(archive: Path) -> int:
    """The lock of the process that changes the history.  `ArchiveError`: another process has it."""
    return lock_in(archive, "compaction", f"another compaction of {archive} is at work")


class _Hour:
    """One hour; `raw` is its folder of raw files."""

    def __init__(
        self, archive: Path, hour: int, raw: Path, warn: Callable[[str], None], at: Callable[[str], None]
    ) -> None:
        self._hour = hour
        self._raw = raw
        self._folder = archive / layout.HISTORY / layout.folder_of(hour)
        self._warn = warn
        self._at = at
        self._parts: list[ParquetWriter] = []

    def compact(self) -> Compacted | None:
        """Compact it; None: there is nothing to do.  After an error nothing has changed."""
        begun = time.monotonic()
        manifest = history.read(self._folder)
        names = [name for name in layout.visible(self._raw) if name not in manifest.raw]
        self._clean(manifest)
        if lost := history.unlisted(self._folder, manifest):
            manifest = self._adopt(lost, names, manifest)
        if not names:
            return None
        make_folder(self._folder)
        try:
            self._write(names, manifest)
            history.announce(self._folder, [part.path.name for part in self._parts])
            for part in self._parts:
                part.reveal()
                self._at("file visible")
            self._commit(names, manifest)
        except BaseException:
            for part in self._parts:
                part.discard()
            raise
        rows, size = sum([part.rows for part in self._parts]), sum([part.path.stat().st_size for part in self._parts])
        taken = time.monotonic() - begun
        return Compacted(layout.start_of(self._hour), len(names), len(self._parts), rows, size, taken)

    def _clean(self, manifest: Manifest) -> None:
        if not self._folder.is_dir():
            return
        pending = history.pending(self._folder) - set(manifest.history)
        for path in self._folder.iterdir():
            is_hidden = path.name.startswith(HIDDEN) and path.name not in (MANIFEST, PENDING)
            if is_hidden or path.name in pending:
                path.unlink(missing_ok=True)
        (self._folder / PENDING).unlink(missing_ok=True)

    def _adopt(self, lost: list[str], raw: list[str], manifest: Manifest) -> Manifest:
        """Write the manifest of files that have lost it.  `ArchiveError`: raw files may hold the same rows.

        If all raw files are in the history, or gone, no row is in both: a killed compaction would have left raw files.
        """
        sentence = history.lists_not(self._folder, lost)
        if raw:
            known = f"they may hold the rows of the {len(raw):,} raw files or not"
            raise ArchiveError(f"{sentence}; {known}: move away the ones or the others")
        rows = sum([pq.read_metadata(self._folder / name).num_rows for name in lost])
        new = Manifest(manifest.raw, tuple(sorted({*manifest.history, *lost})), manifest.rows + rows)
        history.write(self._folder, new)
        self._warn(f"{sentence}; a new manifest lists them, with {rows:,} rows")
        return new

    def _write(self, names: list[str], manifest: Manifest) -> None:
        generation = max([int(name[:4]) for name in manifest.history], default=0) + 1
        for table in ordered(self._rows(names), self._folder, self._at):
            if not self._parts or self._parts[-1].size >= FILE_BYTES:
                if self._parts:
                    self._parts[-1].finish()
                name = f"{generation:04d}-{len(self._parts) + 1:04d}{layout.ENDING}"
                self._parts.append(ParquetWriter(self._folder / name))
            self._parts[-1].add(table)
        if self._parts:
            self._parts[-1].finish()
        self._at("files written")

    def _rows(self, names: list[str]) -> Iterator[pa.Table]:
        return (aligned(table) for name in names for table in self._groups(name))

    def _groups(self, name: str) -> Iterator[pa.Table]:
        try:
            with pq.ParquetFile(self._raw / name) as file:
                for group in range(file.num_row_groups):
                    yield file.read_row_group(group)
        except (OSError, ValueError, pa.ArrowException) as error:
            said = str(error).strip().partition("\n")[0].rstrip(".: ")
            raise ArchiveError(f"{name} cannot be read: {said}; restore it, or move it away") from error

    def _commit(self, names: list[str], manifest: Manifest) -> None:
        new = Manifest(
            manifest.raw | set(names),
            (*manifest.history, *[part.path.name for part in self._parts]),
            manifest.rows + sum([part.rows for part in self._parts]),
        )
        history.write(self._folder, new)
        self._at("manifest written")
        (self._folder / PENDING).unlink(missing_ok=True)


RAW_RETENTION = 48 * 3600.0  # seconds that a raw file stays after it is in the history, by default
_EXPIRE_EVERY = 60.0  # seconds between two looks for old files
_WEEK = timedelta(days=7)
_REST = timedelta(days=1)  # after the end of a week, until the folders of its raw files may be removed


class Expiry:
    """Deletes old files, now and then, and warns of an error once; `raw` and `history` in seconds, None: never."""

    def __init__(self, archive: Path, raw: float, history: float | None, warn: Callable[[str], None]) -> None:
        self._archive = archive
        self._raw = raw
        self._history = history
        self._warn = warn
        self._next = 0.0
        self._said = ""

    def __call__(self, at_once: bool = False) -> bool:
        now = time.time()
        if now < self._next and not at_once:
            return True
        self._next = now + _EXPIRE_EVERY
        sentence = ""
        try:
            expire_raw(self._archive, self._raw, now)
            if self._history is not None:
                expire_history(self._archive, self._history, now)
        except (OSError, ArchiveError) as error:
            sentence = f"old files cannot be deleted: {error}"
            if sentence != self._said:
                self._warn(sentence)
        self._said = sentence
        return not sentence


def expire_raw(archive: Path, seconds: float, now: float, at: Callable[[str], None] = lambda _: None) -> int:
    """Delete raw files that are in the history and were visible for so many `seconds`; returns how many."""
    count = 0
    for hour, folder in layout.hours(archive / layout.RAW):
        names = layout.visible(folder)
        listed = history.read(archive / layout.HISTORY / layout.folder_of(hour)).raw
        for name in names:
            path = folder / name
            if name in listed and path.stat().st_mtime <= now - seconds:
                path.unlink()
                count += 1
                at("raw file deleted")
    _remove_weeks(archive / layout.RAW, now)
    return count


def expire_history(archive: Path, seconds: float, now: float, at: Callable[[str], None] = lambda _: None) -> int:
    """Delete the history of hours that ended so many `seconds` ago; returns how many, 0 if a compaction is at work."""
    try:
        held = lock_of(archive)
    except ArchiveError:
        return 0
    count = 0
    try:
        for hour, folder in layout.hours(archive / layout.HISTORY):
            is_old = layout.start_of(hour + 1) <= datetime.fromtimestamp(now - seconds, UTC)
            if is_old and not layout.visible(archive / layout.RAW / layout.folder_of(hour)):
                _remove_hour(folder, at)
                count += 1
    finally:
        os.close(held)
    return count


def _remove_hour(folder: Path, at: Callable[[str], None]) -> None:
    """Delete the history of an hour, so that no reader sees a part of it."""
    history.announce(folder, layout.visible(folder))
    (folder / MANIFEST).unlink(missing_ok=True)
    at("manifest deleted")
    for path in folder.iterdir():
        if path.name != PENDING:
            path.unlink(missing_ok=True)
            at("history file deleted")
    (folder / PENDING).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
        folder.parent.rmdir()


def _remove_weeks(root: Path, now: float) -> None:
    """Remove the folders of weeks that are over, if all are empty."""
    weeks: dict[datetime, list[Path]] = {}
    for hour, folder in layout.hours(root):
        day = layout.start_of(hour - hour % 24)
        weeks.setdefault(day - timedelta(days=day.weekday()), []).append(folder)
    for monday, folders in weeks.items():
        days = sorted({folder.parent for folder in folders})
        with contextlib.suppress(OSError):  # an archiver wrote a late file just now: it stays
            is_over = (monday + _WEEK + _REST).timestamp() <= now
            if is_over and {path for day in [*days, *folders] for path in day.iterdir()} == set(folders):
                for folder in [*folders, *days]:
                    folder.rmdir()
