"""The jobs over an hour of ten million rows: the metrics job that catches up, and the report.

The clock starts when the session is there, and the JVM has done nothing before: what is compiled while it runs counts.
So each of the two has a session of its own.  A job that runs on has all that behind it, so the metrics job runs once
more, into another table.
"""

from __future__ import annotations

import io
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from benchmarks.pipeline import synthetic
from benchmarks.pipeline.measured import Figure, watch

_ROWS = 10_000_000


def figures(scale: float) -> Iterator[Figure]:
    """The figures of the metrics job."""
    from gateway.pipeline.jobs import JOBS, AlarmLimits
    from gateway.pipeline.spark.session import session
    from gateway.pipeline.streaming import runner
    from gateway.pipeline.streaming.progress import Progress

    rows = int(_ROWS * scale)
    with tempfile.TemporaryDirectory(prefix="jobs-bench-") as name:
        archive = Path(name, "archive")
        with watch() as made:
            nbytes = synthetic.make(archive, rows)
        yield Figure("synthetic archive", rows / made.seconds, "rows/s", rows=rows, cpu=made.cpu, note=f"{nbytes:,} B")
        with watch() as started:
            spark = session(None, None, "benchmark")
        yield Figure("a session starts", started.seconds, "s", 10, at_least=False, cpu=started.cpu)
        for title, goal in (("metrics job, catching up", 400_000), ("  once more, in the same JVM", None)):
            with watch() as spent:
                runner.run(
                    spark,
                    [JOBS["metrics"]],
                    str(archive),
                    Path(name, title),
                    once=True,
                    progress=Progress(err=io.StringIO()),
                    stopping=threading.Event(),
                    limits=AlarmLimits(),
                )
            yield Figure(title, rows / spent.seconds, "rows/s", goal, rows=rows, cpu=spent.cpu)
        spark.stop()


def report(scale: float) -> Iterator[Figure]:
    """The figure of the report."""
    from gateway.pipeline.report import build, page
    from gateway.pipeline.spark.session import session

    rows = int(_ROWS * scale)
    with tempfile.TemporaryDirectory(prefix="report-bench-") as name:
        archive = Path(name, "archive")
        synthetic.make(archive, rows)
        spark = session(None, None, "benchmark")
        with watch() as spent:
            made = build.report(spark, str(archive), synthetic.START, synthetic.END)
            nbytes = len(page.page_of(made).encode())
        note = f"a page of {nbytes:,} B"
        yield Figure("report of an hour", spent.seconds, "s", 20, at_least=False, rows=rows, cpu=spent.cpu, note=note)
        spark.stop()
