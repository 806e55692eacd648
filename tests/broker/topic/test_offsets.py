"""Named resume: who comes back under a name goes on behind what was acknowledged."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from gateway.broker.errors import NotAllowed
from gateway.broker.topic import stream as logs_module
from gateway.codec import Version

from ..client import WITH_NACK, Client, Rules, Scene, Step
from ..conftest import Stage
from ..wire import Received
from .logged import FIRST, LOG, LOGS, ME, T, fill, gaps, got, numbers, seqs, write

BOTH = pytest.mark.parametrize("stored", [False, True], ids=["memory", "stored"])


def login(scene: Scene, name: str, client_id: str = "") -> Client:
    return scene.connect_by(f"CONNECT\naccept-version:1.2\nhost:x\nlogin:{name}\nclient-id:{client_id}\n\n\0".encode())


def come(scene: Scene, name: str = T, version: Any = None, **headers: str) -> Client:
    client = scene.connect() if version is None else scene.connect(version)
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
        found = got(client)
        client.ack(found[2])
        leave(client)
        fill(scene, 2, start=6)
        assert numbers(come(scene, version=version)) == [3, 4, 5, 6, 7]

    def test_a_new_name_begins_with_what_comes(self, stage: Stage) -> None:
        scene = stage(LOG)
        fill(scene, 2, retain="set")
        client = come(scene)
        fill(scene, 1, start=2)
        assert numbers(client) == [1, 2]  # what the topic retained, and what came

    @BOTH
    def test_or_where_it_says(self, stage: Stage, stored: bool) -> None:
        scene = stage(LOG, stored=stored)
        fill(scene, 4)
        client = come(scene, **FIRST)
        found = got(client)
        assert [int(each.body) for each in found] == [0, 1, 2, 3]
        client.ack(found[1])
        client.drop()
        assert numbers(come(scene, **FIRST)) == [2, 3]  # which counts once only

    def test_before_anything_was_acknowledged(self, stage: Stage) -> None:
        scene = stage({T: {"log_messages": 3}})
        fill(scene, 5)
        for _ in range(3):
            client = come(scene, **FIRST)
            found = got(client)
            assert [int(each.body) for each in found] == [2, 3, 4]
            assert gaps(found) == [False] * 3
            client.drop()

    @pytest.mark.parametrize("version", WITH_NACK)
    def test_one_by_one(self, stage: Stage, version: Version) -> None:
        """It stands before the first that is open; what is behind that comes again."""
        scene = stage(LOG)
        client = come(scene, version=version, ack="client-individual")
        fill(scene, 5)
        found = got(client)
        for each in (found[0], found[1], found[3]):
            client.ack(each)
        client.drop()
        assert numbers(come(scene)) == [2, 3, 4]

    def test_in_a_transaction(self, stage: Stage) -> None:
        scene = stage(LOG)
        client = come(scene)
        fill(scene, 3)
        found = got(client)
        client.begin("a")
        client.ack(found[0], transaction="a")
        client.commit("a")
        client.begin("b")
        client.ack(found[1], transaction="b")
        client.drop()
        assert numbers(come(scene)) == [1, 2]

    def test_what_waits_still(self, stage: Stage) -> None:
        scene = stage(LOG)
        client = come(scene, **{"prefetch-count": "2"})
        fill(scene, 5)
        client.ack(got(client)[0])
        client.drop()
        assert numbers(come(scene)) == [1, 2, 3, 4]

    @pytest.mark.parametrize("replayed", [False, True])
    def test_what_waits_while_all_that_came_is_acknowledged(self, stage: Stage, replayed: bool) -> None:
        scene = stage(LOG)
        headers = {"prefetch-count": "2"} | (FIRST if replayed else {})
        if replayed:
            fill(scene, 5)
        client = come(scene, **headers)
        if not replayed:
            fill(scene, 5)
        found = got(client)
        client.stalled = True
        client.session.outbox.window = next(iter(client.session.subscriptions.values())).window = 1
        client.send("BEGIN", {"transaction": "t", "receipt": "r"})  # its outbox is full
        client.ack(found[1])
        client.drop()
        assert numbers(come(scene)) == [2, 3, 4]

    def test_in_the_middle_of_replay(self, stage: Stage) -> None:
        scene = stage(LOG)
        fill(scene, 8)
        client = come(scene, **FIRST, **{"prefetch-count": "2"})
        client.ack(got(client)[1])
        client.ack(got(client)[0])
        client.drop()
        assert numbers(come(scene)) == [3, 4, 5, 6, 7]

    def test_dead_letters_are_done(self, stage: Stage) -> None:
        scene = stage(LOG)
        client = come(scene, ack="client-individual")
        fill(scene, 3)
        found = got(client)
        client.nack(found[0], requeue="false")
        client.ack(found[1])
        client.drop()
        assert numbers(come(scene)) == [2]

    def test_what_is_not_wanted_is_passed_over(self, stage: Stage) -> None:
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
        found = got(come(scene, "/topic/*"))
        assert [int(each.body) for each in found] == [2, 3, 4, 5, 6]
        assert gaps(found) == [False] * 5


class TestRejected:
    RULES: ClassVar[Rules] = {T: {"log_messages": 100, "backoff": 10.0}}

    def test_as_long_as_it_waits_the_cursor_stands(self, stage: Stage) -> None:
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

    def test_at_once(self, stage: Stage) -> None:
        scene = stage(LOG)
        client = come(scene, ack="client-individual")
        fill(scene, 2)
        first, second = got(client)
        client.nack(first)
        client.ack(second)
        client.drop()
        found = got(come(scene))
        assert [int(each.body) for each in found] == [0, 1]
        assert not any(each.redelivered for each in found)  # they come from the log


class TestGaps:
    @BOTH
    def test_what_was_trimmed(self, stage: Stage, stored: bool) -> None:
        scene = stage({T: {"log_messages": 3}}, stored=stored)
        client = come(scene)
        fill(scene, 2)
        client.ack(got(client)[0])
        client.drop()
        fill(scene, 5, start=2)
        found = got(come(scene))
        assert [int(each.body) for each in found] == [4, 5, 6]
        assert gaps(found) == [True, False, False]
        assert int(found[0].headers["first-seq"]) == seqs(found)[0]

    @BOTH
    def test_nothing_that_was_done(self, stage: Stage, stored: bool) -> None:
        scene = stage({T: {"log_messages": 3}}, stored=stored)
        client = come(scene)
        fill(scene, 5)
        client.ack(got(client)[-1])
        client.drop()
        fill(scene, 3, start=5)
        assert gaps(got(come(scene))) == [False] * 3

    @BOTH
    @pytest.mark.parametrize("is_empty", [False, True])
    def test_who_did_not_acknowledge_it_is_told_again(self, stage: Stage, stored: bool, is_empty: bool) -> None:
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
        assert gaps(got(come(scene))) == expected[1:-1] + [False] * (len(expected) - 1)

    def test_also_where_it_began_with_one(self, stage: Stage) -> None:
        scene = stage({T: {"log_messages": 3}})
        fill(scene, 5)
        for _ in range(2):
            client = come(scene, **{"from-seq": "7"})
            assert gaps(got(client)) == [True, False, False]
            client.drop()

    def test_while_it_waits_still(self, stage: Stage) -> None:
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
        found = got(come(scene))
        assert [int(each.body) for each in found] == [4, 5]
        assert gaps(found) == [False, False]


class TestNames:
    def test_they_belong_to_user_and_client_id(self, stage: Stage) -> None:
        scene = stage(LOG)
        sender = fill(scene, 1)
        for user, client_id in (("bob", "1"), ("bob", "2"), ("eve", "1")):
            client = login(scene, user, client_id)
            client.subscribe(T, **ME)
            assert numbers(client) == []
            client.drop()
        sender.publish(T, b"1")
        for user, client_id in (("bob", "1"), ("bob", "2"), ("eve", "1"), ("eve", "2")):
            client = login(scene, user, client_id)
            client.subscribe(T, **ME)
            assert numbers(client) == ([] if (user, client_id) == ("eve", "2") else [1])

    def test_the_same_name_for_another_topic_begins_anew(self, stage: Stage) -> None:
        scene = stage(LOGS, stored=True)
        client = come(scene)
        fill(scene, 1)
        client.drop()
        client = come(scene, "/topic/b")
        fill(scene, 1, "/topic/b")
        assert numbers(client) == [0]
        assert offsets(scene) == 1
        assert numbers(come(scene)) == []  # the first one is forgotten
        assert offsets(scene) == 1

    def test_while_somebody_reads_the_other_topic(self, stage: Stage) -> None:
        scene = stage(LOGS)
        first = come(scene)
        second = come(scene, "/topic/b")
        fill(scene, 1)
        fill(scene, 1, "/topic/b")
        assert numbers(first) == numbers(second) == [0]
        first.drop()
        second.drop()
        assert numbers(come(scene, "/topic/b")) == [0]

    def test_who_comes_last_has_it(self, stage: Stage) -> None:
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
        found = got(first)
        first.ack(found[0])
        second = come(scene)
        assert numbers(second) == [1, 2, 3, 4, 5]
        assert numbers(first) == [2]

    def test_so_many(self, stage: Stage) -> None:
        scene = stage(LOGS, max_durable_subscriptions=2)
        first = come(scene, resume="a")
        come(scene, resume="b").drop()
        come(scene, "/topic/b", resume="b")
        client = come(scene, resume="c")
        assert isinstance(client.failures[0], NotAllowed)
        assert client.error().headers["message"] == "too many names to resume by"
        assert offsets(scene) == 2
        client = come(scene, "/topic/new", resume="c")
        assert "/topic/new" not in scene.broker.destinations
        first.drop()
        come(scene, resume="c")  # who was idle for the longest time makes room
        assert offsets(scene) == 2
        assert come(scene, resume="a").error().headers["message"] == "too many names to resume by"


class TestHowLong:
    @BOTH
    def test_by_the_policy(self, stage: Stage, stored: bool) -> None:
        scene = stage({T: {"log_messages": 9, "idle_timeout": 20.0}}, stored=stored)
        client = come(scene)
        scene.wait(70.0)  # not while somebody has it
        fill(scene, 1)
        client.drop()
        scene.wait(19.0)
        client = come(scene)
        assert numbers(client) == [0]
        client.drop()
        scene.wait(19.0)
        assert offsets(scene) == 1
        scene.wait(2.0)
        assert offsets(scene) == 0
        assert numbers(come(scene)) == []

    def test_or_thirty_days(self, stage: Stage) -> None:
        scene = stage(LOG)
        come(scene).drop()
        (date,) = [date for date, _, entry in scene.broker.scheduler._heap if entry.action is not None]
        assert date - scene.now == pytest.approx(30 * 86_400.0, abs=1.0)

    def test_also_in_the_next_process(self, stage: Stage) -> None:
        scene = stage({T: {"log_messages": 9, "idle_timeout": 20.0}}, stored=True)
        come(scene)
        write(scene)
        again = scene.restart()
        assert offsets(again) == 1
        again.wait(21.0)
        assert offsets(again) == 0
        write(again)
        assert {place.kind for place in again.store.places.values()} == {"log"}


class TestTheNextProcess:
    def test_in_order_nothing_comes_twice(self, stage: Stage) -> None:
        scene = stage(LOG, stored=True)
        client = come(scene)
        fill(scene, 5)
        client.ack(got(client)[2])
        scene = scene.restart()
        fill(scene, 1, start=5)
        found = got(come(scene))
        assert [int(each.body) for each in found] == [3, 4, 5]
        assert gaps(found) == [False] * 3

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

    def test_a_name_that_was_not_written_is_new(self, stage: Stage) -> None:
        scene = stage(LOG, stored=True)
        fill(scene, 1)
        client = scene.connect()
        client.subscribe(T, receipt="r", **ME)
        assert client.receipts() == []
        assert offsets(scene.crash()) == 0

    def test_the_receipt_of_the_subscribe_waits_for_it(self, stage: Stage) -> None:
        scene = stage(LOG, stored=True)
        client = scene.connect()
        client.subscribe(T, receipt="r", **ME)
        write(scene)
        assert client.receipts() == ["r"]
        assert offsets(scene.crash()) == 1

    def test_where_nothing_came_there_is_no_gap(self, stage: Stage) -> None:
        scene = stage(LOG, stored=True)
        come(scene)
        for _ in range(3):
            scene = scene.restart()
            assert got(come(scene)) == []
        fill(scene, 1)

    def test_where_all_was_done_before_it_went_there_is_none(self, stage: Stage) -> None:
        scene = stage({T: {"log_age": 10.0}}, stored=True)
        client = come(scene)
        fill(scene, 2)
        client.ack(got(client)[-1])
        client.drop()
        scene.wait(12.0)
        for _ in range(3):
            scene = scene.restart()
            client = come(scene)
            assert got(client) == []
            client.drop()

    def test_for_so_many_topics(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing was lost of any of them."""
        monkeypatch.setattr(logs_module, "_MOST_RESTING", 1)
        scene = stage(LOGS, stored=True)
        for name in "abc":
            come(scene, f"/topic/{name}", resume=name)
        scene = scene.restart()
        assert [gaps(got(come(scene, f"/topic/{name}", resume=name))) for name in "abc"] == [[], [], []]

    def test_when_the_clock_was_set_back(self, stage: Stage) -> None:
        """What comes now is behind what came, whatever the clock says."""
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
        found = got(come(scene))
        assert [int(each.body) for each in found] == [3, 4]

    def test_a_topic_without_a_log_now(self, stage: Stage) -> None:
        scene = stage(LOG, stored=True)
        come(scene)
        scene = scene.restart(policies={})
        client = come(scene)
        assert client.error().headers["message"] == "the topic keeps no log"
        assert offsets(scene) == 1
        assert T not in scene.broker.destinations

    def test_what_it_holds(self, stage: Stage) -> None:
        scene = stage(LOG, stored=True)
        client = come(scene)
        fill(scene, 1)
        message: Received = got(client)[0]
        client.ack(message)
        client.drop()
        write(scene)
        (place,) = [place for place in scene.store.places.values() if place.kind == "cursor"]
        assert place.facts.startswith('{"topic": "/topic/a", "position": ')

    @pytest.mark.parametrize("clean", [True, False])
    def test_over_a_pattern_there_is_no_gap(self, stage: Stage, clean: bool) -> None:
        scene = stage(LOGS, stored=True)
        client = come(scene, "/topic/*")
        fill(scene, 2)
        client.ack(got(client)[0])
        scene.wait(6.0)
        write(scene)
        again = scene.restart() if clean else scene.crash()
        found = got(come(again, "/topic/*"))
        assert [message.body for message in found] == [b"1"]
        assert "gap" not in found[0].headers

    def test_over_a_pattern_logs_in_memory_are_one(self, stage: Stage) -> None:
        rules: Rules = {"/topic/#": {"log_messages": 100, "durable": False}}
        scene = stage(rules, stored=True)
        client = come(scene, "/topic/*")
        fill(scene, 1)
        client.drop()
        again = scene.restart()
        (notice,) = got(come(again, "/topic/*"))
        assert notice.headers["gap"] == "true"
        assert "first-seq" not in notice.headers


