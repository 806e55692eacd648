"""Status: what waits in the journal, what the archive has, and how far each job has read it.

All of it is read from files, without Spark, so it works while jobs run.  It is no transaction: meanwhile a segment may
go and a file come.  Files of an unfinished batch count as waiting: Spark plans a batch before it runs.
"""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gateway.archive import layout
from gateway.journal import segments

from . import paths, tables
from .jobs import JOBS, Job
from .streaming import checkpoints, file_log
from .streaming.progress import iso

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True)
class JournalStatus:
    """The segments of one gateway that wait to be archived."""

    gateway: str
    segments: int  # complete ones
    size: int  # their bytes
    oldest: float | None  # seconds since the oldest was complete; None: none waits
    growing: int  # segments that are being written, or were when their gateway died


@dataclass(frozen=True, slots=True)
class ArchiveStatus:
    folder: str
    exists: bool  # False: there is no such folder
    files: int  # number of raw files; `size` is their bytes
    size: int
    newest_hour: str | None  # start of the newest hour that has rows; None: no hour has any
    history: int  # hours that are compacted


@dataclass(frozen=True, slots=True)
class JobStatus:
    job: str
    batch: int | None  # the last one in its table; None: none yet
    rows: int  # rows of the archive that it has read
    newest: str | None  # the latest `ts` among them
    lag: float | None  # seconds from there to the end of the last batch
    written: str | None  # end of the last batch
    waiting: int | None  # files of the archive whose rows are not in its table; None: they cannot be counted here
    files: int  # files of its table
    failure: dict[str, Any] | None  # `at` and `reason`, if its last run failed
    missing: int = 0  # files of the archive that were deleted before the job read them, so its table lacks their rows


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """Journal, archive and jobs; None: not on this machine, or not known."""

    journal: tuple[JournalStatus, ...] | None
    archive: ArchiveStatus | None
    jobs: tuple[JobStatus, ...] | None

    @property
    def failed(self) -> bool:
        return any(each.failure is not None for each in self.jobs or ())

    def json(self) -> dict[str, Any]:
        """The status for programs; times are ISO 8601 in UTC."""
        told = asdict(self)
        for each in [*(told["journal"] or ()), *([told["archive"]] if told["archive"] else [])]:
            each["octets"] = each.pop("size")
        return told

    def lines(self) -> list[str]:
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
                waits += f", {_size(each.size)}, the oldest for {each.oldest:,.0f} s"
            grows = f"; {each.growing} not complete" if each.growing else ""
            yield f"{'journal':<12} {each.gateway}: {waits}{grows}"


def status(journal: Path | None, archive: str, into: Path | None, now: datetime) -> PipelineStatus:
    """The status at present; None for a folder that is not known.  `JobFailure`: a file is damaged."""
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
            size = sum([state.st_size for state in waiting])
            found.append(JournalStatus(each.name, len(waiting), size, age, growing))
    return tuple(found)


def _raw(folder: Path) -> dict[str, int]:
    """The raw files, `date=/hour=/name`, and their sizes."""
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
    files, summary = table.files(), table.summary()
    batch = files[-1].last if files else None
    checkpoint = checkpoints.folder(into, job.name)
    return JobStatus(
        job.name,
        batch,
        summary.rows,
        None if summary.newest is None else iso(summary.newest),
        None if summary.newest is None else round((summary.written - summary.newest) / 1e6, 1),
        iso(summary.written) if files else None,
        None if raw is None else len(raw.keys() - set(file_log.done_by(checkpoint, batch))),
        len(files),
        checkpoints.failure(into, job.name),
        summary.missing + sum(checkpoints.missed(into, job.name).values()),
    )


def _stat(path: Path) -> os.stat_result | None:
    """The state of a file; None: it was removed meanwhile."""
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
    raw = f"{archive.files:,} files, {_size(archive.size)}"
    return f"{'archive':<12} {newest}; raw: {raw}; history: {archive.history:,} hours"


def _job_line(job: JobStatus) -> str:
    parts = ["no batch yet" if job.failure else "never ran"]
    if job.batch is not None:
        parts = [f"batch {job.batch}", f"{job.rows:,} rows"]
    if job.newest is not None:
        parts.append(f"up to {job.newest[:19].replace('T', ' ')}, lag {job.lag:,.1f} s")
    if job.waiting is not None:
        parts.append(f"{job.waiting:,} files wait" if job.waiting else "nothing waits")
    if job.missing:
        parts.append(f"without the rows of {job.missing:,} files, which were deleted before the job read them")
    failed = f"; failed at {job.failure.get('at')}: {job.failure.get('reason')}" if job.failure else ""
    return f"{job.job:<12} {', '.join(parts)}{failed}"


def _size(size: int) -> str:
    scaled = float(size)
    for unit in _UNITS:
        if scaled < 1024 or unit == _UNITS[-1]:
            break
        scaled /= 1024
    return f"{scaled:,.1f} {unit}" if unit != "B" else f"{size} B"
