"""What an operator moves, and sends back: where it comes, what of it is new, what stays, and what a kill leaves."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gateway.broker.admin.scan import SLICE
from gateway.broker.model.message import Message
from gateway.broker.model.policy import WhenFull

from ..client import Client, Scene
from ..conftest import Stage, small
from ..durable import P, drain
from ..recorder import recorded
from ..wire import Received
from .operators import Operator, fill, texts


@pytest.fixture
def operator(scene: Scene) -> Operator:
    return Operator(scene)


def consumed(scene: Scene, name: str) -> list[Received]:
    client = scene.connect()
    client.subscribe(name)
    found = client.messages()
    client.drop()
    return found


def kill(scene: Scene, count: int, name: str = "a", **headers: str) -> None:
    """So many dead letters of a queue."""
    fill(scene, count, name, **headers)
    client = scene.connect()
    client.subscribe(name, ack="client-individual")
    for message in client.messages():
        client.nack(message, requeue="false", reason="bad")
    client.drop()


class TestMove:
    def test_all(self, operator: Operator) -> None:
        scene, counters = operator.scene, operator.scene.broker.counters
        notebook = recorded(scene)
        fill(scene, 5, color="red", **{"content-type": "text/plain"})
        before = operator.ids("a")
        outcome = operator.move("a", "/amq/queue/b")
        assert (outcome.done, outcome.missing, outcome.refused, outcome.stopped) == (5, [], [], "")
        assert operator.bodies("b") == texts(*range(5))
        assert list(scene.broker.destinations) == ["/queue/b"]
        assert (counters.moved, counters.totals()["dropped"], counters.published) == (5, 0, 5)
        moved = notebook.of("dropped", destination="/queue/a", reason="moved")
        assert [row.number for row in moved] == [row.number for row in notebook.of("accepted")]
        for message in consumed(scene, "b"):
            shown = [message.headers[name] for name in ("destination", "color", "content-type")]
            assert shown == ["/queue/b", "red", "text/plain"]
            assert message.message_id not in before
            assert not message.redelivered

    def test_some(self, operator: Operator) -> None:
        run = Message.run.decode()
        client = operator.scene.connect()
        for number in range(9):
            client.publish("a", b"%d" % number, n=str(number % 2))
        ids = operator.ids("a")
        outcome = operator.move("a", "b", [ids[8], ids[1], f"{run}-99"])
        assert (outcome.done, outcome.missing) == (2, [f"{run}-99"])
        assert operator.move("a", "b", limit=2).done == 2
        assert operator.move("a", "b", limit=0).done == 0
        assert operator.move("a", "b", selector="n = 1", limit=2).done == 2
        assert (operator.bodies("a"), operator.bodies("b")) == (texts(4, 6, 7), texts(1, 8, 0, 2, 3, 5))

    def test_to_a_hidden_queue(self, operator: Operator) -> None:
        client = operator.scene.connect()
        client.subscribe("/topic/t", "d", durable="true")
        (name,) = operator.scene.broker.registry.durable_subscriptions._found
        fill(operator.scene, 2)
        assert operator.move("a", name).done == 2
        assert client.bodies() == [b"0", b"1"]
        client.send("UNSUBSCRIBE", {"id": "d", "durable": "true"})


class TestNoRoom:
    @pytest.mark.parametrize("when_full", list(WhenFull))
    def test_the_target_is_full(self, stage: Stage, when_full: WhenFull) -> None:
        """Nothing there has to go for what is moved; what did not find room stays."""
        scene = stage({"/queue/b": {"max_messages": 3, "when_full": when_full}})
        operator = Operator(scene)
        fill(scene, 5)
        client = scene.connect()
        client.publish("b", b"there")
        outcome = operator.move("a", "b")
        assert (outcome.done, outcome.refused) == (2, [])
        assert outcome.stopped == "3 messages wait in '/queue/b', and max_messages is 3"
        assert (operator.bodies("a"), operator.bodies("b")) == (texts(2, 3, 4), ["there", "0", "1"])
        assert not scene.broker.context.full

    def test_bytes(self, stage: Stage) -> None:
        scene = stage({"/queue/b": {"max_bytes": 1_000}})
        fill(scene, 5)
        outcome = Operator(scene).move("a", "b")
        assert 0 < outcome.done < 5
        assert outcome.stopped.endswith(" bytes wait in '/queue/b', and max_bytes is 1000")

    @pytest.mark.parametrize("when_full", [each for each in WhenFull if each is not WhenFull.BLOCK])
    def test_bytes_that_another_message_would_be_dropped_for(self, stage: Stage, when_full: WhenFull) -> None:
        """Neither what waits there nor what is moved is lost, though the queue is not full yet."""
        scene = stage({"/queue/b": {"max_bytes": 1_000, "when_full": when_full}})
        operator = Operator(scene)
        fill(scene, 1, filling="x" * 200)
        fill(scene, 1, "b")
        outcome = operator.move("a", "b")
        assert outcome.done == 0
        assert re.fullmatch(
            r"the message costs \d+ bytes, \d+ wait in '/queue/b', and max_bytes is 1000", outcome.stopped
        )
        assert (len(operator.bodies("a")), len(operator.bodies("b"))) == (1, 1)
        assert (scene.broker.counters.totals()["dropped"], scene.broker.counters.dead_lettered) == (0, 0)

    def test_a_queue_that_is_not_there_yet(self, stage: Stage) -> None:
        scene = stage({"/queue/b": {"max_bytes": 300, "when_full": WhenFull.DROP_NEWEST}}, max_destinations=1)
        operator = Operator(scene)
        fill(scene, 1)
        for target, why in [
            ("b", "0 wait in '/queue/b', and max_bytes is 300"),
            ("c", "max_destinations"),
            ("/reply-queue/x", "'/reply-queue/x' does not exist any more"),
            ("/topic/t", "'/topic/t' has no subscriber, so the message would be lost"),
        ]:
            assert why in operator.move("a", target).stopped
        assert operator.bodies("a") == texts(0)

    def test_no_memory(self, stage: Stage) -> None:
        scene = stage(memory_limit=4_000)
        fill(scene, 2)
        scene.broker.judge_memory(scarce=True, flooded=False, nearly_exhausted=True, exhausted="memory is short")
        assert Operator(scene).move("a", "b").stopped == "memory is short"
        scene.broker.judge_memory(scarce=False, flooded=False, nearly_exhausted=False, exhausted="")

    def test_the_store_refuses(self, stage: Stage) -> None:
        scene = stage(stored=True)
        operator = Operator(scene)
        fill(scene, 2, **P)
        scene.commit()
        scene.vault.storage.run_short("no room", "the disk is nearly full")
        outcome = operator.move("a", "b")
        assert (outcome.done, outcome.stopped) == (0, "durable messages are refused for now: the disk is nearly full")
        scene.vault.storage.room_came()
        assert operator.bodies("a") == texts(0, 1)


class TestToATopic:
    @pytest.mark.parametrize("when_full", list(WhenFull))
    def test_a_durable_subscription_is_full(self, stage: Stage, when_full: WhenFull) -> None:
        """As any queue that is; also where it is the only one of many that take the message."""
        scene = stage({"/topic/#": {"max_messages": 2, "when_full": when_full}})
        operator, client = Operator(scene), scene.connect()
        client.subscribe("/topic/*", "d", ack="client", durable="true")
        client.subscribe("/topic/t", "e", ack="client", durable="true", selector="color = 'red'")
        client.drop()
        fill(scene, 5)
        outcome = operator.move("a", "/topic/t")
        assert outcome.done == 2
        assert outcome.stopped.startswith("2 messages wait in '/dsub/")
        assert operator.bodies("a") == texts(2, 3, 4)
        assert scene.broker.counters.totals()["dropped"] == 0
        for name in list(scene.broker.registry.hidden):
            operator.administration.delete_durable(name, lambda: None)

    def test_it_keeps_a_log(self, stage: Stage) -> None:
        scene = stage({"/topic/t": {"log_messages": 5}})
        fill(scene, 2)
        assert Operator(scene).move("a", "/topic/t").done == 2
        client = scene.connect()
        client.subscribe("/topic/t", **{"from-seq": "0"})
        assert client.bodies() == [b"0", b"1"]

    def slow(self, stage: Stage, ack: str = "auto") -> tuple[Scene, Client]:
        """A subscriber that does not read, or ("client") does not acknowledge; and 20 messages to move to it."""
        scene = stage(max_outbound=8_000)
        fill(scene, 20, filling="x" * 1_000)
        client = scene.connect()
        client.subscribe("/topic/t", ack=ack, **{"prefetch-count": "1"})
        client.stalled = ack == "auto"
        return scene, client

    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_a_slow_subscriber_is_not_waited_for_for_ever(self, stage: Stage, ack: str) -> None:
        scene, client = self.slow(stage, ack)
        operator = Operator(scene)
        operator.administration.move("a", "/topic/t", None, "", None, operator.told.append)
        scene.wait(11.0)
        (outcome,) = operator.told
        told = f"session {client.session.id} (anonymous) does not read or acknowledge what it subscribed to"
        assert outcome.stopped == told
        assert 0 < outcome.done < 20
        assert len(operator.bodies("a")) == 20 - outcome.done
        assert not client.closed

    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_a_client_that_goes_is_waited_for_no_more(self, stage: Stage, ack: str) -> None:
        scene, client = self.slow(stage, ack)
        scene.connect().subscribe("/topic/t")
        operator = Operator(scene)
        operator.administration.move("a", "/topic/t", None, "", None, operator.told.append)
        scene.settle()
        assert operator.told == []
        assert client.session.outbox.size < 8_000
        assert not scene.broker.context.slow_consumers.strained
        client.drop()
        scene.wait(1.0)
        assert [outcome.done for outcome in operator.told] == [20]

    @pytest.mark.parametrize(
        "policy",
        [{}, {"slow_messages": 6, "slow_consumer": "disconnect"}, {"slow_messages": 6, "slow_consumer": "drop-newest"}],
    )
    def test_a_subscriber_that_must_acknowledge_is_waited_for(self, stage: Stage, policy: dict[str, Any]) -> None:
        """Its waiting messages would else cost it messages, or its connection."""
        scene = stage({"/topic/t": policy}, max_outbound=20_000)
        fill(scene, 20, filling="x" * 1_000)
        client = scene.connect()
        client.subscribe("/topic/t", ack="client", **{"prefetch-count": "1"})
        operator = Operator(scene)
        operator.administration.move("a", "/topic/t", None, "", None, operator.told.append)
        scene.wait(0.1)
        assert operator.told == []
        found = []
        for _ in range(20):
            found.append(client.message())
            client.ack(found[-1])
            scene.wait(0.1)
        assert [message.body for message in found] == [b"%d" % number for number in range(20)]
        assert [outcome.done for outcome in operator.told] == [20]
        assert scene.broker.counters.totals()["dropped"] == 0


class TestRedrive:
    def test_all_or_some(self, operator: Operator) -> None:
        notebook = recorded(operator.scene)
        kill(operator.scene, 4, color="red")
        operator.move("dlq.a", "parked")
        ids = operator.ids("parked")
        outcome = operator.redrive("parked", [ids[2], "x"])
        assert (outcome.done, outcome.missing) == (1, ["x"])
        assert operator.redrive("parked", limit=1).done == 1
        assert (operator.bodies("a"), operator.bodies("parked")) == (texts(2, 0), texts(1, 3))
        assert operator.redrive("parked").done == 2
        assert list(operator.scene.broker.destinations) == ["/queue/a"]
        for message in consumed(operator.scene, "a"):
            headers = {name: value for name, value in message.headers.items() if name not in ("message-id", "ack")}
            assert headers == {"subscription": "0", "destination": "a", "color": "red", "content-length": "1"}
        assert operator.scene.broker.counters.moved == 8
        assert len(notebook.of("dropped", destination="/queue/parked", reason="redriven")) == 4

    def test_what_is_no_dead_letter_stays(self, operator: Operator) -> None:
        """Nor a message that a client made look like one: it could send where it must not."""
        kill(operator.scene, 1)
        client = operator.scene.connect()
        headers = {"dlq-source": "/queue/secret", "original-destination": "/queue/secret", "dlq-reason": "rejected"}
        client.publish("dlq.a", b"forged", **headers)
        ids = operator.ids("dlq.a")
        outcome = operator.redrive("dlq.a")
        why = "it is no dead letter of this server, so its source is not known; move it instead"
        assert (outcome.done, outcome.refusals, outcome.refused) == (1, 1, [(ids[1], why)])
        assert operator.bodies("dlq.a") == ["forged"]
        assert operator.redrive("dlq.a", ids[1:]).refused == [(ids[1], why)]
        kill(operator.scene, 1, "b")
        operator.move("dlq.b", "b")
        outcome = operator.redrive("b")
        assert [why for _, why in outcome.refused] == ["it died in '/queue/b', where it is now; move it"]

    @small(listed_refusals=2)
    def test_so_many_refusals_are_told(self, operator: Operator) -> None:
        fill(operator.scene, 5)
        outcome = operator.redrive("a")
        assert (outcome.done, outcome.refusals, len(outcome.refused)) == (0, 5, 2)

    def test_where_there_is_no_room_it_stays(self, stage: Stage) -> None:
        scene = stage({"/queue/a": {"max_messages": 2}})
        operator = Operator(scene)
        kill(scene, 2)
        kill(scene, 1, "b", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dlq.a"})
        fill(scene, 1)
        outcome = operator.redrive("dlq.a")
        assert (outcome.done, outcome.stopped) == (2, "")
        assert [why for _, why in outcome.refused] == ["2 messages wait in '/queue/a', and max_messages is 2"]
        assert (operator.bodies("a"), operator.bodies("b")) == (texts(0, 0), ["0"])

    @pytest.mark.parametrize(("sent", "told"), [("/amq/queue/a", "/amq/queue/a"), ("/queue/a", "/queue/a"), ("a", "a")])
    def test_its_destination_is_as_the_sender_named_it(self, operator: Operator, sent: str, told: str) -> None:
        kill(operator.scene, 1, sent)
        operator.redrive("dlq.a")
        assert [message.headers["destination"] for message in consumed(operator.scene, "a")] == [told]

    def test_of_one_that_died_in_a_temporary_queue_first(self, stage: Stage) -> None:
        """What the SEND named means nothing to others than its sender."""
        scene = stage(
            {"/reply-queue/#": {"dead_letter": "/queue/grave"}, "/queue/grave": {"dead_letter": "/queue/two"}}
        )
        operator, client = Operator(scene), scene.connect()
        client.subscribe("/temp-queue/t", "0", ack="client-individual")
        client.subscribe("grave", "1", ack="client-individual")
        client.publish("/temp-queue/t")
        for _ in range(2):
            client.nack(client.message(), requeue="false")
        assert operator.redrive("two").done == 1
        message = client.message()
        assert message.headers["destination"] == "/queue/grave"
        client.ack(message)

    @pytest.mark.parametrize(("name", "headers"), [("/temp-queue/t", {}), ("/topic/t", {"durable": "true"})])
    def test_to_what_may_have_gone_meanwhile(self, stage: Stage, name: str, headers: dict[str, str]) -> None:
        """Of a durable subscription, that one alone gets it, and not the other ones of its topic."""
        scene = stage({"#": {"dead_letter": "/queue/grave"}})
        operator, client, other = Operator(scene), scene.connect(), scene.connect()
        client.subscribe(name, "d", ack="client-individual", **headers)
        other.subscribe("/topic/t")
        for body in (b"0", b"1"):
            client.publish(name, body)
        for message in client.messages():
            client.nack(message, requeue="false")
        sent = len(other.messages())
        assert operator.redrive("grave", limit=1).done == 1
        message = client.message()
        assert (message.body, message.headers["destination"][:6], sent) == (b"0", name[:6], 2 if headers else 0)
        assert other.bodies() == []
        client.ack(message)
        client.send("UNSUBSCRIBE", {"id": "d", **headers})
        client.drop()
        (why,) = [why for _, why in operator.redrive("grave").refused]
        assert why.endswith("does not exist any more")

    def test_to_a_topic(self, stage: Stage) -> None:
        """All subscribers get it once more."""
        scene = stage({"/topic/#": {"dead_letter": "/queue/grave"}})
        operator, client, other = Operator(scene), scene.connect(), scene.connect()
        client.subscribe("/topic/*", ack="client-individual")
        other.subscribe("/topic/t")
        client.publish("/topic/t", b"x")
        client.nack(client.message(), requeue="false")
        assert operator.redrive("grave").done == 1
        assert (client.message().headers["destination"], other.bodies()) == ("/topic/t", [b"x", b"x"])


class TestStored:
    """What is durable stands in one of both queues, whenever the process is killed."""

    @pytest.fixture
    def scene(self, stage: Stage) -> Scene:
        return stage(stored=True)

    def places(self, scene: Scene) -> dict[str, list[bytes]]:
        """What the next process finds."""
        again = scene.crash()
        return {name: [each.body for each in drain(again, name)] for name in list(again.broker.destinations)}

    def test_a_cancelled_one_does_not_call_back(self, operator: Operator) -> None:
        scene = operator.scene
        fill(scene, 3, **P)
        scene.commit()
        work = operator.administration.move("a", "b", None, "", None, operator.told.append)
        scene.settle()
        work.cancel()
        scene.commit()
        assert operator.told == []
        assert operator.bodies("b") == texts(0, 1, 2)

    def test_a_kill_between_two_slices(self, operator: Operator) -> None:
        scene = operator.scene
        fill(scene, SLICE + 300, **P)
        scene.commit()
        operator.administration.move("a", "b", None, "", None, operator.told.append)
        scene.broker.scheduler.proceed()
        batch = scene.vault.take()
        assert batch is not None
        assert len(batch.rows) == len(batch.gone) == SLICE
        scene.store.write(batch)
        found = self.places(scene)
        assert found == {
            "/queue/a": [b"%d" % number for number in range(SLICE, SLICE + 300)],
            "/queue/b": [b"%d" % number for number in range(SLICE)],
        }

    @pytest.mark.parametrize(("durable", "left"), [(None, True), (True, True), (False, False)])
    def test_of_an_earlier_process(self, stage: Stage, durable: bool | None, left: bool) -> None:
        policies = {"/queue/b": {"durable": durable}}
        scene = stage(policies, stored=True)
        fill(scene, 3, **P)
        fill(scene, 1, "c")
        Operator(scene).move("c", "b")
        scene.commit()
        again = Operator(scene.crash())
        assert again.move("a", "b").done == 3
        expected = texts(0, 1, 2) if durable is not True else texts(0, 0, 1, 2)
        assert again.bodies("b") == expected
        assert self.places(again.scene) == ({"/queue/b": [text.encode() for text in expected]} if left else {})

    @small(unwritten_bytes=10_000)
    def test_while_the_store_is_behind_nothing_is_added(self, operator: Operator) -> None:
        scene = operator.scene
        fill(scene, 1_300, **P)
        scene.commit()
        operator.administration.move("a", "b", None, "", None, operator.told.append)
        scene.settle()
        assert scene.vault.storage.is_behind
        assert len(operator.administration._queue("b").waiting_messages()) == SLICE
        scene.commit()
        assert [outcome.done for outcome in operator.told] == [1_300]
