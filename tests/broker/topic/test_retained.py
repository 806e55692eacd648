"""Retained messages: the last value of a topic, for those who subscribe later."""

from __future__ import annotations

import gc

import pytest

from gateway.broker.model.message import Message
from gateway.broker.topic import retained
from gateway.codec import Version

from ..client import Client, Scene, Step
from ..conftest import Stage
from ..wire import build

TOPIC = "/topic/a"


def kept_for(scene: Scene, name: str, version: Version, **headers: str) -> list[bytes]:
    """What a new subscriber gets."""
    client = scene.connect(version)
    client.subscribe(name, **headers)
    found = client.bodies()
    client.drop()
    return found


@pytest.mark.parametrize("headers", [{"retain": "set"}, {"retain": "true"}, {"ActiveMQ.Retain": "true"}])
def test_who_subscribes_later_gets_it(scene: Scene, version: Version, headers: dict[str, str]) -> None:
    client, other = scene.connect(version), scene.connect(version)
    client.publish(TOPIC, b"m", color="red", **headers)
    client.drop()
    other.subscribe(TOPIC)
    message = other.message()
    assert message.body == b"m"
    common = ("subscription", "message-id", "content-length")
    shown = {name: value for name, value in message.headers.items() if name not in common}
    assert shown == {"destination": TOPIC, "color": "red", "retained": "true"}


def test_who_is_there_gets_it_like_any_other(scene: Scene, version: Version) -> None:
    client, other = scene.connect(version), scene.connect(version)
    other.subscribe(TOPIC)
    client.publish(TOPIC, b"m", retain="set")
    message = other.message()
    assert "retained" not in message.headers
    assert "retain" not in message.headers
    other.subscribe(TOPIC, "1")
    again = other.message()
    assert (again.subscription, again.message_id) == ("1", message.message_id)


def test_behind_the_receipt_of_the_subscribe(scene: Scene, version: Version) -> None:
    client = scene.connect(version)
    client.publish(TOPIC, b"m", retain="set")
    client.subscribe(TOPIC, receipt="r")
    assert [frame.command for frame in client.received()] == ["RECEIPT", "MESSAGE"]


