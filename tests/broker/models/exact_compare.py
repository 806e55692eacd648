"""Compares what the broker keeps with what the model does: nothing may wait, or be gone, without a reason.

`find_given_up` looks for messages that neither wait nor went to anybody: their time was over, a newer one of their key
replaced them, or their queue was full and it was their turn.  `compare` is for the rest, when all is accounted for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gateway.broker.queue.queue import Queue

from ..client import waiting
from .exact import Model
from .exact_books import Copy, Name, Store
from .program import Consumer

Delivered = Mapping[tuple[Store, Name], int]
"""What went to consumers in this step, and its number in the broker."""


def name_of(body: bytes, headers: Mapping[str, str]) -> Name:
    """What tells a message from all others in its store."""
    return body, headers["destination"], headers.get("dlq-source", "")


def has_room(model: Model, consumer: Consumer) -> bool:
    """Whether a queue could give a consumer something."""
    outbox = consumer.client.session.outbox
    return not consumer.browser and outbox.size < outbox.window and may_have_more(model, consumer)


def may_have_more(model: Model, consumer: Consumer, before: Iterable[Copy] = ()) -> bool:
    """The same as far as it is a question of what it has not acknowledged; `before`: what it had, and may have yet."""
    asked = consumer.prefetch
    most = model.scene.broker.quotas.max_unacknowledged if asked is None else asked
    ledger = {*consumer.ledger, *before}
    held = sum(copy.size for copy in ledger)
    return (not most or len(ledger) < most) and (consumer.nbytes is None or held < consumer.nbytes)


def _queue_of(model: Model, store: Store) -> Queue | None:
    if store.owner is not None:
        return None if store.parted else store.owner.subscription.queue
    found = model.scene.broker.destinations.get(store.name)
    assert found is None or isinstance(found, Queue)
    return found


def order_letters(model: Model, delivered: Delivered) -> None:
    """Dead letters of one step: which of them died first is not known here, so they have the broker's order."""
    for store in model.stores:
        new = [copy for copy in store.copies if copy.source and copy.since == model.step]
        letters = [copy for copy in new if copy.place == copy.number]
        queue = _queue_of(model, store) if letters else None
        there = [] if queue is None else waiting(queue)
        numbers = {name_of(each.body, each.head.headers): each.number for each in there}
        for copy in letters:
            number = delivered.get((store, copy.name)) or numbers.get(copy.name, 0)
            copy.place = copy.number + number / 1_000_000


def waiting_in(model: Model, store: Store) -> list[Name]:
    """What waits there, in the order in which it is due."""
    queue = _queue_of(model, store)
    return [] if queue is None else [name_of(each.body, each.head.headers) for each in waiting(queue)]


# what neither waits nor went to anybody


def find_given_up(model: Model, delivered: Delivered, *, last: bool = False) -> None:
    """Tell the model of each such message what happened to it.

    `delivered`: what the model has not been told of yet; `last`: it has been told everything; before, a message may be
    gone with a client that has left.
    """
    for store in model.stores:
        closed = store.parted or (store.owner is not None and store.owner.client.closed)  # the model hears of it soon
        copies = [] if closed else [copy for copy in store.waiting if (store, copy.name) not in delivered]
        if copies and (store.limit or any(copy.expires or copy.key is not None for copy in copies)):
            there = set(waiting_in(model, store))
            gone = [copy for copy in copies if copy.name not in there]
            left = [copy for copy in copies if copy.name in there]
            _expire(model, gone)
            _conflate(model, gone)
            if gone and (store.limit or last):
                _drop(model, store, gone, left, len(delivered))
    order_letters(model, delivered)


def _expire(model: Model, gone: list[Copy]) -> None:
    for copy in [copy for copy in gone if copy.has_expired(model.scene.now)]:
        model.expire(copy)
        gone.remove(copy)


def _conflate(model: Model, gone: list[Copy]) -> None:
    single = len(gone) == 1
    for copy in sorted([copy for copy in gone if copy.key is not None], key=lambda copy: copy.number):
        news = [each for each in copy.store.copies if each.key == copy.key and each.number > copy.number]
        news = [each for each in news if each.waits or model.step in (each.since, each.given)]
        if news:
            newer = min(news, key=lambda each: each.number)
            model.conflated(copy, newer, surely=single or not copy.store.limit)
            gone.remove(copy)


