"""The limits: each is a setting, what stands at it works, and what goes over it is told the setting's name."""

from __future__ import annotations

import dataclasses

import pytest

from gateway.broker import Quotas
from gateway.broker.model.message import Message
from gateway.codec import Head
from gateway.config.settings import Settings

from ..client import Client
from ..conftest import Stage
from ..wire import build


def cost_of(client: Client, headers: dict[str, str], body: bytes) -> int:
    """What keeping that SEND costs."""
    block = build("SEND", headers, version=client.version).index(b"\n\n")
    return Message(0, Head("SEND", headers, -1, block), body).size


def refusal(client: Client, setting: str) -> str:
    """The ERROR's message, after a look at its body, which must name the setting."""
    error = client.error()
    assert f"({setting})" in error.body.decode()
    return error.headers["message"]


def test_each_is_a_setting_of_the_same_default() -> None:
    for quota in dataclasses.fields(Quotas):
        assert Settings.model_fields[quota.name].default == quota.default


def test_publishers_are_held_back_from_three_quarters_of_the_memory_on() -> None:
    assert Quotas(memory_limit=4_000).memory_high == 3_000


def test_subscriptions(stage: Stage) -> None:
    client = stage(max_subscriptions=2).connect()
    client.subscribe("/queue/a", "0")
    client.subscribe("/topic/a", "1")
    client.unsubscribe("0")
    client.subscribe("/topic/b", "2")
    client.subscribe("/topic/c", "3")
    assert refusal(client, "max_subscriptions") == "too many subscriptions"


def test_they_are_counted_by_session(stage: Stage) -> None:
    scene = stage(max_subscriptions=1)
    for client in (scene.connect(), scene.connect()):
        client.subscribe("/queue/a")
        assert not client.closed


def test_transactions(stage: Stage) -> None:
    client = stage(max_transactions=2).connect()
    for name in ("t", "u"):
        client.begin(name)
    client.commit("t")
    client.begin("v")
    client.begin("w")
    assert refusal(client, "max_transactions") == "too many transactions"


@pytest.mark.parametrize("transactions", [("t", "t"), ("t", "u")])
def test_octets_of_all_open_transactions(stage: Stage, transactions: tuple[str, str]) -> None:
    scene = stage(max_transaction_octets=4_000)
    client, other = scene.connect(), scene.connect()
    for name in set(transactions):
        client.begin(name)
    for name in transactions:
        client.publish("/queue/a", b"x" * 1_000, transaction=name)
        other.publish("/queue/a", b"x" * 1_000)
    client.publish("/queue/a", b"x" * 1_000, transaction=transactions[0])
    assert refusal(client, "max_transaction_octets") == "transaction too large"
    assert not other.closed


def test_a_finished_transaction_counts_no_longer(stage: Stage) -> None:
    client = stage(max_transaction_octets=2_000).connect()
    for end in (client.commit, client.abort, client.commit):
        client.begin()
        client.publish("/queue/a", b"x" * 1_000, transaction="t")
        end()
    assert not client.closed


class TestDestinations:
    @pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
    def test_the_next_one(self, stage: Stage, command: str) -> None:
        scene = stage(max_destinations=2)
        client, other = scene.connect(), scene.connect()
        client.publish("a")
        client.subscribe("/topic/a")
        other.publish("/queue/a")
        other.subscribe("/topic/a", "0")
        other.subscribe("a", "1")
        assert not other.closed
        client.send(command, {"destination": "b", "id": "2"})
        assert refusal(client, "max_destinations") == "too many destinations"

    def test_idle_ones_do_not_count(self, stage: Stage) -> None:
        client = stage(max_destinations=1).connect()
        for name in ("/queue/a", "/topic/a", "/queue/b"):
            client.subscribe(name)
            client.publish(name)
            client.unsubscribe()
        assert len(client.messages()) == 3

    def test_a_topic_that_nobody_subscribes_does_not_count(self, stage: Stage) -> None:
        """A SEND to it makes no destination, so there is nothing to refuse."""
        client = stage(max_destinations=1).connect()
        client.subscribe("/queue/a")
        client.send("SEND", {"destination": "/topic/a", "receipt": "r"})
        assert client.receipts() == ["r"]


class TestMemory:
    """One message of these costs 1,000 bytes, whichever the version."""

    def send(self, client: Client, destination: str = "/queue/a", transaction: str = "") -> None:
        headers = {"transaction": transaction} if transaction else {}
        cost = cost_of(client, {"destination": destination} | headers, b"")
        client.publish(destination, b"x" * (1_000 - cost), **headers)

    def test_pressed_above_three_quarters(self, stage: Stage) -> None:
        scene = stage(memory_limit=4_000)
        client = scene.connect()
        for count in (1, 2, 3):
            self.send(client)
            assert scene.broker.memory.used == count * 1_000
            assert not scene.broker.memory.pressed
        self.send(client)
        assert scene.broker.memory.pressed
        assert not client.closed

    @pytest.mark.parametrize("transaction", ["", "t"])
    def test_at_the_limit_a_send_is_refused(self, stage: Stage, transaction: str) -> None:
        scene = stage(memory_limit=4_000)
        client, other = scene.connect(), scene.connect()
        for _ in range(4):
            self.send(client)
        for sender in (client, other):
            sender.begin("t")
            self.send(sender, transaction=transaction)
            assert refusal(sender, "memory_limit") == "memory limit reached"
        assert scene.broker.memory.used == 4_000

    def test_whatever_is_no_send_goes_on(self, stage: Stage) -> None:
        scene = stage(memory_limit=4_000)
        client = scene.connect()
        for _ in range(4):
            self.send(client)
        client.subscribe("/queue/a", ack="client")
        messages = client.messages()
        assert scene.broker.memory.pressed
        client.ack(messages[0])
        assert not scene.broker.memory.pressed
        self.send(client)
        assert not client.closed

    def test_pressure_and_relief_are_told_once(self, stage: Stage) -> None:
        scene = stage(memory_limit=4_000)
        client = scene.connect()
        client.subscribe("/queue/a", ack="client")
        for turn in (1, 2):
            for _ in range(4):
                self.send(client)
            assert scene.pressure == [True, False] * (turn - 1) + [True]
            client.ack(client.messages()[-1])
            assert scene.pressure == [True, False] * turn

    def test_what_is_kept(self, stage: Stage) -> None:
        scene = stage()
        broker = scene.broker
        auto, client, topic = (scene.connect() for _ in range(3))
        self.send(client)
        assert broker.memory.used == 1_000  # waits
        client.subscribe("/queue/a", ack="client")
        assert broker.memory.used == 1_000  # is not acknowledged
        client.ack(client.message())
        assert broker.memory.used == 0
        self.send(client, "/topic/a")
        assert broker.memory.used == 0  # nobody is there
        auto.subscribe("/topic/a", "0")
        auto.subscribe("/queue/b", "1")
        self.send(client, "/topic/a")
        self.send(client, "/queue/b")
        assert broker.memory.used == 0  # in mode auto the outbox has it
        for id in ("0", "1", "2"):
            topic.subscribe("/topic/a", id, ack="client")
        self.send(client, "/topic/a")
        assert broker.memory.used == 3_000
        client.begin()
        self.send(client, "/queue/b", "t")
        assert broker.memory.used == 4_000
        client.commit()
        assert broker.memory.used == 3_000
        topic.drop()
        assert broker.memory.used == 0
