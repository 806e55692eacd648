"""Pipes and links: how bytes move, and what the connection loop asks of a transport.

A `Pipe` moves bytes: `SocketPipe` on a socket of the operating system, with the non-blocking write that makes a
broadcast cheap; `TlsPipe` (`tls.py`) on another pipe.  A `Link` is a pipe as STOMP sees it: plain for TCP, in WebSocket
frames for browsers.  The connection loop is written once, against `Link`.
"""

import contextlib
import os
import select
import socket
from dataclasses import dataclass
from typing import Protocol

import trio

from gateway.broker.model.identity import Certificate, Upgrade
from gateway.codec import encoder

from .fairness import FairGate, FairGates
from .websocket_framing import CloseCode

# Bytes for a pipe: one joined buffer as a rule, several where joining would copy large bodies.
Buffers = list[bytes | memoryview]

# Parts from this size on are not copied into a joined buffer: a large message to many receivers exists once.
_LARGE = 32 * 1024
_MOST_BUFFERS = 512  # of one system call; Linux allows 1,024
# Reads after which a client has logged in, as a rule: the upgrade of a WebSocket, and CONNECT.
_READS_OF_A_LOGIN = 2


def joined(parts: list[bytes], size: int) -> Buffers:
    """Join small parts, leave large ones as they are; `size` is about that of all together."""
    if size < _LARGE or len(max(parts, key=len)) < _LARGE:
        return [b"".join(parts)]
    buffers: Buffers = []
    small: list[bytes] = []
    for part in parts:
        if len(part) < _LARGE:
            small.append(part)
            continue
        buffers += [b"".join(small), part] if small else [part]
        small = []
    if small:
        buffers.append(b"".join(small))
    return buffers


def advance(buffers: Buffers, nbytes: int) -> Buffers:
    """The rest of the buffers after so many bytes were written."""
    for index, buffer in enumerate(buffers):
        if nbytes < len(buffer):
            return [memoryview(buffer)[nbytes:], *buffers[index + 1 :]]
        nbytes -= len(buffer)
    return []


@dataclass(frozen=True, slots=True)
class Remote:
    """The other end of a connection, as it is known before STOMP begins."""

    address: str = ""  # without the port; behind trusted proxies as they say; empty: a unix socket
    secure: bool = False  # the bytes came through TLS, ours or a trusted proxy's
    certificate: Certificate | None = None  # verified; None: the client showed none
    upgrade: Upgrade | None = None  # the HTTP request of a WebSocket; None on TCP


UNKNOWN = Remote()


class BrokenLink(Exception):
    """The peer is gone: reset, or closed while we wrote."""


class Pipe(Protocol):
    """Bytes in both directions."""

    async def receive(self, size: int) -> bytes:
        """The next bytes, at most `size`; empty at the end of the stream, also after a reset."""

    def send_nowait(self, buffers: Buffers) -> int:
        """Write as many bytes as can be written now; returns how many.  Raises `BrokenLink`."""

    async def send_some(self, buffers: Buffers) -> int:
        """Wait until bytes can be written, and write; returns how many.  Raises `BrokenLink`."""

    def peer_has_gone(self) -> bool:
        """True if the peer has closed, even if bytes before that are still unread."""

    def has_bytes(self) -> bool:
        """True if there are unread bytes, or the unread end of the stream."""

    async def send_eof(self) -> None:
        """End our side of the stream; reading goes on."""

    async def aclose(self) -> None:
        """Close at once."""


class Link(Protocol):
    """A pipe as STOMP sees it."""

    transport: str  # `tcp` or `websocket`, for lists and logs
    peer: str  # address of the other end with its port, for lists and logs
    remote: Remote  # what else is known of the other end
    pipe: Pipe
    ping: bytes  # a control frame that the peer answers by itself; empty where the transport has none
    frame_end: bytes  # bytes behind the body of a STOMP frame
    overhead: int  # bytes of the last `receive` that did not belong to the STOMP stream

    async def receive(self, size: int) -> bytes | None:
        """The next bytes of the STOMP stream; empty after a mere control frame; None at the end."""

    def pack(self, parts: list[bytes], size: int) -> Buffers:
        """Frames, each a pair of parts, with so many bytes in all, as bytes for the pipe."""

    def pong(self) -> bytes:
        """A control frame that the last `receive` made due; empty if none is."""

    def close_bytes(self, code: CloseCode, reason: str) -> bytes:
        """The last bytes for the pipe, which tell the peer why; empty where the transport has none."""


class SocketPipe:
    """A socket, by its file descriptor: trio waits for it, the system calls are made directly.

    It passes the `fair_gates` before its login, and when it sends in bulk.
    """

    __slots__ = ("_fair_gates", "_fd", "_gate", "_reads", "_stream")

    def __init__(self, stream: trio.SocketStream, fair_gates: FairGates | None = None) -> None:
        self._stream = stream
        self._fd = stream.socket.fileno()
        self._fair_gates = fair_gates
        self._gate: FairGate | None = None if fair_gates is None else fair_gates.handshakes
        self._reads = 0

    async def receive(self, size: int) -> bytes:
        """As `Pipe` says.  Waits first: when a peer sends in bulk that lets the others have their turn."""
        while True:
            await trio.lowlevel.wait_readable(self._fd)
            if self._gate is not None:
                await self._gate.enter()
            try:
                data = os.read(self._fd, size)
            except BlockingIOError:
                continue
            except OSError:
                return b""
            self._reads += 1
            if self._fair_gates is not None and self._reads >= _READS_OF_A_LOGIN:
                self._gate = self._fair_gates.bulk if len(data) == size else None
            return data

    def send_nowait(self, buffers: Buffers) -> int:
        try:
            if len(buffers) == 1:
                return os.write(self._fd, buffers[0])
            return os.writev(self._fd, buffers[:_MOST_BUFFERS])
        except BlockingIOError:
            return 0
        except OSError as error:
            raise BrokenLink(str(error)) from None

    async def send_some(self, buffers: Buffers) -> int:
        await trio.lowlevel.wait_writable(self._fd)
        return self.send_nowait(buffers)

    def peer_has_gone(self) -> bool:
        return self._polls(select.POLLRDHUP)

    def has_bytes(self) -> bool:
        return self._polls(select.POLLIN)

    def _polls(self, event: int) -> bool:
        poll = select.poll()
        poll.register(self._fd, event)
        return bool(poll.poll(0))

    async def send_eof(self) -> None:
        self._reads = 0  # bytes that still come are thrown away: that has time
        self._gate = None if self._fair_gates is None else self._fair_gates.handshakes
        with contextlib.suppress(OSError):
            self._stream.socket.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        self._stream.socket.close()  # without waiting, so this works in a cancelled task, too


class TcpLink:
    """STOMP straight on the pipe."""

    __slots__ = ("peer", "pipe", "remote")

    transport = "tcp"
    ping = b""
    frame_end = encoder.END
    overhead = 0

    def __init__(self, pipe: Pipe, peer: str, remote: Remote = UNKNOWN) -> None:
        self.pipe = pipe
        self.peer = peer
        self.remote = remote

    async def receive(self, size: int) -> bytes | None:
        return await self.pipe.receive(size) or None

    def pack(self, parts: list[bytes], size: int) -> Buffers:
        return joined(parts, size)

    def pong(self) -> bytes:
        return b""

    def close_bytes(self, code: CloseCode, reason: str) -> bytes:
        return b""
