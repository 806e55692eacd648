"""Offsets: a client that comes back under a name goes on behind the messages that it acknowledged."""

from __future__ import annotations

from typing import ClassVar

import pytest

from gateway.codec import V12, Version

from ..client import Client, Rules, Scene
from ..conftest import Stage
from .logged import BOTH, LOG, LOGS, ME, T, fill, gaps, got, numbers, write


def login(scene: Scene, name: str, client_id: str = "") -> Client:
    return scene.connect_by(f"CONNECT\naccept-version:1.2\nhost:x\nlogin:{name}\nclient-id:{client_id}\n\n\0".encode())


def come(scene: Scene, name: str = T, version: Version = V12, **headers: str) -> Client:
    client = scene.connect(version)
    client.subscribe(name, **(ME | headers))
    return client


def offsets(scene: Scene) -> int:
    return len(scene.broker.router.replay.offsets)


class TestGoingOn:
    """What the model of replay (tests/broker/models) does not check at each step."""

    def test_a_new_name_begins_with_what_comes(self, stage: Stage) -> None:
        scene = stage(LOG)
        fill(scene, 2, retain="set")
        client = come(scene)
        fill(scene, 1, start=2)
        assert numbers(client) == [1, 2]  # the retained one, and the new one

    def test_by_transactions_that_were_committed(self, stage: Stage) -> None:
        scene = stage(LOG)
        client = come(scene)
        fill(scene, 3)
        found = got(client)
        for number, name in enumerate("ab"):
            client.begin(name)
            client.ack(found[number], transaction=name)
            if name == "a":
                client.commit(name)
        client.drop()
        assert numbers(come(scene)) == [1, 2]

    def test_messages_that_the_selector_does_not_take_are_passed_over(self, stage: Stage) -> None:
        scene = stage(LOG)
        client = come(scene, selector="n = 1")
        fill(scene, 3, n="1")
        fill(scene, 3, start=3, n="2")
        client.ack(got(client)[-1])
        client.drop()
        fill(scene, 1, start=6, n="2")
        fill(scene, 1, start=7, n="1")
        assert numbers(come(scene, selector="n = 1")) == [7]

    def test_a_rejected_one_is_done_if_it_does_not_come_back(self, stage: Stage) -> None:
        scene = stage({T: {"log_messages": 100, "backoff": 10.0}})
        client = come(scene, ack="client-individual")
        fill(scene, 5)
        first, second, third, fourth, fifth = got(client)
        client.nack(first, requeue="false")
        client.ack(second)
        scene.wait(61.0)  # which is noticed now and then
        client.ack(third)
        client.nack(fourth)
        client.ack(fifth)
        client.drop()
        found = got(come(scene))
        assert [(each.body, each.redelivered) for each in found] == [(b"2", False), (b"3", False), (b"4", False)]


@BOTH
@pytest.mark.parametrize("is_empty", [False, True])
def test_a_client_that_did_not_acknowledge_a_gap_is_told_again(stage: Stage, stored: bool, is_empty: bool) -> None:
    """The connection may have broken before the client could read it."""
    scene = stage({T: {"log_age": 10.0}}, stored=stored)
    client = come(scene)
    fill(scene, 1)
    client.drop()
    scene.wait(12.0)
    fill(scene, 0 if is_empty else 2, start=1)
    expected = [True] if is_empty else [True, False]
    for _ in range(2):
        client.drop()
        scene = scene.restart() if stored else scene
        client = come(scene)
        found = got(client)
        assert gaps(found) == expected
    client.ack(found[0])
    client.drop()
    assert gaps(got(come(scene))) == expected[1:]


class TestNames:
    def test_they_belong_to_user_and_client_id(self, stage: Stage) -> None:
        scene = stage(LOG)
        sender = fill(scene, 1)
        known = (("bob", "1"), ("bob", "2"), ("eve", "1"))
        for user, client_id in known:
            client = login(scene, user, client_id)
            client.subscribe(T, **ME)
            assert numbers(client) == []
            client.drop()
        sender.publish(T, b"1")
        for user, client_id in (*known, ("eve", "2")):
            client = login(scene, user, client_id)
            client.subscribe(T, **ME)
            assert numbers(client) == ([1] if (user, client_id) in known else [])

    def test_so_many(self, stage: Stage) -> None:
        scene = stage(LOGS, max_durable_subscriptions=2)
        clients = [come(scene, resume=name) for name in "ab"]
        refused = come(scene, "/topic/new", resume="c")
        assert refused.error().headers["message"] == "too many names to resume by"
        assert offsets(scene) == 2
        assert "/topic/new" not in scene.broker.destinations
        for client in reversed(clients):
            client.drop()
        come(scene, resume="c")  # the one that was unused for the longest time makes room
        found = [offset.name.rpartition("/")[2] for offset in scene.broker.router.replay.offsets.every()]
        assert found == ["a", "c"]


@BOTH
def test_a_name_ends_by_the_policy(stage: Stage, stored: bool) -> None:
    scene = stage({T: {"log_messages": 9, "idle_timeout": 20.0}}, stored=stored)
    client = come(scene)
    scene.wait(70.0)  # not while a client has it
    fill(scene, 1)
    client.drop()
    scene.wait(19.0)
    client = come(scene)
    assert numbers(client) == [0]
    client.drop()
    if stored:
        scene = scene.restart()
    scene.wait(19.0)
    assert offsets(scene) == 1
    scene.wait(2.0)
    assert offsets(scene) == 0
    if stored:
        write(scene)
        assert {place.kind for place in scene.store.places.values()} == {"log"}
    assert numbers(come(scene)) == []