def _drop(model: Model, store: Store, gone: list[Copy], left: list[Copy], delivered: int) -> None:
    assert store.limit, f"lost: {gone}"
    assert len(left) + delivered >= store.limit, f"{store.name} was not full, and gave up {gone}"
    if store.action == "drop-newest":
        assert all(copy.since == model.step for copy in gone), f"not the newest: {gone}"
        store.free_groups()  # they had come: a group may be free by one of them, although it is dropped
    else:
        assert store.action in ("drop-oldest", "dead-letter")
        last = max(copy.number for copy in gone)
        earlier = [each for each in left if each.number < last and not (each.since == model.step and each.is_back)]
        assert not earlier, f"not the oldest: {gone}"
    for copy in gone:
        model.queue_is_full(copy)


# comparison


def compare(model: Model) -> None:
    """What the broker keeps is what the model does."""
    broker = model.scene.broker
    for store in model.stores:
        _compare_store(model, store)
    for consumer in model.consumers:
        _compare_consumer(consumer, model.scene.now)
    names = {name for name, store in model.queues.items() if store.is_used}
    topics = {each.destination for each in model.consumers if not each.destination.startswith("/queue/")}
    patterns = {name for name in topics if "*" in name or "#" in name}
    assert set(broker.destinations) == names | (topics - patterns)
    assert {each.name for each in broker.registry.patterns.values()} == patterns
    assert len(broker.router.delayed) == len(model.delayed)
    assert len(broker.router.retained) == len(model.kept)
    _compare_counts(model)
    model.tidy()


def _compare_store(model: Model, store: Store) -> None:
    queue = _queue_of(model, store)
    mine = store.waiting
    theirs = waiting_in(model, store)
    assert sorted(theirs) == sorted(copy.name for copy in mine), f"{store.name} keeps others than {mine}"
    assert queue is None or len(queue.resting) == sum(copy.back is not None for copy in store.copies)
    places = {copy.name: copy.order for copy in mine if not copy.vague}
    order = [places[name] for name in theirs if name in places]
    assert order == sorted(order)
    _compare_limit(model, store, queue)
    if queue is not None:  # places of messages that have gone do not pile up
        ready_lists = list(queue.in_memory.ready_lists)
        groups = queue._dispatcher.groups
        ready_lists += [] if groups is None else [owner.tokens for owner in groups._owners.values()]
        assert all(len(each) <= 2 * len(mine) + 200 for each in ready_lists)
    keys = [copy.key for copy in mine if copy.key is not None]
    assert len(keys) == len(set(keys)), "a newer one did not replace an older one"
    store.free_groups()
    for copy in mine:
        # What waits for an owner, or behind others of its group, may be overtaken.
        copy.held = copy.held or copy.sent.group is not None
        for consumer in store.consumers:
            free = has_room(model, consumer) and store.is_for(copy, consumer, model.step + 1)
            assert not free or copy.has_expired(model.scene.now), f"{copy} waits, and {consumer.id} has room"


def _compare_limit(model: Model, store: Store, queue: Queue | None) -> None:
    if not store.limit:
        return
    mine = store.waiting
    returned = sum(copy.since == model.step and copy.is_back for copy in mine)
    store.most = max(store.limit, min(store.most, len(mine)) + returned)
    assert store.action == "block" or len(mine) <= store.most, f"{store.name} is too full"
    came = any(copy.since == model.step and not copy.is_back for copy in mine)
    if queue is not None and store.action == "block":
        assert not queue.full or len(mine) >= store.limit
        assert queue.full or not came or len(mine) - returned < store.limit


def _compare_consumer(consumer: Consumer, now: float) -> None:
    outbox = consumer.client.session.outbox
    if consumer.browser != "ended" and (not consumer.browser or outbox.size < outbox.window):
        left: list[object] = [each for each in consumer.due if each.is_due(now)]
        if outbox.size < outbox.window:
            left += [each for each in consumer.retained if not 0 < each[0].expires <= now]
        assert not left, f"{consumer.destination} did not tell everything"
        assert consumer.browser != "end", "the browser has no end"
    subscription = consumer.subscription
    ledger = (subscription.ledger or {}).values()
    held = [name_of(each.message.body, each.message.head.headers) for each in ledger]
    assert held == [copy.name for copy in consumer.ledger]
    assert subscription.held_bytes == sum(copy.size for copy in consumer.ledger)


def _compare_counts(model: Model) -> None:
    totals, counts = model.scene.broker.counters.totals(), model.counts
    exact = "published delivered redelivered unroutable acknowledged rejected dead_lettered moved duplicates errors"
    for name in [*exact.split(), "slow_consumers"]:
        assert totals[name] == counts[name], name
    lapsed = totals["expired"] - counts["expired"]
    assert 0 <= lapsed <= counts["lapsed"]
    # Whether a limit or a newer one ended it cannot always be seen; what was under way is not thrown away.
    least = counts["dropped"] + counts["conflated"] + counts["lapsed"] - lapsed
    assert least <= totals["dropped"] + totals["conflated"] <= least + counts["parted"]
