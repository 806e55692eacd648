"""What durability costs: a RECEIPT that means "on the disk", the way through a durable queue, a start with very many
messages in the store, and a backlog that memory could not hold.

The gateway keeps its store in the folder that it runs in, which must lie on a disk.  CPU is that of its process, with
the thread that writes; what the kernel does for the disk in threads of its own is in no figure.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks.link import PATIENCE, Check, Link, ReceiptReceiver, Receiver, shown
from benchmarks.loop import Sample, measure
from benchmarks.server import Server
from benchmarks.stage import (
    batches_of,
    consume,
    destination_of,
    drain,
    fill,
    leave_all,
    links_of,
    require_empty,
    subscribe,
)
from benchmarks.syncs import syncs
from benchmarks.wire import DeliveryError, Transport, bodies, send_frame
from gateway.broker.model.changes import Batch, Container, Payload, StoredRow
from gateway.broker.model.message import Message
from gateway.codec import Head
from gateway.stores import SQLiteStore

_STORE = "bench.db"
SETTINGS = f'store = "sqlite:{_STORE}"'
"""Of a gateway with a store, in the folder of its settings."""

MIB = 1024 * 1024
# Messages of a producer until they come again: many more than the decoder remembers header blocks.
_CYCLE = 500
_BODY = 200
# Bodies of messages that wait, and how many go into one write.
_TEXTS, _BATCH = 4_000, 100
# What the store is filled with before the start: where, and how many messages in one transaction.
_RECOVERED, _AT_ONCE = "/queue/recovered", 5_000
# Messages that a gateway must be able to keep within its budget of memory.
_DEEPEST = 5_000_000


def awaited(
    server: Server, transport: Transport, seconds: float, *, producers: int, window: int, is_durable: bool = True
) -> Sample:
    """SENDs to one queue without consumer; each producer has `window` of them without their RECEIPT.

    Afterwards all of it is consumed and checked, outside the measured part.
    """
    destination = destination_of("queue")
    with links_of(transport, producers + 1) as (*links, consumer):
        crowd = _Crowd(links, destination, window)
        sample = measure(server, crowd.run, crowd.receipts, seconds)
        waits = sorted(crowd.waits)
        counted = {"syncs": syncs(server, crowd.run, crowd.receipts)} if is_durable else {}
        crowd.finish()
        leave_all(*links)
        subscribe(consumer, destination)
        check = crowd.check_of_messages()
        consume(Receiver(consumer, check), crowd.sent())
        consumer.leave()
    wait = Sample(median(waits) * 1e3, note=f"99 of 100 at most {waits[len(waits) * 99 // 100] * 1e3:.2f} ms")
    return replace(sample, beside={**sample.beside, "wait": wait, "rate": Sample(sample.rate or 0), **counted})


class _Crowd:
    """Producers that send the next message as soon as there is a receipt; it sleeps in epoll, as clients do.

    Attributes:
        waits: seconds between the SEND of each message and its RECEIPT.
    """

    def __init__(self, links: Sequence[Link], destination: str, window: int) -> None:
        self.waits: list[float] = []
        self._texts = bodies(len(links) * _CYCLE, _BODY)
        self._poll = select.epoll()
        self._producers: dict[int, _Producer] = {}
        for number, link in enumerate(links):
            texts = self._texts[number * _CYCLE : (number + 1) * _CYCLE]
            link.socket.setblocking(False)
            self._poll.register(link.socket, select.EPOLLIN)
            self._producers[link.socket.fileno()] = _Producer(link, destination, texts, window, self.waits)

    def receipts(self) -> int:
        """How many came."""
        return sum([each.check.count for each in self._producers.values()])

    def sent(self) -> int:
        """How many messages went out."""
        return sum([each.sent for each in self._producers.values()])

    def run(self, seconds: float) -> None:
        """Send and receive for this long."""
        self.waits.clear()
        for producer in self._producers.values():
            producer.send()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for producer in self._turn():
                producer.send()

    def finish(self) -> None:
        """Receive the receipts that are still due."""
        while self.receipts() < self.sent():
            self._turn()
        self._poll.close()

    def _turn(self) -> list[_Producer]:
        """Wait until some producers have got receipts."""
        ready = [self._producers[descriptor] for descriptor, _ in self._poll.poll(PATIENCE)]
        if not ready:
            raise DeliveryError(f"no receipt within {PATIENCE} s")
        for producer in ready:
            producer.receive()
        return ready

    def check_of_messages(self) -> Check:
        """What a consumer of all must get."""
        return _CrowdCheck(self._texts, [each.sent for each in self._producers.values()])


class _Producer(ReceiptReceiver):
    """One of the producers.

    Attributes:
        sent: messages that went out.
    """

    def __init__(self, link: Link, destination: str, texts: Sequence[bytes], window: int, waits: list[float]) -> None:
        receipts = bodies(len(texts), 8)
        super().__init__(link, Check(receipts))
        self.sent = 0
        self._window = window
        self._waits = waits
        self._asked: deque[float] = deque()
        self._frames = [
            link.transport.encode([send_frame(destination, text, persistent="true", receipt=receipt.decode())])
            for text, receipt in zip(texts, receipts, strict=True)
        ]

    def send(self) -> None:
        """Send as many as the window lets."""
        numbers = range(self.sent, self.check.count + self._window)
        if numbers:
            self._asked.extend([time.perf_counter()] * len(numbers))
            self.link.send(b"".join([self._frames[number % _CYCLE] for number in numbers]))
            self.sent += len(numbers)

    def receive(self) -> None:
        """See `Receiver`."""
        before = self.check.count
        super().receive()
        now = time.perf_counter()
        for _ in range(self.check.count - before):
            self._waits.append(now - self._asked.popleft())


class _CrowdCheck(Check):
    """What came from many producers by one queue: of each all that it sent, in its order.

    Args:
        texts: of the first producer, then those of the second one, and so on.
        sent: how many each sent, with its texts over and over.
    """

    def __init__(self, texts: Sequence[bytes], sent: Sequence[int]) -> None:
        super().__init__(texts)
        self._texts = texts
        self._sent = sent
        self._counts = [0] * len(sent)

    def take(self, deliveries: list[bytes]) -> None:
        """See `Check`."""
        for each in deliveries:
            body = each[2 - self.size :]
            producer, place = divmod(int(body[:8]), _CYCLE)
            count = self._counts[producer]
            if place != count % _CYCLE or count == self._sent[producer] or body != self._texts[int(body[:8])]:
                raise DeliveryError(f"producer {producer}: wanted message {count}, found {shown(body[:24])}")
            self._counts[producer] += 1
        self.count += len(deliveries)


def fill_store(folder: Path, *, messages: int) -> None:
    """Make a store with so many messages of 100 bytes, as a gateway leaves it that was killed."""
    texts = bodies(_TEXTS, 100)
    head = Head.of("SEND", {"destination": _RECOVERED, "persistent": "true", "content-length": "100"})
    size = Message(0, head, texts[0]).size
    store = SQLiteStore.open(folder / _STORE)
    store.load()
    for number, first in enumerate(range(1, messages + 1, _AT_ONCE), 1):
        batch = Batch(number)
        batch.places[1] = Container(1, "queue", _RECOVERED)
        for row in range(first, min(first + _AT_ONCE, messages + 1)):
            batch.rows[row] = StoredRow(row, 1, row, 5, size)
            batch.contents[row] = Payload(head.headers, texts[(row - 1) % _TEXTS])
        store.write(batch)
    store.close(clean=False)


def recovery(server: Server, transport: Transport, seconds: float, *, messages: int) -> Sample:
    """Seconds that the gateway took to start with what `fill_store` made; all of it is then consumed and checked.

    `seconds` has no part in it.
    """
    resident = server.resident()
    with links_of(transport, 1) as (consumer,):
        sample = _drained(server, consumer, _RECOVERED, bodies(_TEXTS, 100), messages)
    require_empty(transport, _RECOVERED)
    note = f"then drained at {sample.cost:.1f} us and {sample.rate:,.0f}/s"
    return Sample(server.started, note=note, beside={"memory": Sample(resident / MIB)})


def paging(server: Server, transport: Transport, seconds: float, *, messages: int) -> Sample:
    """Resident memory with so many messages of 1 KiB waiting, for 5 million in MiB, and what filling and draining cost.

    The most that was resident, plus what the messages that are missing would add: the growth over the second half of
    them.  `seconds` has no part in it.
    """
    texts, destination = bodies(_TEXTS, 1024), destination_of("queue")
    batches = batches_of(transport, [send_frame(destination, text, persistent="true") for text in texts], _BATCH)
    half = messages // 2 // _BATCH
    messages = 2 * half * _BATCH
    with links_of(transport, 2) as (publisher, consumer):
        start, cpu = time.monotonic(), server.cpu()
        fill(publisher, batches, half)
        middle = server.resident()
        rest = batches[half % len(batches) :] + batches[: half % len(batches)]
        fill(publisher, rest, half)
        filled = Sample((server.cpu() - cpu) / messages * 1e6, rate=messages / (time.monotonic() - start))
        publisher.leave()
        full, most_while_filled = server.resident(), server.peak()
        drained = _drained(server, consumer, destination, texts, messages)
    growth = (full - middle) / (messages / 2)
    most = server.peak()
    estimate = most + max(growth, 0) * max(_DEEPEST - messages, 0)
    note = (
        f"{messages:,} messages: at most {most_while_filled / MIB:.0f} MiB while filled, {full / MIB:.0f} when full, "
        f"at most {most / MIB:.0f} until drained, {server.resident() / MIB:.0f} then"
    )
    return Sample(estimate / MIB, note=note, beside={"growth": Sample(growth), "fill": filled, "drain": drained})


def _drained(server: Server, consumer: Link, destination: str, texts: Sequence[bytes], count: int) -> Sample:
    """Consume and check all that waits: what one message costs."""
    start, cpu = time.monotonic(), server.cpu()
    drain(consumer, destination, texts, count)
    return Sample((server.cpu() - cpu) / count * 1e6, rate=count / (time.monotonic() - start))
