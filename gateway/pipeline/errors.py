"""Errors of the pipeline: their kinds, of which commands make exit statuses, and the sentence of any exception.

Spark's text has the sentence anywhere: behind its own condition, in the last line of a Python traceback, or in the last
of Java's causes.  The rest is for programmers.

A damaged file is named, with what repairs it: each reader of the archive, of a table or of a checkpoint reads inside
`named`.  Spark reads its checkpoint by itself, and of most files says only that something is wrong: so they are checked
before (`checkpoints`).
"""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from gateway.archive import layout


class PipelineFailure(Exception):
    """An error that ends a command with its sentence, `str()`, and its status."""

    status = 1


class JobFailure(PipelineFailure):
    """A job could not do its work."""


class UsageFailure(PipelineFailure):
    """The command cannot be carried out as it was given."""

    status = 2


class EnvironmentFailure(PipelineFailure):
    """Something is missing on this machine: Java, a package, a folder that can be written."""

    status = 3


ANEW = "restore it, or compute the table anew with --reset-checkpoint"
_WITHOUT = "restore it, or move it away and run again, without its rows"
_UNLISTED = (
    "restore it, or move it away, take its name out of the _manifest.json beside it and run again, without its rows"
)


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


def _said(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".: ")


_MOST = 500
# An exception of our data source inside Spark's text.
_OURS = re.compile(r"(?:pyspark_stomp\.errors|gateway\.client\.blocking)\.\w+: ([^\n]+)")
# Exceptions of Java through py4j, their causes, and those of Python: the last one happened first.
_CAUSE = re.compile(
    r"^(?:(?:Caused by)?: [\w.$]+|(?:[A-Za-z_][\w.]*)?(?:Error|Exception)\w*): (?!Traceback )([^\n]+)", re.MULTILINE
)
# The words in front of the failure of a query.
_FAILED = "terminated with exception: "
_FILE = re.compile(r"while reading file ((?:\w+:)?/\S+?)\.?(?:\s|$)")
_LOCAL = re.compile("^file:/+")
# Libraries say this of a damaged Parquet file, and never of one without permission.
_DAMAGE = re.compile(
    r"thrift|required field|not a parquet file|magic (?:number|bytes)|corrupt|deserialize|decompress|end of stream"
    r"|page header",
    re.IGNORECASE,
)
# Spark's own: `[CONDITION] text SQLSTATE: 42703; line 1 pos 0`.
_CONDITION = re.compile(r"\[[A-Z0-9_.]+\] ?")
_STATE = re.compile(r" ?SQLSTATE: .*")


def reason(error: BaseException) -> str:
    """The sentence of an error: ours, the system's, our data source's, that of the last cause, or the first line."""
    if isinstance(error, PipelineFailure):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = str(error).strip() or type(error).__name__
    said = _STATE.sub("", _CONDITION.sub("", _sentence(text), count=1)).strip()[:_MOST]
    file = _FILE.search(text)
    if file is None:
        return said
    path = _LOCAL.sub("/", file[1])
    for front in (f"file:{path} ", f"Could not open Parquet input source '{path}': "):
        said = said.removeprefix(front)
    said, remedy = said.rstrip(".: "), of_archive(Path(path))
    if _DAMAGE.search(said):
        return f"{path} is damaged ({said}); {remedy}"
    return f"{path} cannot be read: {said}; if it is damaged {remedy}"


def _sentence(text: str) -> str:
    for pattern in (_OURS, _CAUSE):
        if found := pattern.findall(text):
            return str(found[-1])
    return next(line for line in text.rpartition(_FAILED)[2].splitlines() if line.strip())
