"""Rows of the admin API: sessions, subscriptions and destinations.

Lists are sorted and filtered by the `..._KEYS`, and rows are made for the page alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ..core.ages import Age
from ..core.counters import Counts, Drop
from ..core.ports import ANONYMOUS
from ..model.destinations import DURABLE
from ..model.options import PLAIN
from ..model.patterns import has_wildcard
from ..queue.queue import Queue
from ..queue.subscription import Subscription
from ..session.session import Session
from ..topic.topic import Topic

if TYPE_CHECKING:
    from ..broker import Broker
    from ..routing.registry import Registry

Target = Queue | Topic
Key = str | int | float


# sessions


def of_session(session: Session) -> dict[str, object]:
    """A session: its client, its messages, and the bytes that wait for it."""
    age = session.age_of_oldest()
    return {name: key(session) for name, key in SESSION_KEYS.items()} | {
        "oldest_unacknowledged_age": None if age is None else round(age.seconds, 1),
        "heart_beat": list(session.heart_beat),
    }


# A row costs some 10 us, and a list may have 100,000 entries: a key looks at one thing.
SESSION_KEYS: dict[str, Callable[[Session], Key]] = {
    "id": lambda session: session.id,
    "login": lambda session: session.login,
    "client_id": lambda session: session.client_id,
    "version": lambda session: session.version.name,
    "transport": lambda session: session.transport,
    "peer": lambda session: session.peer,
    "connected_at": lambda session: session.connected_at,
    "subscriptions": lambda session: len(session.subscriptions),
    "unacknowledged": lambda session: session.outstanding,
    "oldest_unacknowledged_age": lambda session: _seconds(session.age_of_oldest()),
    "transactions": lambda session: len(session.transactions),
    # The API had that name before we said bytes, and keeps it.
    "pending_octets": lambda session: session.outbox.size,
    "frames_in": lambda session: session.frames_in,
    "delivered": lambda session: session.outbox.frames,
}
"""The sort keys and filters of sessions; null of a row is 0 here.

`delivered`: frames of all kinds that its connection took.
"""


def every_session(broker: Broker) -> Iterator[Session]:
    """Oldest first."""
    return iter(broker.sessions.values())


# subscriptions


def of_subscription(subscription: Subscription) -> dict[str, object]:
    """A subscription: its session, its options, and its messages."""
    # A topic writes into outboxes without counting, and a browser takes nothing.
    counts = subscription.queue is not None and not subscription.options.browser
    age = subscription.age_of_oldest()
    return {name: key(subscription) for name, key in SUBSCRIPTION_KEYS.items()} | {
        "id": subscription.id,
        "client_id": subscription.peer.client_id,
        "prefetch": subscription.options.prefetch,
        "oldest_unacknowledged_age": None if age is None else round(age.seconds, 1),
        "waiting": None if subscription.queue is None else subscription.queue.waiting,
        "stored": None if subscription.queue is None else subscription.queue.stored,
        "delivered": subscription.delivered if counts else None,
        "stalled": subscription.has_stalled,
        "durable": subscription.durable_name or None,
        "browser": subscription.options.browser,
    }


SUBSCRIPTION_KEYS: dict[str, Callable[[Subscription], Key]] = {
    "session": lambda subscription: subscription.peer.id,
    "login": lambda subscription: subscription.peer.login,
    "id": lambda subscription: subscription.id or "",
    "destination": lambda subscription: subscription.destination,
    "target": lambda subscription: target_of(subscription),
    "ack": lambda subscription: subscription.mode.value,
    "selector": lambda subscription: subscription.options.selector_text,
    "prefetch": lambda subscription: subscription.options.prefetch or 0,
    "unacknowledged": lambda subscription: len(subscription.ledger or ()),
    "oldest_unacknowledged_age": lambda subscription: _seconds(subscription.age_of_oldest()),
    "waiting": lambda subscription: 0 if subscription.queue is None else subscription.queue.waiting,
    "stored": lambda subscription: 0 if subscription.queue is None else subscription.queue.stored,
    "delivered": lambda subscription: subscription.delivered,
    "stalled": lambda subscription: subscription.has_stalled,
    "durable": lambda subscription: subscription.durable_name,
    "browser": lambda subscription: subscription.options.browser,
}
"""The sort keys and filters of subscriptions; null of a row is empty here, or 0.

