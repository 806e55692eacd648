"""Dead letters: where they go, which headers say what happened to them, and that they never go round for ever."""

from __future__ import annotations

import pytest

from gateway.broker.model.policy import WhenFull
from gateway.codec import V10, V11, V12, Version

from ..client import EPOCH, Client, Scene
from ..conftest import Stage
from ..wire import Received

QUEUE = "/queue/a"
DEAD = "/queue/dlq.a"


def milliseconds(scene: Scene) -> str:
    """Now, as headers have it."""
    return str(int((EPOCH + scene.now) * 1000))


def taken(scene: Scene, queue: str, version: Version = V12) -> list[Received]:
    """What waits in a queue; it is taken out."""
    client = scene.connect(version)
    client.subscribe(queue)
    found = client.messages()
    client.disconnect()
    return found


def own_headers(message: Received) -> dict[str, str]:
    """The headers without those that every MESSAGE has."""
    common = ("subscription", "message-id", "content-length", "ack")
    return {name: value for name, value in message.headers.items() if name not in common}


def reject(client: Client, queue: str, **headers: str) -> None:
    """Take the one message of a queue and reject it; where it comes back, it goes back by UNSUBSCRIBE."""
    client.subscribe(queue, "reject", ack="client-individual")
    client.nack(client.message(), **headers)
    client.unsubscribe("reject")
    client.received()


class TestHeaders:
    def test_after_the_last_attempt(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"max_attempts": 3, "backoff": 1.0, "backoff_factor": 1.0}})
        client = scene.consumer(QUEUE, ack="client")
        client.publish(QUEUE, b"body\xff", color="red", priority="7")
        scene.wait(5.0)
        first_at = milliseconds(scene)
        for _ in range(3):
            client.nack(client.message())
            scene.wait(2.0)
        (letter,) = taken(scene, DEAD)
        assert letter.body == b"body\xff"
        assert own_headers(letter) == {
            "destination": DEAD,
            "original-destination": QUEUE,
            "color": "red",
            "priority": "7",
            "dlq-reason": "max-attempts",
            "dlq-source": QUEUE,
            "dlq-attempts": "3",
            "dlq-first-at": first_at,
        }

    @pytest.mark.parametrize("spelling", ["false", "False", "FALSE"])
    def test_by_a_nack_with_requeue_false_and_a_reason(self, scene: Scene, spelling: str) -> None:
        client = scene.connect()
        client.publish(QUEUE, b"m")
        reject(client, QUEUE, requeue=spelling, reason="no such order")
        (letter,) = taken(scene, DEAD)
        assert own_headers(letter) == {
            "destination": DEAD,
            "original-destination": QUEUE,
            "dlq-reason": "rejected",
            "dlq-source": QUEUE,
            "dlq-attempts": "1",
            "dlq-first-at": milliseconds(scene),
            "reason": "no such order",
        }

    @pytest.mark.parametrize("nack", [True, False])
    def test_they_are_the_policys_number_after_the_last(self, stage: Stage, nack: bool) -> None:
        """Whatever made it fail, and though some deliveries were none of its attempts."""
        scene = stage({QUEUE: {"max_attempts": 3}})
        scene.connect().publish(QUEUE, b"m")
        for _ in range(3):
            worker = scene.consumer(QUEUE, ack="client")
            worker.unsubscribe()
            worker.received()
            worker.subscribe(QUEUE, ack="client")
            if nack:
                worker.nack(worker.message())
                worker.disconnect()
            else:
                worker.drop()
            scene.wait(1.0)
        (letter,) = taken(scene, DEAD)
        assert (letter.headers["dlq-reason"], letter.headers["dlq-attempts"]) == ("max-attempts", "3")

    def test_versions_meet(self, scene: Scene) -> None:
        """A reason of 1.2 that 1.0 cannot say must not break its frame."""
        client = scene.connect(V12)
        letters = []
        for version in (V10, V11, V12):
            client.publish(QUEUE, b"m")
            reject(client, QUEUE, requeue="false", reason="line: 1\nline: 2\\")
            letters += taken(scene, DEAD, version)
        old, middle, new = letters
        assert "dlq-source" in old.headers
        assert "\n" not in old.headers.get("reason", "")
        assert middle.headers["reason"] == new.headers["reason"] == "line: 1\nline: 2\\"

    @pytest.mark.parametrize("destination", ["/topic/a.b", "/exchange/amq.topic/a.b"])
    def test_of_a_pattern_they_say_what_was_sent_to(self, stage: Stage, destination: str) -> None:
        scene = stage({"/topic/#": {"dead_letter": "/queue/dead"}})
        client = scene.consumer("/topic/a.*", ack="client")
        client.publish(destination, b"m")
        client.nack(client.message(), requeue="false")
        (letter,) = taken(scene, "/queue/dead")
        assert letter.headers["dlq-source"] == "/topic/a.*"
        assert letter.headers["original-destination"] == destination

    def test_it_is_a_new_message(self, scene: Scene) -> None:
        """With an id of its own, delivered the first time, and without the time of the old one."""
        client = scene.connect()
        client.publish(QUEUE, b"m", JMSXGroupID="g", ttl="1000")
        client.subscribe(QUEUE, "reject", ack="client")
        message = client.message()
        client.nack(message, requeue="false")
        scene.wait(1.5)
        (letter,) = taken(scene, DEAD)
        assert letter.message_id != message.message_id
        assert not letter.redelivered


