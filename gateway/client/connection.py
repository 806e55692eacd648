"""Connection of the async client: keeps one, and makes another when it is lost.

    keep     serve a connection until it is lost, wait, connect again
      read     bytes to the session; not while the program has too many unread messages
      write    what the session has for the server, else heart-beats

After a loss there is a pause of 0.1 to 30 s, which doubles and is partly random; `retry-after` of the server counts
instead.  It is short again after a connection that lasted longer than the pause, or after a RECEIPT.  A refused login
is final.

**Unread messages.**  At a quarter of `max_unread` bytes the client stops reading, so that the server holds its messages
back.  While an operation waits for its RECEIPT, which is behind these messages, it goes on to `max_unread`.
"""

from __future__ import annotations

import inspect
import logging
import math
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import anyio

from .address import StompAddress
from .errors import CertificateRefused, ConnectionLost, StompError, TimedOut
from .session import ClientOperation, ClientSession
from .transports import Transport, open_stream

log = logging.getLogger("gateway.client")

_ALL = "1.0,1.1,1.2"
_FIRST_PAUSE = 0.1
# A server counts as dead after so many of its intervals without a byte.
_MARGIN = 2.5
# Seconds for the ERROR that explains why nothing can be written.
_LAST_WORDS = 1.0
_LONGEST_RETRY = 300.0

Passcode = str | Callable[[], str | Awaitable[str]]


@dataclass(frozen=True)
class Options:
    """What a connection is made with; times are in seconds."""

    address: StompAddress
    login: str = ""
    passcode: Passcode = field(default="", repr=False)
    vhost: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    ca: str = ""
    cert: str = ""
    key: str = ""
    heartbeat: float = 10.0
    timeout: float = 60.0
    connect_timeout: float = 10.0
    reconnect_for: float = math.inf
    max_pause: float = 30.0
    max_unread: int = 16 * 1024**2

    async def connect_headers(self) -> dict[str, str]:
        """The headers of CONNECT."""
        headers = {"accept-version": _ALL, "host": self.vhost or self.address.host}
        if login := self.login or self.address.login:
            headers["login"] = login
        if passcode := await self._passcode():
            headers["passcode"] = passcode
        interval = round(self.heartbeat * 1000)
        headers["heart-beat"] = f"{interval},{interval}"
        return headers | dict(self.headers)

    async def _passcode(self) -> str:
        if isinstance(self.passcode, str):
            return self.passcode
        try:
            found = self.passcode()
            return await found if inspect.isawaitable(found) else found
        except Exception as error:  # the program's function asks some other server
            raise ConnectionLost(f"the function passcode() failed: {error!r}") from error


