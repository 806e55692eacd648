"""The history: which files hold the rows of an hour, so that a reader sees each row once.

The manifest of an hour says which raw files its history holds, and which history files there are:

    ARCHIVE/history/date=/hour=/_manifest.json    {"version": 1, "raw": [names], "history": [names], "rows": n}

The rows of an hour are those of the history files that the manifest lists, and of the raw files that it does not list.
The manifest is replaced by a rename, and a raw file is deleted only when a manifest lists it.  So a reader looks into
`raw` first and then at the manifest: it lists each file that is gone from `raw`.

    ARCHIVE/history/date=/hour=/_pending.json     [names]

Before history files get their names, and before they are deleted, they are named there: such a file does not count as
long as the manifest does not list it, and may be deleted.  A history file in neither of the two has lost its manifest,
for example by a copy that left out names with `_`.  It is never deleted, and readers get an error.
"""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gateway.files import store

from . import layout
from .layout import ArchiveError

MANIFEST = "_manifest.json"
PENDING = "_pending.json"
_VERSION = 1
_FILE = re.compile(r"\d{4}-\d{4}\.parquet")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The history of an hour: the `raw` files whose rows it holds, the names of its own files, and their `rows`."""

    raw: frozenset[str] = frozenset()
    history: tuple[str, ...] = ()
    rows: int = 0


def read(folder: Path) -> Manifest:
    """The manifest in the folder of an hour; an empty one if there is none.  `ArchiveError`: it is damaged."""
    path = folder / MANIFEST
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Manifest()
    try:
        found = json.loads(data)
        if found["version"] == _VERSION:
            return Manifest(frozenset(map(str, found["raw"])), tuple(map(str, found["history"])), int(found["rows"]))
    except (ValueError, TypeError, KeyError) as error:
        raise ArchiveError(f"{path} is damaged, so the files of the hour are unknown ({error!r})") from error
    raise ArchiveError(f"{path} has version {found['version']!r}, and this program reads {_VERSION} only")


def write(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest of an hour.  `OSError`: the old one stays, or the new one may not survive a power cut."""
    raw, files = sorted(manifest.raw), list(manifest.history)
    content = {"version": _VERSION, "raw": raw, "history": files, "rows": manifest.rows}
    store(folder / MANIFEST, json.dumps(content, indent=1).encode())


def pending(folder: Path) -> frozenset[str]:
    """The files that do not count unless the manifest lists them.  `ArchiveError`: their list is damaged."""
    path = folder / PENDING
    try:
        return frozenset(map(str, json.loads(path.read_bytes())))
    except FileNotFoundError:
        return frozenset()
    except (ValueError, TypeError) as error:
        raise ArchiveError(f"{path} is damaged: restore it ({error!r})") from error


def announce(folder: Path, names: Collection[str]) -> None:
    """Write the names of files that do not count unless the manifest lists them."""
    store(folder / PENDING, json.dumps(sorted(names)).encode())


def unlisted(folder: Path, manifest: Manifest) -> list[str]:
    """The history files in the folder of an hour that have lost their manifest."""
    if not _others(folder, manifest):
        return []
    # A compaction may be at work: it announces files, lists them, and takes the announcement back.  An expiry announces
    # them, deletes the list, and then the files.  So look at each before and after.
    names, before, manifest, after = _others(folder, manifest), pending(folder), read(folder), pending(folder)
    return sorted((names & _others(folder, manifest)) - before - after)


def _others(folder: Path, manifest: Manifest) -> set[str]:
    return {name for name in layout.visible(folder) if _FILE.fullmatch(name)} - set(manifest.history)


def files(archive: Path, since: datetime | None = None, until: datetime | None = None) -> list[Path]:
    """The files with the rows from `since` up to `until`, and others of these hours; each row is in one of them.

    `ArchiveError`: a manifest is damaged or lost.  `ValueError`: a moment has no time zone.
    """
    first = None if since is None else layout.hour_at(since)
    last = None if until is None else layout.hour_at(until)
    found: list[Path] = []
    for hour in hours(archive):
        if (first is not None and hour < first) or (last is not None and hour > last):
            continue
        if until is None or layout.start_of(hour) < until:
            found += files_of(archive, hour)
    return found


def files_of(archive: Path, hour: int) -> list[Path]:
    """The files that hold the rows of an hour; raises like `files`."""
    raw = archive / layout.RAW / layout.folder_of(hour)
    folder = archive / layout.HISTORY / layout.folder_of(hour)
    names = layout.visible(raw)
    manifest = read(folder)  # after that: see above
    if lost := unlisted(folder, manifest):
        raise ArchiveError(f"{lists_not(folder, lost)}; `gateway pipeline compact` repairs it, or says what to do")
    return [folder / name for name in manifest.history] + [raw / name for name in names if name not in manifest.raw]


def lists_not(folder: Path, names: list[str]) -> str:
    """A sentence about files that have lost their manifest."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{folder} has history files that no manifest lists: {', '.join(names[:3])}{more}"


def hours(archive: Path) -> list[int]:
    """The hours that may have rows, the oldest first."""
    # As with the files: an hour that is gone from `raw` is in `history` already.
    raw = [hour for hour, _ in layout.hours(archive / layout.RAW)]
    return sorted({*raw, *[hour for hour, _ in layout.hours(archive / layout.HISTORY)]})
