"""How far everything is: what waits in the journal, what the archive has, and what each job has read of it.

All of it is found by looking at the files, without Spark, so it costs no more than a second, and can be asked while
everything runs.  It is a look, not a transaction: while it looks a segment may go and a file come.

Which files of the archive a job has read is what Spark keeps in its checkpoint (`file_log`).  Those of a batch that is
not over wait: Spark plans it before it runs, and it may fail.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gateway.archive import layout
from gateway.journal import segments

from . import paths, tables
from .jobs import JOBS, Job
from .streaming import checkpoints, file_log

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True)
class JournalStatus:
    """What waits to be archived, of one gateway.

    Attributes:
        segments: that are complete.
        octets: of them.
        oldest: seconds since the oldest was complete; None: none waits.
        growing: segments that are being written, or were when their gateway died.
    """

    gateway: str
    segments: int
    octets: int
    oldest: float | None
    growing: int


@dataclass(frozen=True, slots=True)
class ArchiveStatus:
    """What the archive has.

    Attributes:
        folder: where it is, or should be.
        exists: whether there is such a folder.
        files: in `raw`, and `octets` of them.
        newest_hour: when the newest hour begins that has rows; None: none has.
        history: hours that are compacted.
    """

    folder: str
    exists: bool
    files: int
    octets: int
    newest_hour: str | None
    history: int


@dataclass(frozen=True, slots=True)
class JobStatus:
    """What a job has done.

    Attributes:
        batch: the last one in its table; None: none yet.
        rows: of the archive, that it has read, as far as its table's files tell.
        newest: the latest `ts` among them.
        lag: seconds from there to the end of the last batch.
        written: when that was.
        waiting: files of the archive whose rows are not in its table; None: they cannot be counted here.
        files: of its table.
        failure: `at` and `reason`, if its last run failed.
        missing: files of the archive that were deleted before it read them, so that their rows are not in its table.
    """

    job: str
    batch: int | None
    rows: int
    newest: str | None
    lag: float | None
    written: str | None
    waiting: int | None
    files: int
    failure: dict[str, Any] | None
    missing: int = 0


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """All of it; None: that is not on this machine, or not known."""

    journal: tuple[JournalStatus, ...] | None
    archive: ArchiveStatus | None
    jobs: tuple[JobStatus, ...] | None

    @property
    def failed(self) -> bool:
        """Whether the last run of a job failed."""
        return any(each.failure is not None for each in self.jobs or ())

    def json(self) -> dict[str, Any]:
        """For programs; times are ISO 8601 in UTC."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For people."""
        unknown = f"{'tables':<12} not known here; --tables or the setting `tables` names their folder"
        jobs = [unknown] if self.jobs is None else [_job_line(each) for each in self.jobs]
        return [*self._journal_lines(), _archive_line(self.archive), *jobs]

    def _journal_lines(self) -> Iterator[str]:
        if self.journal is None:
            yield f"{'journal':<12} not known here"
        elif not self.journal:
            yield f"{'journal':<12} no gateway has written one"
        for each in self.journal or ():
            waits = f"{each.segments:,} segments wait" if each.segments else "nothing waits"
            if each.oldest is not None:
                waits += f", {_size(each.octets)}, the oldest for {each.oldest:,.0f} s"
            grows = f"; {each.growing} not complete" if each.growing else ""
            yield f"{'journal':<12} {each.gateway}: {waits}{grows}"


def status(journal: Path | None, archive: str, into: Path | None, now: datetime) -> PipelineStatus:
    """Look.

    Args:
        journal: its folder; None: it is not known.
        archive: a folder, or a URI, of which nothing is known here.
        into: the folder of the tables; None: it is not known.

    Raises:
        JobFailure: a file of a table or of a checkpoint is damaged.
    """
    folder = None if paths.is_uri(archive) else paths.folder("--archive", archive)
    raw = None if folder is None else _raw(folder)
    return PipelineStatus(
        None if journal is None else _journals(journal, now),
        None if folder is None or raw is None else _archive(folder, raw),
        None if into is None else tuple([_job(into, job, raw) for job in JOBS.values()]),
    )


