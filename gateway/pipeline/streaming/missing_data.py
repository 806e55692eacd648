"""Missing data: files that a job can no longer read are told once, kept for `status`, and fail a run with `--once`.

A job reads `raw`, from which files go that have been in the history for long enough.  A file that goes before a job has
read it is missing in its table for ever; the job goes on.  There are two ways:

    no batch has seen the file      the job was away for too long, or is new.  `missed` keeps it (`checkpoints`)
    a batch has planned it          a kill, and then the job was away too long.  The batch's file keeps it (`tables`)
"""

from __future__ import annotations

from collections.abc import Sequence
from errno import ENOENT
from pathlib import Path

from gateway.archive import layout

from .. import errors
from . import checkpoints, file_log
from .progress import Progress

_NAMED = 3  # files that a sentence names


class MissingData:
    """The missing files of a job in this run; `archive` is None if it cannot be looked at."""

    def __init__(self, job: str, tables: Path, archive: Path | None, progress: Progress) -> None:
        self.found: list[str] = []  # sentences on files found missing for the first time, without those of a new job
        self._job = job
        self._tables = tables
        self._archive = archive
        self._progress = progress

    def look_back(self) -> None:
        """Tell which files were deleted before any batch saw them.  `OSError`: it cannot be kept."""
        if self._archive is None:
            return
        checkpoint = checkpoints.folder(self._tables, self._job)
        hours = file_log.missed(self._archive, checkpoint)
        if not checkpoints.note_missed(self._tables, self._job, hours):
            return
        what = f"{_count(sum(hours.values()), 'file')} of {_count(len(hours), 'hour')}, whose rows are not in the table"
        if next(file_log.read_by(checkpoint), None) is None:
            self._progress.say(
                f"{self._job}: in history/ alone, which no job reads: {what}; `report` and `replay` read them, and "
                "a longer --raw-retention of the archiver keeps files longer for jobs"
            )
            return
        self._say(
            f"{self._job}: deleted from raw/ before the job saw them: {what}; `report` and `replay` read them "
            "in history/, and a longer --raw-retention of the archiver gives jobs more time"
        )

    def deleted(self, planned: frozenset[str] | None) -> list[str]:
        """The files of a batch that no longer exist.  `JobFailure`: one is empty.  `FileNotFoundError`: all went."""
        if planned is None or self._archive is None:
            return []
        gone = file_log.deleted(self._archive, planned)
        for name in planned.difference(gone):
            errors.refuse_empty(self._archive / layout.RAW / name)
        if gone and not (raw := self._archive / layout.RAW).is_dir():
            raise FileNotFoundError(ENOENT, "the archive has gone", str(raw))
        return gone

    def tell(self, batch: int, deleted: Sequence[str]) -> None:
        """Tell which files a batch did not find."""
        if self._archive is None or not deleted:
            return
        loss = (
            f"{self._job}: batch {batch} ran without {_count(len(deleted), 'file')}, deleted before, whose rows are "
            f"not in the table: {', '.join(deleted[:_NAMED])}{', ...' * (len(deleted) > _NAMED)}"
        )
        if known := file_log.in_history(self._archive, deleted):
            loss += f"; in history/, which `report` and `replay` read: {known:,} of them"
        self._say(loss)

    def _say(self, loss: str) -> None:
        self._progress.say(loss)
        self.found.append(loss)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