class Backoff:
    """Pauses between attempts to connect."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self.reset()

    def reset(self) -> None:
        self._pause = min(_FIRST_PAUSE, self._longest)

    def lasted(self, seconds: float) -> None:
        """A connection has lasted so long."""
        if seconds > self._pause:
            self.reset()

    def next(self, retry_after: float = 0.0) -> float:
        """Seconds to wait; more than the server wants, so that its clients do not come all at once."""
        pause, self._pause = self._pause, min(2 * self._pause, self._longest)
        if retry_after:
            return min(retry_after, _LONGEST_RETRY) * random.uniform(1.0, 1.25)
        return pause * random.uniform(0.5, 1.0)


class KeptConnection:
    """The connection of a client, over all reconnects.

    Attributes:
        session: what the client and the server say to each other.
        failure: the reason why there will be no connection any more; None: there is or will be one.
        fault: the reason of the last loss, or failed attempt; "": none since it is connected.
    """

    def __init__(self, options: Options) -> None:
        self.session = ClientSession(str(options.address))
        self.failure: StompError | None = None
        self.fault = ""
        self._options = options
        self._backoff = Backoff(options.max_pause)
        self._loss: StompError | None = None
        self._work = anyio.Event()  # there may be bytes to send
        self._room = anyio.Event()  # the program has taken a message, or waits for a RECEIPT
        self._asking = 0  # tasks that wait for the server

    @property
    def timeout(self) -> float:
        return self._options.timeout

    # For the tasks of the program.

    def flush(self) -> None:
        """The session has bytes to send."""
        self._work.set()

    def taken(self) -> None:
        """The program has taken a message."""
        self._room.set()

    def check(self) -> None:
        """Raises the StompError that has ended the client."""
        if self.failure is not None:
            raise type(self.failure)(str(self.failure))

    async def perform(self, operation: ClientOperation, what: str, seconds: float | None = None) -> None:
        """Submit an operation and wait until it is done.

        Raises ServerError: the server refuses it; ConnectionLost: it must not be sent twice, and the connection was
        lost; TimedOut.
        """
        self.check()
        self.session.submit(operation)
        self.flush()
        await self.wait_for(operation, what, seconds)

    async def wait_for(self, operation: ClientOperation, what: str, seconds: float | None = None) -> None:
        """Wait until a submitted operation is done; errors as in `perform`."""
        seconds = self._options.timeout if seconds is None else seconds
        done = anyio.Event()
        operation.watch(done.set)
        self._asking += 1
        self._room.set()
        try:
            with anyio.move_on_after(seconds):
                await done.wait()
        finally:
            self._asking -= 1
            if not operation.is_done:
                self.session.withdraw(operation)
        if operation.error is not None:
            raise type(operation.error)(str(operation.error))
        if not operation.is_done:
            raise self.late(what, seconds)

    def late(self, what: str, seconds: float | None = None) -> TimedOut:
        full = "; the program does not take its messages" if self._is_full else ""
        seconds = self._options.timeout if seconds is None else seconds
        return TimedOut(f"{self._options.address} did not {what} in {seconds:g} s{full}")

    # The life of the connection.

    async def open(self) -> Transport:
        """Connect and log in.  Raises StompError."""
        options, session = self._options, self.session
        with _bounded(options.connect_timeout, "the function passcode() gave none"):
            headers = await options.connect_headers()
        with _bounded(options.connect_timeout, f"{options.address} cannot be reached"):
            stream = await open_stream(options.address, options.ca, options.cert, options.key)
        try:
            session.begin(headers)
            with _bounded(options.connect_timeout, f"{options.address} does not answer CONNECT"):
                await stream.send(session.take())
                while not session.is_open:
                    session.receive(await self._first(stream))
                    if session.ended is not None:
                        raise session.ended
        except BaseException:
            await self._close(stream)
            raise
        self._opened = anyio.current_time()
        self._heard = self._opened
        return stream

    async def _first(self, stream: Transport) -> bytes:
        """The first bytes; a server that closes without an answer expected another protocol than STOMP."""
        try:
            return await stream.receive()
        except CertificateRefused:
            raise
        except ConnectionLost as error:
            if self.session.protocol.incomplete:
                raise
            other = "another protocol" if self._options.address.is_tls else "TLS"
            sentence = f"{error} without an answer to CONNECT; does it expect {other}, or a PROXY header first?"
            raise ConnectionLost(sentence) from None

    async def keep(self, stream: Transport) -> None:
        """Serve this connection and its successors; returns when there will be none."""
        current: Transport | None = stream
        while current is not None:
            error = await self._serve(current)
            self._backoff.lasted(anyio.current_time() - self._opened)
            self.session.lost(error)
            current = await self._reconnect(error)

    async def _reconnect(self, error: StompError) -> Transport | None:
        until = anyio.current_time() + self._options.reconnect_for
        while not self.session.is_final:
            self.fault = str(error)
            pause = self._backoff.next(self.session.retry_after)
            if anyio.current_time() + pause > until:
                break
            log.warning("the connection is lost, next attempt in %.1f s: %s", pause, error)
            await anyio.sleep(pause)
            try:
                stream = await self.open()
            except StompError as failed:
                self.session.lost(failed)
                error = failed
            else:
                log.info("connected again to %s", self._options.address)
                self.fault = ""
                return stream
        self.failure = error
        self.session.fail(error)
        return None

    async def _serve(self, stream: Transport) -> StompError:
        """Read and write until the connection ends; returns the reason."""
        self._loss = None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, stream, tasks.cancel_scope)
                tasks.start_soon(self._write, stream, tasks.cancel_scope)
        finally:
            await self._close(stream)
        return self._loss or ConnectionLost(f"{self._options.address} ended the connection")

    async def _close(self, stream: Transport) -> None:
        with anyio.CancelScope(shield=True):  # closing forcefully does not wait
            await stream.aclose()

    async def _read(self, stream: Transport, tasks: anyio.CancelScope) -> None:
        session = self.session
        confirmed = session.confirmed
        try:
            while True:
                await self._wait_for_room()
                session.receive(await self._receive(stream))
                self._work.set()  # an operation may go out that waited for a RECEIPT
                if session.confirmed != confirmed:
                    confirmed = session.confirmed
                    self._backoff.reset()
                if session.ended is not None:
                    raise session.ended
        except StompError as error:
            self._loss = error  # an ERROR says more than a failed write
            tasks.cancel()

    async def _receive(self, stream: Transport) -> bytes:
        interval = self.session.protocol.receive_interval
        with anyio.move_on_after(_MARGIN * interval if interval else math.inf):
            return await stream.receive()
        raise ConnectionLost(f"{self._options.address} has sent nothing for {_MARGIN * interval:g} s")

    @property
    def _is_full(self) -> bool:
        most = self._options.max_unread
        return self.session.unread >= (most if self._asking else most // 4)

    async def _wait_for_room(self) -> None:
        while self._is_full:
            self._room = anyio.Event()
            await self._room.wait()

    async def _write(self, stream: Transport, tasks: anyio.CancelScope) -> None:
        session = self.session
        interval = session.protocol.send_interval
        try:
            while True:
                self._work = anyio.Event()
                frames = session.take()
                if not frames:
                    with anyio.move_on_after(0.8 * interval if interval else math.inf) as idle:
                        await self._work.wait()
                    if idle.cancelled_caught:
                        session.beat()
                    continue
                with _bounded(self._options.timeout, f"{self._options.address} takes no more bytes"):
                    await stream.send(frames)
        except StompError as error:
            self._loss = self._loss or error
            tasks.deadline = anyio.current_time() + _LAST_WORDS

    async def finish(self) -> None:
        """End the session in order, if there is a connection."""
        if self.failure is None and self.session.is_open:
            with suppress(StompError):  # the connection has ended in any case
                await self.perform(ClientOperation((("DISCONNECT", {}, b""),)), "confirm DISCONNECT")


@contextmanager
def _bounded(seconds: float, sentence: str) -> Iterator[None]:
    """A bound for the time of a block.  Raises ConnectionLost: the time is over."""
    with anyio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise ConnectionLost(f"{sentence} within {seconds:g} s")