class TestTheNextProcess:
    def test_after_a_kill_the_last_seconds_do(self, stage: Stage) -> None:
        scene = stage(LOG, stored=True)
        client = come(scene)
        fill(scene, 6)
        found = got(client)
        client.ack(found[1])
        scene.wait(5.1)
        write(scene)
        client.ack(found[4])
        write(scene)
        assert numbers(come(scene.crash())) == [2, 3, 4, 5]

    @pytest.mark.parametrize("written", [False, True])
    def test_the_receipt_of_the_subscribe_waits_for_it(self, stage: Stage, written: bool) -> None:
        scene = stage(LOG, stored=True)
        fill(scene, 1)
        client = come(scene, receipt="r")
        if written:
            write(scene)
        assert client.receipts() == ["r"] * written
        assert offsets(scene.crash()) == written

    def test_when_the_clock_was_set_back(self, stage: Stage) -> None:
        """New messages are behind the old ones, whatever the clock says."""
        scene = stage(LOG, stored=True)
        client = come(scene)
        fill(scene, 3)
        for number in range(10):
            fill(scene, 1, "/topic/b", start=number)
        client.ack(got(client)[-1])
        client.drop()
        write(scene)
        scene = scene.restart(away=-3_600.0)
        fill(scene, 2, start=3)
        assert numbers(come(scene)) == [3, 4]

    def test_a_topic_without_a_log_now(self, stage: Stage) -> None:
        scene = stage(LOG, stored=True)
        come(scene)
        write(scene)
        (place,) = [place for place in scene.store.places.values() if place.kind == "cursor"]
        assert place.facts.startswith('{"topic": "/topic/a", "position": ')
        scene = scene.restart(policies={})
        assert come(scene).error().headers["message"] == "the topic keeps no stream"
        assert offsets(scene) == 1
        assert T not in scene.broker.destinations


class TestEnd:
    @BOTH
    @pytest.mark.parametrize("headers", [ME, {}, {"durable": "true"}], ids=["holder", "another", "durable"])
    def test_by_unsubscribe_of_any_subscription(self, stage: Stage, stored: bool, headers: dict[str, str]) -> None:
        """And of nothing else: a durable subscription stays."""
        scene = stage(LOG, stored=stored)
        client = come(scene)
        fill(scene, 2)
        client.unsubscribe()
        client.received()
        client.subscribe(T, **headers)
        client.send("UNSUBSCRIBE", {"id": "0", "resume": "me"})
        assert not offsets(scene)
        client.received()
        again = come(scene)
        fill(scene, 1, start=2)
        assert numbers(again) == [2]
        if "durable" in headers:
            assert len(scene.broker.registry.durable_subscriptions) == 1
            client.subscribe(T, durable="true")
            client.send("UNSUBSCRIBE", {"id": "0", "durable": "true"})

    def test_one_that_is_not_known(self, stage: Stage) -> None:
        client = come(stage(LOG))
        client.send("UNSUBSCRIBE", {"id": "0", "resume": "other"})
        assert client.error().headers["message"] == "unknown name"


class TestMail:
    RULES: ClassVar[Rules] = {"/user/#": {"log_messages": 100}}

    def test_of_a_user_with_a_login(self, stage: Stage) -> None:
        scene = stage(self.RULES)
        login(scene, "ada").subscribe("/user/queue/in", **ME)
        scene.clients[-1].drop()
        scene.connect().publish("/user/ada/queue/in", b"7")
        again = login(scene, "ada")
        again.subscribe("/user/queue/in", **ME)
        assert numbers(again) == [7]

    @pytest.mark.parametrize("forgotten", [0, 10**18])
    def test_of_a_session_without_one_it_goes_with_the_session(self, stage: Stage, forgotten: int) -> None:
        scene = stage(self.RULES)
        client, other = scene.connect(), scene.connect()
        other.subscribe("/user/queue/in", **ME)
        assert other.error().headers["message"] == "resume of a user destination needs a login"
        client.subscribe("/user/queue/in")
        scene.connect().publish(f"/user/{client.session.user}/queue/in", b"7")
        assert numbers(client) == [7]
        assert scene.broker.registry.streams.messages == 1
        scene.broker.registry.streams.forgotten = forgotten  # more than was in it
        client.drop()
        assert not len(scene.broker.registry.streams)
        assert not scene.broker.registry.hidden


@pytest.mark.parametrize(("in_memory", "has_gap"), [("/topic/m", True), ("/topic/#.m", True), ("/queue/#", False)])
def test_a_pattern_has_the_gaps_of_any_log_in_memory(stage: Stage, in_memory: str, has_gap: bool) -> None:
    scene = stage({**LOGS, in_memory: {"durable": False}}, stored=True)
    come(scene, "/topic/*")
    fill(scene, 1, "/topic/m")
    scene = scene.crash()
    assert gaps(got(come(scene, "/topic/*"))) == [has_gap]
