"""What features of delivery cost: selectors, groups, priorities, delays, conflation; and that they do what they should.

Each is checked by what its receivers must see: a group's messages in order at one consumer, higher priorities first, a
delay never cut short, the last word of each symbol.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.link import PATIENCE, Check, Link, ReceiptReceiver, Receiver, shown
from benchmarks.loop import POLL, WARM_UP, Loop, Sample, measure
from benchmarks.server import Server
from benchmarks.stage import (
    batches_of,
    consume,
    destination_of,
    fill,
    leave_all,
    links_of,
    require_empty,
    subscribe,
)
from benchmarks.wire import DeliveryError, Transport, bodies, send_frame

_WINDOW, _BATCH = 2_000, 500
# News for each second, more than can be sent: each has a number of its own.
_MOST_NEWS = 160_000
# What the socket of a slow reader holds, and seconds between reads of all of it: some 1 MB/s.  With much less than
# 64 KiB, the largest segment of the loopback, TCP waits for its timers.
_SIP, _PAUSE = 64 * 1024, 0.1


def selectors(server: Server, transport: Transport, seconds: float, *, subscribers: int) -> Sample:
    """A topic whose subscribers have a selector each; every message is for one of them."""
    destination = destination_of("topic")
    texts = bodies(2 * _WINDOW // subscribers * subscribers, 100)
    with links_of(transport, 1 + subscribers) as (publisher, *links):
        for number, link in enumerate(links):
            link.request("SUBSCRIBE", destination=destination, id=0, selector=f"slot = {number} AND price > 10.5")
        frames = [
            send_frame(destination, text, slot=number % subscribers, price=11) for number, text in enumerate(texts)
        ]
        receivers = [Receiver(link, Check(texts[number::subscribers])) for number, link in enumerate(links)]
        sample = _closed_loop(server, seconds, publisher, frames, receivers)
    return replace(sample, note=f"{sample.cost / subscribers:.2f} us for each subscriber")


def groups(server: Server, transport: Transport, seconds: float, *, groups: int, consumers: int) -> Sample:
    """Messages of many groups in turn, for the consumers of one queue."""
    destination = destination_of("queue")
    texts = bodies(10 * groups, 100)
    with links_of(transport, 1 + consumers) as (publisher, *links):
        for link in links:
            link.request("SUBSCRIBE", destination=destination, id=0)
        frames = [send_frame(destination, text, JMSXGroupID=f"g{n % groups:05}") for n, text in enumerate(texts)]
        owners: dict[int, _GroupCheck] = {}
        due = texts[:groups]
        receivers = [Receiver(link, _GroupCheck(texts, due, owners)) for link in links]
        sample = _closed_loop(server, seconds, publisher, frames, receivers)
    require_empty(transport, destination)
    shares = sorted(list(owners.values()).count(each) for each in set(owners.values()))
    return replace(sample, note=f"{shares[0]} to {shares[-1]} groups at {len(shares)} consumers")


class _GroupCheck(Check):
    """What one of the consumers gets: the groups that are its own, each whole and in order.

    Args:
        texts: in the order in which they are sent, over and over; groups take turns.
        due: the next one of each group; shared by the consumers.
        owners: who has which group; shared as well.
    """

    def __init__(self, texts: Sequence[bytes], due: list[bytes], owners: dict[int, _GroupCheck]) -> None:
        super().__init__(texts)
        self._texts = texts
        self._due = due
        self._owners = owners

    def take(self, deliveries: list[bytes]) -> None:
        """See `Check`."""
        groups = len(self._due)
        for each in deliveries:
            body = each[2 - self.size :]
            number = int(body[:8])
            group = number % groups
            if body != self._due[group]:
                raise DeliveryError(f"group {group}: wanted {shown(self._due[group][:8])}, found {shown(body[:8])}")
            if self._owners.setdefault(group, self) is not self:
                raise DeliveryError(f"group {group} came to two consumers")
            self._due[group] = self._texts[(number + groups) % self.cycle]
        self.count += len(deliveries)


def priorities(server: Server, transport: Transport, seconds: float, *, messages: int) -> Sample:
    """So many messages of mixed priorities fill a queue and are consumed, again and again; the highest come first."""
    destination = destination_of("queue")
    texts = bodies(messages, 100)
    ranks = [7 * number % 10 for number in range(messages)]
    frames = [send_frame(destination, text, priority=rank) for text, rank in zip(texts, ranks, strict=True)]
    batches = batches_of(transport, frames, _BATCH)
    in_order = sorted(range(messages), key=lambda number: (-ranks[number], number))
    with links_of(transport, 2) as (publisher, consumer):
        receiver = Receiver(consumer, Check([texts[number] for number in in_order]))

        def run(seconds: float) -> None:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                fill(publisher, batches, len(batches))
                subscribe(consumer, destination)
                consume(receiver, receiver.check.count + messages)
                if surplus := consumer.request("UNSUBSCRIBE", id=0):
                    raise DeliveryError(f"{len(surplus)} deliveries too many, the first: {shown(surplus[0])}")

        sample = measure(server, run, lambda: receiver.check.count, seconds)
        leave_all(publisher, consumer)
    return sample


def delays(server: Server, transport: Transport, seconds: float, *, messages: int, spread: int) -> Sample:
    """Messages with delays of up to `spread` milliseconds: what one costs, and how late it is at its consumer.

    `seconds` has no part in it.
    """
    destination = destination_of("queue")
    texts = bodies(messages, 100)
    dice = random.Random(1)
    waits = [dice.randrange(1, spread) for _ in texts]
    frames = [send_frame(destination, text, x_delay=wait) for text, wait in zip(texts, waits, strict=True)]
    with links_of(transport, 2) as (publisher, consumer):
        consumer.request("SUBSCRIBE", destination=destination, id=0)
        check = _DelayCheck(texts, waits)
        receiver = Receiver(consumer, check)
        start, cpu = time.monotonic(), server.cpu()
        # A hundredth each 10 ms, so that the server is not late because it is busy reading.
        for batch in batches_of(transport, frames, max(1, messages // 100)):
            check.sending(messages // 100 or 1)
            publisher.socket.sendall(batch)
            _listen(receiver, 0.01)
        consume(receiver, messages)
        cost = (server.cpu() - cpu) / messages * 1e6
        wall = time.monotonic() - start
        leave_all(publisher, consumer)
    late = sorted(check.late)
    p99 = late[len(late) * 99 // 100]
    beside = {"p99": Sample(p99 * 1e3), "longest": Sample(late[-1] * 1e3)}
    return Sample(cost, rate=messages / wall, note=f"median {late[len(late) // 2] * 1e3:.1f} ms late", beside=beside)


class _DelayCheck(Check):
    """What must come when it is due, each once and none early.

    Args:
        waits: the delay of each, in milliseconds.

    Attributes:
        late: seconds that each came after it was due.
    """

    def __init__(self, texts: Sequence[bytes], waits: Sequence[int]) -> None:
        super().__init__(texts)
        self.late: list[float] = []
        self._waits = waits
        self._missing = {text: number for number, text in enumerate(texts)}
        self._sent: list[float] = []

    def sending(self, count: int) -> None:
        """So many are sent now; from here on their delay is counted."""
        self._sent += [time.monotonic()] * count

    def take(self, deliveries: list[bytes]) -> None:
        """See `Check`."""
        now = time.monotonic()
        for each in deliveries:
            number = self._missing.pop(each[2 - self.size :], None)
            if number is None:
                raise DeliveryError(f"repeated, or altered: {shown(each)}")
            late = now - self._sent[number] - self._waits[number] / 1e3
            if late < 0:
                raise DeliveryError(f"message {number} came {-late * 1e3:.3f} ms early")
            self.late.append(late)
        self.count += len(deliveries)


def conflation(server: Server, transport: Transport, seconds: float, *, symbols: int) -> Sample:
    """A flood of news about so many symbols, for a slow reader: what one SEND costs.

    The reader gets news that never go back, and of each symbol the last in the end.
    """
    destination = destination_of("topic/conflated")
    news = symbols * max(10, round((WARM_UP + seconds) * _MOST_NEWS / symbols))
    texts = bodies(news, 100)
    receipts = bodies(news // _BATCH, 8)
    frames = [send_frame(destination, text, symbol=f"s{number % symbols:06}") for number, text in enumerate(texts)]
    for place, name in enumerate(receipts):
        last = (place + 1) * _BATCH - 1
        frames[last] = send_frame(destination, texts[last], symbol=f"s{last % symbols:06}", receipt=name.decode())
    with links_of(transport, 2) as (publisher, reader):
        reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SIP)
        reader.request("SUBSCRIBE", destination=destination, id=0)
        check = _NewsCheck(texts, symbols)
        slow = _SlowReceiver(reader, check)
        # The loop's messages are whole batches here, and what it waits for are their receipts.
        answers = ReceiptReceiver(publisher, Check(receipts))
        batches = batches_of(transport, frames, _BATCH)
        loop = Loop(publisher, batches, 1, _WINDOW // _BATCH, [answers, slow], limit=len(batches) - 10)
        sample = measure(server, loop.run, lambda: answers.check.count * _BATCH, seconds)
        loop.finish()
        sent = loop.sent * _BATCH
        check.await_last(Receiver(reader, check), sent)
        leave_all(publisher, reader)
    if check.news >= sent:
        raise DeliveryError("the reader was not slow: nothing was conflated")
    return replace(sample, note=f"{check.news:,} of {sent:,} reached the reader")


class _SlowReceiver(Receiver):
    """Reads little, and seldom."""

    def __init__(self, link: Link, check: Check) -> None:
        super().__init__(link, check)
        self._next = 0.0

    def receive(self) -> None:
        """See `Receiver`."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _PAUSE
            super().receive()


