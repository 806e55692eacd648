"""The log of a topic: numbers, bounds, what it costs, and what is left of it in the next process."""

from __future__ import annotations

import pytest

from gateway.broker.core.work_limits import WorkLimits
from gateway.broker.topic.stream import Stream

from ..client import Client, Rules, Scene
from ..conftest import Stage, small
from .logged import BOTH, FIRST, LOG, LOGS, ME, T, bodies_and_gaps, fill, gaps, got, log_of, numbers, seqs, write

MEMORY: Rules = {T: {"log_messages": 100, "durable": False}}


def live(scene: Scene, name: str = T, **headers: str) -> Client:
    client = scene.connect()
    client.subscribe(name, **headers)
    return client


def kept(scene: Scene, name: str = T) -> list[int]:
    """All that the log has."""
    client = live(scene, name, **FIRST)
    found = numbers(client)
    client.disconnect()
    return found


class TestNumbers:
    def test_a_new_log_begins_with_the_time_whatever_the_publisher_says(self, stage: Stage) -> None:
        """So that no number is used twice, whatever was forgotten."""
        scene = stage(LOG)
        client = live(scene)
        scene.connect().publish(T, b"0", seq="1", gap="true", **{"first-seq": "7"})
        message = client.message()
        assert seqs([message]) == [int(scene.broker.scheduler.epoch() * 1e6)]
        assert not {"gap", "first-seq"} & message.headers.keys()

    def test_all_kinds_of_sends_are_in_it(self, stage: Stage) -> None:
        scene = stage(LOGS)
        sender = scene.connect()
        sender.publish(T, b"0")
        sender.publish(f"{T},/topic/b,/queue/c", b"1")
        sender.begin()
        sender.publish(T, b"2", transaction="t")
        assert kept(scene) == [0, 1]
        sender.commit()
        sender.publish(T, b"4", **{"x-delay": "1000"})
        sender.publish(T, b"3", retain="set")
        assert kept(scene) == [0, 1, 2, 3]
        scene.wait(1.1)
        assert kept(scene) == [0, 1, 2, 3, 4]
        sender.publish(T, b"5", **{"dedup-id": "x"})
        sender.publish(T, b"6", **{"dedup-id": "x"})
        assert kept(scene) == [0, 1, 2, 3, 4, 5]
        assert kept(scene, "/topic/b") == [1]

    def test_durable_subscriptions_get_them(self, stage: Stage) -> None:
        scene = stage(LOG, stored=True)
        client = scene.connect()
        client.subscribe(T, id="d", ack="client", durable="true")
        client.drop()
        fill(scene, 2, persistent="true")
        again = scene.restart()
        assert kept(again) == [0, 1]
        client = again.connect()
        client.subscribe(T, id="d", ack="client", durable="true")
        found = got(client)
        assert seqs(found) == list(range(seqs(found)[0], seqs(found)[0] + 2))
        client.ack(found[-1])
        client.send("UNSUBSCRIBE", {"id": "d", "durable": "true"})

    @pytest.mark.parametrize("name", [T, "/topic/*"])
    @BOTH
    def test_clients_get_them_in_order_whatever_the_priority(self, stage: Stage, stored: bool, name: str) -> None:
        scene = stage(LOG, stored=stored)
        client, late, sender = scene.connect(), scene.connect(), scene.connect()
        client.subscribe(name, ack="client", **{"prefetch-count": "1"})
        for number in range(5):
            sender.publish(T, b"%d" % number, priority=str(number))
        write(scene)
        late.subscribe(name, ack="client", **FIRST, **{"prefetch-count": "1"})
        for each in (client, late):
            found = [*got(each)]
            while len(found) < 5:
                each.ack(found[-1])
                found += got(each)
            assert [int(message.body) for message in found] == [0, 1, 2, 3, 4]


