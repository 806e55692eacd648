"""One line for each batch."""

from __future__ import annotations

import io
import json
import threading

from gateway.pipeline.streaming.progress import BatchReport, Progress

AT = 1_795_271_407_000_000  # 2026-11-21 14:30:07 UTC
BATCH = BatchReport("metrics", 12, 120_000, 0.31, AT - 4_249_000, AT)


def test_a_line_as_text() -> None:
    err, out = io.StringIO(), io.StringIO()
    progress = Progress(err=err, out=out)
    progress.batch(BATCH)
    progress.batch(BatchReport("consumers", 0, 0, 0.5, None, AT))
    progress.say("One sentence.")
    assert err.getvalue().splitlines() == [
        "metrics     batch 12: 120,000 rows in 0.31 s, 387,097 rows/s, lag 4.2 s",
        "consumers   batch 0: 0 rows in 0.50 s",
        "One sentence.",
    ]
    assert out.getvalue() == ""


def test_a_line_as_json() -> None:
    err, out = io.StringIO(), io.StringIO()
    progress = Progress(True, err=err, out=out)
    progress.batch(BATCH)
    progress.batch(BatchReport("consumers", 0, 0, 0.0, None, AT))
    progress.say("One sentence.")
    first, second = map(json.loads, out.getvalue().splitlines())
    assert first == {
        "job": "metrics",
        "batch": 12,
        "rows": 120_000,
        "seconds": 0.31,
        "rows_per_second": 387_097,
        "lag": 4.2,
        "at": "2026-11-21T14:30:07.000Z",
    }
    assert (second["lag"], second["rows_per_second"]) == (None, 0)
    assert err.getvalue() == "One sentence.\n"


def test_lines_of_several_queries_stay_whole() -> None:
    err = io.StringIO()
    progress = Progress(err=err)

    def report() -> None:
        for _ in range(200):
            progress.batch(BATCH)

    threads = [threading.Thread(target=report) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert err.getvalue() == (BATCH.line() + "\n") * 800
