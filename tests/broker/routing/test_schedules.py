"""Schedules of clients: each message of them once, in time; through restarts; called off; and what is refused."""

from __future__ import annotations

import pytest

from gateway.broker.model import schedule

from ..client import Client, Scene
from ..conftest import Stage
from ..durable import P

EVERY_2_S = {"AMQ_SCHEDULED_PERIOD": "2000", "AMQ_SCHEDULED_REPEAT": "2"}
EACH_MINUTE = {"AMQ_SCHEDULED_CRON": "* * * * *"}


def call_off(scene: Scene) -> None:
    for each in scene.broker.router.delayed.every():
        assert scene.broker.router.delayed.call_off(each)


@pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
@pytest.mark.parametrize("transaction", [{}, {"transaction": "t"}])
def test_a_message_is_repeated(scene: Scene, client: Client, destination: str, transaction: dict[str, str]) -> None:
    client.subscribe(destination)
    if transaction:
        client.begin()
    client.publish(destination, b"m", kind="k", **EVERY_2_S, **transaction)
    if transaction:
        client.commit()
    scene.wait(1.9)
    for _ in range(3):
        assert not client.received()
        scene.wait(0.2)
        message = client.message()
        assert (message.body, message.headers["kind"]) == (b"m", "k")
        assert not [name for name in message.headers if "SCHEDULED" in name]
        scene.wait(1.8)
    scene.wait(10)
    assert not client.received()
    assert scene.broker.memory.used == 0


def test_each_message_has_an_id_of_its_own(scene: Scene, client: Client) -> None:
    client.subscribe("/queue/a")
    client.publish("/queue/a", b"m", **EVERY_2_S)
    scene.wait(7)
    assert len({each.message_id for each in client.messages()}) == 3


def test_a_calendar(scene: Scene, client: Client) -> None:
    client.subscribe("/queue/a")
    client.publish("/queue/a", b"m", **EACH_MINUTE, **{"schedule-timezone": "Europe/Berlin"})
    for _ in range(3):
        scene.wait(60)
        assert client.bodies() == [b"m"]
    (row,) = scene.broker.router.delayed.every()
    assert str(row.schedule) == "* * * * * Europe/Berlin"
    call_off(scene)
    scene.wait(120)
    assert not client.received()


def test_a_period_alone_is_a_delay(scene: Scene, client: Client) -> None:
    client.subscribe("/queue/a")
    client.publish("/queue/a", b"m", AMQ_SCHEDULED_PERIOD="2000")
    scene.wait(1.9)
    assert not client.received()
    scene.wait(10)
    assert client.bodies() == [b"m"]


def test_a_row_for_each_moment_of_the_calendar(scene: Scene, client: Client) -> None:
    client.subscribe("/queue/a")
    client.publish("/queue/a", b"m", **EACH_MINUTE, **EVERY_2_S)
    scene.wait(60 + 5)
    assert len(client.messages()) == 3
    scene.wait(60)
    assert len(client.messages()) == 3
    call_off(scene)


def test_its_number_stays_until_the_last_message(scene: Scene, client: Client) -> None:
    client.publish("/queue/a", b"m", **EVERY_2_S)
    (row,) = scene.broker.router.delayed.every()
    scene.wait(4.5)
    assert scene.broker.router.delayed.find(row.number) is row
    scene.wait(2)
    assert scene.broker.router.delayed.find(row.number) is None
    assert not scene.broker.router.delayed.call_off(row)
    scene.connect().subscribe("/queue/a")


