"""The processes that test_kill kills: each does one thing with an archive, and kills itself at a step.

python -m tests.archive.killed

It reads lines: archive|compact|raw|history JOURNAL ARCHIVE STEP NUMBER, with tabs between.  For each it forks a process
that dies when the step comes for that time, and prints how that ended: 0, if the step did not come so often.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from gateway.archive import sorting
from gateway.archive.archiver import Archiver, ArchiverOptions
from gateway.archive.compact import compact, expire_history, expire_raw
from tests.archive.desk import Writer


def main() -> None:
    # The first time takes a second, and the children inherit that it was.
    with tempfile.TemporaryDirectory() as folder:
        Writer(Path(folder), apart=900).segments(9)
        with Archiver(Path(folder), Path(folder) / "archive") as archiver:
            archiver.step(everything=True)
        compact(Path(folder) / "archive")
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _act(*line.rstrip("\n").split("\t"))
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _act(what: str, journal: str, archive: str, step: str, number: str) -> None:
    left = [int(number)]

    def at(name: str) -> None:
        left[0] -= name == step
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    if what == "archive":
        with Archiver(Path(journal), Path(archive), ArchiverOptions(at=at)) as archiver:
            archiver.step(everything=True)
    elif what == "compact":
        sorting.RUN, sorting.CHUNK = 20_000, 2_000  # so that there are runs
        compact(Path(archive), datetime.now(UTC), at=at)
    elif what == "raw":
        expire_raw(Path(archive), 0, time.time() + 1, at)
    else:
        expire_history(Path(archive), 0, time.time(), at)


if __name__ == "__main__":
    main()
