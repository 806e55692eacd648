"""A store with octets changed: it is read as far as it is whole, or refused in words; nothing else."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from gateway.broker import Broker
from gateway.broker.core.metadata import Metadata
from gateway.broker.core.ports import StoreError
from gateway.broker.core.storage import Storage
from gateway.config.errors import StartError
from gateway.runtime.store import recover_from
from gateway.stores.sqlite import SQLiteStore
from tests.broker.client import EPOCH, Scene
from tests.fuzz.targets import check_refusal, in_memory


def run(octets: bytes) -> None:
    """Changes, of four octets each: three say where, one what it becomes."""
    content = bytearray(whole())
    for place in range(0, len(octets) - 3, 4):
        content[int.from_bytes(octets[place : place + 3], "big") % len(content)] = octets[place + 3]
    with tempfile.TemporaryDirectory(dir=in_memory()) as folder:
        path = Path(folder) / "store.db"
        path.write_bytes(content)
        try:
            store = SQLiteStore.open(path, reserve=0)
        except StoreError as refusal:
            check_refusal(refusal, str(path))
            return
        try:
            recover_from(store, broker())
        except StartError as refusal:
            check_refusal(refusal)
        finally:
            store.close(clean=False)


def broker() -> Broker:
    """One that has a store, and nothing in it."""
    fresh = Broker(clock=lambda: 1.0, epoch=lambda: EPOCH)
    facts = Metadata(fresh.scheduler.clock, fresh.scheduler.epoch)
    fresh.storage = Storage(facts, busy=lambda: None, on_relief=lambda: None, on_state=lambda: None)
    return fresh


@functools.cache
def whole() -> bytes:
    """A store as a gateway leaves it that had durable messages, in octets."""
    scene = Scene({"/queue/#": {"durable": True}}, stored=True)
    client = scene.connect()
    for number in range(20):
        client.publish(f"/queue/{number % 3}", b"body of %d" % number, persistent="true", kind="a" * number)
    client.publish("/topic/t", b"kept", retain="set", persistent="true")
    batches = scene.commit()
    with tempfile.TemporaryDirectory() as folder:
        store = SQLiteStore.open(Path(folder) / "store.db", reserve=0)
        for batch in batches:
            store.write(batch)
        store.close(clean=True)
        return (Path(folder) / "store.db").read_bytes()
