"""When alarms are raised and cleared, look by look."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.pipeline.jobs.alarms import Look, Suspect, Watch

LIMIT = 60
AGES = {"+": LIMIT + 1, "-": LIMIT - 1, "=": LIMIT, "o": 0}


def seconds(number: float) -> int:
    return round(number * 1_000_000)


class Scene:
    """One subscription; `told` are the rows about it, as text, and `rows` in full.

    A script says what happens: `10+` is a look at second 10 with a delivery over the limit, `-` one below it, `=` one
    as old as the limit, `o` none that is pending; `x` is the end of the subscription, `ack` an ACK before the next.
    """

    def __init__(self, script: str = "") -> None:
        self.rows: list[dict[str, Any]] = []
        self.watch = self.fresh([])
        self.seq = 0
        self.settled: list[tuple[int, int]] = []
        for word in script.split():
            self.happens(word)

    def fresh(self, suspects: list[dict[str, Any]]) -> Watch:
        return Watch(suspects, seconds(LIMIT), self.rows.append)

    def happens(self, word: str) -> None:
        self.seq += 1
        if word == "ack":
            self.settled.append((self.seq, self.seq))
            return
        at, kind = seconds(float(word[:-1])), word[-1]
        end = Look(self.seq, at, is_end=True)
        look = end if kind == "x" else Look(self.seq, at, 3 * (kind != "o"), seconds(AGES[kind]))
        suspect = Suspect("g", 1, "s", None, "/queue/a", "anna", "peer", 0, 0, 0, 0)
        self.watch.see(suspect, [look], self.settled)
        self.settled = []
        self.watch = self.fresh(json.loads(json.dumps(self.watch.state())))

    @property
    def told(self) -> str:
        return ", ".join([f"{row['ts'] // 1_000_000} {row['state']} {row['kind']}" for row in self.rows])


def every(start: int, stop: int, pause: int = 10) -> str:
    return " ".join([f"{at}+" for at in range(start, stop, pause)])


@pytest.mark.parametrize(
    ("script", "told"),
    [
        pytest.param("0+ 10+ 20+", "10 raised stuck", id="second look over the limit raises"),
        pytest.param("0+ 10- 20+ 30- 40+ 50-", "", id="looks that are not in a row raise nothing"),
        pytest.param("0= 10= 20=", "", id="limit itself is not over"),
        pytest.param("0+ 10+ 20- 30+ 40- 50-", "10 raised stuck, 50 cleared stuck", id="second look below clears"),
        pytest.param("0+ 10+ 20o", "10 raised stuck, 20 cleared stuck", id="nothing pending clears at once"),
        pytest.param("0+ 10+ 12x", "10 raised stuck, 12 cleared stuck", id="end of the subscription clears"),
        pytest.param("0+ 5x 10+ 20+", "20 raised stuck", id="subscribed again"),
        pytest.param(
            f"ack 0+ ack {every(10, 80)}", "10 raised slow", id="consumer that settles something is slow for a limit"
        ),
        pytest.param(
            f"ack 0+ ack {every(10, 90)} ack 90+",
            "10 raised slow, 80 cleared slow, 80 raised stuck, 90 cleared stuck, 90 raised slow",
            id="slow becomes stuck and slow again",
        ),
        pytest.param(
            every(0, 1000), "10 raised stuck, 310 held stuck, 610 held stuck, 910 held stuck", id="lasting alarm"
        ),
        pytest.param(
            "0+ 10+ 100+ 110+", "10 raised stuck, 40 cleared stuck, 110 raised stuck", id="look behind a silence"
        ),
    ],
)
def test_alarms_of_looks(script: str, told: str) -> None:
    scene = Scene(script)
    assert scene.told == told
    over = script.endswith("+")
    assert bool(scene.watch.state()) == over
    last = scene.rows[-1]["since"] if over and scene.rows else 0
    assert all(row["since"] <= row["ts"] for row in scene.rows)
    assert not last or last == max([row["ts"] for row in scene.rows if row["state"] == "raised"])


def test_messages_settled_after_a_look_count_for_the_next() -> None:
    scene = Scene("0+")
    suspect = Suspect(**scene.watch.state()[0])
    scene.watch.see(suspect, [], [(1, 7)])  # both sides of the look, in one tick
    scene.seq = 8
    scene.happens("10+")
    assert scene.told == "10 raised slow"


@pytest.mark.parametrize(("script", "pause"), [("0+ 10+", 10), ("0+ 300+", 300)])
def test_three_missing_looks_clear(script: str, pause: int) -> None:
    scene = Scene(script)
    over = 4 * pause
    for gateway, epoch, at in (("g", 1, over), ("g", 2, 9999), ("other", 1, 9999)):
        scene.watch.pass_time(gateway, epoch, seconds(at))
    assert scene.told == f"{pause} raised stuck"
    scene.watch.pass_time("g", 1, seconds(over) + 1)
    assert scene.told == f"{pause} raised stuck, {over} cleared stuck"
    assert scene.watch.state() == []


@pytest.mark.parametrize(("start", "cleared"), [(25, 25), (3, 10), (1000, 40)])
def test_a_restarted_gateway_clears(start: int, cleared: int) -> None:
    """The clock may go back, and silence comes first."""
    scene = Scene("0+ 10+")
    scene.watch.end("other", seconds(start))
    scene.watch.end("g", 1)
    assert scene.told == "10 raised stuck"
    scene.watch.end("g", seconds(start))
    assert scene.told == f"10 raised stuck, {cleared} cleared stuck"
