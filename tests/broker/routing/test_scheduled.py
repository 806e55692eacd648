"""Messages that wait for their time, one by one: how they are found, and how one is called off."""

from __future__ import annotations

import pytest

from gateway.broker.model.message import Message
from gateway.broker.routing.scheduled import ScheduledSend, ScheduledSends

from ..client import Scene
from ..conftest import Stage
from ..durable import P

LATER = {"x-delay": "1000"}
both = pytest.mark.parametrize("stored", [False, True], ids=["memory", "stored"])


def delayed(scene: Scene) -> ScheduledSends:
    return scene.broker.router.delayed


def id_of(waiting: ScheduledSend) -> str:
    return f"{Message.run.decode()}-{waiting.number}"


def write(scene: Scene) -> None:
    if scene.is_stored:
        scene.commit()


class TestFound:
    @both
    def test_by_its_id(self, stage: Stage, stored: bool) -> None:
        scene = stage(stored=stored)
        for body in (b"1", b"2"):
            scene.connect().publish("a", body, **P, **LATER)
        first, second = delayed(scene).every()
        assert first.number < second.number
        assert [each.sending.body for each in (first, second)] == [b"1", b"2"]
        assert first.due == scene.now + 1.0
        assert scene.message_admin.scheduled(id_of(second)) is second
        for wrong in ("", "nothing", f"{Message.run.decode()}-0", f"elsewhere-{first.number}"):
            assert scene.message_admin.scheduled(wrong) is None
        write(scene)

    def test_no_longer_when_it_has_come(self, scene: Scene) -> None:
        scene.connect().publish("a", b"1", **LATER)
        (waiting,) = delayed(scene).every()
        scene.wait(1.1)
        assert scene.message_admin.scheduled(id_of(waiting)) is None
        assert not delayed(scene).call_off(waiting)

    def test_by_the_same_id_after_a_restart(self, stage: Stage) -> None:
        scene = stage(stored=True)
        client = scene.connect()
        client.publish("a", b"1", **P, **LATER)
        client.publish("a,b", b"2", **P, **LATER)
        before = [each.number for each in delayed(scene).every()]
        scene.commit()
        scene = scene.crash()
        found = delayed(scene).every()
        assert [each.number for each in found][:2] == before
        assert [len(each.sending.targets) for each in found] == [1, 1, 1]


class TestCalledOff:
    @both
    def test_it_never_comes(self, stage: Stage, stored: bool) -> None:
        scene = stage(stored=stored)
        client = scene.connect()
        for body in (b"1", b"2", b"3"):
            client.publish("a", body, **P, **LATER)
        write(scene)
        _, second, _ = delayed(scene).every()
        assert delayed(scene).call_off(second)
        assert not delayed(scene).call_off(second)
        assert len(delayed(scene)) == 2
        scene.audit()
        scene.wait(1.1)
        consumer = scene.connect()
        consumer.subscribe("a")
        write(scene)
        assert consumer.bodies() == [b"1", b"3"]

    @pytest.mark.parametrize("written", [False, True])
    def test_nor_in_the_next_process(self, stage: Stage, written: bool) -> None:
        scene = stage(stored=True)
        scene.connect().publish("a,b", b"1", **P, **LATER)
        if written:
            scene.commit()
        (waiting,) = delayed(scene).every()
        assert delayed(scene).stored == 1
        delayed(scene).call_off(waiting)
        assert delayed(scene).stored == 0
        scene.commit()
        assert not scene.store.rows
        scene = scene.crash(60.0)
        assert not len(delayed(scene))
        assert not scene.broker.destinations

    def test_there_is_room_for_another(self, stage: Stage) -> None:
        scene = stage(max_delayed=1)
        client = scene.connect()
        client.publish("a", b"x" * 1_000, **LATER)
        kept = scene.broker.memory.used
        delayed(scene).call_off(delayed(scene).every()[0])
        assert scene.broker.memory.used < kept - 1_000
        client.publish("a", b"2", **LATER)
        assert not client.closed

    def test_many_leave_nothing_in_the_agenda(self, scene: Scene) -> None:
        client = scene.connect()
        for _ in range(100):
            client.publish("a", b"1", **LATER)
        for each in delayed(scene).every():
            delayed(scene).call_off(each)
        assert len(scene.broker.scheduler) < 20
