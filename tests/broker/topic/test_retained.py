"""Retained messages: the last value of a topic, for later subscribers."""

from __future__ import annotations

import gc

import pytest

from gateway.broker.model.message import Message
from gateway.codec import Version

from ..client import EPOCH, Client, Scene
from ..conftest import Stage, small
from ..wire import build

TOPIC = "/topic/a"


def kept_for(scene: Scene, name: str, **headers: str) -> list[bytes]:
    """The messages that a new subscriber gets."""
    client = scene.connect()
    client.subscribe(name, **headers)
    found = client.bodies()
    client.drop()
    return found


@pytest.mark.parametrize("headers", [{"retain": "set"}, {"retain": "true"}, {"ActiveMQ.Retain": "true"}])
def test_a_later_subscriber_gets_it(scene: Scene, version: Version, headers: dict[str, str]) -> None:
    client, other = scene.connect(version), scene.connect(version)
    client.publish(TOPIC, b"m", color="red", **headers)
    client.drop()
    other.subscribe(TOPIC, receipt="r")
    receipt, message = other.received()
    assert (receipt.command, message.body) == ("RECEIPT", b"m")
    common = ("subscription", "message-id", "content-length")
    shown = {name: value for name, value in message.headers.items() if name not in common}
    assert shown == {"destination": TOPIC, "color": "red", "retained": "true"}


class TestTheLastCounts:
    def test_it_replaces_the_one_before(self, scene: Scene, client: Client) -> None:
        for body in (b"1", b"2", b"3"):
            client.publish(TOPIC, body, retain="set")
        nbytes = scene.broker.memory.used
        assert kept_for(scene, TOPIC) == [b"3"]
        client.publish(TOPIC, b"x" * 101, retain="set")
        assert scene.broker.memory.used == nbytes + 100

    def test_remove(self, scene: Scene, client: Client) -> None:
        """It is routed, too."""
        other = scene.connect()
        other.subscribe(TOPIC)
        client.publish(TOPIC, b"1", retain="set")
        client.publish(TOPIC, b"2", retain="remove")
        client.publish(TOPIC, b"3", retain="remove")
        messages = other.messages()
        assert [each.body for each in messages] == [b"1", b"2", b"3"]
        assert not {"retained", "retain"} & messages[0].headers.keys()
        assert kept_for(scene, TOPIC) == []
        assert scene.broker.memory.used == 0

    def test_at_commit_and_when_a_delay_is_over(self, scene: Scene, client: Client) -> None:
        client.begin()
        client.publish(TOPIC, b"1", retain="set", transaction="t")
        assert kept_for(scene, TOPIC) == []
        client.commit()
        client.publish(TOPIC, b"2", retain="set", **{"x-delay": "1000"})
        assert kept_for(scene, TOPIC) == [b"1"]
        scene.wait(1.1)
        assert kept_for(scene, TOPIC) == [b"2"]


class TestSubscribers:
    @pytest.fixture
    def client(self, scene: Scene) -> Client:
        client = scene.connect()
        for name in ("a", "a.b", "a/c", "b.c"):
            client.publish(f"/topic/{name}", name.encode(), retain="set", color="red" if name == "a.b" else "blue")
        return client

    @pytest.mark.parametrize(
        ("pattern", "names"),
        [
            ("/topic/a.*", ["a.b", "a/c"]),
            ("/topic/a/**", ["a", "a.b", "a/c"]),
            ("/topic/#.c", ["a/c", "b.c"]),
            ("/topic/a.b", ["a.b"]),
            ("/exchange/amq.topic/a.*", ["a.b", "a/c"]),
        ],
    )
    @pytest.mark.parametrize("ack", ["auto", "client"])
    @pytest.mark.usefixtures("client")
    def test_patterns(self, scene: Scene, pattern: str, names: list[str], ack: str) -> None:
        assert kept_for(scene, pattern, ack=ack) == [name.encode() for name in names]
        found = kept_for(scene, pattern, ack=ack, selector="color = 'red'")
        assert found == [name.encode() for name in names if name == "a.b"]

    @pytest.mark.parametrize(
        "destination", ["/queue/a", "/topic/a,b", "/temp-topic/x", "/user/ada/queue/x", "/user/ada/topic/x"]
    )
    def test_only_topics_that_all_can_subscribe_to_retain(self, scene: Scene, client: Client, destination: str) -> None:
        """A message for one user would stay for ever when that one is gone."""
        client.publish(destination, b"new", retain="set")
        assert client.error().headers["message"] == "retain is for topics"
        assert scene.broker.context.waiting == 0
        assert kept_for(scene, "/topic/a") == [b"a"]


@pytest.mark.parametrize("header", ["ttl", "expiration", "expires"])
def test_until_it_expires(scene: Scene, client: Client, header: str) -> None:
    milliseconds = 2_000 if header != "expires" else int((EPOCH + scene.now + 2) * 1_000)
    client.publish(TOPIC, b"m", retain="set", **{header: str(milliseconds)})
    scene.wait(1.99)
    assert kept_for(scene, TOPIC) == [b"m"]
    scene.now += 0.02  # and the agenda has not been looked at
    assert kept_for(scene, TOPIC) == []
    scene.wait(0.02)
    assert scene.broker.memory.used == 0
    assert scene.broker.counters.expired == 1


