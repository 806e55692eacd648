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

IS_COPY = "SELECT 1 FROM sqlite_schema WHERE name = 'replica'"
"""Finds a row in a file that a node of a cluster keeps as its copy of the log."""


def open_store(url: str) -> SQLiteStore | None:
    """Open the store of the setting `store`; None: messages are kept in memory only.

    Raises StoreError: the value is wrong, or the file cannot be used.
    """
    kind, _, path = url.partition(":")
    if url == "memory":
        return None
    if kind == "sqlite" and path:
        store = SQLiteStore.open(Path(path))
        if store.query(IS_COPY):
            # With messages of its own it would be no copy any more, and the cluster may go on elsewhere.
            store.close(clean=False)
            raise StoreError(
                f"{path} is a node's copy of the log of a cluster: set `cluster`, or make a store of it with "
                f"`gateway store export {path}` and `gateway store import` into a new file"
            )
        return store
    raise StoreError(f"there is no store {url!r}: write memory, or sqlite:PATH with the path of a file")