class _NewsCheck(Check):
    """What a reader of conflated news gets: of each symbol what is newer than the last.  It counts for nothing.

    Attributes:
        news: how many came.
    """

    def __init__(self, texts: Sequence[bytes], symbols: int) -> None:
        super().__init__(texts)
        self.news = 0
        self._texts = texts
        self._last = [-1] * symbols

    def take(self, deliveries: list[bytes]) -> None:
        """See `Check`."""
        for each in deliveries:
            body = each[2 - self.size :]
            number = int(body[:8])
            symbol = number % len(self._last)
            if number <= self._last[symbol] or body != self._texts[number]:
                raise DeliveryError(f"symbol {symbol}: after {self._last[symbol]} came {shown(body)}")
            self._last[symbol] = number
        self.news += len(deliveries)

    def await_last(self, receiver: Receiver, sent: int) -> None:
        """Read until the last of each symbol is there, of so many sent."""
        last = sorted(range(sent - len(self._last), sent), key=lambda number: number % len(self._last))
        deadline = time.monotonic() + PATIENCE
        while self._last != last:
            if time.monotonic() > deadline:
                missing = sum(found != wanted for found, wanted in zip(self._last, last, strict=True))
                raise DeliveryError(f"the last word of {missing} symbols did not come")
            _listen(receiver, POLL)


def _closed_loop(
    server: Server, seconds: float, publisher: Link, frames: Sequence[bytes], receivers: Sequence[Receiver]
) -> Sample:
    """Send these in a closed loop, each for one of the receivers; all of them leave in the end."""
    batches = batches_of(publisher.transport, frames, _BATCH)
    loop = Loop(publisher, batches, _BATCH, _WINDOW, receivers)
    sample = measure(server, loop.run, lambda: loop.deliveries, seconds)
    loop.finish()
    leave_all(publisher, *(receiver.link for receiver in receivers))
    return sample


def _listen(receiver: Receiver, seconds: float) -> None:
    """Receive for so long."""
    receiver.link.socket.setblocking(False)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        receiver.receive()
        time.sleep(POLL)