class TestTheLastCounts:
    def test_it_replaces_the_one_before(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        for body in (b"1", b"2", b"3"):
            client.publish(TOPIC, body, retain="set")
        nbytes = scene.broker.memory.used
        assert kept_for(scene, TOPIC, version) == [b"3"]
        client.publish(TOPIC, b"x" * 101, retain="set")
        assert scene.broker.memory.used == nbytes + 100

    def test_others_change_nothing(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.publish(TOPIC, b"1", retain="set")
        client.publish(TOPIC, b"2")
        client.publish(TOPIC, b"3", retain="false")
        client.publish("/topic/b", b"4", retain="set")
        assert kept_for(scene, TOPIC, version) == [b"1"]

    def test_remove(self, scene: Scene, version: Version) -> None:
        """It is routed, too."""
        client, other = scene.connect(version), scene.connect(version)
        other.subscribe(TOPIC)
        client.publish(TOPIC, b"1", retain="set")
        client.publish(TOPIC, b"2", retain="remove")
        client.publish(TOPIC, b"3", retain="remove")
        assert other.bodies() == [b"1", b"2", b"3"]
        assert kept_for(scene, TOPIC, version) == []
        assert scene.broker.memory.used == 0

    def test_at_commit(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.publish(TOPIC, b"1", retain="set")
        client.begin()
        client.publish(TOPIC, b"2", retain="set", transaction="t")
        assert kept_for(scene, TOPIC, version) == [b"1"]
        client.commit()
        assert kept_for(scene, TOPIC, version) == [b"2"]

    def test_when_its_delay_is_over(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.publish(TOPIC, b"m", retain="set", **{"x-delay": "1000"})
        assert kept_for(scene, TOPIC, version) == []
        scene.wait(1.1)
        assert kept_for(scene, TOPIC, version) == [b"m"]

    def test_a_duplicate_does_not(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        for body in (b"1", b"2"):
            client.publish(TOPIC, body, retain="set", **{"dedup-id": "x"})
        assert kept_for(scene, TOPIC, version) == [b"1"]

    def test_for_each_of_several_topics(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.publish("/topic/a,/topic/b", b"m", retain="set")
        client.subscribe("/topic/*")
        assert [each.headers["destination"] for each in client.messages()] == ["/topic/a", "/topic/b"]


class TestWhoGetsWhat:
    @pytest.fixture
    def client(self, scene: Scene, version: Version) -> Client:
        client = scene.connect(version)
        for name in ("a", "a.b", "a/c", "b.c"):
            client.publish(f"/topic/{name}", name.encode(), retain="set", color="red" if name == "a.b" else "blue")
        return client

    @pytest.mark.parametrize(
        ("pattern", "names"),
        [
            ("/topic/a.*", ["a.b", "a/c"]),
            ("/topic/a/**", ["a", "a.b", "a/c"]),
            ("/topic/>", ["a", "a.b", "a/c", "b.c"]),
            ("/topic/#.c", ["a/c", "b.c"]),
            ("/topic/a.b", ["a.b"]),
            ("/topic/a.c", []),
            ("/exchange/amq.topic/a.*", ["a.b", "a/c"]),
        ],
    )
    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_patterns(self, scene: Scene, client: Client, pattern: str, names: list[str], ack: str) -> None:
        assert client.version
        assert kept_for(scene, pattern, client.version, ack=ack) == [name.encode() for name in names]

    def test_the_fanout_exchange_keeps_one(self, scene: Scene) -> None:
        client = scene.connect()
        for key in ("/a", "/b"):
            client.publish(f"/exchange/amq.fanout{key}", key.encode(), retain="set")
        assert kept_for(scene, "/exchange/amq.fanout", client.version) == [b"/b"]

    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_selectors(self, scene: Scene, client: Client, ack: str) -> None:
        assert kept_for(scene, "/topic/#", client.version, selector="color = 'red'", ack=ack) == [b"a.b"]

    def test_in_mode_client_it_must_be_acknowledged(self, scene: Scene, client: Client) -> None:
        client.subscribe("/topic/a.b", ack="client", **{"prefetch-count": "1"})
        message = client.message()
        assert client.session.outstanding == 1
        client.publish("/topic/a.b", b"next")
        assert not client.received()
        client.ack(message)
        assert client.bodies() == [b"next"]
        assert kept_for(scene, "/topic/a.b", client.version) == [b"a.b"]

    def test_queues_and_browsers_have_none(self, scene: Scene, client: Client) -> None:
        client.publish("/queue/a", b"m", retain="set")
        error = client.error()
        assert error.headers["message"] == "retain is for topics"
        assert not scene.broker.context.waiting

    def test_not_even_one_of_several(self, scene: Scene, client: Client) -> None:
        client.publish("/topic/a,b", b"new", retain="set")
        assert client.error()
        assert kept_for(scene, "/topic/a", client.version) == [b"a"]


class TestHowLong:
    @pytest.mark.parametrize("header", ["ttl", "expiration", "expires"])
    def test_until_it_expires(self, scene: Scene, version: Version, header: str) -> None:
        client = scene.connect(version)
        milliseconds = 2_000 if header != "expires" else int((1_700_000_000 + scene.now + 2) * 1_000)
        client.publish(TOPIC, b"m", retain="set", **{header: str(milliseconds)})
        scene.wait(1.99)
        assert kept_for(scene, TOPIC, version) == [b"m"]
        scene.now += 0.02  # and the agenda has not been looked at
        assert kept_for(scene, TOPIC, version) == []
        scene.wait(0.02)
        assert scene.broker.memory.used == 0
        assert scene.broker.counters.expired == 1

    @pytest.mark.parametrize(("first", "second"), [("9000", "1000"), ("1000", "9000")])
    def test_each_has_its_own_time(self, scene: Scene, version: Version, first: str, second: str) -> None:
        client = scene.connect(version)
        client.publish(TOPIC, b"1", retain="set", ttl=first)
        client.publish(TOPIC, b"2", retain="set", ttl=second)
        scene.wait(1.1)
        assert kept_for(scene, TOPIC, version) == ([] if second == "1000" else [b"2"])
        assert (scene.broker.memory.used == 0) is (second == "1000")
        scene.wait(8.0)
        assert scene.broker.memory.used == 0

    def test_one_without_an_end_takes_the_place_of_one_that_has_one(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.publish(TOPIC, b"1", retain="set", ttl="1000")
        client.publish(TOPIC, b"2", retain="set")
        scene.wait(2.0)
        assert kept_for(scene, TOPIC, version) == [b"2"]

    def test_what_was_removed_leaves_nothing_on_the_agenda(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        for number in range(500):
            client.publish(f"/topic/{number}", b"m", retain="set", ttl="86400000")
            client.publish(f"/topic/{number}", b"m", retain="remove")
        assert scene.broker.memory.used == 0
        assert len(scene.broker.scheduler) <= 200

    def test_one_that_was_over_on_arrival_is_not_kept(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.publish(TOPIC, b"m", retain="set", expires="1")
        assert kept_for(scene, TOPIC, version) == []

    @pytest.mark.parametrize("destination", ["/temp-topic/x", "/user/ada/queue/x", "/user/ada/topic/x"])
    def test_what_is_for_one_alone_is_not_retained(self, scene: Scene, version: Version, destination: str) -> None:
        """It would stay for ever when that one is gone."""
        client = scene.connect(version)
        client.publish(destination, b"m", retain="set")
        assert client.error().headers["message"] == "retain is for topics"
        assert len(scene.broker.router.retained) == 0


class TestLimits:
    def test_so_many(self, stage: Stage, version: Version) -> None:
        scene = stage(max_retained=2)
        client, other = scene.connect(version), scene.connect(version)
        for name in "ab":
            client.publish(f"/topic/{name}", b"1", retain="set")
        client.publish("/topic/b", b"2", retain="set")
        client.publish("/topic/c", b"m", retain="remove")
        other.publish("/topic/c", b"m", retain="set")
        assert b"(max_retained)" in other.error().body
        client.publish("/topic/a", b"m", retain="remove")
        client.publish("/topic/c", b"m", retain="set")
        assert sorted(kept_for(scene, "/topic/#", version)) == [b"2", b"m"]

    def test_by_one_send_to_several_topics(self, stage: Stage, version: Version) -> None:
        scene = stage(max_retained=2)
        client = scene.connect(version)
        client.publish("/topic/a", b"m", retain="set")
        client.publish("/topic/a,/topic/b,/topic/c", b"m", retain="set")
        assert b"(max_retained)" in client.error().body
        assert len(scene.broker.router.retained) == 1

    def test_by_what_arrives_later(self, stage: Stage, version: Version) -> None:
        """It was in order when it was sent, so it is routed; but there are no more than there may be."""
        scene = stage(max_retained=2)
        client, other = scene.connect(version), scene.connect(version)
        other.subscribe("/topic/*")
        for name in "abcd":
            client.publish(f"/topic/{name}", b"m", retain="set", **{"x-delay": "100"})
        scene.wait(0.2)
        assert len(other.messages()) == 4
        assert len(scene.broker.router.retained) == 2

    def test_by_all_of_a_transaction_together(self, stage: Stage, version: Version) -> None:
        scene = stage(max_retained=2)
        client, other = scene.connect(version), scene.connect(version)
        other.subscribe("/topic/*")
        client.begin()
        for name in "abc":
            client.publish(f"/topic/{name}", b"m", retain="set", transaction="t")
        client.commit()
        assert b"(max_retained)" in client.error().body
        assert other.messages() == []
        assert not scene.broker.router.retained

    def test_by_what_others_retain_before_the_commit(self, stage: Stage, version: Version) -> None:
        """Nothing of the transaction has happened then, and its sender is told."""
        scene = stage(max_retained=2)
        client, other = scene.connect(version), scene.connect(version)
        client.begin()
        client.publish("/topic/a,/topic/b", b"m", retain="set", transaction="t")
        client.publish("/queue/a", b"m", transaction="t")
        other.publish("/topic/c", b"m", retain="set")
        client.commit()
        assert b"(max_retained)" in client.error().body
        assert kept_for(scene, "/topic/#", version) == [b"m"]
        assert scene.broker.context.waiting == 0

    def test_new_values_need_no_room(self, stage: Stage, version: Version) -> None:
        scene = stage(max_retained=2)
        client = scene.connect(version)
        client.publish("/topic/a", b"1", retain="set")
        client.begin()
        for name in "abab":
            client.publish(f"/topic/{name}", b"2", retain="set", transaction="t")
        client.publish("/topic/c", b"2", retain="remove", transaction="t")
        client.commit()
        assert kept_for(scene, "/topic/#", version) == [b"2", b"2"]

    def test_they_count_as_memory(self, stage: Stage, version: Version) -> None:
        scene = stage(memory_limit=4_000)
        client = scene.connect(version)
        client.publish(TOPIC, b"x" * 3_000, retain="set")
        assert scene.broker.memory.pressed
        client.publish(TOPIC, b"", retain="remove")
        assert not scene.broker.memory.pressed
        assert scene.broker.memory.used == 0


class TestMany:
    """A new subscriber gets them as fast as it reads, and holds up nobody."""

    @pytest.fixture
    def names(self, scene: Scene) -> list[str]:
        names = [f"/topic/{number}" for number in range(25)]
        for name in names:
            scene.connect().publish(name, name.rjust(1_000).encode(), retain="set")
        return names

    @staticmethod
    def shown(client: Client) -> list[str]:
        return [body.decode().strip() for body in client.bodies()]

    @pytest.fixture
    def scene(self, stage: Stage) -> Scene:
        return stage(max_outbound=32 * 1024)

    def test_no_more_than_fit_into_its_window(self, scene: Scene, version: Version, names: list[str]) -> None:
        client = scene.connect(version)
        client.stalled = True
        client.subscribe("/topic/#")
        assert client.session.outbox.size < client.session.outbox.window + 1_200
        client.resume()
        assert self.shown(client) == names

    @pytest.mark.parametrize("ack", ["auto", "client"])
    @pytest.mark.parametrize("reads", [1, 10])
    def test_in_turns(
        self, scene: Scene, version: Version, names: list[str], ack: str, reads: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(retained, "READS_PER_TURN", reads)
        client = scene.connect(version)
        client.subscribe("/topic/#", ack=ack)
        scene.wait(2.0)
        assert self.shown(client) == names

    def test_who_acknowledges_one_by_one(
        self, scene: Scene, version: Version, names: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Not all of them are put into its queue."""
        monkeypatch.setattr(retained, "READS_PER_TURN", 10)
        client = scene.connect(version)
        client.subscribe("/topic/#", ack="client", **{"prefetch-count": "1"})
        found = []
        for _ in names:
            assert scene.broker.context.waiting <= 10
            message = client.message()
            found.append(message.body.decode().strip())
            client.ack(message)
            scene.wait(0.1)
        assert found == names

    def test_who_leaves_between_two_turns(
        self, scene: Scene, version: Version, names: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(retained, "READS_PER_TURN", 2)
        client = scene.connect(version)
        asked = {"destination": "/topic/#", "id": "0"}
        frames = [build("SUBSCRIBE", asked, version=version), build("UNSUBSCRIBE", asked, version=version)]
        client.receive(b"".join(frames))
        assert self.shown(client) == names[:2]

    @pytest.mark.parametrize("leave", [Client.drop, Client.unsubscribe])
    def test_who_leaves_meanwhile(self, scene: Scene, version: Version, names: list[str], leave: Step) -> None:
        client = scene.connect(version)
        client.stalled = True
        client.subscribe("/topic/#")
        leave(client)
        if not client.closed:
            client.resume()
            assert 0 < len(self.shown(client)) < len(names)

    def test_those_that_expire_meanwhile(self, scene: Scene, version: Version, names: list[str]) -> None:
        client = scene.connect(version)
        scene.connect().publish(names[-1], b"m", retain="set", ttl="1000")
        client.stalled = True
        client.subscribe("/topic/#")
        scene.wait(1.1)
        client.resume()
        assert self.shown(client) == names[:-1]

    @pytest.mark.parametrize("retain", ["set", "remove"])
    def test_an_old_value_does_not_come_behind_a_newer_one(
        self, scene: Scene, version: Version, names: list[str], retain: str
    ) -> None:
        """Else the client would take the old one for the last."""
        client = scene.connect(version)
        client.stalled = True
        client.subscribe("/topic/#")
        scene.connect().publish(names[-1], b"new", retain=retain)
        client.resume()
        found = self.shown(client)
        assert "new" in found
        assert names[-1] not in found[found.index("new") :]

    @pytest.mark.parametrize("retain", ["set", "remove"])
    def test_what_was_replaced_is_not_kept_for_who_does_not_read(
        self, scene: Scene, version: Version, names: list[str], retain: str
    ) -> None:
        """It would be in no account: whoever subscribes and does not read could fill the memory with old values."""
        client, producer = scene.connect(version), scene.connect(version)
        client.stalled = True
        client.subscribe("/topic/#", selector="color IS NULL")
        for name in names:
            producer.publish(name, b"new", retain=retain, color="red")
        gc.collect()
        alive = {each.body for each in gc.get_objects() if type(each) is Message}
        assert not alive & {name.rjust(1_000).encode() for name in names}
        client.resume()
        assert 0 < len(self.shown(client)) < len(names)

    def test_a_value_that_comes_again_is_not_shown_twice(
        self, scene: Scene, version: Version, names: list[str]
    ) -> None:
        client, producer = scene.connect(version), scene.connect(version)
        client.stalled = True
        client.subscribe("/topic/#")
        for _ in range(2):
            producer.publish(names[-1], b"new", retain="set")
        client.resume()
        assert self.shown(client).count("new") == 2


def test_who_leaves_a_durable_subscription_gets_no_more_of_them(scene: Scene) -> None:
    sender, client = scene.connect(), scene.connect()
    for name in "abc":
        sender.publish(f"/topic/{name}", b"m", retain="set")
    client.stalled = True
    client.session.outbox.window = 1
    client.subscribe("/topic/*", durable="true")
    client.unsubscribe()
    client.resume()
    assert len(client.bodies()) == 1
    client.subscribe("/topic/*", durable="true")
    client.send("UNSUBSCRIBE", {"id": "0", "durable": "true"})
