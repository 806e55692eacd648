"""A process that runs the job `metrics` up to a point, says so, and waits to be killed.

    python -m tests.pipeline.streaming.killed ARCHIVE TABLES writing|committing BATCH

`writing`: the file of the batch is half written.  `committing`: it is there, and Spark does not know that.  Standard
output has a line of JSON for each batch, and one that names the point.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gateway import files
from gateway.pipeline import tables
from gateway.pipeline.jobs import JOBS, AlarmLimits
from gateway.pipeline.streaming import runner
from gateway.pipeline.streaming.progress import BatchReport, Progress
from tests.spark import start_spark


def reached(point: str, batch: int) -> None:
    """Say it, and wait."""
    print(json.dumps({"point": point, "batch": batch}), flush=True)
    signal.pause() if threading.current_thread() is threading.main_thread() else threading.Event().wait()


class Reporting(Progress):
    def __init__(self, number: int | None) -> None:
        super().__init__(as_json=True)
        self._number = number

    def batch(self, batch: BatchReport) -> None:
        super().batch(batch)
        if batch.number == self._number:
            reached("committing", batch.number)


def main(archive: str, into: str, point: str, number: int) -> None:
    writing = files.writing

    @contextmanager
    def half(path: Path) -> Iterator[BinaryIO]:
        with writing(path) as file:
            yield file
            if path.name == f"{number:010d}-{number:010d}.parquet":
                file.truncate(file.tell() // 2)
                reached("writing", number)

    if point == "writing":
        vars(tables)["writing"] = half
    runner.run(
        start_spark(),
        [JOBS["metrics"]],
        archive,
        Path(into),
        once=True,
        files=1,
        progress=Reporting(number if point == "committing" else None),
        stopping=threading.Event(),
        limits=AlarmLimits(),
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