`target`: the canonical name of its destination.  `delivered`: by its queue.
"""


def target_of(subscription: Subscription) -> str:
    """The canonical name of its destination."""
    target = subscription.topic or subscription.queue
    return "" if target is None else target.name


# destinations


def of_destination(target: Target) -> dict[str, object]:
    """A destination: its kind, its subscriptions, its messages, and what it keeps for replay."""
    age = target.age_of_oldest() if isinstance(target, Queue) else None
    return {name: key(target) for name, key in DESTINATION_KEYS.items()} | {
        "oldest_age": None if age is None else round(age.seconds, 1),
        "oldest_age_is_least": age is not None and age.is_least,
        "full": isinstance(target, Queue) and target.full,
        "durable": _is_durable(target),
        "dead_letters": _has_dead_letters(target),
        "log": _of_stream(target),
        "losing": target.tally.is_losing,
        "lost_age": None if target.tally.lost_age is None else round(target.tally.lost_age, 1),
        "present_losses": target.tally.present_losses,
    }


DESTINATION_KEYS: dict[str, Callable[[Target], Key]] = {
    "name": lambda target: target.name,
    "kind": lambda target: _kind_of(target),
    "subscriptions": lambda target: len(target.subscriptions),
    "waiting": lambda target: target.waiting if isinstance(target, Queue) else 0,
    "oldest_age": lambda target: _seconds(target.age_of_oldest()) if isinstance(target, Queue) else 0,
    "delayed": lambda target: len(target.resting) if isinstance(target, Queue) else 0,
    # Summed up when an operator asks: a count that is kept would cost each delivery and each ACK.
    "unacknowledged": lambda target: sum([len(each.ledger) for each in target.subscriptions if each.ledger]),
    "octets": lambda target: target.nbytes if isinstance(target, Queue) else 0,
    "stored": lambda target: target.stored if isinstance(target, Queue) else 0,
    **{name: attrgetter(f"tally.{name}") for name in (*Counts._fields, "lost")},
    **{f"{name}_rate": attrgetter(f"tally.rates.{name}") for name in (*Counts._fields, "lost")},
    "lost_age": lambda target: target.tally.lost_age or 0,
}
"""The sort keys and filters of destinations; null of a row is 0 here."""

DESTINATION_STATES: dict[str, Callable[[Target], bool]] = {
    "waiting": lambda target: isinstance(target, Queue) and (target.waiting > 0 or len(target.resting) > 0),
    "full": lambda target: isinstance(target, Queue) and target.full,
    "no-consumer": lambda target: isinstance(target, Queue) and not target.subscriptions,
    "dead-letters": lambda target: _has_dead_letters(target),
    "losing": lambda target: target.tally.is_losing,
    "lost": lambda target: target.tally.lost > 0,
    "conflated": lambda target: target.tally.conflated > 0,
}
"""States of a destination, as the filter `state` names them."""


def every_destination(broker: Broker) -> Iterator[Target]:
    """Destinations in use: queues and topics, oldest first, then patterns, then hidden ones, like those of users."""
    registry = broker.registry
    return chain(registry.destinations.values(), registry.patterns.values(), registry.hidden.values())


def policy_of(target: Target) -> dict[str, object]:
    """The policy in force: the operator's, and for a queue the arguments of the client that created it."""
    found = dataclasses.asdict(target.policy)
    return {name: value.value if isinstance(value, Enum) else value for name, value in found.items()}


def policy_of_clients(target: Target) -> list[str]:
    """The keys of the policy that a client's queue arguments set."""
    return list(target.of_client) if isinstance(target, Queue) else []


def subscriptions_of(target: Target) -> list[Subscription]:
    """Its subscriptions, browsers included."""
    return [*target.subscriptions, *(target.browsers if isinstance(target, Queue) else ())]


