"""What must be true of the rows of a process, whatever happened in it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from gateway.broker import Session
from gateway.broker.errors import SlowConsumer
from gateway.broker.queue import queue as queue_module

from ..client import Scene
from ..recorder import Notes, Row

if TYPE_CHECKING:
    from .records_program import Actor

# event, subscription, number, which delivery it was, destination, transaction, reason
Settled = tuple[str, str | None, int | None, int | None, str | None, str | None, str | None]


def alive(scene: Scene) -> int:
    """Messages that wait, or that somebody has, or that come back later."""
    broker = scene.broker
    actions = [entry.action for _, _, entry in broker.scheduler._heap]
    back = [each for each in actions if isinstance(each, partial) and each.func is queue_module._come_back]
    return broker.context.waiting + sum([each.outstanding for each in broker.sessions.values()]) + len(back)


def check_counters(scene: Scene, notes: Notes) -> None:
    """Rows and counters count the same."""
    counters, counts = scene.broker.counters, notes.counts
    assert counts["accepted"] == counters.published
    assert counts["delivered"] + counts["redelivered"] == counters.delivered
    assert counts["redelivered"] == counters.redelivered
    assert counts["acked"] == counters.acknowledged
    assert counts["nacked"] == counters.rejected
    assert counts["expired"] == counters.expired
    assert counts["dead_lettered"] == counters.dead_lettered
    assert len(notes.of("dropped", reason="conflated")) == counters.conflated
    assert counts["dropped"] == counters.dropped + counters.conflated
    assert counts["error"] == counters.errors
    assert counts["connected"] == counters.sessions


def check_frames(actor: Actor, notes: Notes) -> None:
    """What a client got, or would have, is what the rows say, in order."""
    rows = notes.of("delivered", "redelivered", session=actor.id)
    assert all((row.delivery_count or 0) > 1 for row in rows if row.event == "redelivered")
    assert all((row.delivery_count or 0) <= 1 for row in rows if row.event == "delivered")
    told = [(row.number, row.subscription, row.destination, row.size, row.delivery_count) for row in rows]
    got = actor.got()
    if any(isinstance(failure, SlowConsumer) for failure in actor.client.failures):
        told = told[: len(got)]  # what it did not read was thrown away
    assert told == got


def settled_in(notes: Notes, session: str) -> list[Settled]:
    """The rows of what a session settled."""
    rows = notes.of("acked", "nacked", session=session)
    return [
        (
            each.event,
            each.subscription,
            each.number,
            each.delivery_count,
            each.destination,
            each.transaction,
            each.reason,
        )
        for each in rows
    ]


def check_times(notes: Notes) -> None:
    """Latencies are those between the rows."""
    accepted: dict[int | None, int] = {}
    delivered: dict[tuple[object, ...], int] = {}
    for row in notes.rows:
        key = (row.session, row.subscription, row.number, row.delivery_count)
        if row.event == "accepted":
            accepted[row.number] = row.now
        elif row.event in ("delivered", "redelivered"):
            delivered[key] = row.now
        if row.queue_us is not None and row.number in accepted:
            assert is_nearly(row.queue_us, row.now - accepted[row.number])
        if row.event in ("acked", "nacked"):
            assert is_nearly(row.ack_us, row.now - delivered[key])


def is_nearly(microseconds: int | None, expected: int) -> bool:
    """A journal rounds the times, too."""
    return microseconds is not None and abs(microseconds - expected) <= 1


def check_sessions(everybody: Iterable[Actor], notes: Notes) -> None:
    """Sessions, subscriptions and transactions begin before anything else is told of them, and end once."""
    for actor in everybody:
        rows = notes.of(session=actor.id)
        rows = [row for row in rows if row.transport is not None]  # of a sender that has gone, little is known
        assert [row.event for row in rows].count("connected") == 1
        assert rows[0].event == "connected"
        if actor.client.closed:
            assert rows[-1].event == "disconnected"
            assert rows[-1].reason == why_it_ended(actor.client.session)
        open_ones: dict[object, Row] = {}
        pairs = {"subscribed": "unsubscribed", "tx_begun": "tx_"}
        for row in rows:
            key = row.subscription if row.event.endswith("subscribed") else ("tx", row.transaction)
            if row.event in pairs:
                assert key not in open_ones
                open_ones[key] = row
            elif row.event.startswith(("tx_", "unsub")):
                began = open_ones.pop(key)
                assert row.has(session=began.session, destination=began.destination, ack_mode=began.ack_mode)
            elif row.event in ("delivered", "redelivered"):
                assert row.subscription in open_ones
        is_over = actor.client.closed or actor.client.session.ended
        asked = {*actor.subs, *[("tx", name) for name in actor.transactions]}
        assert set(open_ones) == (set() if is_over else asked)


def why_it_ended(session: Session) -> str | None:
    if session.failed:
        return "error"
    return None if session.ended else "connection lost"
