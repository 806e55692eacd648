"""Dead letters: where they go, which headers say what happened to them, and that they never go round for ever."""

from __future__ import annotations

import pytest

from gateway.broker.model.policy import OnNack, WhenFull
from gateway.codec import V10, V11, V12, Version

from ..client import EPOCH, WITH_NACK, Client, Scene
from ..conftest import Stage
from ..wire import Received

with_nack = pytest.mark.parametrize("version", WITH_NACK, ids=lambda version: version.name)
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
    @with_nack
    def test_after_the_last_attempt(self, stage: Stage, version: Version) -> None:
        scene = stage({QUEUE: {"max_attempts": 3, "backoff": 1.0, "backoff_factor": 1.0}})
        client = scene.connect(version)
        client.subscribe(QUEUE, ack="client")
        client.publish(QUEUE, b"body\xff", color="red", priority="7")
        scene.wait(5.0)
        first_at = milliseconds(scene)
        for _ in range(3):
            client.nack(client.message())
            scene.wait(2.0)
        (letter,) = taken(scene, DEAD, version)
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

    @with_nack
    @pytest.mark.parametrize("spelling", ["false", "False", "FALSE"])
    def test_by_a_nack_with_requeue_false_and_a_reason(self, scene: Scene, version: Version, spelling: str) -> None:
        client = scene.connect(version)
        client.publish(QUEUE, b"m")
        reject(client, QUEUE, requeue=spelling, reason="no such order")
        (letter,) = taken(scene, DEAD, version)
        assert own_headers(letter) == {
            "destination": DEAD,
            "original-destination": QUEUE,
            "dlq-reason": "rejected",
            "dlq-source": QUEUE,
            "dlq-attempts": "1",
            "dlq-first-at": milliseconds(scene),
            "reason": "no such order",
        }

    @with_nack
    @pytest.mark.parametrize("headers", [{}, {"requeue": "true"}, {"requeue": "True"}])
    def test_by_the_policy_on_nack(self, stage: Stage, version: Version, headers: dict[str, str]) -> None:
        scene = stage({QUEUE: {"on_nack": OnNack.DEAD_LETTER}})
        client = scene.connect(version)
        client.publish(QUEUE, b"m")
        reject(client, QUEUE, **headers)
        (letter,) = taken(scene, DEAD, version)
        assert letter.headers["dlq-reason"] == "rejected"
        assert "reason" not in letter.headers

    def test_by_a_lost_connection(self, stage: Stage, version: Version) -> None:
        scene = stage({QUEUE: {"max_attempts": 2}})
        client = scene.connect(version)
        client.publish(QUEUE, b"m")
        first_at = milliseconds(scene)
        for _ in range(2):
            worker = scene.connect(version)
            worker.subscribe(QUEUE, ack="client")
            worker.drop()
            scene.wait(1.0)
        (letter,) = taken(scene, DEAD, version)
        assert own_headers(letter) == {
            "destination": DEAD,
            "original-destination": QUEUE,
            "dlq-reason": "max-attempts",
            "dlq-source": QUEUE,
            "dlq-attempts": "2",
            "dlq-first-at": first_at,
        }

    @with_nack
    def test_attempts_are_failures_and_not_deliveries(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.publish(QUEUE, b"m")
        reject(client, QUEUE)
        for _ in range(3):
            client.subscribe(QUEUE, ack="client")
            client.unsubscribe()
            client.received()
        reject(client, QUEUE, requeue="false")
        (letter,) = taken(scene, DEAD, version)
        assert letter.headers["dlq-attempts"] == "2"

    @with_nack
    @pytest.mark.parametrize("nack", [True, False])
    def test_they_are_the_policys_number_after_the_last(self, stage: Stage, version: Version, nack: bool) -> None:
        """Whatever made it fail, and though some deliveries were none of its attempts."""
        scene = stage({QUEUE: {"max_attempts": 3}})
        scene.connect(version).publish(QUEUE, b"m")
        for _ in range(3):
            worker = scene.connect(version)
            worker.subscribe(QUEUE, ack="client")
            worker.unsubscribe()
            worker.received()
            worker.subscribe(QUEUE, ack="client")
            if nack:
                worker.nack(worker.message())
                worker.disconnect()
            else:
                worker.drop()
            scene.wait(1.0)
        (letter,) = taken(scene, DEAD, version)
        assert (letter.headers["dlq-reason"], letter.headers["dlq-attempts"]) == ("max-attempts", "3")

    @with_nack
    def test_the_last_reason_counts(self, stage: Stage, version: Version) -> None:
        scene = stage({QUEUE: {"max_attempts": 2}})
        client = scene.connect(version)
        client.publish(QUEUE, b"m")
        reject(client, QUEUE, reason="busy")
        reject(client, QUEUE, reason="broken")
        (letter,) = taken(scene, DEAD, version)
        assert letter.headers["reason"] == "broken"

    @with_nack
    def test_the_senders_reason_is_none(self, scene: Scene, version: Version) -> None:
        """Whoever reads a dead letter can rely on what it says of the failure."""
        client = scene.connect(version)
        forged = {"dlq-reason": "expired", "dlq-source": "/queue/b", "dlq-attempts": "99", "dlq-first-at": "1"}
        for reason in ({}, {"reason": "no such order"}):
            client.publish(QUEUE, b"m", reason="orderly", **{"original-destination": "/queue/b"}, **forged)
            reject(client, QUEUE, requeue="false", **reason)
            (letter,) = taken(scene, DEAD, version)
            assert own_headers(letter) == {
                "destination": DEAD,
                "original-destination": QUEUE,
                "dlq-reason": "rejected",
                "dlq-source": QUEUE,
                "dlq-attempts": "1",
                "dlq-first-at": milliseconds(scene),
                **reason,
            }

    def test_of_what_nobody_rejected_neither(self, stage: Stage, version: Version) -> None:
        scene = stage({QUEUE: {"dead_letter_expired": True}})
        client = scene.connect(version)
        client.publish(QUEUE, b"m", reason="orderly", ttl="100")
        scene.wait(1.0)
        (letter,) = taken(scene, DEAD, version)
        assert letter.headers["dlq-reason"] == "expired"
        assert "reason" not in letter.headers

    def test_but_on_its_way_to_consumers_it_is_a_header_like_others(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.publish(QUEUE, b"m", reason="orderly")
        client.subscribe(QUEUE)
        assert client.message().headers["reason"] == "orderly"

    @with_nack
    def test_nor_is_one_of_an_earlier_failure(self, stage: Stage, version: Version) -> None:
        scene = stage({QUEUE: {"max_attempts": 2}})
        client = scene.connect(version)
        client.publish(QUEUE, b"m")
        reject(client, QUEUE, reason="busy")
        reject(client, QUEUE)
        client.publish(QUEUE, b"m")
        reject(client, QUEUE, reason="busy")
        worker = scene.connect(version)
        worker.subscribe(QUEUE, ack="client")
        worker.drop()
        assert ["reason" in letter.headers for letter in taken(scene, DEAD, version)] == [False, False]

    @with_nack
    def test_nor_is_one_of_an_earlier_queue(self, stage: Stage, version: Version) -> None:
        scene = stage({DEAD: {"dead_letter": "/queue/attic"}})
        client = scene.connect(version)
        client.publish(QUEUE, b"m")
        reject(client, QUEUE, requeue="false", reason="first")
        reject(client, DEAD, requeue="false")
        (letter,) = taken(scene, "/queue/attic", version)
        assert letter.headers["dlq-source"] == DEAD
        assert "reason" not in letter.headers

    @with_nack
    def test_a_cumulative_nack_gives_all_its_reason(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe(QUEUE, ack="client")
        for body in (b"1", b"2", b"3"):
            client.publish(QUEUE, body)
        client.nack(client.messages()[1], requeue="false", reason="no")
        assert [(each.body, each.headers["reason"]) for each in taken(scene, DEAD, version)] == [
            (b"1", "no"),
            (b"2", "no"),
        ]

    @with_nack
    def test_in_a_transaction_at_commit(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe(QUEUE, ack="client")
        client.publish(QUEUE, b"m")
        client.begin()
        client.nack(client.message(), transaction="t", requeue="false", reason="no")
        assert not taken(scene, DEAD)
        client.commit()
        (letter,) = taken(scene, DEAD, version)
        assert (letter.headers["dlq-reason"], letter.headers["reason"]) == ("rejected", "no")

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

    @with_nack
    @pytest.mark.parametrize("destination", ["/topic/a.b", "/exchange/amq.topic/a.b"])
    def test_of_a_pattern_they_say_what_was_sent_to(self, stage: Stage, version: Version, destination: str) -> None:
        scene = stage({"/topic/#": {"dead_letter": "/queue/dead"}})
        client = scene.connect(version)
        client.subscribe("/topic/a.*", ack="client")
        client.publish(destination, b"m")
        client.nack(client.message(), requeue="false")
        (letter,) = taken(scene, "/queue/dead", version)
        assert letter.headers["dlq-source"] == "/topic/a.*"
        assert letter.headers["original-destination"] == destination

    @with_nack
    def test_it_is_a_new_message(self, scene: Scene, version: Version) -> None:
        """With an id of its own, delivered the first time, and without the time of the old one."""
        client = scene.connect(version)
        client.publish(QUEUE, b"m", JMSXGroupID="g", ttl="1000")
        client.subscribe(QUEUE, "reject", ack="client")
        message = client.message()
        client.nack(message, requeue="false")
        scene.wait(1.5)
        (letter,) = taken(scene, DEAD, version)
        assert letter.message_id != message.message_id
        assert not letter.redelivered


class TestTargets:
    @with_nack
    @pytest.mark.parametrize(("source", "target"), [("/queue/x.y/z", "/queue/dlq.x.y/z"), ("bare", "/queue/dlq.bare")])
    def test_by_default_a_queue_named_after_the_source(
        self, scene: Scene, version: Version, source: str, target: str
    ) -> None:
        client = scene.connect(version)
        client.publish(source, b"m")
        reject(client, source, requeue="false")
        assert [each.body for each in taken(scene, target)] == [b"m"]

    @with_nack
    def test_as_the_policy_says(self, stage: Stage, version: Version) -> None:
        scene = stage({"/queue/#": {"dead_letter": "/queue/graveyard"}})
        client = scene.connect(version)
        for name in ("a", "b"):
            client.publish(name, b"m")
            reject(client, name, requeue="false")
        assert [each.headers["dlq-source"] for each in taken(scene, "/queue/graveyard")] == ["/queue/a", "/queue/b"]

    @with_nack
    @pytest.mark.parametrize("target", ["", QUEUE])
    def test_nowhere_and_its_own_queue_mean_that_it_is_dropped(
        self, stage: Stage, version: Version, target: str
    ) -> None:
        scene = stage({QUEUE: {"dead_letter": target}})
        client = scene.connect(version)
        client.publish(QUEUE, b"m")
        reject(client, QUEUE, requeue="false")
        assert not scene.broker.destinations
        assert (scene.broker.counters.dropped, scene.broker.counters.dead_lettered) == (1, 0)

    @with_nack
    def test_a_topic(self, stage: Stage, version: Version) -> None:
        scene = stage({QUEUE: {"dead_letter": "/topic/dead.a"}})
        client, exact, pattern = (scene.connect(version) for _ in range(3))
        exact.subscribe("/topic/dead.a")
        pattern.subscribe("/topic/dead.#", ack="client")
        client.publish(QUEUE, b"m")
        reject(client, QUEUE, requeue="false")
        for each in (exact, pattern):
            message = each.message()
            assert (message.headers["destination"], message.headers["dlq-source"]) == ("/topic/dead.a", QUEUE)

    @with_nack
    def test_a_topic_has_none_unless_the_policy_says_so(self, stage: Stage, version: Version) -> None:
        scene = stage({"/topic/b": {"dead_letter": "/queue/dead"}})
        client = scene.connect(version)
        for id, name in enumerate("ab"):
            client.subscribe(f"/topic/{name}", str(id), ack="client")
            client.publish(f"/topic/{name}", b"m")
            client.nack(client.message(), requeue="false")
        assert list(scene.broker.destinations) == ["/topic/a", "/topic/b", "/queue/dead"]
        (letter,) = taken(scene, "/queue/dead")
        assert letter.headers["dlq-source"] == "/topic/b"
        assert scene.broker.counters.dropped == 1

    @with_nack
    def test_each_subscriber_of_a_topic_has_dead_letters_of_its_own(self, stage: Stage, version: Version) -> None:
        scene = stage({"/topic/#": {"dead_letter": "/queue/dead", "max_attempts": 1}})
        clients = [scene.connect(version) for _ in range(3)]
        for client in clients:
            client.subscribe("/topic/a", ack="client")
        clients[0].publish("/topic/a", b"m")
        clients[0].nack(clients[0].message())
        clients[1].drop()
        clients[2].ack(clients[2].message())
        assert len(taken(scene, "/queue/dead")) == 2

    @with_nack
    def test_the_priority_is_kept(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        for priority in ("1", "9", "5"):
            client.publish(QUEUE, priority.encode(), priority=priority)
            reject(client, QUEUE, requeue="false")
        assert [each.body for each in taken(scene, DEAD, version)] == [b"9", b"5", b"1"]

    @with_nack
    def test_the_group_is_kept(self, scene: Scene, version: Version) -> None:
        """Who repairs dead letters gets those of one group in order, too."""
        producer, readers = scene.connect(version), [scene.connect(version) for _ in range(3)]
        for reader in readers:
            reader.subscribe(DEAD, ack="client")
        for number in range(12):
            producer.publish(QUEUE, b"%d" % number, JMSXGroupID="ghi"[number % 3])
            reject(producer, QUEUE, requeue="false")
        messages = [reader.messages() for reader in readers]
        assert [[int(each.body) for each in share] for share in messages] == [[*range(k, 12, 3)] for k in range(3)]
        assert [share[0].headers["JMSXGroupID"] for share in messages] == ["g", "h", "i"]

    @with_nack
    def test_the_end_of_a_group_is_kept(self, scene: Scene, version: Version) -> None:
        producer, one, two = (scene.connect(version) for _ in range(3))
        for reader in (one, two):
            reader.subscribe(DEAD, ack="client")
        for number, end in enumerate(["", "-1", "", ""]):
            producer.publish(QUEUE, b"%d" % number, JMSXGroupID="g", **({"JMSXGroupSeq": end} if end else {}))
            reject(producer, QUEUE, requeue="false")
        assert (one.bodies(), two.bodies()) == ([b"0", b"1"], [b"2", b"3"])

    @with_nack
    def test_a_full_queue_must_take_them(self, stage: Stage, version: Version) -> None:
        scene = stage({DEAD: {"max_messages": 1}}, max_destinations=2)
        client = scene.connect(version)
        for body in (b"1", b"2", b"3"):
            client.publish(QUEUE, body)
            reject(client, QUEUE, requeue="false")
        assert len(taken(scene, DEAD)) == 3

    @with_nack
    def test_also_where_there_may_be_no_more_destinations(self, stage: Stage, version: Version) -> None:
        scene = stage(max_destinations=1)
        client = scene.connect(version)
        client.publish(QUEUE, b"m")
        reject(client, QUEUE, requeue="false")
        assert list(scene.broker.destinations) == [DEAD]

    @pytest.mark.parametrize("ack", ["auto", "client"])
    @pytest.mark.parametrize("dead_first", [False, True])
    def test_the_session_that_fails_does_not_get_them(
        self, stage: Stage, version: Version, ack: str, dead_first: bool
    ) -> None:
        scene = stage({QUEUE: {"max_attempts": 1}})
        client = scene.connect(version)
        wanted = [(QUEUE, "client"), (DEAD, ack)]
        for id, (name, mode) in enumerate(reversed(wanted) if dead_first else wanted):
            client.subscribe(name, str(id), ack=mode)
        client.publish(QUEUE, b"m")
        assert client.bodies() == [b"m"]
        client.send("BOGUS")
        assert [frame.command for frame in client.received()] == ["ERROR"]
        (letter,) = taken(scene, DEAD, version)
        assert not letter.redelivered


@with_nack
class TestDeadLettersOfDeadLetters:
    def test_they_wait_until_somebody_takes_them(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.publish(DEAD, b"m")
        for _ in range(30):
            reject(client, DEAD)
        assert [each.body for each in taken(scene, DEAD)] == [b"m"]

    def test_but_who_says_that_it_is_not_to_be_delivered_again_is_heard(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.publish(DEAD, b"m")
        reject(client, DEAD, requeue="false")
        assert not scene.broker.destinations

    def test_a_policy_may_send_them_on_and_the_headers_tell_of_the_last_step(
        self, stage: Stage, version: Version
    ) -> None:
        scene = stage({DEAD: {"dead_letter": "/queue/attic"}})
        client = scene.connect(version)
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

    def test_a_circle_of_full_queues_ends(self, stage: Stage, version: Version) -> None:
        """Each of the queues is full, and makes a dead letter of its oldest for the next."""
        names = ["/queue/a", "/queue/b", "/queue/c"]
        scene = stage(
            {
                name: {"max_messages": 1, "when_full": WhenFull.DEAD_LETTER, "dead_letter": names[(place + 1) % 3]}
                for place, name in enumerate(names)
            }
        )
        client = scene.connect(version)
        for name in names:
            client.publish(name, b"m")
        for number in range(20):
            client.publish("/queue/a", b"%d" % number)
        assert scene.broker.context.waiting == 3
        assert scene.broker.counters.dropped == 20
        assert scene.broker.context.dead_letters_under_way == 0

    def test_in_a_circle_of_consumers_who_reject_each_step_is_one_of_theirs(
        self, stage: Stage, version: Version
    ) -> None:
        scene = stage({"/queue/a": {"dead_letter": "/queue/b"}, "/queue/b": {"dead_letter": "/queue/a"}})
        client = scene.connect(version)
        client.publish("/queue/a", b"m")
        for name in ("/queue/a", "/queue/b") * 10:
            reject(client, name, requeue="false")
        (letter,) = taken(scene, "/queue/a")
        assert (letter.headers["dlq-source"], letter.headers["dlq-attempts"]) == ("/queue/b", "1")

    def test_a_topics_dead_letters_to_a_topic_that_it_covers(self, stage: Stage, version: Version) -> None:
        """The subscriber gets what it rejected again, as a new message, and no more than once for each NACK."""
        scene = stage({"/topic/#": {"dead_letter": "/topic/dead"}})
        client = scene.connect(version)
        client.subscribe("/topic/#", ack="client")
        client.publish("/topic/a", b"m")
        for _ in range(5):
            client.nack(client.message(), requeue="false")
        assert client.message().headers["destination"] == "/topic/dead"
