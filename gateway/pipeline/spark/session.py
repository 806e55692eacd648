"""The Spark session, in one of three ways:

    local[2], spark://host:7077 ...   a JVM of ours, which works by itself or leads the executors of a cluster
    sc://host:15002                   Spark Connect: the JVM is on another machine, and no Java is needed here
    inside spark-submit               the JVM is there already, and knows its master

The JVM writes to a file in the user's cache instead of the terminal.  It has a process group of its own, so that a
Ctrl-C ends no batch in the middle: this process does, when the batch is done.  `java` starts and ends it.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EnvironmentFailure
from . import java

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

LOCAL = "local[2]"  # the default master: two threads, so that a source and its sink never wait for each other
PACKAGES = ("pyspark", "pyarrow", "pandas")
NEEDED = "pip install 'stomp-gateway[pipeline,java]'"

_LOOPBACK = "127.0.0.1"
_SQL = {
    "spark.sql.session.timeZone": "UTC",
    # Killed in its first batch a query may leave half a file there, and would never start again.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
}
QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
# Compiling costs a small machine more in the first minute than the best code gives back in the next: a report over ten
# million rows takes 29 s of CPU with these and 46 without.
_COMPILED = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
_ON_LOOPBACK = {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
_THREADS = re.compile(r"local\[(\d+|\*)(?:, *\d+)?\]")
_ENDS = re.compile(r"(?:Exception|Error)\b.*|Caused by:.*")


def check_packages(names: tuple[str, ...] = PACKAGES, needed: str = NEEDED) -> None:
    """Check that packages are installed, without importing them.  `EnvironmentFailure`: one is not."""
    missing = [name for name in names if not _is_there(name)]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise EnvironmentFailure(f"{' and '.join(missing)} {verb} not installed: {needed}")


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # its parent is missing, or it was taken out of `sys.modules`
        return False


def silence() -> None:
    """Keep the logs of pyspark and py4j off the terminal: each error is told in a sentence of ours."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())


def is_local(master: str) -> bool:
    """True if all of Spark is on this machine."""
    return master == "local" or master.startswith(("local[", "local-cluster["))


def partitions(master: str) -> int:
    """The partitions of a local shuffle: one for each thread.  Spark's default of 200 would be work without rows."""
    found = _THREADS.fullmatch(master)
    threads = found[1] if found else "1"
    return max(2, (os.cpu_count() or 1) if threads == "*" else int(threads))


def session(master: str | None, remote: str | None, app: str, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session; the present one, if the process has one.  `EnvironmentFailure`: Spark does not start.

    Args:
        master: as Spark writes it; None: `LOCAL`, or that of spark-submit.
        remote: a server of Spark Connect, `sc://host:port`, in place of a master.
        app: Spark's name for the application.
        conf: settings of Spark, stronger than those made here.
    """
    check_packages()
    if remote is not None:
        return _connected(remote, app, dict(conf or {}))
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if master is None and not submitted:
        master = LOCAL
    settings = {"spark.app.name": app} | (_SQL if submitted else _SQL | QUIET)
    if master is not None:
        settings["spark.master"] = master
        _set_environment(is_local(master))
        if is_local(master):
            settings |= _ON_LOOPBACK | _COMPILED | {"spark.sql.shuffle.partitions": str(partitions(master))}
    return _started(settings | dict(conf or {}), submitted)


def _set_environment(local: bool) -> None:
    """Set the variables that the JVM and its workers inherit.  `EnvironmentFailure`: there is no Java."""
    os.environ["JAVA_HOME"] = str(java.find().home)
    if local:
        os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers of a cluster may have another one
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def _started(settings: Mapping[str, str], submitted: bool) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    os.environ.pop("SPARK_REMOTE", None)  # it would override the master
    fresh = not submitted and SparkContext._gateway is None
    log = _log(settings["spark.app.name"]) if fresh else None
    ctrl_c = signal.getsignal(signal.SIGINT)
    try:
        if fresh:
            _launch(SparkConf().setAll(list(settings.items())), log)
            _take_back(ctrl_c)
        builder = SparkSession.builder
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark: SparkSession = builder.getOrCreate()
        _take_back(ctrl_c)
        spark.sparkContext.setLogLevel("ERROR")
    except Exception as error:  # any error of Java becomes one sentence
        raise EnvironmentFailure(f"Spark did not start: {_reason(error, log)}") from error
    return spark


def _launch(conf: SparkConf, log: Path | None) -> None:
    from pyspark import SparkContext

    with java.starting(conf, log) as gateway:
        SparkContext(conf=conf, gateway=gateway)


def _take_back(handler: Any) -> None:
    """Restore the handler of Ctrl-C: Spark replaces it by one that talks to the JVM in the middle of anything."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def _connected(remote: str, app: str, conf: dict[str, str]) -> SparkSession:
    check_packages(("grpc", "google.protobuf", "zstandard"), "pip install 'pyspark[connect]'")
    from pyspark.sql import SparkSession

    if remote.startswith("local"):
        _set_environment(local=True)
    try:
        builder = SparkSession.builder.remote(remote).appName(app)
        for name, value in (_SQL | conf).items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    except Exception as error:  # as above
        raise EnvironmentFailure(f"{remote} is no server of Spark Connect: {_reason(error, None)}") from error


def _log(app: str) -> Path | None:
    """A fresh log file for the JVM; None: it cannot be made, and the JVM's output is dropped."""
    try:
        folder = java.cache()
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"spark-{re.sub('[^A-Za-z0-9]+', '-', app)[:80]}.log"
        path.write_bytes(b"")
    except (OSError, EnvironmentFailure):
        return None
    return path


def _reason(error: Exception, log: Path | None) -> str:
    """The first words that say why, and the path of the log."""
    said = str(error)
    if log is not None and "JAVA_GATEWAY_EXITED" in said:
        said = log.read_text(errors="replace")
    found = [line.strip() for line in said.splitlines() if _ENDS.search(line)] or [said.strip().partition("\n")[0]]
    return found[0][:300] + ("" if log is None else f"; its log is {log}")
