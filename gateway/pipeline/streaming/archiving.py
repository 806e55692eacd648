"""The archiver and the compaction, as commands of the pipeline use them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from .. import paths
from ..errors import JobFailure

if TYPE_CHECKING:
    from gateway.archive.archiver import Archiver

Say = Callable[[str], None]


def now(journal: Path | None, archive: str, say: Say, stopping: Callable[[], bool] = lambda: False) -> None:
    """Archive all complete segments, unless `stopping`; without a journal, do nothing.

    `UsageFailure`: the archive is not on this machine, or there is no such journal.  `EnvironmentFailure`: the archive
    cannot be made.  `ArchiveError`: another archiver is at work.  `JobFailure`: some segments could not be archived.
    """
    if journal is None:
        return
    with _archiver(journal, archive, say, roll=0, stopping=stopping) as archiver:
        if not archiver.step(everything=True):
            raise JobFailure(f"not all of the journal {journal} could be archived")


@contextlib.contextmanager
def beside(
    journal: Path | None, archive: str, stopping: threading.Event, say: Say, *, once: bool, interval: float
) -> Iterator[None]:
    """Archive while the block runs, in a thread, or, for a job that runs once, before it.  Raises like `now`.

    `stopping` ends it early; `interval`: seconds between two looks, and the age from which segments are archived.
    """
    if once or journal is None:
        now(journal, archive, say, stopping.is_set)
        yield
        return
    from gateway.archive.compact import RAW_RETENTION, Expiry

    over = threading.Event()

    def ends() -> bool:
        return over.is_set() or stopping.is_set()

    with _archiver(journal, archive, say, roll=interval, stopping=ends) as archiver:
        expire = Expiry(paths.folder("--archive", archive), RAW_RETENTION, None, say)
        thread = threading.Thread(target=_go_on, args=(archiver, expire, over, interval, say), name="archiver")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def compact(archive: Path, before: datetime, say: Say, stopping: threading.Event) -> None:
    """Compact the hours that ended before a moment.  `ArchiveError`: another process does.  `JobFailure`: not all."""
    from gateway.archive.compact import compact as compacted

    if not compacted(archive, before, tell=lambda what: say(str(what)), warn=say, stopping=stopping.is_set):
        raise JobFailure(f"not all of the archive {archive} could be compacted")


def _archiver(journal: Path, archive: str, say: Say, *, roll: float, stopping: Callable[[], bool]) -> Archiver:
    from gateway.archive.archiver import Archiver, ArchiverOptions

    paths.existing("--journal", str(journal), "a gateway with the setting `journal`")
    target = paths.make("--archive", paths.folder("--archive", archive))
    return Archiver(journal, target, ArchiverOptions(roll, warn=say, stopping=stopping))


def _go_on(archiver: Archiver, expire: Callable[[], bool], over: threading.Event, interval: float, say: Say) -> None:
    """The work of the thread: pass after pass until `over`.  An error is printed once, and tried again."""
    said = ""
    while True:
        sentence = ""
        try:
            archiver.step()
            expire()
        except Exception as error:  # noqa: BLE001  # a thread that ends silently would look like a journal at rest
            sentence = f"the archiver failed and tries again: {error}"
            if sentence != said:
                say(sentence)
        said = sentence
        if over.wait(interval):
            return
