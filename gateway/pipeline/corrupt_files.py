"""Damaged files: which file it is, and what repairs it.

Each reader of the archive, of a table or of a checkpoint reads inside `named`.  Spark reads its checkpoint by itself,
and of most files says only that something is wrong: so they are checked before (`check_checkpoint`).
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gateway.archive import layout

from .errors import JobFailure

ANEW = "restore it, or compute the table anew with --reset-checkpoint"
_WITHOUT = "restore it, or move it away and run again, without its rows"
_UNLISTED = (
    "restore it, or move it away, take its name out of the _manifest.json beside it and run again, without its rows"
)

_VERSION = re.compile(r"v\d+")
_NONE = "-"  # Spark writes this in place of an offset that does not exist
_READ = 2  # Spark starts with the last file of each log, and with the one before if a batch was not over


@contextlib.contextmanager
def named(path: Path, remedy: str) -> Iterator[None]:
    """A block that reads a file.  `JobFailure`: the file is damaged; the sentence names it and the remedy."""
    try:
        yield
    except (ValueError, TypeError, LookupError, NotImplementedError) as error:  # pyarrow's are kinds of these
        raise JobFailure(f"{path} is damaged ({_said(error)}); {remedy}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise JobFailure(f"{path} is damaged ({_said(error)}); {remedy}") from error  # pyarrow's, and no system's


def of_archive(path: Path) -> str:
    """The remedy for a damaged Parquet file of the archive."""
    return _UNLISTED if layout.HISTORY in path.parts[-4:-3] else _WITHOUT


def refuse_empty(path: Path) -> None:
    """Refuse an empty Parquet file, of which Spark makes no rows and no error.  `JobFailure`: it is empty."""
    with contextlib.suppress(FileNotFoundError):
        if not path.stat().st_size:
            raise JobFailure(f"{path} is damaged: it is empty; {of_archive(path)}")


def check_checkpoint(folder: Path) -> None:
    """Check that Spark can read the files of a checkpoint.  `JobFailure`: one is damaged."""
    with contextlib.suppress(FileNotFoundError), named(path := folder / "metadata", ANEW):
        json.loads(path.read_bytes())["id"].encode()
    for log in ("offsets", "commits"):
        files = [path for path in (folder / log).glob("*") if path.name.isdigit()]
        for path in sorted(files, key=lambda each: int(each.name))[-_READ:]:
            with named(path, ANEW):
                entries(path.read_text("utf-8"))


def entries(text: str) -> list[Any]:
    """The JSON values behind the version in a log file of Spark.  `ValueError`: it is no such file."""
    version, *lines = text.splitlines() or [""]
    if not _VERSION.fullmatch(version):
        raise ValueError("it does not begin with a version")
    return [json.loads(line) for line in lines if line != _NONE]


def _said(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".: ")
