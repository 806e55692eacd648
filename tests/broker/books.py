"""The books of a scene: what the broker says that it keeps, against a count of all that is there.

`audit` counts messages and bytes, wherever they wait or whoever has them.  `audit_rows` counts rows: whatever the
store will hold once all is written must be a message that somebody has or that waits, and the other way round.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from gateway.broker import Broker, Session
from gateway.broker.model.message import Message
from gateway.broker.queue.durable import QueueStorage
from gateway.broker.queue.paging import PagedMessages
from gateway.broker.queue.queue import Queue
from gateway.broker.queue.subscription import Delivery
from gateway.broker.routing.scheduled import ScheduledSend
from gateway.broker.topic.stream import Stream, StreamEntry
from gateway.broker.topic.stream_reader import StreamReader
from gateway.broker.topic.topic import Topic

if TYPE_CHECKING:
    from .client import Scene
    from .store import Vault


def waiting(queue: Queue) -> list[Message]:
    """Messages in memory that nobody has, in the order in which consumers will get them."""
    return queue.waiting_messages()


# messages and bytes


def audit(scene: Scene) -> None:
    """Count everything that is kept and compare."""
    broker = scene.broker
    cost: Counter[str] = Counter()
    outstanding: Counter[Session] = Counter()
    for target in [*broker.destinations.values(), *broker.registry.hidden.values(), *broker.registry.patterns.values()]:
        assert not target.is_idle, f"{target.name} is idle"
        if isinstance(target, Queue):
            cost += _audit_queue(target)
        elif target._unseen is not None:
            held = sum(held.message.size for *_, held in target._unseen.held)
            assert target._unseen.nbytes == held
            cost["nbytes"] += held
    cost["nbytes"] += sum(_put_off(scene)) + sum(kept.message.size for kept in broker.router.retained._kept.values())
    cost["nbytes"] += _audit_logs(broker)
    cost["nbytes"] += _audit_presence(broker)
    sessions = broker.sessions.values()
    for session in sessions:
        for subscription in session.subscriptions.values():
            if subscription.topic is not None and subscription.queue is not None:
                cost += _audit_queue(subscription.queue)
            if isinstance(subscription.reader, StreamReader):
                cost["nbytes"] += _audit_reader(subscription.reader)
            deliveries = (subscription.ledger or {}).values()
            cost["nbytes"] += sum(each.message.size for each in deliveries)
            outstanding[session] += len(deliveries)
        for transaction in session.transactions.values():
            frames = sum(sending.nbytes for sending in transaction.sends)
            assert transaction.nbytes == frames
        held = _held_in_transactions(session)
        cost["nbytes"] += sum(each.message.size for each in held)
        cost["nbytes"] += sum(transaction.nbytes for transaction in session.transactions.values())
        outstanding[session] += len(held)
        assert session.outstanding == outstanding[session]
    for client in scene.clients:
        outbox = client.session.outbox
        assert outbox.closed or outbox.gone + outbox.size == outbox.taken + sum(map(len, outbox.parts))
    assert broker.memory.used == cost["nbytes"] + broker.memory.partial
    assert broker.context.waiting == cost["messages"]
    assert broker.context.subscriptions == sum(len(session.subscriptions) for session in sessions)
    assert broker.memory.pressed == (broker.memory.used > broker.quotas.memory_high or broker.memory._is_scarce)


def _audit_queue(queue: Queue) -> Counter[str]:
    messages = waiting(queue)
    count, nbytes = in_backlog(queue)
    assert queue.waiting == len(messages) + count
    assert queue.nbytes == sum(message.size for message in messages) + nbytes
    return Counter(nbytes=queue.nbytes - nbytes + queue.in_memory.ready_bytes, messages=queue.waiting)


def entries_of(stream: Stream) -> Iterator[StreamEntry]:
    """All that a log has."""
    entry = stream.behind(0)
    while entry is not None:
        yield entry
        entry = stream.behind(entry.number)


def _audit_reader(reader: StreamReader) -> int:
    """What a reader of logs costs: its page, and 200 bytes for each log that it has looked at."""
    logs, rest = divmod(reader._kept - sum(entry.size for entry in reader._page), 200)
    assert rest == 0
    assert len(reader._run) <= logs or reader._to_visit is None
    return reader._kept


def _audit_logs(broker: Broker) -> int:
    """What the logs of topics cost; where they have come to fits with what they keep."""
    logs = broker.registry.streams
    cost = 0
    for stream in logs._streams.values():
        entries = list(entries_of(stream))
        assert [entry.number for entry in entries] == sorted({entry.number for entry in entries})
        assert all(entry.message is None or entry.message.size == entry.size for entry in entries)
        assert len(entries) == len(stream)
        assert stream.nbytes == sum(entry.size for entry in entries)
        assert stream.memory == sum(32 + (entry.size if entry.message else 0) for entry in entries)
        assert stream.lost < min([entry.number for entry in entries], default=math.inf)
        cost += stream.memory
    assert logs.nbytes + logs.index == cost
    topics = [*broker.destinations.values(), *broker.registry.hidden.values()]
    cost += 2_048 * sum(isinstance(target, Topic) and target.stream is not None for target in topics)
    assert logs.index == sum(32 * len(stream) for stream in logs._streams.values() if stream.is_stored)
    return cost


def _audit_presence(broker: Broker) -> int:
    """What the users of topics cost; each has a session that is subscribed, or is awaited."""
    presence = broker.router.presence
    users = [user for room in presence._rooms.values() for user in room.users.values()]
    assert all(room.users or room.settles for room in presence._rooms.values())
    assert all(bool(user.sessions) == (user.departure is None) for user in users)
    assert presence._away == sum(user.departure is not None for user in users)
    subscribed = {each for session in broker.sessions.values() for each in session.subscriptions.values()}
    assert subscribed.issuperset(presence._present)
    assert sum(sum(user.sessions.values()) for user in users) == len(presence._present)
    return sum(user.cost for user in users)


def _held_in_transactions(session: Session) -> list[Delivery]:
    """The deliveries of subscriptions that are gone."""
    transactions = session.transactions.values()
    settlements = [settlement for transaction in transactions for settlement in transaction.settlements]
    return [each for settlement in settlements for each in settlement.deliveries if each.subscription.ended]


def _put_off(scene: Scene) -> list[int]:
    """What the messages cost that wait for their time: delayed, or coming back later."""
    delayed = [each for each in _arguments(scene) if isinstance(each, ScheduledSend)]
    assert {each.number: each for each in delayed} == scene.broker.router.delayed._found
    resting = [each.size for each in _arguments(scene) if isinstance(each, Message)]
    return resting + [each.nbytes for each in delayed]


def _arguments(scene: Scene) -> Iterator[object]:
    """Of what the broker wants to do later: messages that come back, their queues, what is delayed."""
    actions = [entry.action for _, _, entry in scene.broker.scheduler._heap]
    if scene.is_stored:
        actions += chain(*scene.vault.storage._parked.values())
    for action in actions:
        if isinstance(action, partial):
            yield from (*action.args, getattr(action.func, "__self__", None))


# rows


def audit_rows(scene: Scene, vault: Vault) -> None:
    """Each row that the store will hold is a message of the broker's, and each queue has counted its own."""
    shelves: list[QueueStorage] = [queue.storage for queue in _queues(scene) if queue.storage is not None]
    for paged in _leaving(vault):
        storage = paged._queue.storage
        if storage is not None and storage not in shelves:
            shelves.append(storage)
    found = Counter(row for storage in shelves for row in _rows_of_backlog(storage))
    found.update(abs(message.row) for message in _messages(scene) if message.row)
    of_queues = sum(found.values())
    logs = scene.broker.registry.streams
    for stream in logs._streams.values():
        found.update(entry.number for entry in entries_of(stream) if stream.is_stored)
    found.update(message.row for message in _outside_of_queues(scene))
    coming = vault.coming(scene.broker.registry.streams.unused)
    assert found.keys() == coming.keys(), (found, coming)
    assert set(found.values()) <= {1}, found
    counts = [(storage.transient, storage.rows) for storage in shelves]
    assert all(0 <= transient <= rows for transient, rows in counts), counts
    assert sum(rows for _, rows in counts) == of_queues
    assert sum(transient for transient, _ in counts) == sum(coming.values())