class TestEnd:
    @BOTH
    def test_the_name_is_new_then(self, stage: Stage, stored: bool) -> None:
        scene = stage(LOG, stored=stored)
        client = come(scene)
        fill(scene, 2)
        client.send("UNSUBSCRIBE", {"id": "0", "resume": "me"})
        assert not offsets(scene)
        again = come(scene)
        fill(scene, 1, start=2)
        assert numbers(again) == [2]

    def test_also_that_of_a_subscription_without_one(self, stage: Stage) -> None:
        scene = stage(LOG)
        come(scene).drop()
        client = scene.connect()
        client.subscribe(T)
        client.send("UNSUBSCRIBE", {"id": "0", "resume": "me"})
        assert not offsets(scene)

    def test_no_durable_subscription_ends_with_it(self, stage: Stage) -> None:
        scene = stage(LOG)
        come(scene).drop()
        client = scene.connect()
        client.subscribe(T, durable="true")
        client.send("UNSUBSCRIBE", {"id": "0", "resume": "me"})
        assert len(scene.broker.registry.durable_subscriptions) == 1
        client.subscribe(T, durable="true")
        client.send("UNSUBSCRIBE", {"id": "0", "durable": "true"})

    def test_one_that_is_not_known(self, stage: Stage) -> None:
        client = come(stage(LOG))
        client.send("UNSUBSCRIBE", {"id": "0", "resume": "other"})
        assert client.error().headers["message"] == "unknown name"


