"""Store of a running gateway: opened, read into the broker, and at the end a count of the lost messages.

The broker is filled before any listener is open, so that may block the loop.  Only rows are read (the broker's
`recovery` says why); a damaged message that must be read with its content is counted and stays in the file.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import structlog
import trio

from gateway.broker import Broker
from gateway.broker.core.ports import StoreError, TendedStore
from gateway.broker.model.changes import Stored
from gateway.broker.queue.queue import Queue
from gateway.broker.recovery import recover
from gateway.broker.topic.topic import Topic
from gateway.config.errors import StartError, unusable
from gateway.config.settings import Settings, keep_messages
from gateway.stores import Recovered, SQLiteStore, StoreDamaged, open_store, preflight
from gateway.stores.repair import PageReader

log = structlog.get_logger("gateway")

# Most names in a line of the log.
_NAMED = 10


class OpenStore(TendedStore, Protocol):
    """A store that a gateway can start with: an SQLite file, or a cluster's log."""

    is_new: bool  # it was empty when it was opened

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def token(self) -> str:
        """Its name, in message ids."""

    def load(self) -> Recovered:
        """All that it holds; to be called once, first.  Raises StoreError: it cannot be read."""

    def close(self, *, clean: bool) -> None:
        """Close it.  `clean`: the gateway stops in order.  Raises StoreError: that could not be written."""


async def open_the_store(settings: Settings) -> SQLiteStore | None:
    """Open the store of the settings; None: messages are kept in memory only.

    Raises StartError: the store cannot be used.
    """
    try:
        return await trio.to_thread.run_sync(open_store, settings.store)
    except StoreError as error:
        raise StartError(unusable("store", error)) from None


def tell_of_memory(settings: Settings) -> None:
    """Log that messages end with the process, if they do."""
    if settings.store != "memory":
        return
    if unkept := preflight.unkept(settings.policy_by_pattern):
        log.warning(unkept)
    else:
        say = log.info if "store" in settings.model_fields_set else log.warning
        say("messages are kept in memory only, and a restart loses them", remedy=keep_messages())


def recover_from(store: OpenStore, broker: Broker) -> int:
    """Fill the broker with the content of the store.

    Returns the number of damaged messages; they stay in the file.  Raises StartError: the store cannot be read.
    """
    storage = broker.storage
    assert storage is not None  # it came with the store
    started = time.perf_counter()
    damaged = 0

    def read(rows: Sequence[int]) -> list[Stored]:
        nonlocal damaged
        page = PageReader(rows)
        while not page.is_done:
            page.step(store)
        damaged += page.damaged
        return page.found

    try:
        found = store.load()
        storage.places_from(max((place.number for place in found.places), default=0) + 1)
        # Messages that were never stored had numbers, too: the clock is ahead of them.
        broker.router.number_from(max(found.highest, int(broker.scheduler.epoch() * 1e6)))
        broker.router.restore_seen(found.seen)
        recover(broker, found.places, found.rows, read, clean=found.clean)
    except StoreError as error:
        raise StartError(unusable("store", error)) from None
    except (ValueError, KeyError, TypeError) as error:  # metadata that no gateway writes
        fault = StoreDamaged(store.path, f"the metadata of a message or a place cannot be read: {error!r}")
        raise StartError(unusable("store", fault)) from None
    if store.is_new:
        log.info("a new store was made", store=str(store.path))
        return 0
    kinds = Counter([place.kind for place in found.places])
    streams = broker.registry.streams
    if streams.unused:
        log.warning("logs in the store that no policy keeps", count=len(streams.unused), topics=streams.unused[:_NAMED])
    log.info(
        "recovered",
        store=str(store.path),
        queues=kinds["queue"],
        messages=broker.context.waiting,
        subscriptions=kinds["subscription"],
        logs=len(streams),
        logged=streams.messages,
        delayed=len(broker.router.delayed),
        retained=len(broker.router.retained),
        clean=found.clean,
        seconds=round(time.perf_counter() - started, 3),
    )
    return damaged


@contextmanager
def last_words(broker: Broker) -> Iterator[None]:
    """Log the messages that end with the process, after all sessions have given back theirs."""
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
        streams = [target.stream for target in every if isinstance(target, Topic) and target.stream is not None]
        logged = sum([len(each) for each in streams if not each.is_stored])
        if logged:
            lost["logged"] = logged
        if any(lost.values()):
            log.warning("messages are lost, for they are kept in memory only", **lost)
        log.info("stopped")