def _leaving(vault: Vault) -> list[PagedMessages]:
    """The backlogs that were thrown away, and leave the store in slices; their queues may be gone."""
    actions = [getattr(each, "__self__", None) for each in chain(*vault.storage._parked.values())]
    return [each for each in actions if isinstance(each, PagedMessages)]


def _outside_of_queues(scene: Scene) -> Iterator[Message]:
    """What stands for delayed and for retained messages in the store."""
    for each in _arguments(scene):
        if isinstance(each, ScheduledSend):
            yield from each.stored
    for kept in scene.broker.router.retained._kept.values():
        if kept.stored is not None:
            yield kept.stored


def _queues(scene: Scene) -> set[Queue]:
    """Also those that were forgotten, but have messages that somebody holds."""
    every = [*scene.broker.destinations.values(), *scene.broker.registry.hidden.values()]
    found = {target for target in every if isinstance(target, Queue)}
    found |= {queue for _, queue in _held(scene)}
    return found | {each for each in _arguments(scene) if isinstance(each, Queue)}


def _messages(scene: Scene) -> Iterator[Message]:
    for queue in _queues(scene):
        yield from waiting(queue)
    for message, _ in _held(scene):
        yield message
    for each in _arguments(scene):
        if isinstance(each, Message):
            yield each


def _held(scene: Scene) -> Iterator[tuple[Message, Queue]]:
    """What somebody has, and the queue that it came from."""
    for session in scene.broker.sessions.values():
        deliveries = [each for one in session.subscriptions.values() for each in (one.ledger or {}).values()]
        for delivery in [*deliveries, *_held_in_transactions(session)]:
            assert delivery.subscription.queue is not None  # a ledger never stands without a queue
            yield delivery.message, delivery.subscription.queue
        for queue, message, _ in session.outbox.unsent:
            yield message, queue


def _rows_of_backlog(storage: QueueStorage) -> list[int]:
    paged = storage.paged
    if paged is None:
        return []
    found = [row for rows in paged._ranks.values() for row in rows.all()[0]] + list(paged._reading)
    found += [row for rows in paged._expiring for row, _ in rows]
    assert len(found) == paged.count
    found += [row for rows, _ in paged._leaving for row in rows.all()[0]]
    return [abs(row) for row in found]


def in_backlog(queue: Queue) -> tuple[int, int]:
    """How many messages of a queue are in the store alone, and what they would cost."""
    paged = queue.storage.paged if queue.storage is not None else None
    return (0, 0) if paged is None else (paged.count, paged.nbytes)
