"""The gateway as a test sees it: where it listens, what it holds, what it was sent, and its clock.

All methods return at once and need no `await`: the broker is synchronous, and where it runs in a thread, a call waits
for one turn of that thread.  Clients talk over sockets, so what they have sent without a receipt may be on its way
still: `wait_until` and `async_wait_until` wait for it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from gateway.broker.admin.scan import QueueScan, ScanPosition
from gateway.broker.core.events import EventLog
from gateway.broker.core.ports import NullRecorder
from gateway.broker.errors import NotAllowed
from gateway.broker.headers.parse import send_options
from gateway.broker.model import destinations
from gateway.broker.model.message import Message
from gateway.broker.queue.queue import Queue
from gateway.codec import Head
from gateway.runtime.gateway import Gateway
from gateway.transports.flow.broker_clock import BrokerClock

if TYPE_CHECKING:
    from .http import LocalHttp

T = TypeVar("T")

_PAUSE = 0.005
PATIENCE = 5.0
"""Seconds that a condition may take to become true."""
MOST_SENT = 100_000
"""Messages that `sent` remembers, the last ones."""


@dataclass(frozen=True)
class LocalMessage:
    """A message of the gateway.

    Attributes:
        destination: as its sender named it.
        attempts: deliveries so far.
        delayed: it waits for its time: a delay, or the back-off after a failure.
    """

    destination: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    attempts: int = 0
    delayed: bool = False

    @property
    def text(self) -> str:
        """The body as UTF-8.  Raises UnicodeDecodeError."""
        return self.body.decode()

    def json(self) -> Any:
        """The body as JSON.  Raises ValueError."""
        return json.loads(self.body)


class LocalGateway:
    """A gateway in the loop of the test; `ThreadGateway` is one beside it.

    Destinations are named as clients name them.
    """

    def __init__(self, gateway: Gateway, clock: BrokerClock, http: LocalHttp) -> None:
        self._gateway = gateway
        self._broker = gateway.broker
        self._clock = clock
        self._http = http
        self._sent = _Sent()
        self._broker.records = EventLog(self._broker.sessions, self._sent)

    # addresses

    @property
    def host(self) -> str:
        """The loopback address."""
        return "127.0.0.1"

    @property
    def port(self) -> int:
        """Of STOMP over TCP."""
        return int(self._gateway.addresses["tcp"][0].rpartition(":")[2])

    @property
    def url(self) -> str:
        """STOMP over TCP: stomp://127.0.0.1:PORT."""
        return f"stomp://{self.host}:{self.port}"

    @property
    def websocket_url(self) -> str:
        """STOMP over WebSocket: ws://127.0.0.1:PORT/ws."""
        address = self._gateway.addresses["websocket"][0]
        return f"ws://{address}{self._gateway.in_force.now.websocket_path}"

    @property
    def http_url(self) -> str:
        """Health, metrics, API and console: http://127.0.0.1:PORT.  The first use starts the HTTP server."""
        return f"http://{self._call(self._http.address)}"

    # messages

    def send(self, destination: str, body: bytes | str = b"", headers: Mapping[str, str] | None = None) -> None:
        """Send a message; no rule applies to it.  Raises ValueError: the gateway would refuse it."""
        data = body.encode() if isinstance(body, str) else body
        self._call(partial(self._send, destination, data, dict(headers or {})))

    def _send(self, destination: str, body: bytes, headers: dict[str, str]) -> None:
        head = Head.of("SEND", {**headers, "destination": destination})
        router = self._broker.router
        try:
            router.send(router.prepare(head, body, destination, send_options(head.headers), None))
        except NotAllowed as error:
            raise ValueError(f"{error}: {error.detail}") from None
        self._broker.scheduler.later(lambda: None)  # wakes the task that flushes

    def sent(self, destination: str) -> list[LocalMessage]:
        """The messages that were sent to a destination, whatever became of them, the oldest first.

        A delayed one counts from its time on.
        """
        name = destinations.canonical(destination)
        return self._call(lambda: [each for to, each in self._sent.messages if to == name])

    def messages(self, destination: str) -> list[LocalMessage]:
        """The messages that wait in a queue, in the order in which they are due; delayed ones at the end.

        Not those that a consumer has (`unacknowledged`).  Raises ValueError: it is a topic, where none waits.
        """
        return self._call(partial(self._messages, destinations.canonical(destination)))

    def _messages(self, name: str) -> list[LocalMessage]:
        found: list[LocalMessage] = []
        queue = self._queue(name)
        if queue is not None:
            scheduler, reading = self._broker.scheduler, _Reading(found)
            QueueScan(queue, reading)
            while not reading.is_over and scheduler.proceed():
                pass
            if not reading.is_over:
                raise RuntimeError(f"{name} has more messages than memory holds: leave out `store`")
        for waiting in self._broker.router.delayed.every():
            sending = waiting.sending
            heads = [head for to, head in sending.targets if to == name]
            found += [_shown(Message(0, head, sending.body), delayed=True) for head in heads]
        return found

    def unacknowledged(self, destination: str) -> list[LocalMessage]:
        """The messages of a queue that consumers have, and have not acknowledged."""

        def look() -> list[LocalMessage]:
            queue = self._queue(destinations.canonical(destination))
            ledgers = [] if queue is None else [each.ledger for each in queue.subscriptions if each.ledger]
            return [_shown(delivery.message) for ledger in ledgers for delivery in ledger.values()]

        return self._call(look)

    def subscribers(self, destination: str) -> int:
        """The subscriptions of that name, of all sessions; a pattern counts under its own name."""
        name = destinations.canonical(destination)

        def look() -> int:
            sessions = [*self._broker.sessions.values()]
            return sum([each.destination == name for session in sessions for each in session.subscriptions.values()])

        return self._call(look)

    def _queue(self, name: str) -> Queue | None:
        found = self._broker.registry.find(name)
        if destinations.is_topic(name):
            raise ValueError(f"{name} is a topic, and messages wait in queues only: look at gateway.sent({name!r})")
        return found if isinstance(found, Queue) else None

    # time, and connections

    def advance(self, seconds: float) -> None:
        """Set the broker's clock forward: what falls due happens, each at its own time.

        Delays, expiry, back-off, deadlines and deduplication follow it; heart-beats and timeouts of connections do not.
        Raises ValueError: that is no time to come.
        """
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"the clock cannot be advanced by {seconds} seconds")
        self._call(partial(self._clock.advance, self._broker, seconds))

    def disconnect(self, reason: str = "a test ends it") -> None:
        """End all sessions with an ERROR; clients may connect again."""

        def end() -> None:
            for session in [*self._broker.sessions]:
                self._broker.end_session(session, reason)

        self._call(end)

    def wait_until(self, condition: Callable[[], T], timeout: float = PATIENCE) -> T:
        """Call `condition` until it returns something true, and return that; blocks the thread.

        For a loop, Trio's or asyncio's, there is `async_wait_until`.  Raises AssertionError: it takes too long.
        """
        for found in _looks(condition, timeout):
            if found:
                return found
            time.sleep(_PAUSE)
        raise AssertionError  # `_looks` has raised it

    async def async_wait_until(self, condition: Callable[[], T], timeout: float = PATIENCE) -> T:  # noqa: ASYNC109
        """As `wait_until`, for Trio and asyncio."""
        import anyio

        for found in _looks(condition, timeout):
            if found:
                return found
            await anyio.sleep(_PAUSE)
        raise AssertionError  # `_looks` has raised it

    def _call(self, work: Callable[[], T]) -> T:
        """Do something where the broker is."""
        return work()


