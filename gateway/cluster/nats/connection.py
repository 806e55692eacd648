"""One blocking connection to a server of NATS, for one thread.

It is made when it is needed, to one server after the other, and made again after any fault.  Every call has a limit of
time, except that the system looks up names in its own.  A server that says nothing for a while is asked for a PONG: one
that is lost, whose machine or network tells nothing of that, costs a second and not the time of the call.  A request
that fails says nothing about whether the server carried it out.
"""

from __future__ import annotations

import math
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from . import protocol
from .credentials import CredentialsError, NatsCredentials
from .faults import About, NatsRefused, NoAnswer, NoResponders, ServerRefuses, refusal_of, unavailable
from .protocol import Info, Message, NatsProtocolError, Parser, Ping, Pong, ServerError

CONNECT_TIMEOUT = 2.0
"""Seconds for a connection to one server, with TLS and login."""

_LEAST_TIMEOUT = 0.5
"""Seconds that each server has at least, if the call's own time is divided among them."""

SILENCE = 0.5
"""Seconds without a word until a server is asked for a PONG, and then until it counts as lost."""

_LAME_DUCK = 1.0
"""Seconds in which a server that is about to stop must answer: what it has not answered then may be lost."""

_MOVE = 0.25
"""Seconds for the connection to a server that is only better than the one in use."""

_CHUNK = 256 * 1024
_NO_RESPONDERS = 503
_FAULTS = (OSError, NatsProtocolError, ServerRefuses)
_NOTHING_THERE = (BlockingIOError, ssl.SSLWantReadError)


