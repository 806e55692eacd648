"""Rows of the admin API for what the broker keeps outside of queues: scheduled and retained messages, and offsets.

As in `rows`, lists are sorted and filtered by the `..._KEYS`, which look at one thing each, and rows are made for the
page alone.  Rows have no headers and bodies: the API has another endpoint for a single message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ..errors import NotAllowed
from ..model import destinations as names
from ..model.destinations import DURABLE
from ..model.patterns import has_wildcard
from .message_rows import id_of, of_content

if TYPE_CHECKING:
    from ..broker import Broker
    from ..model.message import Message
    from ..routing.scheduled import ScheduledSend
    from ..topic.offsets import Offset
    from ..topic.retained import RetainedMessage

Key = str | int | float
Row = dict[str, object]


def names_of(text: str) -> set[str]:
    """The canonical names that a name of a destination may stand for."""
    try:
        return {text, names.canonical(text)}
    except NotAllowed:
        return {text}


# scheduled messages


SCHEDULED_KEYS: dict[str, Callable[[ScheduledSend], Key]] = {
    "id": lambda waiting: id_of(waiting.number),
    "destination": lambda waiting: ",".join(targets_of(waiting)),
    # On the broker's clock: rows are in the same order by it.
    "due": lambda waiting: waiting.due,
    "size": lambda waiting: len(waiting.sending.body),
    "priority": lambda waiting: waiting.sending.options.priority,
    "session": lambda waiting: waiting.sending.sender,
    "stored": lambda waiting: bool(waiting.stored),
}
"""Sort keys and filters."""


def of_scheduled(broker: Broker, waiting: ScheduledSend) -> Row:
    """A scheduled message: where to, when, and how much."""
    return {name: key(waiting) for name, key in SCHEDULED_KEYS.items()} | {
        "due": _moment(broker, waiting.due),
        "expires": _moment(broker, waiting.sending.expires) if waiting.sending.expires else None,
        "schedule": None if waiting.schedule is None else str(waiting.schedule),
    }


def whole_scheduled(broker: Broker, waiting: ScheduledSend, most: int) -> Row:
    """A scheduled message with headers and body, cut as in `of_content`."""
    # Those of its first destination: the others differ in little but `destination`, and the row lists all of them.
    headers = waiting.sending.targets[0][1].headers
    return of_scheduled(broker, waiting) | of_content(headers, waiting.sending.body, most)


def targets_of(waiting: ScheduledSend) -> list[str]:
    """The canonical names of its destinations."""
    return [name for name, _ in waiting.sending.targets]


# retained messages


RETAINED_KEYS: dict[str, Callable[[RetainedMessage], Key]] = {
    "topic": lambda kept: kept.name,
    "id": lambda kept: kept.message.id.decode(),
    "size": lambda kept: len(kept.message.body),
    # Numbers only grow, so the lowest is the oldest.
    "age": lambda kept: -kept.message.number,
    "stored": lambda kept: kept.stored is not None,
}
"""Sort keys and filters."""


def of_retained(broker: Broker, kept: RetainedMessage) -> Row:
    """The retained message of a topic: how much, and since when."""
    message: Message = kept.message
    age = broker.dates.age(message.number)
    return {name: key(kept) for name, key in RETAINED_KEYS.items()} | {
        "age": round(age.seconds, 1),
        "age_is_least": age.is_least,
        "expires": _moment(broker, message.expires) if message.expires else None,
    }


def whole_retained(broker: Broker, kept: RetainedMessage, most: int) -> Row:
    """The retained message of a topic, with headers and body, cut as in `of_content`."""
    message = kept.message
    return of_retained(broker, kept) | of_content(message.head.headers, message.body, most)


# offsets


OFFSET_KEYS: dict[str, Callable[[Offset], Key]] = {
    "name": lambda offset: offset.name,
    "topic": lambda offset: offset.topic,
    "session": lambda offset: "" if offset.holder is None else offset.holder.peer.id,
}
"""Sort keys and filters; `session` is empty where no client reads under that name now."""


def of_offset(broker: Broker, offset: Offset) -> Row:
    """An offset: its client, its topic, its position when that was last looked at, and how many messages are behind."""
    # Its name is made of the three, quoted (`durable_subscriptions.joined`).
    login, client_id, resume = map(unquote, offset.name.removeprefix(DURABLE).split("/"))
    whose = {"login": login, "client_id": client_id, "resume": resume}
    found = {name: key(offset) for name, key in OFFSET_KEYS.items()}
    # To determine the position now would cost as much as the reader has messages without an ACK.
    return found | whose | {"position": offset.position, "behind": _behind(broker, offset.topic, offset.position)}


def _behind(broker: Broker, topic: str, position: int) -> int | None:
    """How many messages of its stream come after that one; None: of a pattern, which may have very many streams."""
    if has_wildcard(topic):
        return None
    return sum([stream.count_behind(position) for stream in broker.registry.streams.matching(topic)])


def _moment(broker: Broker, date: float) -> float:
    """A date of the broker's clock, in seconds since the epoch."""
    scheduler = broker.scheduler
    return scheduler.epoch() + date - scheduler.clock()
