"""Reports made by hand: a busy day, five quiet minutes, nothing at all, and names that want to be markup."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from gateway.pipeline.jobs.figures import EVENTS, Figures, Histogram, add
from gateway.pipeline.report import figures as time_steps
from gateway.pipeline.report.figures import ConsumerAlarm, DestinationFigures, Gap, LastDeadLetter, Reason, Report, Step
from tests.pipeline.jobs.reference import bucket_of

MIDNIGHT = datetime(2026, 11, 20, tzinfo=UTC)
HOSTILE = "/queue/<script>alert('x')</script>\"&amp;\u202e\0\n" + "n" * 300


def histogram(many: int, middle_us: int) -> Histogram:
    """As many latencies around the middle, with a tail."""
    shares = {middle_us // 3: many // 4, middle_us * 2: many // 5, middle_us * 40: many // 80}
    shares[middle_us] = many - sum(shares.values())
    return {bucket_of(us): count for us, count in shares.items() if count}


def figures(counts: dict[str, int], size: int, slowness: int) -> Figures:
    """The size is that of `accepted`; latencies are in proportion to `slowness`."""
    nothing = add([])
    queue, ack = histogram(counts["delivered"], 100 * slowness), histogram(counts["acked"], 1000 * slowness)
    return Figures({**nothing.counts, **counts}, {**nothing.body_bytes, "accepted": size}, queue, ack)


def nothing() -> Report:
    return Report(MIDNIGHT, MIDNIGHT + timedelta(hours=1), MIDNIGHT + timedelta(hours=2), timedelta(minutes=1))


def minutes() -> Report:
    """Five minutes, one destination, no trouble."""
    since = MIDNIGHT.replace(hour=14, minute=3)
    report = _report(since, timedelta(minutes=5), lambda hour: {"accepted": 50, "delivered": 50, "acked": 49})
    report = replace(report, gateways=("gateway",), transports={"tcp": 1, "websocket": 1})
    return replace(report, destinations=(DestinationFigures("/queue/orders", report.whole, 12),))


def day() -> Report:
    """A day, 40 destinations, and everything that can go wrong."""
    report = _report(MIDNIGHT, timedelta(days=1), _counts)
    at = MIDNIGHT + timedelta(hours=13)
    more = {"connected": 1312, "error": 31, "heartbeat_missed": 4, "tx_committed": 600, "journal_dropped": 2}
    why = "rejected 5 times"
    told = (
        ("dead_lettered", "/queue/orders", why, report.total("dead_lettered") - 40),
        ("dead_lettered", "/queue/eu.west.stock.retry", "expired", 40),
        ("error", None, "access refused: /queue/admin may not be read by guest", 19),
        ("error", None, "header of more than 8192 octets", 12),
        ("disconnected", None, "heart-beat missed", 4),
        ("nacked", "/queue/orders", None, 100),
        ("tx_aborted", None, "the session ended", 20),
    )
    headers = {"content-type": "application/json", "trace": "00-4bf92f3577b34da6a3ce929d0e0e4736-01"}
    letter = LastDeadLetter(at, "/queue/orders", "1f3a-1", why, 5, 1380, headers)
    billing = ("gateway-a", "s-81", "billing", "10.0.0.7:51234", "0", "/queue/orders")
    mail = ("gateway-b", "s-7", "mail", "10.0.0.9:40112", "m1", "/queue/mail")
    return replace(
        report,
        gateways=("gateway-a", "gateway-b"),
        transports={"tcp": 212, "websocket": 1100},
        events={**report.events, **more},
        destinations=tuple([_destination(report, place) for place in range(40)]),
        others=212,
        reasons=tuple([Reason(event, to, why, many, MIDNIGHT, at) for event, to, why, many in told]),
        dead_letters=(letter,) * 5,
        consumers=(
            ConsumerAlarm("stuck", at, None, *billing, 100, 38_800_000_000),
            ConsumerAlarm("slow", at, at + timedelta(minutes=31), *mail, 64, 95_000_000),
        ),
        gaps=(
            Gap("gateway-a", 1, at, 18_220, "the queue of the journal was full"),
            Gap("gateway-b", 2, at, 410, "No space left on device"),
        ),
    )


def _counts(hour: float) -> dict[str, int]:
    load = int(900 + 14_000 * max(math.sin((hour - 6) / 24 * 2 * math.pi), 0) ** 1.5)
    return {
        "accepted": load,
        "delivered": int(load * 1.4),
        "acked": int(load * 0.93),
        "nacked": int(hour) % 4,
        "redelivered": int(hour) % 6,
        "expired": 3 * (hour > 15),
        "dead_lettered": 20 * (13 <= hour < 15),
    }


def _report(since: datetime, span: timedelta, counts_at: Callable[[float], dict[str, int]]) -> Report:
    """Steps with the counts of their hour, and the events that these are."""
    steps = []
    for start, end in time_steps.steps(since, since + span, step := time_steps.step_of(span)):
        counts = counts_at((start - since) / timedelta(hours=1))
        steps.append(Step(start, end, figures(counts, counts["accepted"] * 480, 9)))
    events = {event: sum([each.figures.counts[event] for each in steps]) for event in EVENTS}
    until, rows = since + span, sum(events.values()) + 5231
    return replace(
        Report(since, until, until, step), rows=rows, first=since, last=until, steps=tuple(steps), events=events
    )


def _destination(report: Report, place: int) -> DestinationFigures:
    """The busiest has place 0."""
    kinds = ("/queue/{}", "/topic/{}", "/queue/eu.west.{}.retry", "/topic/live.{}.with.a.long.name.of.a.team")
    word = "orders prices invoices audit mail search stock users events reports".split()[place % 10]
    counts = {event: report.total(event) // (5 * place + 5) for event in EVENTS}
    own = figures(counts, report.whole.body_bytes["accepted"] // (5 * place + 5), 20)
    return DestinationFigures(kinds[place // 10].format(word), own, 100 * place)


def hostile() -> Report:
    """Every text that a client or the name of a gateway can set is hostile."""
    report = minutes()
    at = report.since
    return replace(
        report,
        gateways=(HOSTILE,),
        transports={HOSTILE: 1},
        destinations=(DestinationFigures(HOSTILE, report.whole),),
        reasons=tuple([Reason(event, HOSTILE, HOSTILE, 3, at, at) for event in ("dead_lettered", "error")]),
        dead_letters=(LastDeadLetter(at, HOSTILE, HOSTILE, HOSTILE, 2, 10, {HOSTILE: HOSTILE, "plain": "value"}),),
        consumers=(ConsumerAlarm("stuck", at, None, *[HOSTILE] * 6, 1, 61_000_000),),
        gaps=(Gap(HOSTILE, 1, at, 5, HOSTILE),),
    )
