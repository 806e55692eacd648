"""When alarms are raised and cleared, look by look."""

from __future__ import annotations

import json
from typing import Any

from gateway.pipeline.jobs.alarms import Look, Suspect, Watch

LIMIT = 60
OVER, UNDER = 61, 59


def seconds(number: float) -> int:
    """As microseconds."""
    return round(number * 1_000_000)


class Scene:
    """One subscription that is looked at."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []  # what was told, in full
        self.watch = self.fresh([])
        self.seq = 0
        self.settled: list[tuple[int, int]] = []

    def fresh(self, suspects: list[dict[str, Any]]) -> Watch:
        """A watch as the next batch has it."""
        return Watch(suspects, seconds(LIMIT), self.rows.append)

    def settle(self) -> None:
        """An ACK, before the next look."""
        self.seq += 1
        self.settled.append((self.seq, self.seq))

    def look(self, at: float, oldest: float, pending: int = 3) -> None:
        """A look, in a batch of its own."""
        self.seq += 1
        self._see(Look(self.seq, seconds(at), pending, seconds(oldest)))

    def end(self, at: float) -> None:
        """The subscription ends."""
        self.seq += 1
        self._see(Look(self.seq, seconds(at), is_end=True))

    def _see(self, look: Look) -> None:
        suspect = Suspect("g", 1, "s", None, "/queue/a", "anna", "peer", 0, 0, 0, 0)
        self.watch.see(suspect, [look], self.settled)
        self.settled = []
        self.watch = self.fresh(json.loads(json.dumps(self.watch.state())))

    @property
    def told(self) -> list[tuple[float, str, str]]:
        """Seconds, state and kind of each row."""
        return [(row["ts"] / 1_000_000, row["state"], row["kind"]) for row in self.rows]


def stuck() -> Scene:
    """A consumer that is stuck since second 10."""
    scene = Scene()
    scene.look(0, OVER)
    scene.look(10, OVER + 10)
    assert scene.told == [(10, "raised", "stuck")]
    return scene


def test_second_look_over_the_limit_raises() -> None:
    scene = stuck()
    scene.look(20, OVER + 20)
    assert len(scene.rows) == 1
    assert scene.rows[0] == {
        "ts": seconds(10),
        "state": "raised",
        "kind": "stuck",
        "since": seconds(10),
        "gateway": "g",
        "epoch": 1,
        "session": "s",
        "principal": "anna",
        "peer": "peer",
        "subscription": None,
        "destination": "/queue/a",
        "pending": 3,
        "oldest_us": seconds(OVER + 10),
    }


def test_looks_that_are_not_in_a_row_raise_nothing() -> None:
    scene = Scene()
    for at in range(0, 100, 20):
        scene.look(at, OVER)
        scene.look(at + 10, UNDER)
    assert scene.told == []
    assert scene.watch.state() == []


def test_limit_itself_is_not_over() -> None:
    scene = Scene()
    for at in range(0, 100, 10):
        scene.look(at, LIMIT)
    assert scene.told == []


def test_second_look_below_the_limit_clears() -> None:
    scene = stuck()
    scene.look(20, UNDER)
    scene.look(30, OVER)
    scene.look(40, UNDER)
    assert len(scene.told) == 1
    scene.look(50, UNDER)
    assert scene.told[1:] == [(50, "cleared", "stuck")]
    assert scene.rows[1]["since"] == seconds(10)
    assert scene.watch.state() == []


def test_nothing_pending_clears_at_once() -> None:
    scene = stuck()
    scene.look(20, 0, pending=0)
    assert scene.told[1:] == [(20, "cleared", "stuck")]


def test_end_of_the_subscription_clears() -> None:
    scene = stuck()
    scene.end(12)
    assert scene.told[1:] == [(12, "cleared", "stuck")]
    scene.end(13)
    scene.look(20, OVER)  # subscribed again
    assert len(scene.told) == 2
    scene.look(30, OVER)
    assert scene.told[2:] == [(30, "raised", "stuck")]


def test_an_end_without_an_alarm() -> None:
    scene = Scene()
    scene.look(0, OVER)
    scene.end(5)
    assert scene.told == []
    assert scene.watch.state() == []


def test_a_consumer_that_settles_something_is_slow() -> None:
    scene = Scene()
    scene.settle()
    scene.look(0, OVER)
    scene.settle()
    scene.look(10, OVER)
    assert scene.told == [(10, "raised", "slow")]
    for at in range(20, 80, 10):  # 60 seconds since it was seen to
        scene.look(at, OVER)
    assert len(scene.told) == 1
    scene.look(80, OVER)
    assert scene.told[1:] == [(80, "cleared", "slow"), (80, "raised", "stuck")]
    scene.settle()
    scene.look(90, OVER)
    assert scene.told[3:] == [(90, "cleared", "stuck"), (90, "raised", "slow")]
    assert scene.rows[-1]["since"] == seconds(90)


def test_messages_settled_before_the_first_look_do_not_count() -> None:
    scene = Scene()
    scene.settle()
    scene.look(0, OVER)
    scene.look(10, OVER)
    assert scene.told == [(10, "raised", "stuck")]


def test_messages_settled_after_a_look_count_for_the_next() -> None:
    scene = Scene()
    scene.look(0, OVER)
    suspect = Suspect(**scene.watch.state()[0])
    scene.watch.see(suspect, [], [(1, 7)])  # both sides of the look, in one tick
    scene.seq = 8
    scene.look(10, OVER)
    assert scene.told == [(10, "raised", "slow")]


def test_a_lasting_alarm_is_repeated() -> None:
    scene = stuck()
    for at in range(20, 1000, 10):
        scene.look(at, OVER + at)
    assert scene.told[1:] == [(310, "held", "stuck"), (610, "held", "stuck"), (910, "held", "stuck")]
    assert {row["since"] for row in scene.rows} == {seconds(10)}
    assert scene.rows[1]["oldest_us"] == seconds(OVER + 310)


def test_three_looks_that_are_missing_clear() -> None:
    scene = stuck()
    scene.watch.pass_time("g", 1, seconds(40))
    scene.watch.pass_time("g", 2, seconds(100))
    scene.watch.pass_time("other", 1, seconds(100))
    assert len(scene.told) == 1
    scene.watch.pass_time("g", 1, seconds(40) + 1)
    assert scene.told[1:] == [(40, "cleared", "stuck")]
    assert scene.watch.state() == []


def test_look_behind_a_silence_begins_anew() -> None:
    scene = stuck()
    scene.look(100, OVER)
    assert scene.told[1:] == [(40, "cleared", "stuck")]
    scene.look(110, OVER)
    assert scene.told[2:] == [(110, "raised", "stuck")]


def test_pause_between_looks_may_be_long() -> None:
    scene = Scene()
    scene.look(0, OVER)
    scene.look(300, OVER)
    scene.watch.pass_time("g", 1, seconds(1200))
    assert scene.told == [(300, "raised", "stuck")]
    scene.watch.pass_time("g", 1, seconds(1201))
    assert scene.told[1:] == [(1200, "cleared", "stuck")]


def test_a_restarted_gateway_clears() -> None:
    for start, cleared in ((25, 25), (3, 10), (1000, 40)):  # the clock may go back, and silence comes first
        scene = stuck()
        scene.watch.end("other", seconds(start))
        scene.watch.end("g", 1)
        assert len(scene.told) == 1
        scene.watch.end("g", seconds(start))
        assert scene.told[1:] == [(cleared, "cleared", "stuck")]
