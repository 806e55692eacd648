"""What the jobs of `gateway pipeline run` leave for the console: TABLES/_console/<job>.json.

They are made by another process, which renames them into their place: what is there is whole.  They are passed on as
they are; the gateway knows nothing of what is in them.
"""

from __future__ import annotations

import re
from pathlib import Path

# Octets of a snapshot at most; the jobs make none that is larger than 2 MiB.
_MOST = 4 * 1024 * 1024
_FOLDER = "_console"


def dates(tables: Path | None) -> dict[str, float]:
    """Name of the job -> when its snapshot was made, in seconds since the epoch."""
    if tables is None:
        return {}
    try:
        found = sorted((tables / _FOLDER).glob("[!._]*.json"))
        return {path.stem: path.stat().st_mtime for path in found}
    except OSError:  # one of them has just gone
        return {}


def read(tables: Path | None, job: str) -> bytes | None:
    """A snapshot as it is in its file; None: there is none."""
    # A job is a word: what else comes may be a way to other folders.
    if tables is None or not re.fullmatch(r"[a-z][a-z0-9-]{0,63}", job):
        return None
    try:
        with (tables / _FOLDER / f"{job}.json").open("rb") as file:
            content = file.read(_MOST + 1)
    except OSError:
        return None
    return content if len(content) <= _MOST else None