def _looks(condition: Callable[[], T], timeout: float) -> Iterator[T]:
    until = time.monotonic() + timeout
    while True:
        yield (found := condition())
        if time.monotonic() > until:
            raise AssertionError(f"the condition is not met after {timeout:g} seconds: it is {found!r}")


def _shown(message: Message, *, delayed: bool = False) -> LocalMessage:
    headers = dict(message.head.headers)
    return LocalMessage(headers.get("destination", ""), bytes(message.body), headers, message.attempts, delayed)


class _Reading:
    """Reads the messages of a queue (`ScanVisitor`)."""

    needs_pause = False

    def __init__(self, found: list[LocalMessage]) -> None:
        self._found = found
        self.is_over = False

    def visit(self, message: Message, where: ScanPosition) -> bool:
        self._found.append(_shown(message, delayed=where is ScanPosition.RESTING))
        return True

    def turn_over(self) -> None:
        """Nothing to be done."""

    def over(self) -> None:
        self.is_over = True


class _Sent(NullRecorder):
    """Keeps what is sent, with the canonical name of its destination."""

    def __init__(self) -> None:
        super().__init__(time.monotonic_ns)
        self.messages: list[tuple[str, LocalMessage]] = []

    def accepted(self, *args: object, **more: object) -> None:
        _, _, name, _, headers, body, *_ = args
        assert isinstance(name, str)
        assert isinstance(headers, dict)
        assert isinstance(body, bytes)
        # As a client wrote it, where the broker had no need to look.
        with suppress(NotAllowed):
            name = destinations.canonical(name)
        self.messages.append((name, LocalMessage(headers.get("destination", name), body, dict(headers))))
        if len(self.messages) > 2 * MOST_SENT:
            del self.messages[:-MOST_SENT]
