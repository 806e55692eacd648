"""The store of a running gateway: opened as the settings say, read into the broker, and at the end what is not in it.

open        with a lock on the file, which one gateway has; in a thread, for the log that a killed process left may have
            to be carried into the file first
read        before any listener is open, so on the loop itself: nobody waits.  Rows alone (the broker's `recovery`
            says why); what must be read with its contents and is damaged is counted and stays where it is
last words  when all sessions have given back what they had: how much of it ends with the process

It closes nothing: when the store may be closed, the runtime knows.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import structlog
import trio

from gateway.broker import Broker
from gateway.broker.core.ports import StoreError
from gateway.broker.model.changes import Stored
from gateway.broker.queue.queue import Queue
from gateway.broker.recovery import recover
from gateway.broker.topic.topic import Topic
from gateway.config.errors import StartError, unusable
from gateway.config.settings import Settings
from gateway.stores import SQLiteStore, StoreDamaged, open_store

log = structlog.get_logger("gateway")

# Names that a line of the log has at most.
_NAMED = 10


async def open_the_store(settings: Settings) -> SQLiteStore | None:
    """The store that the settings name; None: messages are kept in memory only.

    Raises:
        StartError: it cannot be used.
    """
    try:
        return await trio.to_thread.run_sync(open_store, settings.store)
    except StoreError as error:
        raise StartError(unusable("store", error)) from None


def recover_from(store: SQLiteStore, broker: Broker) -> int:
    """Fill the broker with what the store holds.

    Returns:
        messages that were to be read and are damaged: they stay where they are.

    Raises:
        StartError: it cannot be read.
    """
    storage = broker.storage
    assert storage is not None  # it came with the store
    started = time.perf_counter()
    damaged: list[int] = []
    try:
        found = store.load()
        storage.places_from(max((place.number for place in found.places), default=0) + 1)
        # What was never stored had numbers, too: by the clock they cannot come again.
        broker.router.number_from(max(found.highest, int(broker.scheduler.epoch() * 1e6)))
        broker.router.restore_seen(found.seen)
        recover(broker, found.places, found.rows, partial(_read_around, store, damaged), clean=found.clean)
    except StoreError as error:
        raise StartError(unusable("store", error)) from None
    except (ValueError, KeyError, TypeError) as error:  # facts that nobody can have written so
        fault = StoreDamaged(store.path, f"what it says of a message or a place cannot be read: {error!r}")
        raise StartError(unusable("store", fault)) from None
    if store.is_new:
        log.info("a new store was made", store=str(store.path))
        return 0
    kinds = Counter([place.kind for place in found.places])
    logs = broker.registry.streams
    if logs.unused:
        log.warning("logs in the store that no policy keeps", count=len(logs.unused), topics=logs.unused[:_NAMED])
    log.info(
        "recovered",
        store=str(store.path),
        queues=kinds["queue"],
        messages=broker.context.waiting,
        subscriptions=kinds["subscription"],
        logs=len(logs),
        logged=logs.messages,
        delayed=len(broker.router.delayed),
        retained=len(broker.router.retained),
        clean=found.clean,
        seconds=round(time.perf_counter() - started, 3),
    )
    return len(damaged)


def _read_around(store: SQLiteStore, damaged: list[int], rows: Sequence[int]) -> list[Stored]:
    """Read all that is not damaged; the rest goes to `damaged`, and to the log."""
    try:
        return store.read(rows)
    except StoreError as error:
        if not error.is_damage:
            raise
        half = len(rows) // 2
        if half:
            return _read_around(store, damaged, rows[:half]) + _read_around(store, damaged, rows[half:])
        damaged += rows
        log.error("a message in the store is damaged", row=rows[0], place=error.place, reason=str(error))
        return []


@contextmanager
def last_words(broker: Broker) -> Iterator[None]:
    """Say what goes with the gateway, when all sessions have given back what they had."""
    try:
        yield
    finally:
        router = broker.router
        every = [*broker.destinations.values(), *broker.registry.hidden.values()]
        queues = [target for target in every if isinstance(target, Queue)]
        mortal = [(queue.waiting, queue.waiting + len(queue.resting) - queue.stored) for queue in queues]
        mortal = [(waiting, gone) for waiting, gone in mortal if gone]
        lost = {
            "waiting": sum([min(waiting, gone) for waiting, gone in mortal]),
            "queues": len(mortal),
            "delayed": len(router.delayed)
            - router.delayed.stored
            + sum([max(gone - waiting, 0) for waiting, gone in mortal]),
            "retained": len(router.retained) - router.retained.stored,
        }
        logs = [target.stream for target in every if isinstance(target, Topic) and target.stream is not None]
        logged = sum([len(each) for each in logs if not each.is_stored])
        if logged:
            lost["logged"] = logged
        if any(lost.values()):
            log.warning("messages are lost, for they are kept in memory only", **lost)
        log.info("stopped")
