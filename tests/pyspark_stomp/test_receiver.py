"""The receiving thread against the real gateway: nothing lost, nothing twice, whatever breaks between them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.client import Client
from pyspark_stomp import receiver as module
from pyspark_stomp.errors import ConnectionLost, ServerError, StompError
from pyspark_stomp.memory import Memory
from pyspark_stomp.options import Options
from pyspark_stomp.receiver import Receiver
from pyspark_stomp.rows import Block
from pyspark_stomp.spool import Spool
from pyspark_stomp.stream import read_pieces
from tests.clients.forwarder import start_forwarder
from tests.gateway_process import HOST, free_ports
from tests.pyspark_stomp.conftest import Broker
from tests.pyspark_stomp.queries import texts


def wait_until(true: Callable[[], bool], timeout: float = 15.0, every: float = 0.01) -> None:
    deadline = time.monotonic() + timeout
    pause = threading.Event()
    while not true():
        assert time.monotonic() < deadline, "not in time"
        pause.wait(every)


@contextmanager
def receiving(options: Options, store: Spool | Memory) -> Iterator[Receiver]:
    receiver = Receiver(options, store)
    try:
        yield receiver
    finally:
        receiver.stop()


def content(store: Spool | Memory) -> list[str]:
    return texts(read_pieces(store.pieces(store.first, store.end), ["body"]))


def bodies(count: int, start: int = 0) -> list[str]:
    return [f"b{number}" for number in range(start, start + count)]


@pytest.fixture
def queue(name: str) -> str:
    return f"/queue/{name}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path, 100)
    yield spool
    spool.close()


@pytest.mark.parametrize(("version", "ack_mode"), [("1.0", "client"), ("1.1", "client-individual"), ("1.2", "client")])
def test_a_spool_takes_queues_over(broker: Broker, queue: str, store: Spool, version: str, ack_mode: str) -> None:
    broker.send(queue, bodies(3000))
    broker.send(f"{queue}.b", bodies(1, 3000))
    told = {"destination": f"{queue},{queue}.b", "version": version, "ackMode": ack_mode}
    with receiving(broker.options(**told), store) as receiver:
        wait_until(lambda: store.end == 3001 and receiver.idle_for() > 0.05)
        assert broker.waiting(queue) == broker.waiting(f"{queue}.b") == []
    assert sorted(content(store)) == sorted(bodies(3001))
    for batch in read_pieces(store.pieces(0, 3001), ["subscription", "destination"]):
        assert batch.column("subscription").equals(batch.column("destination"))


def test_memory_acknowledges_what_is_released(broker: Broker, queue: str) -> None:
    broker.send(queue, bodies(300))
    options = broker.options(destination=queue, mode="ack")
    store = Memory(7, 1000)
    with receiving(options, store) as receiver:
        wait_until(lambda: store.end == 307)
        store.release(107)
        wait_until(lambda: receiver.idle_for() > 0.05)
    assert broker.waiting(queue) == bodies(200, 100)


@pytest.mark.parametrize("mode", ["spool", "ack"])
def test_broken_connections(broker: Broker, queue: str, tmp_path: Path, mode: str) -> None:
    """Cut again and again while messages come: every row once, and nothing is left."""
    store = Spool(tmp_path, 10_000) if mode == "spool" else Memory(0, 10_000)
    with start_forwarder(broker.process.tcp_port) as relay:
        options = Options.of({"host": HOST, "port": str(relay.port), "destination": queue, "mode": mode})
        with receiving(options, store) as receiver:
            for turn in range(6):
                broker.send(queue, bodies(500, 500 * turn))
                receiver.wait_beyond(500 * turn, 15)
                if mode == "ack":
                    store.release(store.end - 100)
                relay.cut()
            wait_until(lambda: store.end == 3000)
            kept = content(store) if mode == "spool" else []
            if mode == "ack":
                store.release(3000)
            wait_until(lambda: receiver.idle_for() > 0.3)
            assert receiver.failure is None
    assert broker.waiting(queue) == []
    assert store.end == 3000
    if isinstance(store, Spool):
        assert sorted(kept) == sorted(bodies(3000))
        store.close()


def test_a_message_that_is_redelivered_after_a_restart(broker: Broker, queue: str, tmp_path: Path) -> None:
    """The ACKs never arrive: the network swallows them."""
    broker.send(queue, bodies(100))
    with start_forwarder(broker.process.tcp_port) as relay:
        store = Spool(tmp_path, 100)
        options = Options.of({"host": HOST, "port": str(relay.port), "destination": queue, "receiptTimeoutMs": "100"})
        keep = store.keep

        def dying(block: Block) -> None:
            relay.freeze()
            keep(block)

        store.keep = dying  # type: ignore[method-assign]  # a network that dies just then
        with receiving(options, store):
            wait_until(lambda: store.end == 100)
        store.close()
        relay.cut()
    wait_until(lambda: len(broker.waiting(queue)) == 100)
    store = Spool(tmp_path, 100)
    store.release(100)
    with receiving(broker.options(destination=queue), store) as receiver:
        wait_until(lambda: receiver.idle_for() > 0.3)
    assert (store.end, broker.waiting(queue)) == (100, [])
    store.close()


def test_selector_ids_of_senders_and_more_headers(broker: Broker, queue: str, store: Spool) -> None:
    broker.send(queue, ["no"], colour="blue")
    broker.send(queue, ["yes"], colour="red")
    broker.send(queue, ["again"], colour="red", **{"x-id": "7"})
    broker.send(queue, ["again"], colour="red", **{"x-id": "7"})
    told = {"destination": queue, "selector": "colour = 'red'", "subscribeHeaders": '{"x-priority": "5"}'}
    with receiving(broker.options(**told, dedupHeader="x-id"), store) as receiver:
        wait_until(lambda: receiver.idle_for() > 0.1)
    assert content(store) == ["yes", "again"]
    assert broker.waiting(queue) == ["no"]


def failure(options: Options, store: Spool | Memory) -> StompError:
    with receiving(options, store) as receiver:
        assert not receiver.wait_beyond(store.end, 15)
        assert receiver.failure is not None
        assert receiver.idle_for() == 0
        return receiver.failure


def test_a_refusal_is_final(broker: Broker) -> None:
    error = failure(broker.options(destination="/nowhere/a", mode="ack"), Memory(0, 10))
    assert isinstance(error, ServerError)
    assert "/nowhere/a" in str(error) or "says" in str(error)


def test_a_server_that_does_not_come_back() -> None:
    told = {"host": HOST, "port": str(free_ports(1)[0]), "destination": "/queue/a", "maxReconnectMs": "400"}
    started = time.monotonic()
    error = failure(Options.of(told), Memory(0, 10))
    assert isinstance(error, ConnectionLost)
    assert time.monotonic() - started < 5


def test_a_spool_that_takes_no_more(broker: Broker, queue: str, store: Spool) -> None:
    broker.send(queue, bodies(10))

    def full(block: object) -> None:
        raise OSError(28, "No space left on device")

    store.keep = full  # type: ignore[method-assign]  # a full disk
    assert "No space left" in str(failure(broker.options(destination=queue), store))
    assert broker.waiting(queue) == bodies(10)


def test_a_full_spool_lets_the_server_wait(broker: Broker, queue: str, tmp_path: Path) -> None:
    broker.send(queue, bodies(500))
    store = Spool(tmp_path, 0, most=1)
    with receiving(broker.options(destination=queue, prefetch="100"), store) as receiver:
        assert receiver.wait_beyond(0, 15)
        first = store.end
        wait_until(lambda: len(broker.waiting(queue)) == 400 - first)  # 100 are sent, and not acknowledged
        assert store.end == first

        def emptied() -> bool:
            store.release(store.end)
            return store.end == 500

        wait_until(emptied)
        wait_until(lambda: broker.waiting(queue) == [])
    store.close()


def test_a_blocked_receiver_ends_without_reading(
    broker: Broker, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The RECEIPT of DISCONNECT stands behind all that the server has sent."""
    said: list[str] = []
    monkeypatch.setattr(module, "GATHERED_BYTES", 1)
    disconnect = Client.disconnect

    def watched(client: Client) -> None:
        said.append("disconnect")
        disconnect(client)

    monkeypatch.setattr(Client, "disconnect", watched)
    store = Spool(tmp_path, 1000, most=1)
    with receiving(broker.options(destination=queue), store) as receiver:
        broker.send(queue, bodies(1))
        assert receiver.wait_beyond(0, 15)
        broker.send(queue, bodies(1, 1))
        wait_until(lambda: receiver.is_blocked)
        said.clear()
    assert said == []
    wait_until(lambda: broker.waiting(queue) == bodies(1, 1))
    store.close()