class ServerAddress(NamedTuple):
    """A server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _no_demand(info: Mapping[str, Any]) -> str:
    return ""


@dataclass(frozen=True)
class NatsOptions:
    """How to reach the servers.

    Args:
        credentials: called for each connection, as `tls` is, so that files may be replaced; both may raise
            CredentialsError.
        tls: None: no TLS.
        has_certificate: `tls` shows the servers a certificate of this client.
        tls_first: the servers begin with TLS, before INFO (`handshake_first`).
        name: of this client, in the servers' lists.
        demand: says of a server's INFO why it cannot be used, like "is too old"; empty: it can.
    """

    servers: Sequence[ServerAddress]
    credentials: Callable[[], NatsCredentials] = NatsCredentials
    tls: Callable[[], ssl.SSLContext] | None = None
    has_certificate: bool = False
    tls_first: bool = False
    name: str = "gateway"
    demand: Callable[[Mapping[str, Any]], str] = _no_demand


class NatsConnection:
    """A connection to one of the servers.

    `info`: what that server said of itself; empty: there is no connection.
    """

    def __init__(self, options: NatsOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self.info: dict[str, Any] = {}
        self._options = options
        self._clock = clock
        self._socket: socket.socket | None = None
        self._parser = Parser()
        self._next_server = 0
        self._inbox = ""
        self._requests = 0
        self._stops = math.inf  # by the clock: no answer is to be waited for after that
        self._messages: list[Message] = []  # that came, and that nothing has taken

    @property
    def servers(self) -> Sequence[ServerAddress]:
        """All that it may use."""
        return self._options.servers

    @property
    def server(self) -> str:
        """The server of the connection, or the one that is tried next, as sentences name it."""
        address = self._options.servers[self._next_server % len(self._options.servers)]
        name = self.info.get("server_name")
        return f"the NATS server {name} ({address})" if name else f"the NATS server {address}"

    def request(
        self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None, timeout: float = 5.0
    ) -> Message:
        """Send a request and wait for its answer.

        `timeout`: seconds for all of it.  Raises NatsUnavailable: there was no answer; NoResponders: nothing listens
        there; NatsRefused: this client may not send it.
        """
        return next(self._answers(subject, payload, headers, timeout))

    def request_many(
        self, subject: str, payload: bytes = b"", timeout: float = 5.0, first: float = math.inf
    ) -> Iterator[Message]:
        """Send a request that has several answers, the last with a status, which comes too.

        `timeout`: seconds for all of it.  `first`: for the first answer; where that is missing, the connection stays.
        Raises NatsUnavailable: an answer is missing.
        """
        for answer in self._answers(subject, payload, None, timeout, first):
            yield answer
            if answer.status:
                return

    def _answers(
        self,
        subject: str,
        payload: bytes,
        headers: Mapping[str, str] | None,
        timeout: float,
        first: float = math.inf,
    ) -> Iterator[Message]:
        deadline = self._clock() + timeout
        try:
            self._ready(deadline)
            self._requests += 1
            inbox = f"{self._inbox}.{self._requests}"
            self._send(self._checked(protocol.publish(subject, inbox, payload, headers)), deadline)
            limit = min(deadline, self._clock() + first)
            while True:
                for message in self._received(limit):
                    if message.subject != inbox:
                        continue  # the late answer of an earlier request
                    if message.status == _NO_RESPONDERS:
                        raise NoResponders(f"nothing listens at {subject} of {self.server}")
                    limit = deadline
                    yield message
        except _FAULTS as error:
            where = self.server
            if not isinstance(error, NoAnswer) or first == math.inf:
                self.leave()  # another server may answer
            raise unavailable(where, error) from None

    def _checked(self, data: bytes) -> bytes:
        """A message to publish, if the server takes it; a longer one ends the connection."""
        size, most = len(data) - data.index(b"\r\n") - 4, self.info.get("max_payload")
        if isinstance(most, int) and size > most:
            sentence = f"{self.server} takes messages up to {most:,} bytes (max_payload), and not one of {size:,}"
            raise NatsRefused(sentence, About.SERVER)
        return data

    def leave(self) -> None:
        """End the connection; the next call begins with another server."""
        self.close()
        self._next_server += 1

    def move_to(self, name: str) -> None:
        """Use the server with that name; the one in use, if no other one that answers soon has it."""
        here, servers = self._next_server, self._options.servers
        if self.info.get("server_name") == name:
            return
        for number in range(here + 1, here + len(servers)):
            self.close()
            self._next_server = number
            with suppress(CredentialsError, *_FAULTS):
                self._open(servers[number % len(servers)], self._clock() + _MOVE)
                if self.info.get("server_name") == name:
                    return
        self.close()
        self._next_server = here

    def close(self) -> None:
        """End the connection; the next call makes a new one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self.info = {}
        self._stops = math.inf
        self._messages.clear()

    def _ready(self, deadline: float) -> None:
        """Connect, unless there is a connection that works."""
        if self._socket is not None:
            try:
                self._catch_up(self._socket, deadline)
            except _FAULTS:
                self.close()
        if self._stops < math.inf:
            self.leave()
        if self._socket is None:
            self._connect(deadline)

    def _catch_up(self, connection: socket.socket, deadline: float) -> None:
        """Read what came while nothing was asked: PINGs, late answers, or the end of the connection."""
        while True:
            connection.settimeout(0)
            try:
                self._take(deadline)
            except _NOTHING_THERE:
                break
        self._messages.clear()

    def _connect(self, deadline: float) -> None:
        """Connect to the first server that takes us.  Raises NatsUnavailable: none does; NatsRefused: all refuse."""
        servers = self._options.servers
        failures: list[tuple[str, Exception]] = []
        for left in range(len(servers), 0, -1):
            # One share for the request itself.
            share = max(_LEAST_TIMEOUT, (deadline - self._clock()) / (left + 1))
            server = servers[self._next_server % len(servers)]
            try:
                self._open(server, min(deadline, self._clock() + min(share, CONNECT_TIMEOUT)))
            except CredentialsError as error:
                self.close()
                raise NatsRefused(str(error), About.LOGIN) from None
            except _FAULTS as error:
                self.close()
                self._next_server += 1
                failures.append((str(server), error))
            else:
                return
            if self._clock() >= deadline:
                break
        raise refusal_of(failures)

    def _open(self, server: ServerAddress, deadline: float) -> None:
        options = self._options
        self._parser = Parser()
        self._socket = socket.create_connection(server, timeout=self._left(deadline))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if options.tls is not None and options.tls_first:
            self._secure(server, options.tls(), deadline)
        self._first(Info, deadline)
        self._check()
        if options.tls is not None and not options.tls_first:
            self._secure(server, options.tls(), deadline)
        self._inbox = f"_INBOX.{secrets.token_hex(11)}"
        self._requests = 0
        hello = {
            "verbose": False,
            "pedantic": False,
            "tls_required": options.tls is not None,
            "name": options.name,
            "lang": "python",
            "version": "1",
            "protocol": 1,
            "headers": True,
            "no_responders": True,
            **options.credentials().fields(str(self.info.get("nonce", ""))),
        }
        self._send(protocol.connect(hello) + protocol.subscribe(f"{self._inbox}.*", 1) + protocol.PING, deadline)
        self._first(Pong, deadline)

    def _check(self) -> None:
        """Refuse a server that INFO shows to be none for this client, before it gets any credentials."""
        info, options = self.info, self._options
        if reason := options.demand(info):
            raise ServerRefuses(reason, About.SERVER)
        if options.tls is None:
            if info.get("tls_required"):
                raise ServerRefuses("demands TLS", About.TLS)
        elif not options.tls_first and not (info.get("tls_required") or info.get("tls_available")):
            raise ServerRefuses("offers no TLS", About.TLS)
        elif info.get("tls_verify") and not options.has_certificate:
            raise ServerRefuses("demands a certificate of this client", About.CERTIFICATE)

    def _secure(self, server: ServerAddress, context: ssl.SSLContext, deadline: float) -> None:
        assert self._socket is not None  # the caller has opened it
        self._socket.settimeout(self._left(deadline))
        self._socket = context.wrap_socket(self._socket, server_hostname=server.host)

    def _first(self, kind: type[Info | Pong], deadline: float) -> None:
        """Wait for an event of a kind."""
        while not any(isinstance(event, kind) for event in self._read(deadline)):
            pass

    def _received(self, deadline: float) -> list[Message]:
        """The next messages; waits for one, as long as the server is there."""
        is_asked = is_there = False
        while not self._messages:
            limit = min(deadline, self._stops)
            try:
                self._read(min(limit, self._clock() + SILENCE))
                is_asked, is_there = False, True
            except TimeoutError:
                if is_there and not is_asked and self._clock() >= limit:
                    raise NoAnswer from None
                if is_asked or self._clock() >= limit:
                    raise
                self._send(protocol.PING, limit)
                is_asked = True
        found, self._messages = self._messages, []
        return found

    def _read(self, deadline: float) -> list[protocol.Event]:
        assert self._socket is not None  # the caller has connected
        self._socket.settimeout(self._left(deadline))
        return self._take(deadline)

    def _take(self, deadline: float) -> list[protocol.Event]:
        """Read what is there, and answer it as far as it wants an answer."""
        assert self._socket is not None  # the callers have looked
        data = self._socket.recv(_CHUNK)
        if not data:
            raise ConnectionResetError
        events = self._parser.feed(data)
        for event in events:
            if isinstance(event, Message):
                self._messages.append(event)
            elif isinstance(event, Ping):
                self._send(protocol.PONG, deadline)
            elif isinstance(event, Info):
                self.info |= event.values
                if event.values.get("ldm"):  # "lame duck mode": the server is about to stop
                    self._stops = self._clock() + _LAME_DUCK
            elif isinstance(event, ServerError):
                raise ServerRefuses.of(event.reason)
        return events

    def _send(self, data: bytes, deadline: float) -> None:
        assert self._socket is not None  # the caller has connected
        rest = memoryview(data)
        while rest:  # `sendall` over TLS has its limit of time for each piece
            self._socket.settimeout(min(self._left(deadline), 2 * SILENCE))
            rest = rest[self._socket.send(rest) :]

    def _left(self, deadline: float) -> float:
        left = deadline - self._clock()
        if left <= 0:
            raise TimeoutError
        return left
