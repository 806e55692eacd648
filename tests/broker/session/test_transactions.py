"""Transactions: COMMIT carries out all in order, and the limits; the models show that ABORT undoes all."""

from __future__ import annotations

import pytest

from ..client import Client, Scene
from ..conftest import Stage


class TestSends:
    @pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
    def test_nothing_before_commit_all_behind_it_in_order(
        self, client: Client, other: Client, destination: str
    ) -> None:
        other.subscribe(destination)
        bodies = [b"%d" % number for number in range(10)]
        client.begin()
        for body in bodies:
            client.publish(destination, body, transaction="t", receipt="r")
            assert client.receipts() == ["r"], "the SEND is accepted"
        assert not other.received()
        client.send("COMMIT", {"transaction": "t", "receipt": "commit"})
        assert client.receipts() == ["commit"]
        assert other.bodies() == bodies

    def test_begin_of_an_open_one_is_an_error_and_undoes_it(self, client: Client, other: Client) -> None:
        """RabbitMQ begins anew, without a word."""
        client.subscribe("/queue/a", ack="client")
        client.publish("/queue/a", b"in")
        client.begin()
        client.ack(client.message(), transaction="t")
        client.publish("/queue/b", b"out", transaction="t")
        client.send("BEGIN", {"transaction": "t", "receipt": "r"})
        (error,) = client.received()
        assert (error.headers["message"], error.headers["receipt-id"]) == ("transaction id in use", "r")
        other.subscribe("/queue/a", "0")
        other.subscribe("/queue/b", "1")
        assert [(each.body, each.redelivered) for each in other.messages()] == [(b"in", True)]

    @pytest.mark.parametrize("command", ["SEND", "COMMIT", "ABORT", "ACK"])
    def test_an_unknown_transaction(self, client: Client, other: Client, command: str) -> None:
        """One that has ended is none any more; one of another session never was."""
        other.begin("t")
        client.begin("t")
        client.commit("t")
        client.subscribe("/queue/a", ack="client")
        client.publish("/queue/a")
        names = client.named(client.message()) if command == "ACK" else {"destination": "/queue/b"}
        client.send(command, names | {"transaction": "t", "receipt": "r"})
        error = client.error()
        assert (error.headers["message"], error.headers["receipt-id"]) == ("unknown transaction", "r")
        assert b"'t'" in error.body
        assert "/queue/b" not in client.scene.broker.destinations

    def test_commit_cannot_fail_half_way_for_want_of_memory(self, stage: Stage) -> None:
        """Its messages were counted when they came; messages of other sessions since then do not push them out."""
        scene = stage(memory_limit=8_000)
        client, other = scene.connect(), scene.connect()
        for id in range(10):
            other.subscribe("/topic/a", str(id), ack="client")
        client.begin()
        for number in range(4):
            client.publish("/queue/a,/topic/a", b"%d" % number + b"x" * 200, transaction="t")
        scene.connect().publish("/queue/b", b"x" * 6_000)
        assert scene.broker.memory.used > 8_000
        client.commit()
        assert not client.closed
        assert len(other.messages()) == 40
        other.subscribe("/queue/a", "a")
        assert len(other.messages()) == 4

    def test_nor_for_want_of_destinations(self, stage: Stage) -> None:
        """It is refused as a whole, ACKs included; topics without subscribers do not count."""
        scene = stage(max_destinations=3)
        client, other = scene.connect(), scene.connect()
        client.subscribe("/queue/a", ack="client")
        client.publish("/queue/a")
        client.begin()
        client.ack(client.message(), transaction="t")
        for name in ("/queue/a", "/topic/x", "b", "/queue/b", "c", "d"):
            client.publish(name, b"m", transaction="t")
        client.commit()
        assert b"(max_destinations)" in client.error().body
        assert list(scene.broker.destinations) == ["/queue/a"]
        assert scene.broker.context.waiting == 1
        other.begin()
        for name in ("a", "b", "/queue/b", "c", "/topic/x"):
            other.publish(name, b"m", transaction="t")
        other.commit()
        assert list(scene.broker.destinations) == ["/queue/a", "/queue/b", "/queue/c"]


