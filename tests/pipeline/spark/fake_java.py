"""A `java` that is a script of sh."""

from __future__ import annotations

import os
from pathlib import Path


def script(path: Path, text: str) -> Path:
    """A program of sh there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def environment(folder: Path, body: str, **variables: str) -> dict[str, str]:
    """The environment of a process whose `java` says its version, and runs some lines of sh otherwise."""
    script(folder / "home" / "bin" / "java", f"""[ "$1" = -version ] && exec echo 'openjdk version "17"'\n{body}""")
    own = {"JAVA_HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "cache"), **variables}
    return {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")} | own
