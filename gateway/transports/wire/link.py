"""What the connection loop asks of a transport, and the two ways to move bytes.

A `Pipe` moves bytes: `SocketPipe` on a socket of the operating system, with the non-blocking write that makes a
broadcast cheap; `StreamPipe` on any trio stream (TLS, memory), where every write awaits.  A `Link` is a pipe as STOMP
sees it: plain for TCP, in WebSocket frames for browsers.  The connection loop is written once, against `Link`.
"""

from __future__ import annotations

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

# What a pipe writes: one joined buffer as a rule, several where joining would copy large bodies.
Buffers = list[bytes | memoryview]

# Parts from this size on are not copied into a joined buffer: a large message to many receivers exists once.
_LARGE = 32 * 1024
_MOST_BUFFERS = 512  # of one system call; Linux allows 1,024
# Reads after which a client is no stranger: the upgrade of a WebSocket, and CONNECT.
_READS_OF_A_STRANGER = 2


def joined(parts: list[bytes], size: int) -> Buffers:
    """Join small parts, leave large ones as they are; `size` is about what all have together."""
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
    """What is left of the buffers after so many bytes were written."""
    for index, buffer in enumerate(buffers):
        if nbytes < len(buffer):
            return [memoryview(buffer)[nbytes:], *buffers[index + 1 :]]
        nbytes -= len(buffer)
    return []


@dataclass(frozen=True, slots=True)
class Remote:
    """What a connection tells of its other end before STOMP begins.

    Attributes:
        address: the client's own, without the port; behind trusted proxies it is what they say; empty: a unix socket.
        secure: the bytes came through TLS, ours or a trusted proxy's.
        certificate: verified; None: it showed none.
        upgrade: the HTTP request of a WebSocket; None on TCP.
    """

    address: str = ""
    secure: bool = False
    certificate: Certificate | None = None
    upgrade: Upgrade | None = None


UNKNOWN = Remote()


class BrokenLink(Exception):
    """The peer is gone: reset, or closed while we wrote."""


class Pipe(Protocol):
    """Bytes in both directions."""

    async def receive(self, size: int) -> bytes:
        """The next bytes, at most `size`; empty at the end of the stream, also at its violent end."""
        ...

    def send_nowait(self, buffers: Buffers) -> int:
        """Write what can be written now; returns how many bytes that was.

        Raises:
            BrokenLink: the peer is gone.
        """
        ...

    async def send_some(self, buffers: Buffers) -> int:
        """Wait until something can be written, and write; returns how many bytes that was.

        Raises:
            BrokenLink: the peer is gone.
        """
        ...

    def peer_has_gone(self) -> bool:
        """Whether the peer said that nothing more comes, even if bytes before that are still unread."""
        ...

    def has_bytes(self) -> bool:
        """Whether bytes came that nobody has read yet; also their end is something to read."""
        ...

    async def send_eof(self) -> None:
        """Say that nothing more comes; reading goes on."""
        ...

    async def aclose(self) -> None:
        """Close at once."""
        ...


class Link(Protocol):
    """A pipe as STOMP sees it.

    Attributes:
        transport: `tcp` or `websocket`, for lists and logs.
        peer: address of the other end with its port, for lists and logs.
        remote: what else is known of it.
        pipe: the bytes below.
        ping: a control frame that the peer answers by itself; empty where there is no such thing.
        frame_end: what stands behind the body of a STOMP frame.
        overhead: bytes that came with those of the last `receive`, and were none of the STOMP stream.
    """

    transport: str
    peer: str
    remote: Remote
    pipe: Pipe
    ping: bytes
    frame_end: bytes
    overhead: int

    async def receive(self, size: int) -> bytes | None:
        """The next bytes of the STOMP stream, none when the peer just gave a sign of life; None at the end."""
        ...

    def pack(self, parts: list[bytes], size: int) -> Buffers:
        """Frames, each a pair of parts, with so many bytes in all, as bytes for the pipe."""
        ...

    def pong(self) -> bytes:
        """A control frame that the last `receive` made due; empty where there is none."""
        ...

    def goodbye(self, code: CloseCode, reason: str) -> bytes:
        """What the pipe carries last."""
        ...


