"""One sentence out of whatever was thrown."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.pipeline.corrupt_files import of_archive
from gateway.pipeline.error_text import reason

HISTORY = Path("/a/history/d/h/b.parquet")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError(2, "No such file", "/a"), "/a: No such file"),
        (ValueError("one\ntwo"), "one"),
        (ValueError(), "ValueError"),
        (
            RuntimeError("[STREAM_FAILED] Query [id = 1] terminated with exception: oops SQLSTATE: XXKST\n=== Plan"),
            "oops",
        ),
        (
            RuntimeError(
                "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] "
                "Encountered error while reading file file:///a/b.parquet.  SQLSTATE: KD001\n\tat x.y(Z.java:1)\n"
                "Caused by: java.lang.RuntimeException: it is short\n\t... 3 more\n"
            ),
            f"/a/b.parquet cannot be read: it is short; if it is damaged {of_archive(Path('/a/b.parquet'))}",
        ),
        (
            RuntimeError(
                "Traceback (most recent call last):\n"
                '  File "counts.py"\n    raise ValueError(f"{said}\\nwhile reading file {path}\\n") from None\n'
                "ValueError: Could not open Parquet input source '/a/history/d/h/b.parquet': it is short.\n"
                "while reading file /a/history/d/h/b.parquet"
            ),
            f"/a/history/d/h/b.parquet cannot be read: it is short; if it is damaged {of_archive(HISTORY)}",
        ),
        (
            RuntimeError(
                "ValueError: Couldn't deserialize thrift: TProtocolException: Invalid data\n"
                "while reading file /a/history/d/h/b.parquet\n"
            ),
            "/a/history/d/h/b.parquet is damaged (Couldn't deserialize thrift: TProtocolException: Invalid data); "
            + of_archive(HISTORY),
        ),
    ],
)
def test_a_reason_is_one_sentence(error: Exception, sentence: str) -> None:
    assert reason(error) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[X.Y] Traceback (most recent call last):\nValueError: too small\n", "too small"),
        ("[TABLE_NOT_FOUND] There is no t. SQLSTATE: 42P01; line 1\nplan", "There is no t."),
        (
            "An error.\n: a.b.X: In awaitResult: \n\tat x\nCaused by: a.b.X: Job aborted: too large\n\tat y",
            "Job aborted: too large",
        ),
        ("a.b.XException: outer\n\tat x\nCaused by: a.b.Y: inner\n\tat y", "inner"),
    ],
)
def test_the_sentence_in_an_exception(text: str, sentence: str) -> None:
    assert reason(RuntimeError(text)) == sentence
