"""The checks of `gateway pipeline doctor`: everything that a job needs on this machine.

The checks that start Spark, a session, a Python worker and one micro-batch of `format("stomp")`, run in a process of
their own, so that the caller can stop waiting: `python -m gateway.pipeline.spark.doctor`.  Each step that succeeds is a
line of JSON on standard output, `{"step": ..., "detail": ...}`; the first that fails is the last line, with `"reason"`
instead.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import paths
from ..errors import PipelineFailure
from . import java, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# All three take twenty seconds on an idle machine of two cores, and ten times that on a very busy one.
_PATIENCE = 240.0
_WORKER_PATIENCE = 30.0

# The oldest version, and the first one that is too new; None: there is none.
PACKAGES: tuple[tuple[str, tuple[int, ...], tuple[int, ...] | None], ...] = (
    ("pyspark", (4, 2), (5,)),
    ("pyarrow", (18,), None),
    ("pandas", (2, 2), (3,)),
)
_FOLDERS = ("journal", "archive", "tables")


@dataclass(frozen=True, slots=True)
class Finding:
    what: str  # the thing that was checked
    detail: str  # what was found
    remedy: str = ""  # how to repair it; "": all is well

    @property
    def ok(self) -> bool:
        return not self.remedy

    def json(self) -> dict[str, Any]:
        return {"ok": self.ok, "what": self.what, "detail": self.detail, "remedy": self.remedy}

    def __str__(self) -> str:
        return f"{'ok  ' if self.ok else 'FAIL'} {self.what}: {self.detail}{'. ' * (not self.ok)}{self.remedy}"


def examine(patience: float = _PATIENCE) -> Iterator[Finding]:
    """Check one thing after the other; `patience`: seconds for the checks that need Spark."""
    healthy = True
    for finding in _machine():
        healthy &= finding.ok
        yield finding
    yield from _folders()
    if healthy:
        yield from _spark(patience)
    else:
        yield from [Finding(step, "not tried", "Repair the above first") for step in STEPS]


def _machine() -> Iterator[Finding]:
    """Check what Spark would not start without."""
    try:
        found = java.find()
        yield Finding("Java", f"{found.version} of {found.source}, {found.home}")
    except PipelineFailure as error:
        yield Finding("Java", "none", str(error))
    for name, least, beyond in PACKAGES:
        yield _package(name, least, beyond)
    yield _home()
    yield _python()


def _package(name: str, least: tuple[int, ...], beyond: tuple[int, ...] | None) -> Finding:
    wanted = f"{name}>={_dotted(least)}" + (f",<{_dotted(beyond)}" if beyond else "")
    remedy = f"pip install '{wanted}', or all at once: {session.NEEDED}"
    try:
        session.check_packages((name,))
        found = version(name)
    except (PipelineFailure, PackageNotFoundError):
        return Finding(name, "not installed", remedy)
    numbers = tuple([int(part) if part.isdigit() else 0 for part in found.split(".")])
    return Finding(name, found, "" if numbers >= least and (beyond is None or numbers < beyond) else remedy)


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def _home() -> Finding:
    """SPARK_HOME, if set, makes pyspark run another Spark than its own."""
    home = os.environ.get("SPARK_HOME")
    if not home:
        return Finding("SPARK_HOME", "not set")
    try:
        own = version("pyspark")
    except PackageNotFoundError:
        return Finding("SPARK_HOME", home)
    if list(Path(home).glob(f"jars/spark-core_*-{own}.jar")):
        return Finding("SPARK_HOME", f"{home}, Spark {own}")
    return Finding("SPARK_HOME", f"{home} is not Spark {own}", "Unset it: pyspark brings its own Spark")


def _python() -> Finding:
    told = os.environ.get("PYSPARK_PYTHON") or sys.executable
    remedy = (
        "" if told == sys.executable else "Unset PYSPARK_PYTHON, or name a Python of this version with all packages"
    )
    program = "import sys, pyspark, pyarrow, pandas; print('%d.%d' % sys.version_info[:2])"
    try:
        answer = subprocess.run(
            [told, "-W", "ignore", "-c", program],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_WORKER_PATIENCE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return Finding("PYSPARK_PYTHON", f"{told} cannot import the packages", remedy or session.NEEDED)
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    same = answer.stdout.decode().strip() == own
    return Finding("PYSPARK_PYTHON", told, "" if same else remedy)


def _folders() -> Iterator[Finding]:
    """Check the folders in which jobs write."""
    known: list[tuple[str, str | None]] = [("temporary folder", tempfile.gettempdir())]
    try:
        known.append(("cache", str(java.cache())))
        known += [(name, paths.setting(name)) for name in _FOLDERS]
    except PipelineFailure as error:
        yield Finding("settings", "wrong", str(error))
    for name, place in known:
        if place is None:
            yield Finding(name, f"not set; commands that need it take --{name}")
        else:
            yield _folder(name, Path(place))


def _folder(name: str, path: Path) -> Finding:
    """Check that a file can be made in a folder, or in the parent where it would be made."""
    existing = next((each for each in (path, *path.parents) if each.exists()), path)
    detail = str(path) if existing == path else f"{path}, which does not exist yet"
    try:
        with tempfile.TemporaryFile(dir=existing):
            return Finding(name, detail)
    except OSError as error:
        remedy = f"No file can be made in {existing} ({error.strerror}): allow it, or name another folder"
        return Finding(name, detail, remedy)


def _spark(patience: float) -> Iterator[Finding]:
    """Run the steps of `main`, in a process with a time limit."""
    left = list(STEPS)
    reason = f"it did not end within {patience:g} s"
    try:
        told = subprocess.run(
            [sys.executable, "-m", "gateway.pipeline.spark.doctor"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=patience,
            check=False,
        )
        last = (told.stderr.decode(errors="replace").strip().splitlines() or ["nothing"])[-1]
        output, reason = told.stdout, f"it ended without a result: {last[:300]}"
    except subprocess.TimeoutExpired as expired:
        output = expired.stdout or b""
    for line in output.decode(errors="replace").splitlines():
        step = json.loads(line)
        if "reason" in step:
            reason = step["reason"]
            break
        left.remove(step["step"])
        yield Finding(step["step"], step["detail"])
    if left:
        yield Finding(left[0], "failed", reason)
        yield from [Finding(step, "not tried", "Repair the above first") for step in left[1:]]


STEPS = ("session", "Python worker", "micro-batch")

_MESSAGES = 3
_RECEIPT = re.compile(rb"\nreceipt:([^\n]+)")
_SUBSCRIBE = re.compile(rb"\s*SUBSCRIBE\nid:([^\n]+)")
_NAMED = re.compile(r"[A-Za-z_][\w.$]*(?:Error|Exception)\b")
_PATIENCE_OF_A_STEP = 120.0  # seconds for the query, and for a client that sends nothing


def main() -> int:
    """Try one step after the other; returns the exit status."""
    started = time.monotonic()
    step = STEPS[0]
    try:
        spark = session.session(None, None, "gateway pipeline doctor")
        _tell(step, detail=f"Spark {spark.version} after {time.monotonic() - started:.1f} s")
        steps: list[Callable[[SparkSession], str]] = [_worker, _micro_batch]
        for step, attempt in zip(STEPS[1:], steps, strict=True):
            _tell(step, detail=attempt(spark))
        spark.stop()
    except PipelineFailure as error:
        _tell(step, reason=str(error))
        return error.status
    except Exception as error:  # noqa: BLE001  # any error is the answer of the check
        _tell(step, reason=_reason(error))
        return 1
    return 0


def _reason(error: Exception) -> str:
    """One line: the exception of a Python worker stands last in Spark's text, behind those of Java."""
    lines = [line.strip(" :") for line in str(error).splitlines()]
    named = [line for line in lines if _NAMED.match(line)]
    return (named or [line for line in lines if line] or [repr(error)])[-1 if named else 0][:300]


