"""Reports made by hand: a busy day, five quiet minutes, nothing at all, and names that want to be markup."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from gateway.pipeline.jobs.figures import EVENTS, Figures, Histogram, add
from gateway.pipeline.report import time_steps
from gateway.pipeline.report.figures import ConsumerAlarm, DestinationFigures, Gap, LastDeadLetter, Reason, Report, Step
from tests.pipeline.jobs.reference import bucket_of

MIDNIGHT = datetime(2026, 11, 20, tzinfo=UTC)
HOSTILE = "/queue/<script>alert('x')</script>\"&amp;\u202e\0\n" + "n" * 300


def histogram(dice: random.Random, many: int, middle_us: float, width: float = 0.6) -> Histogram:
    """As many latencies around the middle, with a tail."""
    drawn = min(many, 400)
    counts: Counter[int] = Counter()
    for place in range(drawn):
        share = many // drawn + (place < many % drawn)
        tail = 40.0 if dice.random() < 0.012 else 1.0
        counts[bucket_of(int(middle_us * tail * math.exp(dice.gauss(0, width))))] += share
    return dict(counts)


def figures(counts: dict[str, int], size: int, queue: Histogram, ack: Histogram) -> Figures:
    """The size is that of `accepted`."""
    nothing = add([])
    return Figures({**nothing.counts, **counts}, {**nothing.body_bytes, "accepted": size}, queue, ack)


def nothing() -> Report:
    return Report(MIDNIGHT, MIDNIGHT + timedelta(hours=1), MIDNIGHT + timedelta(hours=2), timedelta(minutes=1))


def minutes() -> Report:
    """Five minutes, one destination, no trouble."""
    since = MIDNIGHT.replace(hour=14, minute=3)
    report = _report(since, timedelta(minutes=5), lambda dice, hour: {"accepted": 50, "delivered": 50, "acked": 49})
    report = replace(report, gateways=("gateway",), transports={"tcp": 1, "websocket": 1})
    return replace(report, destinations=(DestinationFigures("/queue/orders", report.whole, 12),))


def day() -> Report:
    """A day, 40 destinations, and everything that can go wrong."""
    report = _report(MIDNIGHT, timedelta(days=1), _counts)
    at = MIDNIGHT + timedelta(hours=13)
    more = {"connected": 1312, "error": 31, "heartbeat_missed": 4, "tx_committed": 600, "journal_dropped": 2}
    return replace(
        report,
        gateways=("gateway-a", "gateway-b"),
        transports={"tcp": 212, "websocket": 1100},
        events={**report.events, **more},
        destinations=_destinations(report),
        others=212,
        reasons=_reasons(report.total("dead_lettered")),
        dead_letters=_dead_letters(),
        consumers=_consumers(),
        gaps=(
            Gap("gateway-a", 1, at, 18_220, "the queue of the journal was full"),
            Gap("gateway-b", 2, at, 410, "No space left on device"),
        ),
    )


def _counts(dice: random.Random, hour: float) -> dict[str, int]:
    load = int((900 + 14_000 * max(math.sin((hour - 6) / 24 * 2 * math.pi), 0) ** 1.5) * dice.uniform(0.9, 1.1))
    return {
        "accepted": load,
        "delivered": int(load * 1.4),
        "acked": int(load * 0.93),
        "nacked": dice.randrange(40),
        "redelivered": dice.randrange(60),
        "expired": dice.randrange(9) if hour > 15 else 0,
        "dead_lettered": dice.randrange(30) if 13 <= hour < 15 else 0,
    }


def _report(since: datetime, span: timedelta, counts_at: Callable[[random.Random, float], dict[str, int]]) -> Report:
    """Steps with the counts of their hour, and the events that these are."""
    dice, steps = random.Random(1), []
    for start, end in time_steps.steps(since, since + span, step := time_steps.step_of(span)):
        counts = counts_at(dice, (start - since) / timedelta(hours=1))
        queue, ack = histogram(dice, counts["delivered"], 900), histogram(dice, counts["acked"], 9_000, 0.9)
        steps.append(Step(start, end, figures(counts, counts["accepted"] * 480, queue, ack)))
    events = {event: sum([each.figures.counts[event] for each in steps]) for event in EVENTS}
    until, rows = since + span, sum(events.values()) + 5231
    return replace(
        Report(since, until, until, step), rows=rows, first=since, last=until, steps=tuple(steps), events=events
    )


def hostile() -> Report:
    """Every text that a client or the name of a gateway can set is hostile."""
    report = minutes()
    at = report.since
    headers = {HOSTILE: HOSTILE, "plain": "value"}
    return replace(
        report,
        gateways=(HOSTILE,),
        transports={HOSTILE: 1},
        destinations=(DestinationFigures(HOSTILE, report.whole),),
        reasons=tuple([Reason(event, HOSTILE, HOSTILE, 3, at, at) for event in ("dead_lettered", "error")]),
        dead_letters=(LastDeadLetter(at, HOSTILE, HOSTILE, HOSTILE, 2, 10, headers),),
        consumers=(
            ConsumerAlarm("stuck", at, None, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, 1, 61_000_000),
        ),
        gaps=(Gap(HOSTILE, 1, at, 5, HOSTILE),),
    )


def _destinations(report: Report) -> tuple[DestinationFigures, ...]:
    words = "orders prices invoices audit mail search stock users events reports".split()
    kinds = ("/queue/{}", "/topic/{}", "/queue/eu.west.{}.retry", "/topic/live.{}.with.a.long.name.of.a.team")
    dice, found = random.Random(1), []
    for place, name in enumerate([kind.format(word) for kind in kinds for word in words], 1):
        counts = {event: report.total(event) // (5 * place) for event in EVENTS}
        queue, ack = histogram(dice, counts["delivered"], 2000), histogram(dice, counts["acked"], 20_000)
        own = figures(counts, report.whole.body_bytes["accepted"] // (5 * place), queue, ack)
        found.append(DestinationFigures(name, own, dice.randrange(4000)))
    return tuple(found)


def _reasons(dead: int) -> tuple[Reason, ...]:
    first, last = MIDNIGHT + timedelta(hours=1), MIDNIGHT + timedelta(hours=23, minutes=12, seconds=7)
    told = (
        ("dead_lettered", "/queue/orders", "rejected 5 times", dead - 40),
        ("dead_lettered", "/queue/eu.west.stock.retry", "expired", 40),
        ("error", None, "access refused: /queue/admin may not be read by guest", 19),
        ("error", None, "header of more than 8192 octets", 12),
        ("disconnected", None, "heart-beat missed", 4),
        ("nacked", "/queue/orders", None, 100),
        ("tx_aborted", None, "the session ended", 20),
    )
    return tuple([Reason(event, to, why, many, first, last) for event, to, why, many in told])


def _dead_letters() -> tuple[LastDeadLetter, ...]:
    at = MIDNIGHT + timedelta(hours=14, minutes=58, seconds=3)
    headers = {"content-type": "application/json", "trace": "00-4bf92f3577b34da6a3ce929d0e0e4736-01"}
    why = "rejected 5 times"
    return tuple(
        [
            LastDeadLetter(at - timedelta(seconds=9 * place), "/queue/orders", f"1f3a-{place}", why, 5, 1380, headers)
            for place in range(5)
        ]
    )


def _consumers() -> tuple[ConsumerAlarm, ...]:
    at = MIDNIGHT + timedelta(hours=13, minutes=12)
    billing = ("gateway-a", "s-81", "billing", "10.0.0.7:51234", "0", "/queue/orders")
    mail = ("gateway-b", "s-7", "mail", "10.0.0.9:40112", "m1", "/queue/mail")
    return (
        ConsumerAlarm("stuck", at, None, *billing, 100, 38_800_000_000),
        ConsumerAlarm("slow", at, at + timedelta(minutes=31), *mail, 64, 95_000_000),
    )
