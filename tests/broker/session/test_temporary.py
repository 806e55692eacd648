"""Temporary destinations: a session subscribes to its own, others know them by `reply-to`; they go with the session."""

from __future__ import annotations

import pytest

from ..client import Client, Scene, Step
from ..conftest import Stage

REPLIES = "/temp-queue/replies"
both = pytest.mark.parametrize("kind", ["queue", "topic"])


def address(client: Client, worker: Client, destination: str = REPLIES) -> str:
    """The name under which others can send to a temporary destination, as a worker learns it."""
    worker.subscribe("/queue/work", "work")
    client.publish("/queue/work", b"request", **{"reply-to": destination})
    found = worker.message().headers["reply-to"]
    worker.unsubscribe("work")
    return found


@pytest.fixture
def worker(scene: Scene) -> Client:
    return scene.connect()


class TestReplyTo:
    @both
    def test_a_request_and_its_reply(self, client: Client, worker: Client, kind: str) -> None:
        """As RxStompRPC and RabbitMQ's users do it: without a SUBSCRIBE."""
        worker.subscribe("/queue/work")
        client.publish("/queue/work", b"2 + 2", **{"reply-to": f"/temp-{kind}/replies", "correlation-id": "7"})
        request = worker.message()
        assert request.headers["reply-to"].startswith(f"/reply-{kind}/")
        worker.publish(request.headers["reply-to"], b"4", **{"correlation-id": request.headers["correlation-id"]})
        reply = client.message()
        assert (reply.body, reply.headers["correlation-id"]) == (b"4", "7")
        assert reply.subscription == f"/temp-{kind}/replies"
        assert reply.headers["destination"] == request.headers["reply-to"]
        assert "ack" not in reply.headers

    def test_a_session_that_has_subscribed_is_not_subscribed_again(self, client: Client, worker: Client) -> None:
        client.subscribe(REPLIES, "mine", ack="client")
        worker.publish(address(client, worker), b"m")
        assert client.message().subscription == "mine"
        assert list(client.session.subscriptions) == ["mine"]

    def test_one_that_only_browses_is_subscribed_too(self, client: Client, worker: Client) -> None:
        client.subscribe(REPLIES, "browser", browser="true", **{"browser-end": "false"})
        worker.publish(address(client, worker), b"m")
        assert sorted(each.subscription for each in client.messages()) == [REPLIES, "browser"]

    def test_unsubscribe_by_the_destination_as_id(self, client: Client, worker: Client) -> None:
        """The queue goes with it, and its messages are dropped; the next request makes another one."""
        name = address(client, worker)
        assert address(client, worker) == name, "one subscription for all requests"
        client.unsubscribe(REPLIES)
        assert not client.session.subscriptions
        worker.publish(name, b"late")
        assert not client.received()
        other = address(client, worker)
        assert other != name
        assert not client.received()
        worker.publish(other, b"in time")
        assert client.bodies() == [b"in time"]

    @pytest.mark.parametrize(
        "reply_to", ["/queue/answers", "/topic/answers", "/reply-queue/0123", "answers", "", "/nope/x", "/temp-queue"]
    )
    def test_any_other_is_an_ordinary_header(self, client: Client, worker: Client, reply_to: str) -> None:
        assert address(client, worker, reply_to) == reply_to
        assert not client.session.subscriptions

    @pytest.mark.parametrize(
        ("reply_to", "message"), [("/temp-queue/", "destination without a name"), (REPLIES, "subscription id in use")]
    )
    def test_refused(self, client: Client, reply_to: str, message: str) -> None:
        client.subscribe("/topic/a", REPLIES)
        client.publish("/queue/work", b"m", **{"reply-to": reply_to})
        assert client.error().headers["message"] == message

    @pytest.mark.parametrize("end", [Client.commit, Client.abort])
    def test_in_a_transaction(self, client: Client, worker: Client, end: Step) -> None:
        """The request waits for COMMIT; the subscription is there at once, and stays."""
        worker.subscribe("/queue/work")
        client.begin()
        client.publish("/queue/work", b"m", transaction="t", **{"reply-to": REPLIES})
        assert list(client.session.subscriptions) == [REPLIES]
        assert not worker.received()
        end(client)
        assert list(client.session.subscriptions) == [REPLIES]
        if end is Client.commit:
            worker.begin()
            worker.publish(worker.message().headers["reply-to"], b"reply", transaction="t")
            assert not client.received()
            worker.commit()
            assert client.bodies() == [b"reply"]


