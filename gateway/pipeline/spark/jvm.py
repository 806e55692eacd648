"""The JVM of this process: a child that starts and ends with it, however early it ends.

pyspark can start one, too, but knows which child it is only when that answers, seconds later: a Ctrl-C before leaves
the JVM running for ever.  So it is started here, in the way of pyspark:

    spark-submit pyspark-shell          runs one `java` that makes the command line, and then another, which is Spark
    _PYSPARK_DRIVER_CONN_INFO_PATH      names the file in which Spark writes its port and its secret
    standard input                      a pipe of ours: Spark ends when it reads the end of it

Until there is a session, anything that ends this process ends the child first, which leads a process group.  Afterwards
the pipe ends it: it is closed however this process ends, and a running Spark reads it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf

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