def drops_of(target: Target) -> dict[Drop, int]:
    """Messages that were lost by drops, by reason."""
    return dict(target.tally.drops or {})


def groups_of(target: Target) -> int | None:
    """How many message groups of a queue are known; None: it is not a queue."""
    return len(target.groups) if isinstance(target, Queue) else None


def _kind_of(target: Target) -> str:
    if isinstance(target, Queue):
        return "queue"
    return "pattern" if has_wildcard(target.name) else "topic"


def _is_durable(target: Target) -> bool:
    """True if it stores messages whose senders do not say whether they are durable."""
    if isinstance(target, Topic):
        return target.stream is not None and target.stream.is_stored
    # Where the policy is silent, single messages may be durable; the queue is not.
    return target.storage is not None and target.storage.keeps(PLAIN)


def _has_dead_letters(target: Target) -> bool:
    """True if it is a dead-letter queue, by its name or by a policy."""
    return isinstance(target, Queue) and target.takes_dead_letters


def _of_stream(target: Target) -> dict[str, int] | None:
    """What a topic keeps for replay: the first and the next number, and the messages between; None: nothing."""
    stream = target.stream if isinstance(target, Topic) else None
    if stream is None:
        return None
    return {"first": stream.first, "next": stream.next, "messages": len(stream), "octets": stream.nbytes}


# names, and the subscriptions behind a topic


def title_of(registry: Registry, target: Target) -> str:
    """The name for people: a durable subscription is called by its login, or its own name, and its topic."""
    found = durable_of(registry, target)
    if found is None:
        return target.name
    by_login = target.name.count("/") == _OF_A_LOGIN and found["login"] != ANONYMOUS
    return f"{found['login' if by_login else 'name']}: {found['topic']}"


# Slashes in the name of a subscription that is known by login, id and topic (`durable_subscriptions.name_of`).
_OF_A_LOGIN = DURABLE.count("/") + 3


def durable_of(registry: Registry, target: Target) -> dict[str, object] | None:
    """The durable or shared subscription that a queue belongs to, by its parts; None: it belongs to none."""
    durable = registry.durable_subscriptions.get(target.name)
    if durable is None:
        return None
    # Quoted parts (`durable_subscriptions.joined`): a name alone; or login, client-id, name, and perhaps the topic.
    parts = [*map(unquote, target.name.removeprefix(DURABLE).split("/"))]
    login, client, name = parts[:3] if len(parts) > 1 else ["", "", *parts]
    whose = {"topic": durable.topic.name, "login": login, "client_id": client, "name": name}
    return whose | {"shared": len(parts) == 1}


def patterns_of(registry: Registry, target: Target) -> list[Topic]:
    """The patterns that match a topic's name: their subscribers get its messages, too."""
    is_plain = isinstance(target, Topic) and not has_wildcard(target.name)
    return list(registry.patterns.match(target.name)) if is_plain else []


def durable_subscriptions_of(target: Target, patterns: list[Topic]) -> Iterator[Queue]:
    """The queues of the durable subscriptions that a topic fills, by itself or by these patterns."""
    durable = chain.from_iterable(topic.durable_subscriptions.values() for topic in _topics_of(target, patterns))
    return (each.queue for each in durable)


def durable_count(target: Target, patterns: list[Topic]) -> int:
    """The number of these subscriptions, whatever it is, at the cost of the number of patterns."""
    return sum([len(topic.durable_subscriptions) for topic in _topics_of(target, patterns)])


def consumers_of(registry: Registry, target: Target) -> int:
    """All subscriptions that get its messages: its own, those by a pattern, and durable ones."""
    patterns = patterns_of(registry, target)
    return sum([len(target.subscriptions), *[each.count for each in patterns], durable_count(target, patterns)])


def _topics_of(target: Target, patterns: list[Topic]) -> list[Topic]:
    return [*([target] if isinstance(target, Topic) else []), *patterns]


# ages


def _seconds(age: Age | None) -> float:
    """An age to sort by; 0: there is none."""
    return 0.0 if age is None else age.seconds