class TestSettlements:
    def test_cumulative_acks_inside_and_outside_leave_each_other_alone(self, client: Client, other: Client) -> None:
        client.subscribe("/queue/a", ack="client")
        for number in range(1, 7):
            client.publish("/queue/a", b"%d" % number)
        messages = client.messages()
        client.begin("t")
        client.begin("u")
        client.ack(messages[1], transaction="t")  # 1, 2
        client.ack(messages[3], transaction="u")  # 3, 4
        client.ack(messages[4])  # 5
        client.abort("u")
        client.commit("t")
        client.drop()
        other.subscribe("/queue/a")
        assert other.bodies() == [b"3", b"4", b"6"]

    @pytest.mark.parametrize("headers", [{}, {"transaction": "u"}])
    def test_a_delivery_that_a_transaction_holds_cannot_be_settled_otherwise(
        self, client: Client, headers: dict[str, str]
    ) -> None:
        client.subscribe("/queue/a", ack="client")
        client.publish("/queue/a")
        message = client.message()
        client.begin("t")
        client.begin("u")
        client.ack(message, transaction="t")
        client.ack(message, **headers)
        assert client.error().headers["message"] == "ACK of a message that a transaction holds"

    @pytest.mark.parametrize("command", ["ACK", "NACK"])
    def test_commit_behind_unsubscribe(self, client: Client, other: Client, command: str) -> None:
        client.subscribe("/queue/a", ack="client")
        client.publish("/queue/a", b"1")
        message = client.message()
        client.begin()
        client.send(command, client.named(message) | {"transaction": "t"})
        client.unsubscribe()
        assert client.session.outstanding == 1
        other.subscribe("/queue/a")
        assert not other.received()
        client.commit()
        assert [each.redelivered for each in other.messages()] == [True] * (command == "NACK")

    def test_sends_come_before_settlements(self, stage: Stage) -> None:
        """So a message that COMMIT acknowledges does not make room before COMMIT's own messages were counted."""
        client = stage(max_unacknowledged=1).connect()
        client.subscribe("/queue/a", ack="client")
        client.publish("/queue/a", b"1")
        message = client.message()
        client.begin()
        client.ack(message, transaction="t")
        client.publish("/queue/a", b"2", transaction="t")
        assert not client.received()
        client.commit()
        assert client.bodies() == [b"2"]


class TestOptions:
    def test_all_at_once(self, client: Client, other: Client, scene: Scene) -> None:
        other.subscribe("/topic/a", "0")
        other.subscribe("/queue/a", "1")
        client.begin()
        headers = {"dedup-id": "x", "retain": "set", "x-delay": "1000", "ttl": "5000", "reply-to": "/temp-queue/x"}
        for _ in range(2):
            client.publish("/topic/a, /topic/b", b"m", transaction="t", **headers)
        client.commit()
        assert not other.received()
        assert len(scene.broker.router.delayed) == 1
        scene.wait(1.1)
        assert other.message().headers["reply-to"].startswith("/reply-queue/")
        assert len(scene.broker.router.retained) == 2


class TestLimits:
    def test_so_many(self, stage: Stage) -> None:
        client = stage(max_transactions=2).connect()
        for name in "tu":
            client.begin(name)
        client.commit("t")
        client.begin("v")
        client.begin("w")
        error = client.error()
        assert (error.headers["message"], b"(max_transactions)" in error.body) == ("too many transactions", True)

    def test_so_many_octets_in_all_of_a_session(self, stage: Stage) -> None:
        scene = stage(max_transaction_bytes=4_000)
        client, other = scene.connect(), scene.connect()
        for each in (client, other):
            for name in "tu":
                each.begin(name)
                each.publish("/queue/a", b"x" * 1_000, transaction=name)
        client.publish("/queue/a", b"x" * 1_000, transaction="u")
        error = client.error()
        assert (error.headers["message"], b"(max_transaction_bytes)" in error.body) == ("transaction too large", True)
        for end in (Client.commit, Client.abort):
            end(other, "t")
            other.begin("t")
            other.publish("/queue/a", b"x" * 1_000, transaction="t")
        assert not other.closed
        assert scene.broker.context.waiting == 1
