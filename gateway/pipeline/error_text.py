"""Error text: the one sentence of an exception for the user of a command.

Spark's text has the sentence anywhere: behind its own condition, in the last line of a Python traceback, or in the last
of Java's causes.  The rest is for programmers.
"""

from __future__ import annotations

import re
from pathlib import Path

from .corrupt_files import of_archive
from .errors import PipelineFailure

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
