"""The closed loop: one publisher, its receivers, and never more than a window of messages on the way.

Batches are encoded before the clock starts.  A batch is a quarter of the window and is written when a quarter is free.
The loop polls every 50 us instead of sleeping in epoll: a `send()` that wakes a sleeping reader on the other core costs
the server 4-8 us in a virtual machine, which it would not pay for clients elsewhere.  Scenarios that measure one
message at a time sleep as a real client does.

The measured part lies between two points of a loop that runs on; what is on the way at either point is much less than
what passes between them, and cancels out.
"""

from __future__ import annotations

import itertools
import select
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.link import PATIENCE, Link, Receiver
from benchmarks.server import Server
from benchmarks.wire import DeliveryError

WARM_UP = 0.5
POLL = 50e-6


@dataclass(frozen=True)
class Sample:
    """One round of one row.

    `cost` is in the unit of the row, `generator` in us of the generator's CPU per operation, its polling included;
    `load` is the part of its core that the server used: near 1 from one to one in bulk; less in bulk fan-out, where one
    read of the server takes the whole window and both sides work in turns.  `beside` holds what else the round found
    out, for rows of their own.  `missing` says why there is no cost, where that could not be measured.
    """

    cost: float
    rate: float | None = None
    generator: float | None = None
    load: float | None = None
    note: str = ""
    beside: Mapping[str, Sample] = field(default_factory=dict)
    missing: str = ""


class Loop:
    """Publishes `batches` over and over through `publisher`, and checks what the receivers get.

    `batch` is the number of messages in each batch, `fan_out` says whether every receiver gets every message (else each
    message goes to one of them), `limit` is the number of messages after which publishing ends by itself.  `sent` of
    them were sent before, in whole batches, and count as on their way.
    """

    def __init__(
        self,
        publisher: Link,
        batches: Sequence[bytes],
        batch: int,
        window: int,
        receivers: Sequence[Receiver],
        *,
        fan_out: bool = False,
        sleeps: bool = False,
        limit: float = float("inf"),
        sent: int = 0,
    ) -> None:
        self.sent = sent
        self._publisher = publisher
        self._batches = itertools.islice(itertools.cycle(batches), sent // batch % len(batches), None)
        self._batch = batch
        self._window = window
        self._receivers = {receiver.link.socket.fileno(): receiver for receiver in receivers}
        self._checks = [receiver.check for receiver in receivers]
        self._gather: Callable[[list[int]], int] = min if fan_out else sum
        self._sleeps = sleeps
        self._limit = limit
        self._poll = select.epoll()
        for descriptor, receiver in self._receivers.items():
            receiver.link.socket.setblocking(False)
            self._poll.register(descriptor, select.EPOLLIN)
        publisher.socket.setblocking(False)
        self._writers = {publisher, *(receiver.link for receiver in receivers)}

    @property
    def deliveries(self) -> int:
        """Deliveries checked so far."""
        return sum(check.count for check in self._checks)

    def run(self, seconds: float) -> None:
        """Publish and receive for this long, or until the limit is reached."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.sent < self._limit:
            self._publish()
            self._receive()

    def finish(self) -> None:
        """Publish no more, and receive what is still on the way.

        Raises:
            DeliveryError: some of it does not come.
        """
        deadline = time.monotonic() + PATIENCE
        while (missing := self.sent - self._completed()) > 0:
            if time.monotonic() > deadline:
                raise DeliveryError(f"{missing} of {self.sent} messages did not arrive")
            self._receive()
        self._poll.close()

    def stop(self) -> None:
        """Publish no more, and leave what is still on the way."""
        for link in self._writers:
            link.write_out()
        self._poll.close()

    def _completed(self) -> int:
        return self._gather([check.count for check in self._checks])

    def _publish(self) -> None:
        while not self._publisher.unsent and self.sent + self._batch - self._completed() <= self._window:
            self._publisher.send(next(self._batches))
            self.sent += self._batch

    def _receive(self) -> None:
        for link in self._writers:
            if link.unsent:
                link.flush()
        ready = self._poll.poll(PATIENCE if self._sleeps else 0)
        for descriptor, _ in ready:
            self._receivers[descriptor].receive()
        if not ready and not self._sleeps:
            time.sleep(POLL)


def measure(server: Server, run: Callable[[float], None], done: Callable[[], int], seconds: float) -> Sample:
    """Warm up, run for `seconds`, and divide the server's CPU time by what was done meanwhile.

    Where nothing was done, for others had the machine, it runs on.  Of a server with edges the shares of the primary
    and of its edges are beside it.

    Raises:
        DeliveryError: nothing came for too long.
    """
    run(WARM_UP)
    before = (time.monotonic(), server.cpu(), server.cpu_of_primary(), time.process_time(), done())
    run(seconds)
    deadline = time.monotonic() + PATIENCE
    while done() == before[-1] and time.monotonic() < deadline:
        run(seconds)
    after = (time.monotonic(), server.cpu(), server.cpu_of_primary(), time.process_time(), done())
    wall, cpu, primary, own, operations = (end - start for start, end in zip(before, after, strict=True))
    if not operations:
        raise DeliveryError(f"nothing was delivered in {wall:.1f} s")
    each = 1e6 / operations
    beside = {
        "primary": Sample(cost=primary * each, load=primary / wall),
        "edges": Sample(cost=(cpu - primary) * each, load=(cpu - primary) / wall),
    }
    return Sample(
        cost=cpu * each,
        rate=operations / wall,
        generator=own * each,
        load=cpu / wall,
        beside=beside if server.edges else {},
    )