class TestStored:
    @pytest.mark.parametrize("clean", [False, True])
    def test_it_goes_on_in_the_next_process(self, stage: Stage, *, clean: bool) -> None:
        scene = stage(stored=True)
        client = scene.connect()
        client.publish("/queue/a", b"m", **EVERY_2_S, **P)
        scene.commit()
        scene.wait(2.1)
        scene.commit()
        scene = scene.crash(0.1, clean=clean)
        (row,) = scene.broker.router.delayed.every()
        assert (str(row.schedule), row.moment and row.moment.sent) == ("every 2 s, 2 times more", 1)
        consumer = scene.consumer("/queue/a")
        scene.commit()
        assert consumer.bodies() == [b"m"]
        scene.wait(2.0)
        scene.commit()
        assert consumer.bodies() == [b"m"]
        scene.wait(2.0)
        scene.commit()
        assert consumer.bodies() == [b"m"]
        assert scene.broker.router.delayed.every() == []
        assert scene.broker.router.delayed.stored == 0

    def test_what_was_missed_comes_once(self, stage: Stage) -> None:
        scene = stage(stored=True)
        client = scene.connect()
        client.publish("/queue/a", b"m", AMQ_SCHEDULED_PERIOD="2000", AMQ_SCHEDULED_REPEAT="-1", **P)
        scene.commit()
        scene = scene.crash(7.0)
        consumer = scene.consumer("/queue/a")
        scene.wait(0.1)
        assert consumer.bodies() == [b"m"]
        scene.wait(2.0)
        assert consumer.bodies() == [b"m"]
        call_off(scene)
        scene.commit()

    def test_a_crash_before_the_commit_repeats_the_moment_and_loses_none(self, stage: Stage) -> None:
        scene = stage(stored=True)
        client = scene.connect()
        client.publish("/queue/a", b"m", **EVERY_2_S, **P)
        scene.commit()
        scene.wait(2.1)  # it has gone out, and the store does not know
        scene = scene.crash(0.1)
        scene.wait(0.1)
        assert scene.consumer("/queue/a").bodies() == [b"m"]
        scene.wait(10)
        scene.commit()


REFUSED = {
    "no calendar": ({"AMQ_SCHEDULED_CRON": "* * *"}, "bad value of AMQ_SCHEDULED_CRON", "five fields"),
    "a minute too many": ({"AMQ_SCHEDULED_CRON": "61 * * * *"}, "bad value of AMQ_SCHEDULED_CRON", "bad minute"),
    "no zone": ({**EACH_MINUTE, "schedule-timezone": "Berlin"}, "bad value of AMQ_SCHEDULED_CRON", "no time zone"),
    "a zone alone": ({"schedule-timezone": "UTC"}, "schedule-timezone without AMQ_SCHEDULED_CRON", "calendar"),
    "no period": ({"AMQ_SCHEDULED_REPEAT": "3"}, "bad value of AMQ_SCHEDULED_PERIOD", "100 ms at least"),
    "too often": (
        {"AMQ_SCHEDULED_REPEAT": "-1", "AMQ_SCHEDULED_PERIOD": "99"},
        "bad value of AMQ_SCHEDULED_PERIOD",
        "100 ms at least",
    ),
    "an expiry": ({**EACH_MINUTE, "expiration": "1000"}, "a schedule with a moment", "time_to_live"),
    "a moment": ({**EACH_MINUTE, "AMQ_SCHEDULED_TIME": "1"}, "a schedule with a moment", "time_to_live"),
    "never": ({"AMQ_SCHEDULED_CRON": "0 0 31 2 *"}, "bad value of AMQ_SCHEDULED_CRON", ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(scene: Scene, client: Client, name: str) -> None:
    headers, message, words = REFUSED[name]
    client.publish("/queue/a", b"m", **headers)
    error = client.error()
    assert error.headers["message"] == message
    assert words in error.body.decode()
    assert scene.broker.router.delayed.every() == []


def test_a_calendar_that_never_comes(scene: Scene, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """cronsim knows most of them, and looks 50 years ahead for the others."""
    monkeypatch.setattr(schedule, "CronSim", lambda *_: iter(()))
    client.publish("/queue/a", b"m", **EACH_MINUTE)
    assert client.error().body == b"'* * * * *' never comes"


def test_harmless_values_of_programs_for_activemq(scene: Scene, client: Client) -> None:
    client.subscribe("/queue/a")
    headers = {"AMQ_SCHEDULED_PERIOD": "0", "AMQ_SCHEDULED_REPEAT": "0", "AMQ_SCHEDULED_CRON": ""}
    client.publish("/queue/a", b"m", **headers)
    assert client.bodies() == [b"m"]