class TestTargets:
    @pytest.mark.parametrize(("source", "target"), [("/queue/x.y/z", "/queue/dlq.x.y/z"), ("bare", "/queue/dlq.bare")])
    def test_by_default_a_queue_named_after_the_source(self, scene: Scene, source: str, target: str) -> None:
        client = scene.connect()
        client.publish(source, b"m")
        reject(client, source, requeue="false")
        assert [each.body for each in taken(scene, target)] == [b"m"]

    def test_as_the_policy_says(self, stage: Stage) -> None:
        scene = stage({"/queue/#": {"dead_letter": "/queue/graveyard"}})
        client = scene.connect()
        for name in ("a", "b"):
            client.publish(name, b"m")
            reject(client, name, requeue="false")
        assert [each.headers["dlq-source"] for each in taken(scene, "/queue/graveyard")] == ["/queue/a", "/queue/b"]

    @pytest.mark.parametrize("target", ["", QUEUE])
    def test_nowhere_and_its_own_queue_mean_that_it_is_dropped(self, stage: Stage, target: str) -> None:
        scene = stage({QUEUE: {"dead_letter": target}})
        client = scene.connect()
        client.publish(QUEUE, b"m")
        reject(client, QUEUE, requeue="false")
        assert not scene.broker.destinations
        assert (scene.broker.counters.dropped, scene.broker.counters.dead_lettered) == (1, 0)

    def test_a_topic(self, stage: Stage) -> None:
        scene = stage({QUEUE: {"dead_letter": "/topic/dead.a"}})
        client, exact, pattern = (scene.connect() for _ in range(3))
        exact.subscribe("/topic/dead.a")
        pattern.subscribe("/topic/dead.#", ack="client")
        client.publish(QUEUE, b"m")
        reject(client, QUEUE, requeue="false")
        for each in (exact, pattern):
            message = each.message()
            assert (message.headers["destination"], message.headers["dlq-source"]) == ("/topic/dead.a", QUEUE)

    def test_a_topic_has_none_unless_the_policy_says_so(self, stage: Stage) -> None:
        scene = stage({"/topic/b": {"dead_letter": "/queue/dead"}})
        client = scene.connect()
        for id, name in enumerate("ab"):
            client.subscribe(f"/topic/{name}", str(id), ack="client")
            client.publish(f"/topic/{name}", b"m")
            client.nack(client.message(), requeue="false")
        assert list(scene.broker.destinations) == ["/topic/a", "/topic/b", "/queue/dead"]
        (letter,) = taken(scene, "/queue/dead")
        assert letter.headers["dlq-source"] == "/topic/b"
        assert scene.broker.counters.dropped == 1

    def test_each_subscriber_of_a_topic_has_dead_letters_of_its_own(self, stage: Stage) -> None:
        scene = stage({"/topic/#": {"dead_letter": "/queue/dead", "max_attempts": 1}})
        clients = [scene.connect() for _ in range(3)]
        for client in clients:
            client.subscribe("/topic/a", ack="client")
        clients[0].publish("/topic/a", b"m")
        clients[0].nack(clients[0].message())
        clients[1].drop()
        clients[2].ack(clients[2].message())
        assert len(taken(scene, "/queue/dead")) == 2

    def test_the_priority_is_kept(self, scene: Scene) -> None:
        client = scene.connect()
        for priority in ("1", "9", "5"):
            client.publish(QUEUE, priority.encode(), priority=priority)
            reject(client, QUEUE, requeue="false")
        assert [each.body for each in taken(scene, DEAD)] == [b"9", b"5", b"1"]

    def test_the_group_is_kept(self, scene: Scene) -> None:
        """Who repairs dead letters gets those of one group in order, too."""
        producer, readers = scene.connect(), [scene.connect() for _ in range(3)]
        for reader in readers:
            reader.subscribe(DEAD, ack="client")
        for number in range(12):
            producer.publish(QUEUE, b"%d" % number, JMSXGroupID="ghi"[number % 3])
            reject(producer, QUEUE, requeue="false")
        messages = [reader.messages() for reader in readers]
        assert [[int(each.body) for each in share] for share in messages] == [[*range(k, 12, 3)] for k in range(3)]
        assert [share[0].headers["JMSXGroupID"] for share in messages] == ["g", "h", "i"]

    def test_a_full_queue_must_take_them(self, stage: Stage) -> None:
        scene = stage({DEAD: {"max_messages": 1}}, max_destinations=2)
        client = scene.connect()
        for body in (b"1", b"2", b"3"):
            client.publish(QUEUE, body)
            reject(client, QUEUE, requeue="false")
        assert len(taken(scene, DEAD)) == 3

    def test_also_where_there_may_be_no_more_destinations(self, stage: Stage) -> None:
        scene = stage(max_destinations=1)
        client = scene.connect()
        client.publish(QUEUE, b"m")
        reject(client, QUEUE, requeue="false")
        assert list(scene.broker.destinations) == [DEAD]

    @pytest.mark.parametrize("ack", ["auto", "client"])
    @pytest.mark.parametrize("dead_first", [False, True])
    def test_the_session_that_fails_does_not_get_them(self, stage: Stage, ack: str, dead_first: bool) -> None:
        scene = stage({QUEUE: {"max_attempts": 1}})
        client = scene.connect()
        wanted = [(QUEUE, "client"), (DEAD, ack)]
        for id, (name, mode) in enumerate(reversed(wanted) if dead_first else wanted):
            client.subscribe(name, str(id), ack=mode)
        client.publish(QUEUE, b"m")
        assert client.bodies() == [b"m"]
        client.send("BOGUS")
        assert [frame.command for frame in client.received()] == ["ERROR"]
        (letter,) = taken(scene, DEAD)
        assert not letter.redelivered


