"""The file log: which files of the archive a job reads, has read, and can no longer read.

Spark keeps it in the job's checkpoint.  It looks for new files, numbers each look, and plans a batch of looks:

    _checkpoints/<job>/sources/0/<look>             the files that are new at that look, a line of JSON for each
    _checkpoints/<job>/sources/0/<look>.compact     those of this look and of all before
    _checkpoints/<job>/offsets/<batch>              its last line says up to which look the batch goes

Mostly batch n is look n.  After a kill between the look and the batch, two looks are one batch.  A file counts as read
when a look has found it, and as done when the batch of that look is in the table.  Its name here is `date=/hour=/name`.

A job reads `raw` alone.  Files that a manifest of the history lists, that are no longer in `raw` and that no look has
found are missing in the table for ever.
"""

import contextlib
import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from gateway.archive import history, layout
from gateway.archive.layout import ArchiveError
from gateway.files import synchronize_folder

from .. import errors

_COMPACT = ".compact"
_VERSION = re.compile(r"v\d+")
_NONE = "-"  # Spark writes this in place of an offset that does not exist


def read_by(checkpoint: Path) -> Iterator[str]:
    """The files that a job has read.  `JobFailure`: Spark's files are damaged."""
    for _, name in _found(checkpoint):
        yield name


def done_by(checkpoint: Path, batch: int | None) -> Iterator[str]:
    """The files whose rows are in the table, up to its last batch; None: it has none.

    If Spark's plan of that batch is gone: those that the job has read.  `JobFailure`: Spark's files are damaged.
    """
    last: float = -1
    if batch is not None:
        try:
            last = _last_look(checkpoint, batch)
        except (OSError, ValueError, LookupError, TypeError):
            last = math.inf
    for look, name in _found(checkpoint):
        if look <= last:
            yield name


def _found(checkpoint: Path) -> Iterator[tuple[int, str]]:
    """Looks, and the files that they have found."""
    folder = _log(checkpoint)
    try:
        names = [name for name in os.listdir(folder) if name.removesuffix(_COMPACT).isdigit()]
    except FileNotFoundError:
        return
    compact = max([int(name.removesuffix(_COMPACT)) for name in names if name.endswith(_COMPACT)], default=-1)
    for name in names:
        covered = int(name) <= compact if name.isdigit() else name != f"{compact}{_COMPACT}"
        if covered:
            continue
        with contextlib.suppress(FileNotFoundError):  # Spark has removed it
            yield from _entries(folder / name)


def planned(checkpoint: Path, batch: int) -> frozenset[str] | None:
    """The files of a batch; None: Spark's files do not say."""
    try:
        looks = _looks(checkpoint, batch)
        entries = [each for look in looks for each in _entries(_file_of(checkpoint, look))]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return frozenset([name for look, name in entries if look in looks])


def digest(names: Iterable[str]) -> str:
    """A text that differs for different sets of files."""
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:32]


def settle(checkpoint: Path, batch: int) -> None:
    """Synchronize the plan of a batch to the disk: Spark leaves it to the system's cache.  `OSError`: that fails."""
    paths = [checkpoint / "offsets" / str(batch)]
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        paths += [_file_of(checkpoint, look) for look in _looks(checkpoint, batch)]
    for path in paths:
        for each in (path, path.with_name(f".{path.name}.crc")):
            with contextlib.suppress(FileNotFoundError), each.open("rb") as file:
                os.fsync(file.fileno())
    for folder in (_log(checkpoint), checkpoint / "offsets", checkpoint):
        with contextlib.suppress(FileNotFoundError):
            synchronize_folder(folder)


def deleted(archive: Path, names: Iterable[str]) -> list[str]:
    """The files that are not in `raw`."""
    return sorted([name for name in names if not (archive / layout.RAW / name).exists()])


def in_history(archive: Path, names: Iterable[str]) -> int:
    """How many of these files have their rows in the history."""
    count = 0
    for name in names:
        hour, _, file = name.rpartition("/")
        count += file in _listed(archive / layout.HISTORY / hour)
    return count


def missed(archive: Path, checkpoint: Path) -> dict[str, int]:
    """How many files of each hour, `date=/hour=`, were deleted before the job saw them."""
    seen = set(read_by(checkpoint))
    found = {}
    for hour, place in layout.hours(archive / layout.HISTORY):
        name = layout.folder_of(hour)
        listed = _listed(place)  # before `raw`: a listed file that is not there is deleted, and not still to come
        raw = set(layout.visible(archive / layout.RAW / name))
        if gone := [each for each in listed - raw if f"{name}/{each}" not in seen]:
            found[name] = len(gone)
    return found


def _log(checkpoint: Path) -> Path:
    return checkpoint / "sources" / "0"


def _looks(checkpoint: Path, batch: int) -> range:
    first = _last_look(checkpoint, batch - 1) + 1 if batch else 0
    return range(first, _last_look(checkpoint, batch) + 1)


def _last_look(checkpoint: Path, batch: int) -> int:
    """The look that a batch goes up to."""
    lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    return int(json.loads(lines[-1])["logOffset"])


def _file_of(checkpoint: Path, look: int) -> Path:
    """The file with a look."""
    for path in (_log(checkpoint) / str(look), _log(checkpoint) / f"{look}{_COMPACT}"):
        if path.exists():
            return path
    raise FileNotFoundError(look)


def _entries(path: Path) -> Iterator[tuple[int, str]]:
    """Looks and files in a file of Spark's.  `JobFailure`: it is damaged."""
    with errors.named(path, errors.ANEW):
        for entry in values_in(path.read_text("utf-8")):
            yield int(entry["batchId"]), "/".join(unquote(entry["path"]).rsplit("/", 3)[1:])


def _listed(folder: Path) -> frozenset[str]:
    """The raw files of an hour whose rows are in the history; none if its manifest cannot be read."""
    try:
        return history.read(folder).raw
    except (ArchiveError, OSError):
        return frozenset()


def values_in(text: str) -> list[Any]:
    """The JSON values behind the version in a log file of Spark.  `ValueError`: it is no such file."""
    version, *lines = text.splitlines() or [""]
    if not _VERSION.fullmatch(version):
        raise ValueError("it does not begin with a version")
    return [json.loads(line) for line in lines if line != _NONE]
