"""What is kept and stands in no queue, as the admin API lists it: SENDs that wait for their time, the values that
topics retain, and the places where clients who resume by a name will go on.

As in `rows`: who sorts or filters does it by the `..._KEYS`, which look at one thing each, and has rows made for the
page alone.  Headers and bodies stand in no row of a list: whoever wants them asks for one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ..errors import NotAllowed
from ..model import destinations as names
from ..model.destinations import DURABLE
from ..model.patterns import has_wildcard
from . import message_rows

if TYPE_CHECKING:
    from ..broker import Broker
    from ..model.message import Message
    from ..routing.scheduled import ScheduledSend
    from ..topic.offsets import Offset
    from ..topic.retained import RetainedMessage

Key = str | int | float
Row = dict[str, object]


def names_of(text: str) -> set[str]:
    """What somebody may mean by the name of a destination: that name, or what a client says by it."""
    try:
        return {text, names.canonical(text)}
    except NotAllowed:
        return {text}


# SENDs that wait for their time


SCHEDULED_KEYS: dict[str, Callable[[ScheduledSend], Key]] = {
    "id": lambda waiting: id_of(waiting),
    "destination": lambda waiting: ",".join(targets_of(waiting)),
    "due": lambda waiting: waiting.due,
    "size": lambda waiting: len(waiting.sending.body),
    "priority": lambda waiting: waiting.sending.options.priority,
    "session": lambda waiting: waiting.sending.sender,
    "stored": lambda waiting: bool(waiting.stored),
}
"""What they are sorted and filtered by; `due` is on the broker's clock."""


def of_scheduled(broker: Broker, waiting: ScheduledSend) -> Row:
    """One of them: where to, when, and how much."""
    return {name: key(waiting) for name, key in SCHEDULED_KEYS.items()} | {
        "due": _moment(broker, waiting.due),
        "expires": _moment(broker, waiting.sending.expires) if waiting.sending.expires else None,
    }


def whole_scheduled(broker: Broker, waiting: ScheduledSend, most: int) -> Row:
    """One of them, with headers and body.

    Args:
        most: bytes of the body, and characters of the headers.
    """
    headers = waiting.sending.targets[0][1].headers
    return of_scheduled(broker, waiting) | message_rows.of_content(headers, waiting.sending.body, most)


def id_of(waiting: ScheduledSend) -> str:
    """Its id, of the kind that messages have."""
    return message_rows.id_of(waiting.number)


def targets_of(waiting: ScheduledSend) -> list[str]:
    """The canonical names of where it goes to."""
    return [name for name, _ in waiting.sending.targets]


# what topics retain


RETAINED_KEYS: dict[str, Callable[[RetainedMessage], Key]] = {
    "topic": lambda kept: kept.name,
    "id": lambda kept: kept.message.id.decode(),
    "size": lambda kept: len(kept.message.body),
    # Numbers only grow, so the lowest is the oldest.
    "age": lambda kept: -kept.message.number,
    "stored": lambda kept: kept.stored is not None,
}
"""What they are sorted and filtered by."""


def of_retained(broker: Broker, kept: RetainedMessage) -> Row:
    """What one topic keeps: how much, and since when."""
    message: Message = kept.message
    age = broker.dates.age(message.number)
    return {name: key(kept) for name, key in RETAINED_KEYS.items()} | {
        "age": round(age.seconds, 1),
        "age_is_least": age.is_least,
        "expires": _moment(broker, message.expires) if message.expires else None,
    }


def whole_retained(broker: Broker, kept: RetainedMessage, most: int) -> Row:
    """The same, with headers and body.

    Args:
        most: bytes of the body, and characters of the headers.
    """
    message = kept.message
    return of_retained(broker, kept) | message_rows.of_content(message.head.headers, message.body, most)


# where clients go on


CURSOR_KEYS: dict[str, Callable[[Offset], Key]] = {
    "name": lambda offset: offset.name,
    "topic": lambda offset: offset.topic,
    "session": lambda offset: "" if offset.holder is None else offset.holder.peer.id,
}
"""What they are sorted and filtered by; `session`: empty: nobody reads under that name now."""


def of_cursor(broker: Broker, offset: Offset) -> Row:
    """One of them: whose it is, of which topic, where it stood when that was looked at last, and how much is behind.

    To look now would cost as much as the reader has messages without an ACK.
    """
    login, client_id, resume = map(unquote, offset.name.removeprefix(DURABLE).split("/"))
    whose = {"login": login, "client_id": client_id, "resume": resume}
    found = {name: key(offset) for name, key in CURSOR_KEYS.items()}
    return found | whose | {"position": offset.position, "behind": _behind(broker, offset.topic, offset.position)}


def _behind(broker: Broker, topic: str, position: int) -> int | None:
    """How many messages of its log come after that one; None: a pattern may have very many logs to count."""
    if has_wildcard(topic):
        return None
    return sum([stream.count_behind(position) for stream in broker.registry.streams.matching(topic)])


def _moment(broker: Broker, date: float) -> float:
    """A date of the broker's clock, in seconds since the epoch."""
    scheduler = broker.scheduler
    return scheduler.epoch() + date - scheduler.clock()
