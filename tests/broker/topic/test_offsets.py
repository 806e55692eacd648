"""Offsets: a client that comes back under a name goes on behind the messages that it acknowledged."""

from __future__ import annotations

from typing import ClassVar

import pytest

from gateway.broker.topic import stream
from gateway.codec import V12, Version

from ..client import Client, Rules, Scene, Step
from ..conftest import Stage
from .logged import FIRST, LOG, LOGS, ME, T, bodies_and_gaps, fill, gaps, got, numbers, seqs, write

BOTH = pytest.mark.parametrize("stored", [False, True], ids=["memory", "stored"])


def login(scene: Scene, name: str, client_id: str = "") -> Client:
    return scene.connect_by(f"CONNECT\naccept-version:1.2\nhost:x\nlogin:{name}\nclient-id:{client_id}\n\n\0".encode())


def come(scene: Scene, name: str = T, version: Version = V12, **headers: str) -> Client:
    client = scene.connect(version)
    client.subscribe(name, **(ME | headers))
    return client


def offsets(scene: Scene) -> int:
    return len(scene.broker.router.replay.offsets)


class TestGoingOn:
    @BOTH
    @pytest.mark.parametrize("leave", [Client.drop, Client.disconnect, Client.unsubscribe])
    def test_behind_what_was_acknowledged(self, stage: Stage, version: Version, stored: bool, leave: Step) -> None:
        scene = stage(LOG, stored=stored)
        client = come(scene, version=version)
        fill(scene, 6)
        client.ack(got(client)[2])
        leave(client)
        fill(scene, 2, start=6)
        assert numbers(come(scene, version=version)) == [3, 4, 5, 6, 7]

    def test_a_new_name_begins_with_what_comes(self, stage: Stage) -> None:
        scene = stage(LOG)
        fill(scene, 2, retain="set")
        client = come(scene)
        fill(scene, 1, start=2)
        assert numbers(client) == [1, 2]  # the retained one, and the new one

    @BOTH
    def test_or_where_it_says_which_counts_once(self, stage: Stage, stored: bool) -> None:
        scene = stage({T: {"log_messages": 4}}, stored=stored)
        fill(scene, 6)
        for acknowledged, left in ((None, [2, 3, 4, 5]), (1, [2, 3, 4, 5]), (None, [4, 5])):
            client = come(scene, **FIRST)
            found = got(client)
            assert bodies_and_gaps(found) == [(number, False) for number in left]
            if acknowledged is not None:
                client.ack(found[acknowledged])
            client.drop()

    @pytest.mark.parametrize(
        ("ack", "acknowledged", "left"),
        [
            ("client-individual", [0, 1, 3], [2, 3, 4]),  # it stands before the first that is open
            ("client", [1], [2, 3, 4]),
            ("client", [], [0, 1, 2, 3, 4]),
        ],
    )
    def test_in_each_mode(self, stage: Stage, ack: str, acknowledged: list[int], left: list[int]) -> None:
        scene = stage(LOG)
        client = come(scene, ack=ack)
        fill(scene, 5)
        found = got(client)
        for number in acknowledged:
            client.ack(found[number])
        client.drop()
        assert numbers(come(scene)) == left

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

    @pytest.mark.parametrize("replayed", [False, True])
    @pytest.mark.parametrize("is_full", [False, True])
    def test_messages_that_wait_come_again(self, stage: Stage, replayed: bool, is_full: bool) -> None:
        """Also where all delivered ones are acknowledged, and the outbox is full."""
        scene = stage(LOG)
        headers = {"prefetch-count": "2"} | (FIRST if replayed else {})
        if replayed:
            fill(scene, 5)
        client = come(scene, **headers)
        if not replayed:
            fill(scene, 5)
        found = got(client)
        if is_full:
            client.stalled = True
            client.session.outbox.window = next(iter(client.session.subscriptions.values())).window = 1
            client.send("BEGIN", {"transaction": "t", "receipt": "r"})
        client.ack(found[1])
        client.drop()
        assert numbers(come(scene)) == [2, 3, 4]

    def test_dead_letters_are_done(self, stage: Stage) -> None:
        scene = stage(LOG)
        client = come(scene, ack="client-individual")
        fill(scene, 3)
        found = got(client)
        client.nack(found[0], requeue="false")
        client.ack(found[1])
        client.drop()
        assert numbers(come(scene)) == [2]

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

    def test_over_a_pattern(self, stage: Stage) -> None:
        scene = stage(LOGS)
        client = come(scene, "/topic/*")
        for number in range(6):
            fill(scene, 1, f"/topic/{'abc'[number % 3]}", start=number)
        client.ack(got(client)[1])
        client.drop()
        fill(scene, 1, "/topic/d", start=6)
        assert bodies_and_gaps(got(come(scene, "/topic/*"))) == [(number, False) for number in range(2, 7)]