class TestDeadLettersOfDeadLetters:
    def test_but_who_says_that_it_is_not_to_be_delivered_again_is_heard(self, scene: Scene) -> None:
        client = scene.connect()
        client.publish(DEAD, b"m")
        reject(client, DEAD, requeue="false")
        assert not scene.broker.destinations

    def test_a_policy_may_send_them_on_and_the_headers_tell_of_the_last_step(self, stage: Stage) -> None:
        scene = stage({DEAD: {"dead_letter": "/queue/attic"}})
        client = scene.connect()
        client.publish(QUEUE, b"m")
        first_at = milliseconds(scene)
        reject(client, QUEUE, requeue="false", reason="first")
        scene.wait(3.0)
        for _ in range(2):
            client.subscribe(DEAD, ack="client")
            client.unsubscribe()
            client.received()
        reject(client, DEAD, requeue="false", reason="second")
        (letter,) = taken(scene, "/queue/attic")
        assert own_headers(letter) == {
            "destination": "/queue/attic",
            "original-destination": QUEUE,
            "dlq-reason": "rejected",
            "dlq-source": DEAD,
            "dlq-attempts": "1",
            "dlq-first-at": first_at,
            "reason": "second",
        }

    def test_a_circle_of_full_queues_ends(self, stage: Stage) -> None:
        """Each of the queues is full, and makes a dead letter of its oldest for the next."""
        names = ["/queue/a", "/queue/b", "/queue/c"]
        scene = stage(
            {
                name: {"max_messages": 1, "when_full": WhenFull.DEAD_LETTER, "dead_letter": names[(place + 1) % 3]}
                for place, name in enumerate(names)
            }
        )
        client = scene.connect()
        for name in names:
            client.publish(name, b"m")
        for number in range(20):
            client.publish("/queue/a", b"%d" % number)
        assert scene.broker.context.waiting == 3
        assert scene.broker.counters.dropped == 20
        assert scene.broker.context.dead_letters_under_way == 0
