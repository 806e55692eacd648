"""Checkpoints: what a job remembers between its runs, and which job they belong to.

    TABLES/_checkpoints/<job>/           Spark's checkpoint: which files of the archive each batch consists of
    TABLES/_checkpoints/<job>/job.json   {"job", "version", "archive"} that the checkpoint belongs to
    TABLES/_checkpoints/<job>.lock       locked while a process runs the job
    TABLES/_checkpoints/<job>.failed     {"at", "reason"} of the last run, if it failed
    TABLES/_checkpoints/<job>.missed     {hour: files} that were deleted from the archive before the job saw them
    TABLES/_state/<job>/<batch>.json     the state of a job that has one, after that batch

Spark would accept any checkpoint: it knows files by their whole path, so it would count an archive that was moved once
more, and add rows of one version to those of another.  So another job, version or archive is refused.

To reset is to begin anew: table, state, snapshot and checkpoint go, and the job reads the whole `raw` of the archive.
After a kill in between, the next run finds a table without its checkpoint, or the other way round (`claimed`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.files import make_folder, store

from ..errors import ANEW, EnvironmentFailure, UsageFailure, named
from ..paths import locked
from .file_log import values_in

if TYPE_CHECKING:
    from ..jobs import Job

CHECKPOINTS = "_checkpoints"
STATE = "_state"
CONSOLE = "_console"

_OWNER = "job.json"
_ANEW = "--reset-checkpoint computes the table anew from what is in the archive's raw/"
_STATE = re.compile(r"(\d+)\.json")
_READ = 2  # Spark starts with the last file of each log, and with the one before if a batch was not over


def folder(tables: Path, job: str) -> Path:
    """The folder of Spark's checkpoint of a job."""
    return tables / CHECKPOINTS / job


@contextlib.contextmanager
def claimed(tables: Path, job: Job, archive: str) -> Iterator[Path]:
    """The checkpoint of a job, locked for the block; `archive` is the same text for every run.

    `UsageFailure`: another process runs the job, or the checkpoint belongs to something else.  `JobFailure`: a file of
    Spark's in it is damaged.  `EnvironmentFailure`: the folder cannot be written.
    """
    with _locked(tables, job.name):
        path = folder(tables, job.name)
        _check(path, job, archive, has_table=any((tables / job.name).glob("*.parquet")))
        _check_table(tables, job, path)
        check_readable(path)
        try:
            make_folder(path)
            write_json(path / _OWNER, {"job": job.name, "version": job.version, "archive": archive})
        except OSError as error:
            raise EnvironmentFailure(f"the checkpoint cannot be in {path}: {error.strerror}") from error
        yield path


def reset(tables: Path, job: str) -> None:
    """Begin a job anew.  `UsageFailure`: a process runs it.  `EnvironmentFailure`: a file cannot be removed."""
    with _locked(tables, job):
        try:
            for path in (tables / job, tables / STATE / job, folder(tables, job)):
                with contextlib.suppress(FileNotFoundError):
                    shutil.rmtree(path)
            (tables / CONSOLE / f"{job}.json").unlink(missing_ok=True)
            for note in ("failed", "missed"):
                _note(tables, job, note).unlink(missing_ok=True)
        except OSError as error:
            raise EnvironmentFailure(f"{error.filename} cannot be removed: {error.strerror}") from error


def committed(tables: Path, job: str) -> int | None:
    """The last batch that is over for Spark; None: there is none."""
    try:
        names = os.listdir(folder(tables, job) / "commits")
    except OSError:
        return None
    return max([int(name) for name in names if name.isdigit()], default=None)


def note_failure(tables: Path, job: str, reason: str | None) -> None:
    """Keep for `status` why the last run failed; None: it did not."""
    path = _note(tables, job, "failed")
    with contextlib.suppress(OSError):
        if reason is None:
            path.unlink(missing_ok=True)
        else:
            write_json(path, {"at": datetime.now(UTC).isoformat(timespec="seconds"), "reason": reason})


def failure(tables: Path, job: str) -> dict[str, Any] | None:
    """`at` and `reason` of the last run; None: it did not fail."""
    return read_json(_note(tables, job, "failed"))