class TestRejected:
    RULES: ClassVar[Rules] = {T: {"log_messages": 100, "backoff": 10.0}}

    def test_the_offset_stands_as_long_as_it_waits(self, stage: Stage) -> None:
        scene = stage(self.RULES)
        client = come(scene, ack="client-individual")
        fill(scene, 4)
        first, second, third, fourth = got(client)
        client.ack(first)
        scene.wait(61.0)  # which is noticed now and then
        client.ack(second)
        client.nack(third)
        client.ack(fourth)
        client.drop()
        assert numbers(come(scene)) == [1, 2, 3]

    def test_then_it_goes_on(self, stage: Stage) -> None:
        scene = stage(self.RULES)
        client = come(scene, ack="client-individual")
        fill(scene, 2)
        first, second = got(client)
        client.nack(first)
        client.ack(second)
        scene.wait(11.0)
        client.ack(client.message())
        client.drop()
        assert numbers(come(scene)) == []

    def test_a_message_from_the_stream_is_not_marked(self, stage: Stage) -> None:
        scene = stage(LOG)
        client = come(scene, ack="client-individual")
        fill(scene, 2)
        first, second = got(client)
        client.nack(first)
        client.ack(second)
        client.drop()
        assert [(each.body, each.redelivered) for each in got(come(scene))] == [(b"0", False), (b"1", False)]


