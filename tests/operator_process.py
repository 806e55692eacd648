"""A gateway that is killed while an operator's work is under way, for `test_runtime_operator`.

    python -m tests.operator_process STORE move|redrive NUMBER before|after

The store has messages in /queue/dlq.a.  They are moved to /queue/b, or redriven, and the process kills itself with the
commit of that number: before the store writes it, or when it has written it and nobody was told.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import trio

from gateway.auth.authenticator import Anonymous
from gateway.config.settings import Settings
from gateway.runtime.gateway import open_gateway
from gateway.stores import SQLiteStore

if TYPE_CHECKING:
    from gateway.broker.model.changes import Batch

SOURCE, TARGET = "/queue/dlq.a", "/queue/b"


def kill_with_commit(number: int, *, before: bool) -> None:
    write = SQLiteStore.write
    commits = 0

    def count(store: SQLiteStore, batch: Batch) -> None:
        nonlocal commits
        commits += bool(batch.rows)
        if commits == number and before:
            os.kill(os.getpid(), signal.SIGKILL)
        write(store, batch)
        if commits == number:
            os.kill(os.getpid(), signal.SIGKILL)

    SQLiteStore.write = count  # type: ignore[method-assign]


async def main(store: str, work: str, number: int, *, before: bool) -> None:
    kill_with_commit(number, before=before)
    over = trio.Event()
    async with open_gateway(
        Settings(store=store, tcp="127.0.0.1:0", websocket=""), authenticator=Anonymous()
    ) as gateway:
        administration = gateway.message_admin
        if work == "move":
            administration.move(SOURCE, TARGET, None, "", None, lambda outcome: over.set())
        else:
            administration.redrive(SOURCE, None, None, lambda outcome: over.set())
        await over.wait()


if __name__ == "__main__":
    trio.run(lambda: main(sys.argv[1], sys.argv[2], int(sys.argv[3]), before=sys.argv[4] == "before"))