class TestMail:
    RULES: ClassVar[Rules] = {"/user/#": {"log_messages": 100}}

    def test_of_who_has_a_login(self, stage: Stage) -> None:
        scene = stage(self.RULES)
        login(scene, "ada").subscribe("/user/queue/in", **ME)
        scene.clients[-1].drop()
        scene.connect().publish("/user/ada/queue/in", b"7")
        again = login(scene, "ada")
        again.subscribe("/user/queue/in", **ME)
        assert numbers(again) == [7]

    def test_of_who_has_none(self, stage: Stage) -> None:
        scene = stage(self.RULES)
        client = scene.connect()
        client.subscribe("/user/queue/in")
        user = client.session.user
        scene.connect().publish(f"/user/{user}/queue/in", b"7")
        assert numbers(client) == [7]
        assert scene.broker.registry.streams.messages == 1
        client.drop()
        assert not len(scene.broker.registry.streams)
        assert not scene.broker.registry.hidden

    def test_also_where_more_is_forgotten_than_was_in_it(self, stage: Stage) -> None:
        scene = stage(self.RULES)
        client = scene.connect()
        client.subscribe("/user/queue/in")
        scene.connect().publish(f"/user/{client.session.user}/queue/in", b"7")
        scene.broker.registry.streams.forgotten = 10**18
        client.drop()
        assert not len(scene.broker.registry.streams)

    def test_of_who_has_none_cannot_be_resumed(self, stage: Stage) -> None:
        client = stage(self.RULES).connect()
        client.subscribe("/user/queue/in", **ME)
        assert client.error().headers["message"] == "resume of mail needs a login"


class TestRefused:
    def test_in_mode_auto(self, stage: Stage, version: Version) -> None:
        scene = stage(LOG)
        client = scene.connect(version)
        client.subscribe(T, resume="me")
        assert client.error().headers["message"] == "resume needs acknowledgements"

    def test_of_a_queue(self, stage: Stage) -> None:
        scene = stage(LOG)
        client = come(scene, "/queue/a")
        assert client.error().headers["message"] == "replay is for topics"