class TestGaps:
    @BOTH
    @pytest.mark.parametrize(("acknowledged", "expected"), [(0, [True, False, False]), (1, [False, False, False])])
    def test_only_of_messages_that_were_not_acknowledged(
        self, stage: Stage, stored: bool, acknowledged: int, expected: list[bool]
    ) -> None:
        scene = stage({T: {"log_messages": 3}}, stored=stored)
        client = come(scene)
        fill(scene, 2)
        client.ack(got(client)[acknowledged])
        client.drop()
        fill(scene, 5 - 2 * acknowledged, start=2)
        found = got(come(scene))
        assert gaps(found) == expected
        assert not expected[0] or int(found[0].headers["first-seq"]) == seqs(found)[0]

    @BOTH
    @pytest.mark.parametrize("is_empty", [False, True])
    def test_a_client_that_did_not_acknowledge_it_is_told_again(
        self, stage: Stage, stored: bool, is_empty: bool
    ) -> None:
        """The connection may have broken before the client could read it."""
        scene = stage({T: {"log_age": 10.0}}, stored=stored)
        client = come(scene)
        fill(scene, 1)
        client.drop()
        scene.wait(12.0)
        if not is_empty:
            fill(scene, 2, start=1)
        expected = [True] if is_empty else [True, False]
        for _ in range(2):
            client = come(scene)
            assert gaps(got(client)) == expected
            client.drop()
        if stored:
            scene = scene.restart()
        client = come(scene)
        found = got(client)
        assert gaps(found) == expected
        client.ack(found[0])
        client.drop()
        assert gaps(got(come(scene))) == expected[1:]

    def test_also_where_it_began_with_one(self, stage: Stage) -> None:
        scene = stage({T: {"log_messages": 3}})
        fill(scene, 5)
        for _ in range(2):
            client = come(scene, **{"from-seq": "7"})
            assert gaps(got(client)) == [True, False, False]
            client.drop()

    def test_while_messages_wait_still(self, stage: Stage) -> None:
        scene = stage({T: {"log_messages": 3}})
        client = come(scene, **{"prefetch-count": "1"})
        fill(scene, 5)
        client.drop()
        fill(scene, 1, start=5)
        client = come(scene, **{"prefetch-count": "1"})
        scene.wait(61.0)
        found = got(client)
        assert gaps(found) == [True]
        client.ack(found[0])
        scene.wait(61.0)
        client.drop()
        assert bodies_and_gaps(got(come(scene))) == [(4, False), (5, False)]


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

    @pytest.mark.parametrize("is_in_use", [False, True])
    def test_the_same_name_for_another_topic_begins_anew(self, stage: Stage, is_in_use: bool) -> None:
        scene = stage(LOGS, stored=True)
        first = come(scene)
        if not is_in_use:
            fill(scene, 1)
            first.drop()
        second = come(scene, "/topic/b")
        assert offsets(scene) == 1
        if is_in_use:
            fill(scene, 1)
            assert numbers(first) == [0]
        fill(scene, 1, "/topic/b")
        assert numbers(second) == [0]
        for client in (first, second):
            client.drop()
        assert numbers(come(scene, "/topic/b")) == [0]
        assert numbers(come(scene)) == []  # the first one is forgotten
        assert offsets(scene) == 1

    def test_the_session_that_comes_last_has_it(self, stage: Stage) -> None:
        scene = stage(LOG)
        first = come(scene)
        fill(scene, 4)
        found = got(first)
        first.ack(found[0])
        second = come(scene)
        again = got(second)
        assert [int(each.body) for each in again] == [1, 2, 3]
        first.ack(found[3])  # which moves it no longer
        second.ack(again[0])
        fill(scene, 1, start=4)
        assert numbers(first) == numbers(second) == [4]
        first.drop()
        second.drop()
        assert numbers(come(scene)) == [2, 3, 4]

    def test_by_the_same_session(self, stage: Stage) -> None:
        scene = stage(LOG)
        client = come(scene)
        client.subscribe(T, id="1", **ME)
        fill(scene, 1)
        assert numbers(client) == [0, 0]
        client.unsubscribe("0")
        client.unsubscribe("1")
        assert numbers(come(scene)) == [0]

    def test_while_the_other_one_is_in_the_middle_of_replay(self, stage: Stage) -> None:
        scene = stage(LOG, stored=True)
        fill(scene, 6)
        first = come(scene, **FIRST, **{"prefetch-count": "2"})
        first.ack(got(first)[0])
        second = come(scene)
        assert numbers(second) == [1, 2, 3, 4, 5]
        assert numbers(first) == [2]

    def test_so_many(self, stage: Stage) -> None:
        scene = stage(LOGS, max_durable_subscriptions=2)
        come(scene, resume="a")
        come(scene, resume="b").drop()
        come(scene, "/topic/b", resume="b")
        client = come(scene, "/topic/new", resume="c")
        assert client.error().headers["message"] == "too many names to resume by"
        assert offsets(scene) == 2
        assert "/topic/new" not in scene.broker.destinations

    def test_the_one_that_was_unused_for_the_longest_time_makes_room(self, stage: Stage) -> None:
        scene = stage(LOGS, max_durable_subscriptions=2)
        clients = [come(scene, resume=name) for name in "ab"]
        for client in reversed(clients):
            client.drop()
        come(scene, resume="c")
        found = [offset.name.rpartition("/")[2] for offset in scene.broker.router.replay.offsets.every()]
        assert found == ["a", "c"]