def _journals(folder: Path, now: datetime) -> tuple[JournalStatus, ...]:
    found = []
    for each in sorted(folder.iterdir()) if folder.is_dir() else ():
        waiting = [state for path in segments.found(each) if (state := _stat(path)) is not None]
        growing = len(segments.found(each, segments.OPEN))
        if waiting or growing or (each / "lock").exists():
            oldest = min([state.st_mtime for state in waiting], default=None)
            age = None if oldest is None else max(0.0, round(now.timestamp() - oldest, 1))
            found.append(
                JournalStatus(each.name, len(waiting), sum([state.st_size for state in waiting]), age, growing)
            )
    return tuple(found)


def _raw(folder: Path) -> dict[str, int]:
    """The raw files, `date=/hour=/name`, and their octets."""
    found = {}
    for hour, place in layout.hours(folder / layout.RAW):
        for name in layout.visible(place):
            if (state := _stat(place / name)) is not None:
                found[f"{layout.folder_of(hour)}/{name}"] = state.st_size
    return found


def _archive(folder: Path, raw: dict[str, int]) -> ArchiveStatus:
    history = [hour for hour, _ in layout.hours(folder / layout.HISTORY)]
    hours = [*history, *[hour for hour, place in layout.hours(folder / layout.RAW) if layout.visible(place)]]
    newest = layout.start_of(max(hours)).isoformat() if hours else None
    return ArchiveStatus(str(folder), folder.is_dir(), len(raw), sum(raw.values()), newest, len(history))


def _job(into: Path, job: Job, raw: dict[str, int] | None) -> JobStatus:
    table = tables.of(into, job)
    files = table.files()
    facts = table.facts()
    batch = files[-1].last if files else None
    checkpoint = checkpoints.folder(into, job.name)
    waiting = None if raw is None else len(raw.keys() - set(file_log.done_by(checkpoint, batch)))
    return JobStatus(
        job.name,
        batch,
        facts.rows,
        _iso(facts.newest),
        None if facts.newest is None else round((facts.written - facts.newest) / 1e6, 1),
        _iso(facts.written) if files else None,
        waiting,
        len(files),
        checkpoints.failure(into, job.name),
        facts.missing + sum(checkpoints.missed(into, job.name).values()),
    )


def _stat(path: Path) -> os.stat_result | None:
    """None: it has gone meanwhile."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _archive_line(archive: ArchiveStatus | None) -> str:
    if archive is None:
        return f"{'archive':<12} not on this machine"
    if not archive.exists:
        named = "--archive or the setting `archive` names it"
        return f"{'archive':<12} the folder {archive.folder} does not exist; {named}"
    hour = archive.newest_hour
    newest = "no rows yet" if hour is None else f"the newest hour is {hour[:16].replace('T', ' ')}"
    return (
        f"{'archive':<12} {newest}; raw: {archive.files:,} files, {_size(archive.octets)}; "
        f"history: {archive.history:,} hours"
    )


def _job_line(job: JobStatus) -> str:
    parts = ["no batch yet" if job.failure else "never ran"]
    if job.batch is not None:
        parts = [f"batch {job.batch}", f"{job.rows:,} rows"]
    if job.newest is not None:
        parts.append(f"up to {job.newest[:19].replace('T', ' ')}, lag {job.lag:,.1f} s")
    if job.waiting is not None:
        parts.append(f"{job.waiting:,} files wait" if job.waiting else "nothing waits")
    if job.missing:
        parts.append(f"without the rows of {job.missing:,} files, which were deleted before it read them")
    failed = f"; failed at {job.failure.get('at')}: {job.failure.get('reason')}" if job.failure else ""
    return f"{job.job:<12} {', '.join(parts)}{failed}"


def _iso(microseconds: int | None) -> str | None:
    if microseconds is None:
        return None
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _size(octets: int) -> str:
    size = float(octets)
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{size:,.1f} {unit}" if unit != "B" else f"{octets} B"