class TestLimits:
    @pytest.fixture
    def scene(self, stage: Stage) -> Scene:
        return stage(max_retained=2)

    def test_so_many(self, scene: Scene, client: Client) -> None:
        other = scene.connect()
        for name in "ab":
            client.publish(f"/topic/{name}", b"1", retain="set")
        client.publish("/topic/b", b"2", retain="set")
        client.publish("/topic/c", b"m", retain="remove")
        other.publish("/topic/c", b"m", retain="set")
        assert b"(max_retained)" in other.error().body
        client.publish("/topic/a", b"m", retain="remove")
        client.publish("/topic/c", b"m", retain="set")
        assert sorted(kept_for(scene, "/topic/#")) == [b"2", b"m"]

    @pytest.mark.parametrize("way", ["one SEND", "all of a transaction", "retained by others before the COMMIT"])
    def test_too_many_at_once_are_refused_as_a_whole(self, scene: Scene, client: Client, way: str) -> None:
        other = scene.connect()
        if way == "one SEND":
            client.publish("/topic/a,/topic/b,/topic/c", b"m", retain="set")
        else:
            client.begin()
            client.publish("/queue/a", b"m", transaction="t")
            for name in "ab" if way.startswith("retained") else "abc":
                client.publish(f"/topic/{name}", b"m", retain="set", transaction="t")
            if way.startswith("retained"):
                other.publish("/topic/z", b"m", retain="set")
            client.commit()
        assert b"(max_retained)" in client.error().body
        assert len(scene.broker.router.retained) == way.startswith("retained")
        assert scene.broker.context.waiting == 0

    def test_one_that_arrives_later_is_routed_but_not_kept(self, scene: Scene, client: Client) -> None:
        """It was in order when it was sent."""
        other = scene.connect()
        other.subscribe("/topic/*")
        for name in "abcd":
            client.publish(f"/topic/{name}", b"m", retain="set", **{"x-delay": "100"})
        scene.wait(0.2)
        assert len(other.messages()) == 4
        assert len(scene.broker.router.retained) == 2


class TestMany:
    """A new subscriber gets them as fast as it reads, and holds up no other client."""

    @pytest.fixture
    def scene(self, stage: Stage) -> Scene:
        return stage(max_outbound=32 * 1024)

    @pytest.fixture
    def names(self, scene: Scene) -> list[str]:
        names = [f"/topic/{number}" for number in range(25)]
        for name in names:
            scene.connect().publish(name, name.rjust(1_000).encode(), retain="set")
        return names

    @staticmethod
    def shown(client: Client) -> list[str]:
        return [body.decode().strip() for body in client.bodies()]

    @small(retained_looks=10)
    def test_a_consumer_with_a_small_window_has_few_in_its_queue(
        self, scene: Scene, client: Client, names: list[str]
    ) -> None:
        client.subscribe("/topic/#", ack="client", **{"prefetch-count": "1"})
        found = []
        for _ in names:
            assert scene.broker.context.waiting <= 10
            message = client.message()
            found.append(message.body.decode().strip())
            client.ack(message)
            scene.wait(0.1)
        assert found == names

    @small(retained_looks=2)
    @pytest.mark.parametrize("shared", [{}, {"x-queue-name": "q"}])
    def test_a_subscriber_that_leaves_between_two_turns(
        self, client: Client, names: list[str], shared: dict[str, str]
    ) -> None:
        asked = {"destination": "/topic/#", "id": "0", **shared}
        frames = [build(command, asked, version=client.version) for command in ("SUBSCRIBE", "UNSUBSCRIBE")]
        client.receive(b"".join(frames))
        assert self.shown(client) == names[:2]

    def test_those_that_expire_meanwhile(self, scene: Scene, client: Client, names: list[str]) -> None:
        scene.connect().publish(names[-1], b"m", retain="set", ttl="1000")
        client.stalled = True
        client.subscribe("/topic/#")
        scene.wait(1.1)
        client.resume()
        assert self.shown(client) == names[:-1]

    @pytest.mark.parametrize("retain", ["set", "remove"])
    def test_an_old_value_does_not_come_behind_a_newer_one(
        self, scene: Scene, client: Client, names: list[str], retain: str
    ) -> None:
        """Else the client would take the old one for the last."""
        client.stalled = True
        client.subscribe("/topic/#")
        for _ in range(2):
            scene.connect().publish(names[-1], b"new", retain=retain)
        client.resume()
        found = self.shown(client)
        assert found.count("new") == 2
        assert names[-1] not in found[found.index("new") :]

    @pytest.mark.parametrize("retain", ["set", "remove"])
    def test_replaced_values_are_not_kept_for_a_client_that_does_not_read(
        self, scene: Scene, client: Client, names: list[str], retain: str
    ) -> None:
        """They would be in no account: such a client could fill the memory with old values."""
        client.stalled = True
        client.subscribe("/topic/#", selector="color IS NULL")
        for name in names:
            scene.connect().publish(name, b"new", retain=retain, color="red")
        gc.collect()
        alive = {each.body for each in gc.get_objects() if type(each) is Message}
        assert not alive & {name.rjust(1_000).encode() for name in names}
        client.resume()
        assert 0 < len(self.shown(client)) < len(names)