class TestTime:
    @BOTH
    def test_by_the_policy(self, stage: Stage, stored: bool) -> None:
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

    def test_or_thirty_days(self, stage: Stage) -> None:
        scene = stage(LOG)
        come(scene).drop()
        (date,) = [date for date, _, entry in scene.broker.scheduler._heap if entry.action is not None]
        assert date - scene.now == pytest.approx(30 * 86_400.0, abs=1.0)


class TestTheNextProcess:
    def test_in_order_nothing_comes_twice(self, stage: Stage) -> None:
        scene = stage(LOG, stored=True)
        client = come(scene)
        fill(scene, 5)
        client.ack(got(client)[2])
        scene = scene.restart()
        fill(scene, 1, start=5)
        assert bodies_and_gaps(got(come(scene))) == [(3, False), (4, False), (5, False)]

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

    @pytest.mark.parametrize("is_done", [False, True])
    def test_there_is_no_gap_where_nothing_came_or_all_was_done(self, stage: Stage, is_done: bool) -> None:
        scene = stage({T: {"log_age": 10.0}}, stored=True)
        client = come(scene)
        if is_done:
            fill(scene, 2)
            client.ack(got(client)[-1])
            scene.wait(12.0)
        for _ in range(3):
            scene = scene.restart()
            assert got(come(scene)) == []
        fill(scene, 1)

    def test_for_more_topics_than_are_remembered(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(stream, "_MOST_RESTING", 1)
        scene = stage(LOGS, stored=True)
        for name in "abc":
            come(scene, f"/topic/{name}", resume=name)
        scene = scene.restart()
        assert [gaps(got(come(scene, f"/topic/{name}", resume=name))) for name in "abc"] == [[], [], []]

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
        assert come(scene).error().headers["message"] == "the topic keeps no log"
        assert offsets(scene) == 1
        assert T not in scene.broker.destinations

    @pytest.mark.parametrize("durable", [None, False])
    @pytest.mark.parametrize("clean", [True, False])
    def test_over_a_pattern_only_logs_in_memory_have_a_gap(
        self, stage: Stage, clean: bool, durable: bool | None
    ) -> None:
        scene = stage({"/topic/#": {"log_messages": 100, "durable": durable}}, stored=True)
        client = come(scene, "/topic/*")
        fill(scene, 2)
        client.ack(got(client)[0])
        scene.wait(6.0)
        write(scene)
        again = scene.restart() if clean else scene.crash()
        (message,) = got(come(again, "/topic/*"))
        assert message.body == (b"1" if durable is None else b"")
        assert ("gap" in message.headers) is (durable is False)
        assert "first-seq" not in message.headers


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
        client = scene.connect()
        client.subscribe("/user/queue/in")
        scene.connect().publish(f"/user/{client.session.user}/queue/in", b"7")
        assert numbers(client) == [7]
        assert scene.broker.registry.streams.messages == 1
        scene.broker.registry.streams.forgotten = forgotten  # more than was in it
        client.drop()
        assert not len(scene.broker.registry.streams)
        assert not scene.broker.registry.hidden

    def test_of_a_session_without_one_it_cannot_be_resumed(self, stage: Stage) -> None:
        client = stage(self.RULES).connect()
        client.subscribe("/user/queue/in", **ME)
        assert client.error().headers["message"] == "resume of mail needs a login"


@pytest.mark.parametrize(("in_memory", "has_gap"), [("/topic/m", True), ("/topic/#.m", True), ("/queue/#", False)])
def test_a_pattern_has_the_gaps_of_any_log_in_memory(stage: Stage, in_memory: str, has_gap: bool) -> None:
    scene = stage({**LOGS, in_memory: {"durable": False}}, stored=True)
    come(scene, "/topic/*")
    fill(scene, 1, "/topic/m")
    scene = scene.crash()
    assert gaps(got(come(scene, "/topic/*"))) == [has_gap]
