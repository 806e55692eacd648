"""Stores of messages: memory only, or a file of SQLite.

memory            messages end with the process
sqlite:PATH       a file; `sqlite:store.db` in the working directory, `sqlite:/var/lib/gateway/store.db` anywhere
"""

from pathlib import Path

from gateway.broker.core.ports import StoreError
from gateway.stores.errors import StoreDamaged, StoreFull, StoreLocked, StoreReadOnly
from gateway.stores.sqlite import Recovered, SQLiteStore

__all__ = [
    "Recovered",
    "SQLiteStore",
    "StoreDamaged",
    "StoreError",
    "StoreFull",
    "StoreLocked",
    "StoreReadOnly",
    "open_store",
]


def open_store(url: str) -> SQLiteStore | None:
    """Open the store of the setting `store`; None: messages are kept in memory only.

    Raises StoreError: the value is wrong, or the file cannot be used.
    """
    kind, _, path = url.partition(":")
    if url == "memory":
        return None
    if kind == "sqlite" and path:
        return SQLiteStore.open(Path(path))
    raise StoreError(f"there is no store {url!r}: write memory, or sqlite:PATH with the path of a file")