def _tell(step: str, **words: str) -> None:
    sys.stdout.write(json.dumps({"step": step, **words}) + "\n")
    sys.stdout.flush()


def _worker(spark: SparkSession) -> str:
    from pyspark.sql.functions import udf

    def interpreter(_: int) -> str:
        import pyarrow

        return f"Python {sys.version.split()[0]} with pyarrow {pyarrow.__version__}"

    [(told,)] = spark.range(1).select(udf(interpreter, "string")("id")).collect()
    return str(told)


def _micro_batch(spark: SparkSession) -> str:
    """Send some messages through the source, which Spark finds by its name alone."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server,), daemon=True).start()
        options = {"host": "127.0.0.1", "port": str(server.getsockname()[1]), "destination": "/queue/doctor"}
        frame = spark.readStream.format("stomp").options(**options, mode="ack", idleTimeoutMs="500").load()
        query = frame.writeStream.format("memory").queryName("doctor").trigger(availableNow=True).start()
        try:
            if not query.awaitTermination(int(_PATIENCE_OF_A_STEP)):
                raise RuntimeError("TimeoutError: the query does not end")
        finally:
            query.stop()
    rows = spark.table("doctor").count()
    if rows != _MESSAGES:
        raise RuntimeError(f"ValueError: {rows} rows came of {_MESSAGES} messages")
    return f'{rows} messages through format("stomp")'


def _serve(server: socket.socket) -> None:
    """Answer one client until it goes: CONNECT, its receipts, and some messages to its subscription."""
    connection, _ = server.accept()
    connection.settimeout(_PATIENCE_OF_A_STEP)
    received = b""
    with connection:
        while chunk := connection.recv(65_536):
            *frames, received = (received + chunk).split(b"\0")
            answer = b""
            for frame in frames:
                if frame.lstrip().startswith(b"CONNECT\n"):
                    answer += b"CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0"
                if receipt := _RECEIPT.search(frame):
                    answer += b"RECEIPT\nreceipt-id:%s\n\n\0" % receipt[1]
                if subscription := _SUBSCRIBE.match(frame):
                    answer += b"".join([_message(subscription[1], number) for number in range(_MESSAGES)])
            connection.sendall(answer)


def _message(subscription: bytes, number: int) -> bytes:
    head = b"MESSAGE\nsubscription:%s\nmessage-id:m-%d\nack:%d\ndestination:/queue/doctor\n\n"
    return head % (subscription, number, number) + b"ok\0"


if __name__ == "__main__":
    sys.exit(main())
