"""Costs that must not grow: the same work among few things and among very many, on one server, and the ratio of both.

The few come first, so that nothing of the many is there yet; each side is measured for half of the time.  Where the
many are names, each SEND has a header block of its own, with the few as well: the decoder remembers blocks, and would
make the comparison one of its cache.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from benchmarks.link import PATIENCE, Check, Link, Receiver, receipt_id, shown
from benchmarks.loop import POLL, WARM_UP, Loop, Sample, measure
from benchmarks.server import Server
from benchmarks.stage import (
    SETTLE,
    batches_of,
    destination_of,
    drain,
    fill,
    leave_all,
    links_of,
    require_empty,
    subscribe,
    subscribe_each,
)
from benchmarks.wire import DeliveryError, Transport, bodies, frame, send_frame

# Messages on the way at once, and how many of them are written together.
_WINDOW, _BATCH = 2_000, 500
# The same where a consumer acknowledges: what it may hold at once, so that always some wait behind that.
_PREFETCH, _SMALL_BATCH = 1_000, 100
# Header blocks that are new, for each second: more than can be sent.
_NEW_BLOCKS = 200_000
# Bodies of messages that wait; they come again and again.
_TEXTS = 4_000


def topics(server: Server, transport: Transport, seconds: float, *, few: int, many: int, links: int) -> Sample:
    """Publish in turn to `many` topics with a subscriber each, beside the same to the first `few` of them."""
    base = destination_of("topic")
    names = [f"{base}.{number:06}" for number in range(many)]
    with links_of(transport, 1 + links) as (publisher, *subscribers):
        publish = partial(_publish, server, seconds / 2, publisher, subscribers)
        _subscribe(subscribers, names, 0, few)
        among_few = publish(names[:few])
        _subscribe(subscribers, names, few, many)
        among_many = publish(names)
        leave_all(publisher, *subscribers)
    return _compared(among_few, among_many)


def patterns(server: Server, transport: Transport, seconds: float, *, few: int, many: int, links: int) -> Sample:
    """Publish names never seen before, each matched by one of `many` patterns, beside the same with `few` of them.

    15 of 100 patterns overlap: others match the same names, or some of them.  None of those names is published to.
    """
    base = destination_of("topic")
    share = many // 20
    plain = [f"{base}.s.{number:06}.*" for number in range(share, many - 2 * share)]
    overlapping = [f"{base}.s.{number:06}.{rest}" for number in range(share) for rest in "*#"]
    overlapping += [f"{base}.s.*.k{number:06}" for number in range(share)]
    every = [*plain, *overlapping]
    with links_of(transport, 1 + links) as (publisher, *subscribers):
        nbytes = _memory(server, transport, every)
        publish = partial(_publish, server, seconds / 2, publisher, subscribers)
        _subscribe(subscribers, every, 0, few)
        among_few = publish(plain[:few])
        _subscribe(subscribers, every, few, many)
        among_many = publish(plain)
        again = publish([pattern.replace("*", "again") for pattern in plain[:1_000]])
        leave_all(publisher, *subscribers)
    sample = _compared(among_few, among_many)
    return replace(sample, beside={**sample.beside, "again": again, "memory": Sample(nbytes)})


def deep_queue(server: Server, transport: Transport, seconds: float, *, few: int, many: int) -> Sample:
    """Publish one, consume one and acknowledge it, with `many` waiting, beside the same with `few`; then in auto."""
    with links_of(transport, 5) as (publisher, *consumers):
        few_acknowledged, few_auto = _steady(server, seconds / 2, publisher, consumers[:2], few)
        acknowledged, auto = _steady(server, seconds / 2, publisher, consumers[2:], many)
        publisher.leave()
    sample, other = _compared(few_acknowledged, acknowledged), _compared(few_auto, auto)
    beside = {**sample.beside, "auto": auto, **{f"auto-{name}": each for name, each in other.beside.items()}}
    return replace(sample, beside=beside)


def selective(server: Server, transport: Transport, seconds: float, *, few: int, many: int) -> Sample:
    """Messages that a selective consumer wants, through a queue where `many` wait that it does not, beside `few`."""
    with links_of(transport, 6) as (publisher, bystander, *consumers):
        among_few, _ = _select(server, seconds / 2, publisher, bystander, consumers[:2], few)
        among_many, stall = _select(server, seconds / 2, publisher, bystander, consumers[2:], many)
        leave_all(publisher, bystander)
    sample = _compared(among_few, among_many)
    return replace(sample, beside={**sample.beside, "stall": stall})


def _compared(few: Sample, many: Sample) -> Sample:
    """The sample of the many, with that of the few and their ratio beside it."""
    return replace(many, beside={"few": few, "ratio": Sample(many.cost / few.cost)})


def _subscribe(links: Sequence[Link], names: Sequence[str], first: int, last: int) -> None:
    """Subscribe to some of the names; each stands with one link, in turn."""
    for place, link in enumerate(links):
        mine = range(first + (place - first) % len(links), last, len(links))
        subscribe_each(link, {number: names[number] for number in mine})


def _memory(server: Server, transport: Transport, names: Sequence[str]) -> float:
    """Bytes of resident memory for each subscription to one of these; they are gone when it returns."""
    with links_of(transport, 1) as (link,):
        before = server.resident()
        subscribe_each(link, dict(enumerate(names)))
        time.sleep(SETTLE)
        nbytes = (server.resident() - before) / len(names)
        link.leave()
    return nbytes


def _publish(
    server: Server, seconds: float, publisher: Link, subscribers: Sequence[Link], names: Sequence[str]
) -> Sample:
    """Publish to these names in turn; the asterisk of a pattern becomes a word that was never there."""
    texts = bodies(_BATCH * round((WARM_UP + seconds) * _NEW_BLOCKS / _BATCH), 100)
    frames = [
        send_frame(names[number % len(names)].replace("*", f"n{number:06}"), text, n=f"{number:06}")
        for number, text in enumerate(texts)
    ]
    expected: list[list[bytes]] = [[] for _ in subscribers]
    for number, text in enumerate(texts):
        expected[number % len(names) % len(subscribers)].append(text)
    receivers = [Receiver(link, Check(found)) for link, found in zip(subscribers, expected, strict=True) if found]
    batches = batches_of(publisher.transport, frames, _BATCH)
    loop = Loop(publisher, batches, _BATCH, _WINDOW, receivers, limit=len(texts) - _WINDOW)
    sample = measure(server, loop.run, lambda: loop.deliveries, seconds)
    loop.finish()
    return sample


def _steady(
    server: Server, seconds: float, publisher: Link, consumers: Sequence[Link], depth: int
) -> tuple[Sample, Sample]:
    """One more for each that was consumed, so that `depth` go on waiting: with ACK each, and in mode auto.

    The second consumer takes all that waits in the end.
    """
    texts, destination = bodies(_TEXTS, 100), destination_of("queue")
    transport = publisher.transport
    batches = batches_of(transport, [send_frame(destination, text) for text in texts], _SMALL_BATCH)
    waiting = depth // _SMALL_BATCH * _SMALL_BATCH
    fill(publisher, batches, waiting // _SMALL_BATCH)
    first, second = consumers
    subscribe(first, destination, ack="client-individual", prefetch_count=_PREFETCH)
    receiver = Receiver(first, Check(texts), acknowledges=True)
    window = depth + _PREFETCH + _SMALL_BATCH
    loop = Loop(publisher, batches, _SMALL_BATCH, window, [receiver], sent=waiting)
    acknowledged = measure(server, loop.run, lambda: loop.deliveries, seconds)
    loop.stop()
    # What it holds unacknowledged goes to the second one again.
    settled = receiver.check.count
    receiver.check.take(first.request("UNSUBSCRIBE", id=0))
    first.leave()
    subscribe(second, destination)
    receiver = Receiver(second, Check(texts, settled))
    loop = Loop(publisher, batches, _SMALL_BATCH, depth + _WINDOW, [receiver], sent=loop.sent)
    auto = measure(server, loop.run, lambda: loop.deliveries, seconds)
    loop.finish()
    second.leave()
    require_empty(transport, destination)
    return acknowledged, auto


def _select(
    server: Server, seconds: float, publisher: Link, bystander: Link, consumers: Sequence[Link], depth: int
) -> tuple[Sample, Sample]:
    """Fill a queue with `depth` blue messages; then red ones are for a consumer that wants no others.

    Returns:
        What a red one costs; the longest work of the server before it gave a bystander its RECEIPT, while it read the
        blue ones.
    """
    texts, destination = bodies(_TEXTS, 100), destination_of("queue")
    transport = publisher.transport
    size = min(depth, _SMALL_BATCH)
    blue = batches_of(transport, [send_frame(destination, text, colour="blue") for text in texts], size)
    red = batches_of(transport, [send_frame(destination, text, colour="red") for text in texts], _SMALL_BATCH)
    fill(publisher, blue, depth // size)
    fill(publisher, red, 1)
    consumer, sweeper = consumers
    receiver = Receiver(consumer, Check(texts), acknowledges=True)
    subscribe(consumer, destination, ack="client-individual", prefetch_count=_PREFETCH, selector="colour = 'red'")
    stalls = _round_trips(server, bystander, receiver, _SMALL_BATCH)
    note = f"{len(stalls)} round trips, {sum(stalls):.2f} s of CPU to read"
    window = _PREFETCH + 2 * _SMALL_BATCH
    loop = Loop(publisher, red, _SMALL_BATCH, window, [receiver], sent=_SMALL_BATCH)
    sample = measure(server, loop.run, lambda: loop.deliveries, seconds)
    loop.finish()
    consumer.leave()
    drain(sweeper, destination, texts, depth // size * size)
    return sample, Sample(max(stalls) * 1e3, note=note)


def _round_trips(server: Server, bystander: Link, receiver: Receiver, count: int) -> list[float]:
    """Ask for one RECEIPT after the other by `bystander`, until `receiver` has got so many messages.

    Returns:
        Seconds of CPU that the server took until it gave each RECEIPT.
    """
    question = bystander.transport.encode([frame("SEND", destination="/topic/nobody", receipt="ping")])
    bystander.socket.setblocking(False)
    receiver.link.socket.setblocking(False)
    found: list[float] = []
    deadline = time.monotonic() + PATIENCE
    busy = server.stopwatch()
    bystander.send(question)
    asked = 0.0
    while True:
        receiver.receive()
        answers = bystander.inbound.frames(bystander.read())
        if answers:
            if [receipt_id(each) for each in answers] != [b"ping"]:
                raise DeliveryError(f"wanted one RECEIPT, found {shown(answers[-1])}")
            now = busy()
            found.append(now - asked)
            if receiver.check.count >= count:
                return found
            bystander.send(question)
            asked = now
        elif time.monotonic() > deadline:
            raise DeliveryError(f"{count - receiver.check.count} of {count} messages did not come")
        else:
            time.sleep(POLL)