class TestBounds:
    @BOTH
    @pytest.mark.parametrize("policy", [{"log_messages": 9}, {"log_bytes": 4096}, {"log_age": 3600.0}])
    def test_messages_and_bytes(self, stage: Stage, stored: bool, policy: dict[str, float]) -> None:
        scene = stage({T: policy}, stored=stored, work_limits=WorkLimits(stream_bytes=4096))
        fill(scene, 50)
        stream = log_of(scene)
        if "log_messages" in policy:
            assert len(stream) == 9
        else:
            assert 4096 - 1024 < stream.nbytes <= 4096
        assert kept(scene) == list(range(50 - len(stream), 50))

    @BOTH
    def test_age(self, stage: Stage, stored: bool) -> None:
        scene = stage({T: {"log_age": 10.0}}, stored=stored)
        fill(scene, 2)
        scene.wait(4.0)
        fill(scene, 2, start=2)
        scene.wait(5.9)
        assert kept(scene) == [0, 1, 2, 3]
        scene.wait(1.5)
        assert kept(scene) == [2, 3]
        scene.wait(3.0)
        assert T not in scene.broker.destinations
        fill(scene, 1, start=4)
        assert kept(scene) == [4]

    @small(stream_drops=3)
    def test_many_old_ones_go_in_several_turns(self, stage: Stage) -> None:
        scene = stage({T: {"log_age": 10.0}})
        fill(scene, 8)
        scheduler, left = scene.broker.scheduler, [8]
        scene.now += 11.0
        scheduler.tick()
        while scheduler.proceed():
            left.append(scene.broker.registry.streams.messages)
        assert left == [8, 5, 2]
        assert T not in scene.broker.destinations
        assert len(scene.broker.registry.streams) == 1  # what was lost is remembered

    def test_a_fault_in_a_turn_is_not_the_end_of_it(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        scene = stage({T: {"log_age": 10.0}})
        fill(scene, 1)
        with monkeypatch.context() as patch:
            patch.setattr(Stream, "drop_first", None)
            with pytest.raises(TypeError):
                scene.wait(12.0)
        fill(scene, 1, start=1)
        scene.wait(12.0)
        assert T not in scene.broker.destinations

    @BOTH
    def test_the_policy_may_let_messages_expire(self, stage: Stage, stored: bool) -> None:
        scene = stage({T: {"log_messages": 9, "time_to_live": 5.0}}, stored=stored)
        fill(scene, 1)
        scene.wait(3.0)
        fill(scene, 1, start=1)
        scene.wait(3.0)
        assert kept(scene) == [1]

    def test_the_system_clock_may_be_set_forward(self, stage: Stage) -> None:
        scene = stage({T: {"log_age": 60.0}})
        fill(scene, 2)
        scene.epoch += 3_600.0
        scene.wait(2.0)
        fill(scene, 1, start=2)
        assert kept(scene) == [0, 1, 2]

    def test_or_back(self, stage: Stage) -> None:
        scene = stage({T: {"log_age": 10_000.0}})
        fill(scene, 2)
        scene.epoch -= 5_000
        fill(scene, 2, start=2)
        scene.epoch += 5_000
        scene.wait(5.0)
        fill(scene, 2, start=4)
        client = live(scene, **{"x-stream-offset": f"timestamp={int(scene.broker.scheduler.epoch()) - 2}"})
        assert numbers(client) == [4, 5]


class TestMemory:
    def test_all_logs_together(self, stage: Stage) -> None:
        """The oldest message of all goes."""
        scene = stage({"/topic/#": {"log_bytes": 1_000_000}}, memory_limit=80_000)
        logs = scene.broker.registry.streams
        fill(scene, 30)
        assert len(log_of(scene)) == 30
        fill(scene, 60, "/topic/b")
        assert logs.nbytes <= logs.most_bytes == 20_000
        assert T not in scene.broker.destinations
        left = kept(scene, "/topic/b")
        assert left == list(range(60 - len(left), 60))
        assert logs.messages == len(left) > 20

    def test_to_know_what_is_in_the_store_costs_something_too(self, stage: Stage) -> None:
        scene = stage(LOGS, stored=True)
        logs = scene.broker.registry.streams
        logs.most_bytes = 40 * 32
        fill(scene, 30)
        fill(scene, 30, "/topic/b")
        assert logs.index == logs.most_bytes == 40 * 32
        assert kept(scene) == list(range(20, 30))
        assert kept(scene, "/topic/b") == list(range(30))

    def test_of_a_stored_one_only_the_end_is_in_memory(self, stage: Stage) -> None:
        policies = {T: {"log_messages": 50}}
        scene = stage(policies, stored=True, work_limits=WorkLimits(tail_messages=3, stream_slack=4))
        fill(scene, 60)
        stream = log_of(scene)
        assert stream.memory < 50 * 32 + 4 * 500
        assert len(stream._tail) < 12
        assert kept(scene) == list(range(10, 60))
        scene = stage(policies, stored=True, work_limits=WorkLimits(tail_bytes=100))
        fill(scene, 60)
        assert log_of(scene).memory == 50 * 32, "or none, where its messages are large"


@small(stream_slack=2, resting_streams=0)
class TestForgetting:
    def test_the_list_of_the_oldest_is_kept_short(self, stage: Stage) -> None:
        scene = stage({"/topic/#": {"log_age": 1.0}})
        for number in range(20):
            fill(scene, 1, f"/topic/{number}")
            scene.wait(2.5)
        logs = scene.broker.registry.streams
        assert len(logs._in_memory) <= 6
        logs.most_bytes = -1
        logs.make_room()
        assert not logs._in_memory

    def test_what_was_forgotten_is_known_to_the_next_process(self, stage: Stage) -> None:
        scene = stage({"/topic/#": {"log_age": 1.0}, "/topic/a": {"log_age": 3.0}}, stored=True)
        for name in ("/topic/a", "/topic/b", "/topic/c"):
            fill(scene, 1, name)
        scene.wait(7.0)  # the older one goes last
        forgotten = scene.broker.registry.streams.forgotten
        assert forgotten > 0
        write(scene)
        again = scene.crash()
        assert again.broker.registry.streams.forgotten == forgotten
        client = live(again, **{"x-stream-offset": "timestamp=1"})
        assert gaps(client.messages()) == [True]

    @pytest.mark.parametrize("pattern", [T, "/topic/*", "/topic/#"])
    def test_a_forgotten_log_has_lost_all(self, stage: Stage, pattern: str) -> None:
        scene = stage({"/topic/#": {"log_age": 5.0}})
        client = live(scene, pattern, **ME)
        fill(scene, 1)
        client.drop()
        scene.wait(7.0)
        fill(scene, 2, "/topic/b")
        client = live(scene, pattern, **ME)
        found = client.messages()
        assert gaps(found) == ([True] if pattern == T else [True, False])
        client.ack(found[-1])
        client.drop()
        client = live(scene, pattern, **ME)
        assert client.messages() == []


class TestTheNextProcess:
    @pytest.mark.parametrize("count", [0, 1])
    def test_after_a_kill_the_numbers_jump(self, stage: Stage, count: int) -> None:
        """A client may have seen messages that were not written; a process in which nothing comes remembers that."""
        scene = stage({T: {"log_messages": 5, "log_age": 100.0}}, stored=True)
        client = live(scene)
        sender = fill(scene, 1)
        if not count:
            scene.wait(102.0)
            write(scene)
        sender.publish(T, b"1")
        seen = seqs(client.messages())
        again = scene.crash().restart().restart()
        late = live(again)
        fill(again, 1, start=2)
        assert seqs(late.messages())[0] > seen[-1] + 1

    @pytest.mark.parametrize("clean", [False, True])
    def test_what_was_lost_is_known_to_the_message(self, stage: Stage, clean: bool) -> None:
        """A client that had all of it is not told of a gap, however many messages came elsewhere meanwhile."""
        scene = stage({T: {"log_messages": 3}}, stored=True)
        client = live(scene, **ME)
        fill(scene, 4)
        client.ack(client.messages()[-1])
        fill(scene, 3, "/topic/b")
        client.drop()
        fill(scene, 3, "/topic/b")
        fill(scene, 3, start=4)
        again = scene.restart() if clean else scene.crash()
        client = live(again, **ME)
        assert bodies_and_gaps(got(client)) == [(4, False), (5, False), (6, False)]
        client.drop()
        fill(again, 1, start=7)
        again = again.restart()
        client = live(again, **ME)
        assert bodies_and_gaps(got(client)) == [(5, True), (6, False), (7, False)]

    @small(stream_drops=3)
    def test_many_that_are_too_many_go_by_and_by(self, stage: Stage) -> None:
        scene = stage(LOG, stored=True)
        fill(scene, 20)
        assert kept(scene.restart(policies={T: {"log_messages": 5}})) == list(range(15, 20))

    def test_where_the_policy_asks_for_none_any_more(self, stage: Stage) -> None:
        scene = stage(LOG, stored=True)
        fill(scene, 2)
        again = scene.restart(policies={})
        write(again)
        assert len(again.store.rows) == 2  # a slip in the operator's file costs nothing
        assert again.broker.registry.streams.unused == [T]
        late = live(again)
        fill(again, 1)
        assert "seq" not in late.message().headers
        late.drop()
        third = again.restart(policies=LOG)
        assert kept(third) == [0, 1]
        fill(third, 1, start=5)
        late = live(third, **FIRST)
        first, second, last = seqs(got(late))
        assert second == first + 1
        assert last > second + 1  # what came meanwhile is not in it

    def test_where_it_is_to_be_in_memory_now(self, stage: Stage) -> None:
        """Nothing tells which numbers it used up: it begins anew."""
        scene = stage(LOG, stored=True)
        client = live(scene)
        fill(scene, 2)
        seen = seqs(client.messages())
        again = scene.restart(policies=MEMORY)
        write(again)
        late = live(again, **{"from-seq": str(seen[1])})
        assert gaps(got(late)) == [True]
        fill(again, 2)
        assert seqs(got(late))[0] > seen[1] + 1
        write(again)
        assert len(again.store.rows) == 2
        late.drop()
        assert kept(again.restart(policies=LOG)) == [0, 1]

    @pytest.mark.parametrize("missing", [0, 1, 2])
    def test_rows_that_are_missing(self, stage: Stage, missing: int) -> None:
        scene = stage(LOG, stored=True)
        client = live(scene)
        fill(scene, 3)
        seen = seqs(client.messages())
        rows = sorted(scene.store.rows)
        del scene.store.contents[scene.store.rows.pop(rows[missing]).content]
        again = scene.crash(clean=True)
        late = live(again, **{"from-seq": str(seen[0])})
        found = got(late)
        assert seqs(found) == seen[:missing] + seen[missing + 1 :]
        assert gaps(found)[:1] == [missing == 0]


def test_sends_to_a_log_on_a_failing_store_are_refused(stage: Stage) -> None:
    scene = stage({**LOG, "/topic/m": {"log_messages": 5, "durable": False}}, stored=True)
    sender = fill(scene, 1)
    scene.store.failure = "the disk is full"
    sender.publish(T, b"1")
    write(scene)
    sender.publish("/topic/m", b"0")
    other = scene.connect()
    other.publish(f"/topic/m,{T}", b"2")
    assert other.error().headers["message"] == "the store cannot be written"
    scene.store.failure = ""
    write(scene)
    assert (kept(scene), kept(scene, "/topic/m")) == ([0, 1], [0])
