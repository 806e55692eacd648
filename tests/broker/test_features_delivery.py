"""Features that docs/features.md lists and that no module has for itself: what several of them make together."""

from __future__ import annotations

import pytest

from gateway.codec import Version

from .client import EPOCH, WITH_NACK, Client, Scene
from .conftest import Stage

QUEUE = "/queue/a"


class TestSettledTwice:
    """ERROR, and no RECEIPT: a client that waits for one must not take the message for settled by this frame."""

    @pytest.fixture(params=["ACK", "NACK"])
    def command(self, request: pytest.FixtureRequest, version: Version) -> str:
        chosen: str = request.param if version in WITH_NACK else "ACK"
        return chosen

    def test_one_error_and_nothing_else(self, scene: Scene, version: Version, command: str) -> None:
        client = scene.connect(version)
        client.subscribe(QUEUE, ack="client")
        client.publish(QUEUE)
        message = client.message()
        client.ack(message, receipt="first")
        assert client.receipts() == ["first"]
        client.send(command, client.named(message) | {"receipt": "second"})
        (error,) = client.received()
        assert (error.command, error.headers["receipt-id"]) == ("ERROR", "second")
        assert client.closed

    def test_nor_in_a_transaction(self, scene: Scene, version: Version, command: str) -> None:
        client = scene.connect(version)
        client.subscribe(QUEUE, ack="client")
        client.publish(QUEUE)
        message = client.message()
        client.begin()
        client.ack(message, transaction="t")
        client.commit()
        client.begin()
        client.send(command, client.named(message) | {"receipt": "second", "transaction": "t"})
        (error,) = client.received()
        assert (error.command, error.headers["receipt-id"]) == ("ERROR", "second")


class TestNamesWithDotsAndSlashes:
    NAMES = ("a.b", "a/b", "a.b/c", "a/b.c", "a..b", "a//b", "a.b.", "a/b/")

    @pytest.mark.parametrize("kind", ["/queue/", "/topic/", "/exchange/amq.direct/", "/user/queue/"])
    def test_both_are_letters_of_a_name(self, scene: Scene, version: Version, kind: str) -> None:
        client, producer = scene.connect(version), scene.connect(version)
        for name in self.NAMES:
            client.subscribe(kind + name, name)
        to = kind.replace("/user/", f"/user/{client.session.id}/")
        for name in self.NAMES:
            producer.publish(to + name, name.encode())
            message = client.message()
            assert (message.subscription, message.body) == (name, name.encode())
            assert message.headers["destination"] == to + name


class TestDelaysSwitchedOff:
    """ActiveMQ without its scheduler delivers at once, and says nothing."""

    @pytest.mark.parametrize("header", ["x-delay", "AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_TIME", "_AMQ_SCHED_DELIVERY"])
    @pytest.mark.parametrize("destination", [QUEUE, "/topic/a"])
    def test_each_is_an_error(self, stage: Stage, version: Version, header: str, destination: str) -> None:
        scene = stage(max_delayed=0)
        client, other = scene.connect(version), scene.connect(version)
        other.subscribe(destination)
        later = "1000" if header in ("x-delay", "AMQ_SCHEDULED_DELAY") else str(int((EPOCH + scene.now + 1) * 1000))
        client.publish(destination, b"m", receipt="r", **{header: later})
        (error,) = client.received()
        assert (error.command, error.headers["receipt-id"]) == ("ERROR", "r")
        assert b"(max_delayed)" in error.body
        scene.wait(2.0)
        assert not other.received()

    def test_other_messages_come(self, stage: Stage, version: Version) -> None:
        client = stage(max_delayed=0).connect(version)
        client.subscribe(QUEUE)
        client.publish(QUEUE, b"m", **{"x-delay": "0"})
        assert client.bodies() == [b"m"]


