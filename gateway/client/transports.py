"""Streams of the async client on AnyIO: TCP, TLS, unix sockets and WebSocket carry the same frames.

A stream raises ConnectionLost and nothing else.  It has one reader; writers may be several, because a WebSocket answers
pings while it reads.  A WebSocket message has one frame.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import anyio
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

from .address import StompAddress
from .errors import CertificateRefused, ConnectionLost, ServerError
from .server import FileError, context_of, reason_of, unreachable

_CHUNK = 64 * 1024
SUBPROTOCOLS = ["v12.stomp", "v11.stomp", "v10.stomp"]


class Transport(Protocol):
    async def send(self, frames: Sequence[bytes]) -> None: ...

    async def receive(self) -> bytes:
        """The next bytes, at least one."""

    async def aclose(self) -> None:
        """Close at once."""


@contextmanager
def _losses(address: StompAddress, cert: str) -> Iterator[None]:
    """Errors of AnyIO and of the system as ConnectionLost."""
    try:
        yield
    except anyio.EndOfStream:
        raise ConnectionLost(f"{address} ended the connection") from None
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.BusyResourceError, OSError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if isinstance(cause, OSError) and (reason := reason_of(cause, cert=cert)):
            raise CertificateRefused(f"cannot connect to {address}: {reason}") from None
        raise ConnectionLost(f"the connection to {address} broke: {cause or type(error).__name__}") from None


class PlainTransport:
    """TCP, TLS, or a unix socket."""

    def __init__(self, stream: ByteStream, address: StompAddress, cert: str) -> None:
        self._stream = stream
        self._address = address
        self._cert = cert

    async def send(self, frames: Sequence[bytes]) -> None:
        with _losses(self._address, self._cert):
            await self._stream.send(b"".join(frames))

    async def receive(self) -> bytes:
        with _losses(self._address, self._cert):
            return await self._stream.receive(_CHUNK)

    async def aclose(self) -> None:
        await anyio.aclose_forcefully(self._stream)


class WebSocketTransport:
    """A WebSocket whose messages are frames."""

    def __init__(self, plain: PlainTransport, address: StompAddress) -> None:
        from wsproto import ConnectionType, WSConnection  # other transports need not import it

        self._plain = plain
        self._address = address
        self._websocket = WSConnection(ConnectionType.CLIENT)
        self._lock = anyio.Lock()

    async def upgrade(self) -> None:
        """Raises ServerError: the server refuses the upgrade."""
        from wsproto.events import AcceptConnection, RejectConnection, Request
        from wsproto.utilities import RemoteProtocolError

        request = Request(host=self._address.authority, target=self._address.path, subprotocols=SUBPROTOCOLS)
        await self._plain.send([self._websocket.send(request)])
        while True:
            data = await self._plain.receive()
            try:
                self._websocket.receive_data(data)
                event = next(self._websocket.events(), None)
            except RemoteProtocolError as error:
                raise ServerError(f"{self._address} does not answer as a WebSocket: {error}") from None
            if isinstance(event, AcceptConnection):
                return
            if isinstance(event, RejectConnection):
                raise _rejected(self._address, event.status_code)

    async def send(self, frames: Sequence[bytes]) -> None:
        from wsproto.events import BytesMessage

        await self._send([self._websocket.send(BytesMessage(each)) for each in frames])

    async def _send(self, messages: Sequence[bytes]) -> None:
        async with self._lock:
            await self._plain.send(messages)

    async def receive(self) -> bytes:
        from wsproto.events import CloseConnection, Message, Ping
        from wsproto.utilities import RemoteProtocolError

        while True:
            payload = b""
            try:
                # Frames may have come together with the answer to the upgrade.
                for event in self._websocket.events():
                    if isinstance(event, Message):
                        payload += event.data.encode() if isinstance(event.data, str) else event.data
                    elif isinstance(event, Ping):
                        await self._send([self._websocket.send(event.response())])
                    elif isinstance(event, CloseConnection) and not payload:
                        reason = f" ({event.reason})" if event.reason else ""
                        raise ConnectionLost(f"{self._address} closed the WebSocket with {int(event.code)}{reason}")
                if payload:
                    return payload
                self._websocket.receive_data(await self._plain.receive())
            except RemoteProtocolError as error:
                raise ConnectionLost(f"{self._address} sent what is no WebSocket frame: {error}") from None

    async def aclose(self) -> None:
        await self._plain.aclose()


def _rejected(address: StompAddress, status: int) -> ConnectionLost | ServerError:
    sentence = f"{address} answered the upgrade of {address.path} with status {status}"
    # A proxy without its server, or a gateway that drains: later there may be one.
    return ConnectionLost(sentence) if status >= 500 or status == 429 else ServerError(sentence)


async def open_stream(address: StompAddress, ca: str = "", cert: str = "", key: str = "") -> Transport:
    """Connect.  Raises ConnectionLost, ServerError."""
    try:
        if address.scheme == "unix":
            return PlainTransport(await anyio.connect_unix(address.path), address, cert)
        stream: ByteStream = await anyio.connect_tcp(address.host, address.port)
    except OSError as error:
        raise ConnectionLost(f"cannot connect to {address}: {unreachable(_first(error), ca, cert)}") from None
    try:
        if address.is_tls:
            stream = await _secured(stream, address, ca, cert, key)
        plain = PlainTransport(stream, address, cert)
        if not address.is_websocket:
            return plain
        websocket = WebSocketTransport(plain, address)
        await websocket.upgrade()
        return websocket
    except BaseException:
        with anyio.CancelScope(shield=True):  # closing forcefully does not wait
            await anyio.aclose_forcefully(stream)
        raise


async def _secured(stream: ByteStream, address: StompAddress, ca: str, cert: str, key: str) -> ByteStream:
    try:
        context = context_of(ca, cert, key)
        return await TLSStream.wrap(stream, hostname=address.host, ssl_context=context, standard_compatible=False)
    except FileError as error:
        raise CertificateRefused(f"cannot connect to {address}: {error}") from None
    except (ssl.SSLError, OSError) as error:
        raise ConnectionLost(f"cannot connect to {address}: {unreachable(error, ca, cert)}") from None
    except (anyio.BrokenResourceError, anyio.EndOfStream) as error:
        reason = reason_of(error.__cause__, ca, cert) if isinstance(error.__cause__, OSError) else ""
        raise ConnectionLost(f"cannot connect to {address}: {reason or 'it ended the TLS handshake'}") from None


def _first(error: BaseException) -> OSError:
    """The error of the first address: a host name may have several."""
    cause: BaseException | None = error
    while cause is not None:
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        if isinstance(cause, OSError):
            error = cause
        cause = cause.__cause__
    assert isinstance(error, OSError)
    return error
