"""Check of a store before the start, without opening it: another gateway may be running with it.

Only the first bytes of the file are read; no lock is taken.  So damage further on does not show, nor whether the file
is in use.
"""

import errno
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from gateway.broker.core.ports import StoreError
from gateway.stores import file
from gateway.stores.disk_space import refuse_small
from gateway.stores.errors import StoreDamaged, told

_MAGIC = b"SQLite format 3\0"

_STREAMS = ("log_messages", "log_bytes", "log_age")


def look(url: str) -> None:
    """Check that the store can be made, or used.

    `url`: value of the setting `store`.  Raises StoreError: it cannot.
    """
    kind, _, name = url.partition(":")
    if kind != "sqlite":
        return
    path = Path(name)
    refuse_small(path)
    if not file.is_there(path):
        if not path.parent.is_dir():
            raise StoreError(f"{path} cannot be made: there is no folder {path.parent}")
        _see_access(path.parent, os.W_OK | os.X_OK)
        return
    if path.is_dir():
        raise StoreError(f"{path} is a folder: name a file")
    _see_access(path, os.R_OK | os.W_OK)
    with told(path):
        with path.open("rb") as opened:
            head = opened.read(100)
        size = path.stat().st_size
        log = Path(f"{path}-wal")
        whole = not (log.exists() and log.stat().st_size)
    _read_head(path, head, size, whole=whole)


def _see_access(path: Path, rights: int) -> None:
    with told(path):
        if not os.access(path, rights, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _read_head(path: Path, head: bytes, size: int, *, whole: bool) -> None:
    """Check the first bytes (https://www.sqlite.org/fileformat.html#the_database_header)."""

    def number(at: int, width: int = 4) -> int:
        return int.from_bytes(head[at : at + width])

    if not head:
        raise StoreDamaged(path, "it is empty")
    if len(head) < 100 or not head.startswith(_MAGIC):
        raise StoreDamaged(path, "it is no file of SQLite")
    file.refuse(path, number(68), number(60))
    pages = number(28) * (number(16, 2) if number(16, 2) > 1 else 65_536)
    if whole and size < pages:  # otherwise a part of it may be in the log
        raise StoreDamaged(path, f"it is cut off: it has {size} bytes of {pages}")


def unkept(policies: Iterable[tuple[str, Mapping[str, object]]]) -> str:
    """A sentence on policies that need a store, for a gateway without one; empty: none does.

    `policies`: pattern and values.
    """
    found = [pattern for pattern, values in policies if values.get("durable") or any(map(values.get, _STREAMS))]
    if not found:
        return ""
    return (
        f"store is memory, so messages end with the process, though policies of {', '.join(found)} ask for durable "
        "messages or for streams: set store to sqlite:PATH to keep them"
    )