def note_missed(tables: Path, job: str, hours: Mapping[str, int]) -> bool:
    """Keep for `status` how many files of an hour the job never saw; True if there are more files than before."""
    before = missed(tables, job)
    if not hours.items() - before.items():
        return False
    after = {**before, **hours}
    write_json(_note(tables, job, "missed"), after)
    return sum(after.values()) > sum(before.values())


def missed(tables: Path, job: str) -> dict[str, int]:
    """The number of files of each hour, `date=/hour=`, that the job never saw."""
    return read_json(_note(tables, job, "missed")) or {}


class State:
    """The states of a job that has one: batch n makes state n from state n - 1, also when it runs again."""

    def __init__(self, tables: Path, job: str) -> None:
        self._folder = tables / STATE / job

    def before(self, batch: int) -> dict[str, Any]:
        """The state that a batch begins with.  `UsageFailure`: it is missing or damaged."""
        if batch == 0:
            return {}
        state = read_json(path := self._folder / f"{batch - 1}.json")
        if state is None:
            what = "is damaged" if path.exists() else "is missing"
            raise UsageFailure(f"the state before batch {batch}, {path}, {what}: restore it; or else {_ANEW}")
        return state

    def write(self, batch: int, state: dict[str, Any]) -> None:
        """Keep the state that a batch ends with.  `OSError`: it cannot be written."""
        make_folder(self._folder)
        write_json(self._folder / f"{batch}.json", state)
        for path in self._folder.iterdir():
            found = _STATE.fullmatch(path.name)
            if found and int(found[1]) < batch - 1:
                path.unlink(missing_ok=True)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a whole file, in place of the one that is there.  `OSError`: it cannot be written; the old file stays."""
    store(path, json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a file; None: the file is missing or damaged."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _note(tables: Path, job: str, what: str) -> Path:
    return tables / CHECKPOINTS / f"{job}.{what}"


def _locked(tables: Path, job: str) -> contextlib.AbstractContextManager[None]:
    busy = UsageFailure(f"{job} runs already, in another process, with the tables in {tables}")
    return locked(tables / CHECKPOINTS / f"{job}.lock", busy)


def _check(path: Path, job: Job, archive: str, *, has_table: bool) -> None:
    """Refuse the checkpoint of something else."""
    has_checkpoint = (path / "offsets").exists()
    has = read_json(path / _OWNER)
    if has is None:
        if has_checkpoint:
            raise UsageFailure(f"the checkpoint {path} cannot be used: it has no {_OWNER}; {_ANEW}")
        if has_table:
            raise UsageFailure(f"the table of {job.name} has rows, but the checkpoint {path} is gone; {_ANEW}")
        return
    if (has.get("job"), has.get("version")) != (job.name, job.version):
        raise UsageFailure(
            f"the checkpoint {path} belongs to {has.get('job')}, version {has.get('version')}, "
            f"and this is {job.name}, version {job.version}; {_ANEW}"
        )
    if has.get("archive") != archive:
        raise UsageFailure(
            f"the checkpoint {path} belongs to the archive {has.get('archive')}, and this is {archive}: "
            f"its rows would count twice; {_ANEW}"
        )


def _check_table(tables: Path, job: Job, path: Path) -> None:
    """Refuse a checkpoint that is ahead of the table; older files of the table may have been removed."""
    over = committed(tables, job.name)
    batches = [int(name.stem.rpartition("-")[2]) for name in (tables / job.name).glob("[0-9]*-*[0-9].parquet")]
    if over is not None and over > max(batches, default=-1):
        raise UsageFailure(f"the table of {job.name} lacks batch {over}, which {path} says is over; {_ANEW}")


def check_readable(folder: Path) -> None:
    """Check that Spark can read the files of a checkpoint.  `JobFailure`: one is damaged."""
    with contextlib.suppress(FileNotFoundError), named(path := folder / "metadata", ANEW):
        json.loads(path.read_bytes())["id"].encode()
    for log in ("offsets", "commits"):
        files = [path for path in (folder / log).glob("*") if path.name.isdigit()]
        for path in sorted(files, key=lambda each: int(each.name))[-_READ:]:
            with named(path, ANEW):
                values_in(path.read_text("utf-8"))
