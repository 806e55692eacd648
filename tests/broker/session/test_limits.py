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


def test_subscriptions_are_counted_by_session(stage: Stage) -> None:
    scene = stage(max_subscriptions=2)
    client, other = scene.connect(), scene.connect()
    client.subscribe("/queue/a", "0")
    client.subscribe("/topic/a", "1")
    other.subscribe("/queue/a")
    client.unsubscribe("0")
    client.subscribe("/topic/b", "2")
    client.subscribe("/topic/c", "3")
    assert refusal(client, "max_subscriptions") == "too many subscriptions"
    assert not other.closed


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

    def test_idle_ones_and_topics_without_subscribers_do_not_count(self, stage: Stage) -> None:
        client = stage(max_destinations=1).connect()
        for name in ("/queue/a", "/topic/a", "/queue/b"):
            client.subscribe(name)
            client.publish(name)
            client.publish("/topic/z")
            client.unsubscribe()
        assert len(client.messages()) == 3


class TestMemory:
    """One message of these costs 1,000 bytes."""

    def send(self, client: Client, destination: str = "/queue/a", transaction: str = "") -> None:
        headers = {"transaction": transaction} if transaction else {}
        cost = cost_of(client, {"destination": destination} | headers, b"")
        client.publish(destination, b"x" * (1_000 - cost), **headers)

    def test_pressure_begins_above_three_quarters_and_is_told_once(self, stage: Stage) -> None:
        scene = stage(memory_limit=4_000)
        client = scene.connect()
        client.subscribe("/queue/a", ack="client")
        for turn in (1, 2):
            for count in (1, 2, 3, 4):
                self.send(client)
                assert scene.broker.memory.used == count * 1_000
                assert scene.broker.memory.pressed is (count == 4)
            assert scene.pressure == [True, False] * (turn - 1) + [True]
            client.ack(client.messages()[-1])
            assert scene.pressure == [True, False] * turn

    @pytest.mark.parametrize("transaction", ["", "t"])
    def test_at_the_limit_a_send_is_refused_and_all_else_goes_on(self, stage: Stage, transaction: str) -> None:
        scene = stage(memory_limit=4_000)
        client, other = scene.connect(), scene.connect()
        for _ in range(4):
            self.send(client)
        other.begin("t")
        self.send(other, transaction=transaction)
        assert refusal(other, "memory_limit") == "memory limit reached"
        assert scene.broker.memory.used == 4_000
        client.subscribe("/queue/a", ack="client")
        client.ack(client.messages()[0])
        assert not scene.broker.memory.pressed
        self.send(client)
        assert not client.closed
