"""Connected: what the server, and the modules of this package, need of a connection, and its settings."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import trio

from gateway.broker import Session
from gateway.broker.core.ports import Carrier
from gateway.broker.model.identity import Identity
from gateway.codec import Frame, Limits, Version

from .connection_limits import Capacity, Slot

NO_BODY = "CONNECT and STOMP need none"
"""Stands in the ERROR where a setting would be named: the limit of a body before login has none."""


@dataclass(frozen=True, slots=True)
class TransportOptions:
    """The settings of the same names explain each field.

    Times are in seconds, but for heart-beats and `drain_retry`, which are in milliseconds.
    """

    server: str = "stomp-gateway"
    limits: Limits = field(default_factory=Limits)
    connect_limits: Limits = field(default_factory=lambda: Limits(64, 8 * 1024, 1024, "max_connect_", NO_BODY))
    connect_timeout: float = 10.0
    heartbeat_send: int = 250
    heartbeat_receive: int = 250
    heartbeat_margin: float = 2.0
    websocket_path: str = "/ws"
    websocket_ping: float = 25.0
    allowed_origins: tuple[str, ...] = ()
    anonymous: bool = True
    close_linger: float = 1.0
    drain_retry: int = 2_000
    slow_consumer_timeout: float = 2.0
    token_warning: float = 60.0
    capacity: Capacity = field(default_factory=Capacity)
    max_frames_per_second: int = 0
    max_bytes_per_second: int = 0
    max_frames_per_second_per_user: int = 0
    max_bytes_per_second_per_user: int = 0
    max_frames_per_second_per_address: int = 0
    max_bytes_per_second_per_address: int = 0


@dataclass(frozen=True, slots=True)
class Login:
    """A client that has logged in, and is to have a session."""

    version: Version
    heart_beat: tuple[int, int]  # (cx, cy) of its CONNECT, in milliseconds
    client_id: str  # empty: none
    identity: Identity
    peer: str  # address of the other end with its port
    transport: str  # `tcp` or `websocket`
    address: str  # the client's own address, without the port; empty: a unix socket
    frame_end: bytes  # bytes behind the body of each frame for it


def log_fields(session: Session) -> dict[str, str]:
    """The fields by which log lines name a session."""
    return {"session": session.id, "login": session.login, "peer": session.peer}


class FrameObserver(Protocol):
    """Sees the frames of one connection."""

    def listen(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        """Pass on the client's frames, each seen before the session handles it."""

    def see_sent(self, parts: list[bytes]) -> None:
        """Frames go out, each a pair of parts."""


class Relief:
    """Tasks that wait until a client has read most of its outbox, or is gone."""

    __slots__ = ("_relief",)

    def __init__(self) -> None:
        self._relief: trio.Event | None = None

    async def wait_relief(self) -> None:
        """Wait until the client has read most of its outbox, or is gone."""
        if self._relief is None:
            self._relief = trio.Event()
        await self._relief.wait()

    def release_waiters(self) -> None:
        """Wake the tasks in `wait_relief`."""
        if self._relief is not None:
            self._relief.set()
            self._relief = None


class ConnectedWriter(Protocol):
    """The writer of a connection."""

    last_write: float  # trio's clock when bytes were last written

    async def wait_relief(self) -> None:
        """Wait until the client has read most of its outbox, or is gone."""


class Reviewable(Protocol):
    """A login that is looked at again when users and groups have changed."""

    def review(self) -> bool:
        """True if the login has lost its user or has other groups now."""

    def follow(self) -> None:
        """Act on a review that was true."""


class Connected(Carrier, Protocol):
    """A connection, from its first byte to its last."""

    session: Session | None  # None before CONNECTED is due, and after the end; then neither of the next two is there
    slot: Slot  # its place among the connections

    @property
    def writer(self) -> ConnectedWriter | None: ...

    @property
    def session_expiry(self) -> Reviewable | None: ...

    @property
    def edge(self) -> str | None:
        """The edge that has its socket; None: this process has it."""

    @property
    def incomplete_bytes(self) -> int:
        """Bytes that have come of its next frame."""

    def observe(self, observer: FrameObserver | None) -> None:
        """Show all frames to an observer; None: to none any more."""

    def give_up_handshake(self) -> None:
        """The connect timeout is over."""

    async def wait_gone(self) -> None:
        """Wait until the session has left the broker."""
