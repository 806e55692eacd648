"""What is measured: each function runs one round of one row and returns its `Sample`.

Each gets a server, the transport to drive it by, and the seconds to measure for; what differs between rows comes in as
further arguments, from the catalogue.  Whatever a scenario publishes it receives again and checks to the end, so a
broker cannot be fast by losing messages, and leaves nothing behind for the next one.
"""

from __future__ import annotations

import itertools
import select
import socket
import time
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.link import (
    CHUNK,
    PATIENCE,
    Check,
    Link,
    ReceiptReceiver,
    Receiver,
    receipt_id,
    require_welcome,
    shown,
)
from benchmarks.loop import Loop, Sample, measure
from benchmarks.server import Server
from benchmarks.stage import SETTLE, batches_of, destination_of, drain, links_of, require_empty
from benchmarks.wire import END, DeliveryError, Transport, bodies, frame, send_frame

MEGABYTE = 1_000_000


def deliver(
    server: Server,
    transport: Transport,
    seconds: float,
    *,
    kind: str,
    size: int = 100,
    window: int,
    receivers: int = 1,
    acknowledges: bool = False,
    durable: bool = False,
) -> Sample:
    """One publisher, `receivers` subscribers of one queue or topic; the operation is one delivery."""
    destination = destination_of(kind)
    texts = bodies(max(2 * window, 16), size)
    batch = max(1, window // 4)
    mode = "client-individual" if acknowledges else "auto"
    with links_of(transport, 1 + receivers) as (publisher, *subscribers):
        for link in subscribers:
            link.request("SUBSCRIBE", destination=destination, id=0, ack=mode)
        headers = {"persistent": "true"} if durable else {}
        frames = [send_frame(destination, text, **headers) for text in texts]
        loop = Loop(
            publisher,
            batches_of(transport, frames, batch),
            batch,
            window,
            [Receiver(link, Check(texts), acknowledges) for link in subscribers],
            fan_out=receivers > 1,
        )
        sample = measure(server, loop.run, lambda: loop.deliveries, seconds)
        loop.finish()
        for link in (publisher, *subscribers):
            link.leave()
    if kind == "queue":
        require_empty(transport, destination)
    return sample


def large_bodies(server: Server, transport: Transport, seconds: float, *, size: int, window: int) -> Sample:
    """Bodies of `size` bytes through a topic; the cost is per megabyte of body, the rate in megabytes."""
    sample = deliver(server, transport, seconds, kind="topic", size=size, window=window)
    megabytes = size / MEGABYTE
    return replace(sample, cost=sample.cost / megabytes, rate=(sample.rate or 0) * megabytes)


def receipts(server: Server, transport: Transport, seconds: float, *, window: int, limit: int) -> Sample:
    """A receipt on every SEND to a queue without consumer; it is emptied afterwards, outside the measured part.

    At most `limit` messages, so that a fast server does not reach its memory mark and is measured waiting.
    """
    destination = destination_of("queue")
    cycle = max(2 * window, 16)
    texts, ids = bodies(cycle, 100), bodies(cycle, 8)
    frames = [
        send_frame(destination, text, persistent="true", receipt=name.decode())
        for text, name in zip(texts, ids, strict=True)
    ]
    batch = max(1, window // 4)
    with links_of(transport, 2) as (publisher, consumer):
        answers = ReceiptReceiver(publisher, Check(ids))
        batches = batches_of(transport, frames, batch)
        loop = Loop(publisher, batches, batch, window, [answers], sleeps=window == 1, limit=limit)
        sample = measure(server, loop.run, lambda: loop.deliveries, seconds)
        loop.finish()
        publisher.leave()
        drain(consumer, destination, texts, loop.sent)
    return sample


def many_destinations(
    server: Server, transport: Transport, seconds: float, *, subscriptions: int, links: int
) -> Sample:
    """`subscriptions` topics, each with one subscriber, shared by `links` connections, published to in turn."""
    base = destination_of("topic")
    texts = bodies(subscriptions, 100)
    window, batch = 2_000, min(500, subscriptions)
    with links_of(transport, 1 + links) as (publisher, *subscribers):
        before, cpu = server.resident(), server.cpu()
        for first, link in enumerate(subscribers):
            numbers = range(first, subscriptions, links)
            link.socket.sendall(
                transport.encode([frame("SUBSCRIBE", destination=f"{base}.{number}", id=number) for number in numbers])
            )
            link.request("SUBSCRIBE", destination=base, id="last")
        nbytes, cpu = (server.resident() - before) / subscriptions, (server.cpu() - cpu) / subscriptions
        frames = [send_frame(f"{base}.{number}", text) for number, text in enumerate(texts)]
        receivers = [Receiver(link, Check(texts[first::links])) for first, link in enumerate(subscribers)]
        loop = Loop(publisher, batches_of(transport, frames, batch), batch, window, receivers)
        sample = measure(server, loop.run, lambda: loop.deliveries, seconds)
        loop.finish()
        for link in (publisher, *subscribers):
            link.leave()
    return replace(sample, note=f"SUBSCRIBE {cpu * 1e6:.1f} us, {nbytes:,.0f} octets each")


def connects(
    server: Server, transport: Transport, seconds: float, *, parallel: int, logins: Sequence[tuple[str, str]] = ()
) -> Sample:
    """CONNECT, CONNECTED, DISCONNECT with receipt, close: again and again, `parallel` at a time.

    Args:
        logins: of the clients in turn; by default all have that of the transport.
    """
    storm = _Storm([replace(transport, login=login) for login in logins] or [transport], parallel)
    sample = measure(server, storm.run, lambda: storm.done, seconds)
    storm.finish()
    return sample


def idle_connections(server: Server, transport: Transport, seconds: float, *, connections: int) -> Sample:
    """KiB of resident memory per connection with one subscription to a topic of its own.

    `seconds` has no part in it.
    """
    base = destination_of("topic")
    with links_of(transport, 20) as first:  # what is imported and allocated once is not the connections'
        for number, link in enumerate(first):
            link.request("SUBSCRIBE", destination=f"{base}.first.{number}", id=0)
            link.leave()
    time.sleep(SETTLE)
    before, cpu = server.resident(), server.cpu()
    with links_of(transport, connections + 1) as (publisher, *idle):
        for number, link in enumerate(idle):
            link.request("SUBSCRIBE", destination=f"{base}.{number}", id=0)
        time.sleep(SETTLE)
        nbytes, cpu = server.resident() - before, server.cpu() - cpu
        _reach_each(publisher, idle, base)
    return Sample(cost=nbytes / connections / 1024, note=f"set-up {cpu / connections * 1e6:.0f} us of CPU each")


def backlog(server: Server, transport: Transport, seconds: float, *, messages: int) -> Sample:
    """Bytes of resident memory per message waiting in a queue, and what filling and draining cost.

    `seconds` has no part in it.
    """
    texts = bodies(5_000, 100)
    with links_of(transport, 3) as (early, publisher, consumer):
        first = destination_of("queue")
        early.socket.sendall(transport.encode([send_frame(first, text) for text in texts]))
        drain(early, first, texts, len(texts))
        time.sleep(SETTLE)
        destination = destination_of("queue")
        batches = batches_of(transport, [send_frame(destination, text) for text in texts], 500)
        before, cpu = server.resident(), server.cpu()
        for batch in itertools.islice(itertools.cycle(batches), messages // 500):
            publisher.socket.sendall(batch)
        publisher.leave()  # its RECEIPT says that everything before it is in the queue
        filling = (server.cpu() - cpu) / messages
        time.sleep(SETTLE)
        nbytes = (server.resident() - before) / messages
        start, cpu = time.monotonic(), server.cpu()
        drain(consumer, destination, texts, messages)
        wall, draining = time.monotonic() - start, (server.cpu() - cpu) / messages
    note = f"filled at {filling * 1e6:.1f} us, drained at {draining * 1e6:.1f} us and the rate shown"
    return Sample(nbytes, rate=messages / wall, note=note)


class _Storm:
    """Visits that start anew as soon as one has ended; sleeps in epoll while it waits, as clients do."""

    def __init__(self, transports: Sequence[Transport], parallel: int) -> None:
        self.done = 0
        self._transport = transports[0]
        self._parallel = parallel
        bye = self._transport.encode([frame("DISCONNECT", receipt="bye")])
        self._clients = itertools.cycle([[*each.greeting(), (bye, END)] for each in transports])
        self._visits: dict[int, tuple[socket.socket, list[tuple[bytes, bytes]], bytes]] = {}
        self._poll = select.epoll()

    def run(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            while len(self._visits) < self._parallel:
                self._begin()
            self._turn()

    def finish(self) -> None:
        """End the visits that are under way."""
        while self._visits:
            self._turn()
        self._poll.close()

    def _begin(self) -> None:
        connection = socket.create_connection((self._transport.host, self._transport.port), PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        steps = next(self._clients)
        connection.sendall(steps[0][0])
        self._poll.register(connection, select.EPOLLIN)
        self._visits[connection.fileno()] = (connection, steps, b"")

    def _turn(self) -> None:
        ready = self._poll.poll(PATIENCE)
        if not ready:
            raise DeliveryError(f"no answer within {PATIENCE} s to {len(self._visits)} connections")
        for descriptor, _ in ready:
            self._advance(descriptor)

    def _advance(self, descriptor: int) -> None:
        connection, steps, answer = self._visits[descriptor]
        chunk = connection.recv(CHUNK)
        answer += chunk
        if steps[0][1] not in answer:
            if not chunk:
                raise DeliveryError(f"the server ended a connection early: {shown(answer)}")
            self._visits[descriptor] = (connection, steps, answer)
        elif len(steps) > 1:
            require_welcome(answer)
            connection.sendall(steps[1][0])
            self._visits[descriptor] = (connection, steps[1:], b"")
        else:
            if receipt_id(answer.rstrip(END)[-40:]) != b"bye":
                raise DeliveryError(f"no RECEIPT for DISCONNECT: {shown(answer)}")
            del self._visits[descriptor]
            connection.close()
            self.done += 1


def _reach_each(publisher: Link, idle: list[Link], base: str) -> None:
    """One message to each idle connection: they were connected, not only open."""
    frames = [send_frame(f"{base}.{number}", b"%08d" % number) for number in range(len(idle))]
    publisher.socket.sendall(publisher.transport.encode(frames))
    for number, link in enumerate(idle):
        check = Check([b"%08d" % number])
        link.socket.settimeout(PATIENCE)
        while not check.count:
            check.take(link.inbound.frames(link.read()))