class TestBySubscribe:
    def test_a_queue_keeps_what_comes_before(self, client: Client) -> None:
        client.publish("/temp-queue/x", b"m")
        client.subscribe("/temp-queue/x")
        assert client.bodies() == [b"m"]

    @pytest.mark.parametrize("name", ["#", "*", "a.*", "a,b", "/", "..", "%2A"])
    def test_a_name_is_only_a_name(self, client: Client, worker: Client, name: str) -> None:
        client.subscribe(f"/temp-topic/{name}")
        clients = address(client, worker, f"/temp-topic/{name}")
        client.publish(address(worker, client, "/temp-topic/x"), b"for the worker")
        assert worker.bodies() == [b"for the worker"]
        worker.publish(clients, b"for the client")
        assert client.bodies() == [b"for the client"]

    def test_so_many(self, stage: Stage) -> None:
        scene = stage(max_subscriptions=3)
        client, other = scene.connect(), scene.connect()
        for number in range(3):
            client.publish(f"/temp-queue/{number}", b"m")
        client.publish("/temp-queue/0", b"m")
        other.publish("/temp-queue/0", b"m")
        client.publish("/temp-queue/3", b"m")
        error = client.error()
        assert error.headers["message"] == "too many temporary destinations"
        assert b"(max_subscriptions)" in error.body

    @both
    def test_it_stays_as_long_as_one_subscription_is_left(self, client: Client, worker: Client, kind: str) -> None:
        for id in "01":
            client.subscribe(f"/temp-{kind}/x", id)
        name = address(client, worker, f"/temp-{kind}/x")
        client.unsubscribe("0")
        worker.publish(name, b"m")
        assert client.bodies() == [b"m"]


class TestOthers:
    @both
    def test_cannot_subscribe(self, scene: Scene, client: Client, worker: Client, kind: str) -> None:
        name = address(client, worker, f"/temp-{kind}/replies")
        for each in (worker, scene.connect(), client):
            each.subscribe(name, "spy")
            assert each.error().headers["message"] == "temporary destination of another session"

    @pytest.mark.parametrize(
        "pattern", ["/topic/#", "/topic/../reply-topic/#", "/user/queue/#", "/exchange/amq.topic/#"]
    )
    def test_nor_by_a_pattern(self, client: Client, worker: Client, pattern: str) -> None:
        name = address(client, worker, "/temp-topic/replies")
        worker.subscribe(pattern, "spy")
        client.publish("/temp-topic/replies", b"secret")
        worker.publish(name, b"secret")
        assert client.bodies() == [b"secret", b"secret"]
        assert not worker.received()

    def test_cannot_guess_it(self, scene: Scene, client: Client, worker: Client) -> None:
        names = {address(client, worker, f"/temp-queue/{number}") for number in range(20)}
        tokens = {name.rpartition("/")[2] for name in names}
        assert len(tokens) == 20
        assert all(len(token) == 24 for token in tokens)
        assert not any(client.session.id in token for token in tokens)


class TestGone:
    @both
    @pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, lambda client: client.send("BOGUS")])
    def test_replies_are_dropped_and_the_worker_has_its_receipt(
        self, scene: Scene, client: Client, worker: Client, kind: str, leave: Step
    ) -> None:
        name = address(client, worker, f"/temp-{kind}/replies")
        leave(client)
        worker.publish(name, b"1", receipt="r1")
        worker.publish(name, b"2", receipt="r2", priority="9")
        worker.begin()
        worker.publish(name, b"3", transaction="t")
        worker.send("COMMIT", {"transaction": "t", "receipt": "r3"})
        assert worker.receipts() == ["r1", "r2", "r3"]
        assert not scene.broker.destinations
        assert scene.broker.memory.used == 0
        assert scene.broker.counters.unroutable == 3

    @pytest.mark.parametrize("leave", [Client.drop, Client.disconnect])
    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_what_waits_goes_too(self, stage: Stage, leave: Step, ack: str) -> None:
        scene = stage(max_unacknowledged=1)
        client = scene.connect()
        client.publish("/temp-queue/alone", b"m")
        client.subscribe(REPLIES, ack=ack)
        client.stalled = True
        for size in (1, client.session.outbox.window, 1):
            client.publish(REPLIES, b"x" * size)
        client.begin()
        client.publish(REPLIES, b"m", transaction="t")
        leave(client)
        assert not scene.broker.destinations
        assert (scene.broker.context.waiting, scene.broker.memory.used) == (0, 0)

    @pytest.mark.parametrize("holding", ["back-off", "transaction", "ledger"])
    def test_also_what_comes_back_later(self, stage: Stage, holding: str) -> None:
        """And it becomes no dead letter."""
        scene = stage({"#": {"backoff": 1.0, "max_attempts": 2 if holding == "back-off" else 1}})
        client = scene.connect()
        client.subscribe(REPLIES, ack="client")
        client.publish(REPLIES, b"m")
        if holding == "back-off":
            client.nack(client.message())
        elif holding == "transaction":
            client.begin()
            client.ack(client.message(), transaction="t")
            client.unsubscribe()
        client.drop()
        scene.wait(1.1)
        assert not scene.broker.destinations
        assert scene.broker.memory.used == 0

    def test_a_policy_may_save_them(self, stage: Stage) -> None:
        scene = stage({"/reply-queue/#": {"max_attempts": 1, "dead_letter": "/queue/lost"}})
        client, other = scene.connect(), scene.connect()
        client.subscribe(REPLIES, ack="client")
        client.publish(REPLIES, b"m")
        client.drop()
        other.subscribe("/queue/lost")
        assert other.message().headers["dlq-source"].startswith("/reply-queue/")
