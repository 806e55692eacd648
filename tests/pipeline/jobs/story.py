"""A few hours of several gateways, made up by chance: rows of all events, with nulls where there may be some."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from hypothesis import strategies as st

from gateway.journal import schema
from tests.pipeline.rows import EPOCH, Row, row

CHANCES = st.integers(0, 2**32).map(Random)  # for property tests
OVER, UNDER = 70_000_000, 1_000_000
_TEMPORARY = ("/reply-queue/1", "/reply-queue/2", "/reply-topic/1")
_DESTINATIONS = ("/queue/a", "/queue/ä.🚀", "/topic/b", "/queue/c", *_TEMPORARY)
_REASONS = ("rejected", "too many deliveries", None)


def story(random: Random, count: int) -> list[Row]:
    """Rows in the order of the time, which is for each process that of `seq`."""
    at = 0.0
    rows = []
    for _ in range(count):
        at += random.uniform(0, 4)
        event = random.choice(schema.EVENTS)
        rows.append(row(event.name, at, **_values(random, event)))
    return rows


def _values(random: Random, event: schema.Event) -> dict[str, Any]:
    session = random.choice(("s1", "s2", "s3"))
    gateway, epoch = random.choice((("g1", EPOCH), ("g1", EPOCH), ("g2", EPOCH + 5)))
    values: dict[str, Any] = {
        "session": session,
        "peer": f"127.0.0.1:{session[1]}",
        "principal": f"user-{session}",
        "subscription": random.choice(("0", None)),
        "destination": random.choice(_DESTINATIONS),
        "size": random.choice((0, 1, 100, 70_000)),
        "delivery_count": random.randrange(4),
        "queue_us": random.choice((None, 0, random.randrange(10), random.randrange(10**7))),
        "ack_us": random.choice((None, 0, random.randrange(10), random.randrange(10**7))),
        "pending": random.randrange(1, 5),
        "oldest_us": random.randrange(100_000_000),
        "reason": random.choice(_REASONS),
        "headers": {"destination": "/queue/a", "é": "\n"},
    }
    if event.name == "error" and random.random() < 0.2:
        values |= {"session": None, "principal": None}
    if event.name == "accepted" and random.random() < 0.2:
        values |= {"transport": None, "peer": None, "principal": None}
    kept = {name: value for name, value in values.items() if name in event.columns}
    return {"gateway": gateway, "epoch": epoch, **kept}


def split(random: Random, rows: list[Row], parts: int) -> list[list[Row]]:
    """The rows in so many parts, each in any of them."""
    found: list[list[Row]] = [[] for _ in range(parts)]
    for each in rows:
        random.choice(found).append(each)
    return found


def cut(random: Random, rows: list[Row], parts: int) -> list[list[Row]]:
    """The rows in so many parts, one behind the other; some may be empty."""
    places = sorted([random.randrange(len(rows) + 1) for _ in range(parts - 1)])
    return [rows[start:end] for start, end in zip([0, *places], [*places, len(rows)], strict=True)]


def life(random: Random) -> list[Row]:
    """Some consumers in their good and bad times, and gateways that start anew; in the order of their rows."""
    planned: list[tuple[float, str, dict[str, Any]]] = []
    for number in range(4):
        whose = {"gateway": f"g{number % 2}", "session": f"s{number % 3}-g{number % 2}"}
        names = {"subscription": random.choice(("0", None)), "destination": f"/queue/{number}"}
        over, settles, silent = False, False, False
        for turn in range(60):
            over ^= random.random() < (0.05 if over else 0.2)
            settles ^= random.random() < 0.2
            silent ^= random.random() < (0.3 if silent else 0.05)
            at = turn * 10 + random.random()
            if not silent:
                planned.append((at, "gauge_subscription", {**whose, **names, "oldest_us": OVER if over else UNDER}))
            times = [at + random.uniform(0, 9) for _ in range(random.randrange(3) if settles else 0)]
            planned += [(each, random.choice(("acked", "nacked")), {**whose, **names}) for each in times]
            planned.append((at + random.uniform(0, 9), "accepted", {"gateway": whose["gateway"]}))
            if random.random() < 0.03:
                planned.append((at + random.uniform(0, 9), "unsubscribed", {**whose, **names}))
            if random.random() < 0.02:
                planned.append((at + random.uniform(0, 9), "disconnected", whose))
    return _restarted(planned, {"g0": random.uniform(0, 800), "g1": 10_000.0})


def _restarted(planned: list[tuple[float, str, dict[str, Any]]], restarts: dict[str, float]) -> list[Row]:
    found, numbers = [], Counter[tuple[str, int]]()
    for at, event, values in sorted(planned, key=lambda each: each[0]):
        again = at > restarts[values["gateway"]]
        epoch = EPOCH + (round((400 + restarts[values["gateway"]]) * 1_000_000) if again else 0)
        numbers[values["gateway"], epoch] += 1
        seq = numbers[values["gateway"], epoch]
        found.append(row(event, at, **{**values, "epoch": epoch, "seq": seq}))
    return found


def numbered(several: list[Row]) -> list[Row]:
    """Rows of one process in the order of their times, which is then that of their numbers."""
    several.sort(key=lambda row: row["ts"])
    for number, each in enumerate(several):
        each["seq"] = number
    return several
