"""Announcer: events of the broker as messages to a destination that the operator names, for applications.

    gateway.started         no session and no subscriber of before is there any more
    destination.occupied    the first subscriber or consumer has come      data: destination
    destination.vacated     the last one has gone                          data: destination
    message.dead_letter     a message became one                           data: destination, reason, dead_letter, ...
    session.begun, session.ended                                           data: session, login, ..., reason

A body is JSON, as Standard Webhooks has it: type, timestamp, data; the header `event` has the type, for selectors.

Events are collected, and published with the next turn of the loop: what they tell of is complete then.  An event is a
message of the broker's own, so nothing holds its causes back; it is dropped, and counted, where its queue is full or
has too many, memory is short, the store has failed, or too many are collected.  The destination itself has no events,
nor have dead letters that go there: each would cause another one.

Browsers, durable subscriptions and private destinations (temporary, of users and functions) are not counted.  A
subscription with wildcards occupies its pattern.
"""

import json
from collections import deque
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Protocol

from gateway.codec import Head

from ..model.destinations import HIDDEN, REPLY_QUEUE, REPLY_TOPIC
from ..model.message import Message
from ..model.options import SendOptions, SubscribeOptions, shared
from ..model.patterns import Pattern
from .context import Context
from .ports import INTERNAL, Peer

MOST_COLLECTED = 10_000
"""Events of one turn: some 5 MB."""

MOST_WAITING = 50_000
"""Events that wait in the queue if nothing reads it: some 50 MB.  A policy may allow less (`max_messages`)."""

_PRIVATE = (*HIDDEN, REPLY_QUEUE, REPLY_TOPIC)
_OPTIONS = shared(SendOptions(persistent=True))


class Joined(Protocol):
    """A subscription, as the announcer sees it."""

    options: SubscribeOptions

    @property
    def source(self) -> str:
        """The canonical name, or pattern, that it consumes."""


class EventAnnouncer:
    """Publishes events.

    Args:
        destination: canonical name of a queue or topic.
        patterns: of the destinations whose events are told.
        sessions: sessions are told, too.
    """

    def __init__(self, context: Context, destination: str, patterns: Collection[str], *, sessions: bool) -> None:
        self._context = context
        self._destination = destination
        self._patterns = [Pattern(text) for text in patterns]
        self._sessions = sessions
        self._consumers: dict[str, int] = {}  # by destination; none is 0
        self._collected: deque[tuple[str, bytes]] = deque()  # type and body

    def started(self) -> None:
        """The gateway takes clients from now on."""
        self._collect("gateway.started", {})

    def subscribed(self, subscription: Joined) -> None:
        """A subscription has joined its destination."""
        name = subscription.source
        if subscription.options.browser or not self._tells_of(name):
            return
        count = self._consumers[name] = self._consumers.get(name, 0) + 1
        if count == 1:
            self._collect("destination.occupied", {"destination": name})

    def unsubscribed(self, subscription: Joined) -> None:
        """A subscription is about to leave its destination."""
        name = subscription.source
        count = 0 if subscription.options.browser else self._consumers.get(name, 0)
        if count > 1:
            self._consumers[name] = count - 1
        elif count:
            del self._consumers[name]
            self._collect("destination.vacated", {"destination": name})

    def became_dead_letter(self, source: str, message: Message, headers: Mapping[str, str]) -> None:
        """A message became a dead letter.  `source`: canonical name of its queue; `headers`: of the dead letter."""
        name = source
        if name.startswith(HIDDEN):  # of a durable subscription, or a function: told by what it was sent to
            name = headers["original-destination"]
        if headers["destination"] != self._destination and source != self._destination and self._tells_of(name):
            more = {"reason": headers["dlq-reason"], "attempts": int(headers["dlq-attempts"])}
            if "reason" in headers:
                more["said"] = headers["reason"]
            dead = {"dead_letter": headers["destination"], "message_id": message.id.decode()}
            self._collect("message.dead_letter", {"destination": name, **more, **dead})

    def session_begun(self, session: Peer) -> None:
        """A client has logged in."""
        if self._sessions and session.transport != INTERNAL:
            self._collect("session.begun", _told(session))

    def session_ended(self, session: Peer, why: str | None) -> None:
        """A session has left the broker; `why`: None: the client said DISCONNECT, or was sent away."""
        if self._sessions and session.transport != INTERNAL:
            self._collect("session.ended", {**_told(session), "reason": why or "disconnected"})

    def _tells_of(self, name: str) -> bool:
        if name == self._destination or name.startswith(_PRIVATE):
            return False
        return any(pattern.matches(name) for pattern in self._patterns)

    def _collect(self, kind: str, data: Mapping[str, object]) -> None:
        context = self._context
        if len(self._collected) >= MOST_COLLECTED:
            context.counters.events_lost += 1
            return
        moment = datetime.fromtimestamp(context.scheduler.epoch(), UTC).isoformat(timespec="milliseconds")
        said = {"type": kind, "timestamp": moment.replace("+00:00", "Z"), "data": data}
        self._collected.append((kind, json.dumps(said, ensure_ascii=False).encode()))
        if len(self._collected) == 1:
            context.scheduler.at(context.scheduler.clock(), self._publish)

    def _publish(self) -> None:
        context = self._context
        # A deposit may cause events: those come with the next turn.
        collected, self._collected = self._collected, deque()
        for kind, body in collected:
            target = context.destinations.find(self._destination)
            # A topic has none that wait.
            is_full = target is not None and (target.full or getattr(target, "waiting", 0) >= MOST_WAITING)
            if is_full or context.checks_sends:
                context.counters.events_lost += 1
                continue
            headers = {"destination": self._destination, "content-type": "application/json", "event": kind}
            context.destinations.deposit(self._destination, Head.of("SEND", headers), body, _OPTIONS)


def _told(session: Peer) -> dict[str, object]:
    told: dict[str, object] = {"session": session.id, "login": session.login}
    told |= {"transport": session.transport, "address": session.peer}
    return told | ({"client_id": session.client_id} if session.client_id else {})