class TestQueueArguments:
    @pytest.mark.parametrize("limit", [{"x-max-length": "2"}, {"x-max-length-bytes": "1500"}], ids="".join)
    @pytest.mark.parametrize("target", ["", "/queue/later"])
    def test_for_a_queue_where_messages_wait(
        self, scene: Scene, version: Version, limit: dict[str, str], target: str
    ) -> None:
        """They are too late: nobody is closed, and nothing goes."""
        client, other = scene.connect(version), scene.connect(version)
        for body in (b"1", b"2", b"3"):
            client.publish(QUEUE, body.ljust(200))
        letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "later"} if target else {}
        other.publish(QUEUE, b"4".ljust(200), **limit, **letters)
        client.publish(QUEUE, b"5".ljust(200))
        assert not client.closed
        assert not other.closed
        client.subscribe(QUEUE)
        assert [body.strip() for body in client.bodies()] == [b"1", b"2", b"3", b"4", b"5"]
        assert [wish.heard for wish in scene.wishes] == [False]


class TestReceiptsOfATransaction:
    def test_each_when_it_was_accepted_and_that_of_commit_last(self, scene: Scene, version: Version) -> None:
        client, other = scene.connect(version), scene.connect(version)
        other.subscribe(QUEUE)
        client.begin()
        for number in range(3):
            client.publish(QUEUE, b"%d" % number, transaction="t", receipt=f"send {number}")
            assert client.receipts() == [f"send {number}"]
        assert not other.received()
        client.send("COMMIT", {"transaction": "t", "receipt": "commit"})
        assert client.receipts() == ["commit"]
        assert other.bodies() == [b"0", b"1", b"2"]

    def test_behind_the_messages_that_commit_brings(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe(QUEUE)
        client.begin()
        client.publish(QUEUE, b"m", transaction="t", receipt="send")
        client.send("COMMIT", {"transaction": "t", "receipt": "commit"})
        assert [frame.command for frame in client.received()] == ["RECEIPT", "MESSAGE", "RECEIPT"]


class TestBeginTwice:
    def test_an_error_and_nothing_of_the_open_one_is_carried_out(self, scene: Scene, version: Version) -> None:
        """RabbitMQ begins anew, without a word."""
        client, other = scene.connect(version), scene.connect(version)
        client.subscribe(QUEUE, ack="client")
        client.publish(QUEUE, b"in")
        client.begin()
        client.ack(client.message(), transaction="t")
        client.publish("/queue/b", b"out", transaction="t")
        client.send("BEGIN", {"transaction": "t", "receipt": "r"})
        (error,) = client.received()
        assert (error.command, error.headers["message"]) == ("ERROR", "transaction id in use")
        assert error.headers["receipt-id"] == "r"
        other.subscribe(QUEUE, "0")
        other.subscribe("/queue/b", "1")
        assert [(each.body, each.redelivered) for each in other.messages()] == [(b"in", True)]


class TestOrder:
    """Each publisher's messages reach each consumer in order: there is no switch for it."""

    @pytest.mark.parametrize("ack", ["auto", "client"])
    @pytest.mark.parametrize("destination", [QUEUE, "/topic/a", "/topic/#", "/user/queue/a"])
    def test_of_several_publishers(self, scene: Scene, version: Version, destination: str, ack: str) -> None:
        client, *publishers = (scene.connect(version) for _ in range(4))
        client.subscribe(destination, ack=ack, **{"prefetch-count": "3"})
        to = destination.replace("#", "a").replace("/user/", f"/user/{client.session.id}/")
        for number in range(12):
            for name, publisher in zip((b"x", b"y", b"z"), publishers, strict=True):
                _send(publisher, to, b"%b%d" % (name, number), in_a_transaction=number % 5 == 0)
        found: list[bytes] = []
        while messages := client.messages():
            found += [message.body for message in messages]
            if ack == "client":
                client.ack(messages[-1])
        for name in (b"x", b"y", b"z"):
            assert [body for body in found if body[:1] == name] == [b"%b%d" % (name, number) for number in range(12)]


def _send(publisher: Client, destination: str, body: bytes, *, in_a_transaction: bool) -> None:
    if in_a_transaction:
        publisher.begin()
        publisher.publish(destination, body, transaction="t")
        publisher.commit()
    else:
        publisher.publish(destination, body)