class SocketPipe:
    """A socket, by its file descriptor: trio waits for it, the system calls are made directly.

    Args:
        fair_gates: that it passes when it is a stranger's, or sends in bulk; None: there are none.
    """

    __slots__ = ("_fair_gates", "_fd", "_line", "_reads", "_stream")

    def __init__(self, stream: trio.SocketStream, fair_gates: FairGates | None = None) -> None:
        self._stream = stream
        self._fd = stream.socket.fileno()
        self._fair_gates = fair_gates
        self._line: FairGate | None = None if fair_gates is None else fair_gates.strangers
        self._reads = 0

    async def receive(self, size: int) -> bytes:
        """See `Pipe`.  Waits first: when a peer sends in bulk that lets the others have their turn."""
        while True:
            await trio.lowlevel.wait_readable(self._fd)
            if self._line is not None:
                await self._line.enter()
            try:
                data = os.read(self._fd, size)
            except BlockingIOError:
                continue
            except OSError:
                return b""
            self._reads += 1
            if self._fair_gates is not None and self._reads >= _READS_OF_A_STRANGER:
                self._line = self._fair_gates.bulk if len(data) == size else None
            return data

    def send_nowait(self, buffers: Buffers) -> int:
        """See `Pipe`."""
        try:
            if len(buffers) == 1:
                return os.write(self._fd, buffers[0])
            return os.writev(self._fd, buffers[:_MOST_BUFFERS])
        except BlockingIOError:
            return 0
        except OSError as error:
            raise BrokenLink(str(error)) from None

    async def send_some(self, buffers: Buffers) -> int:
        """See `Pipe`."""
        await trio.lowlevel.wait_writable(self._fd)
        return self.send_nowait(buffers)

    def peer_has_gone(self) -> bool:
        """See `Pipe`."""
        poll = select.poll()
        poll.register(self._fd, select.POLLRDHUP)
        return bool(poll.poll(0))

    def has_bytes(self) -> bool:
        """See `Pipe`."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(0))

    async def send_eof(self) -> None:
        """See `Pipe`."""
        self._reads = 0  # what still comes is thrown away: that has time
        self._line = None if self._fair_gates is None else self._fair_gates.strangers
        with contextlib.suppress(OSError):
            self._stream.socket.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        """See `Pipe`.  A socket closes without waiting, so this works in a cancelled task, too."""
        self._stream.socket.close()


class StreamPipe:
    """Any trio stream."""

    __slots__ = ("_stream",)

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def receive(self, size: int) -> bytes:
        """See `Pipe`."""
        try:
            return bytes(await self._stream.receive_some(size))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return b""

    def send_nowait(self, buffers: Buffers) -> int:
        """A stream can only await: nothing is written now."""
        return 0

    async def send_some(self, buffers: Buffers) -> int:
        """See `Pipe`."""
        try:
            await self._stream.send_all(buffers[0])
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise BrokenLink(str(error)) from None
        return len(buffers[0])

    def peer_has_gone(self) -> bool:
        """A stream does not tell without being read."""
        return False

    def has_bytes(self) -> bool:
        """Likewise."""
        return False

    async def send_eof(self) -> None:
        """Half-close where the stream can; else the end is the close."""
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            try:
                await self._stream.send_eof()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return

    async def aclose(self) -> None:
        """See `Pipe`."""
        await trio.aclose_forcefully(self._stream)


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
        """See `Link`."""
        return await self.pipe.receive(size) or None

    def pack(self, parts: list[bytes], size: int) -> Buffers:
        """See `Link`."""
        return joined(parts, size)

    def pong(self) -> bytes:
        """None on TCP."""
        return b""

    def goodbye(self, code: CloseCode, reason: str) -> bytes:
        """None on TCP."""
        return b""
