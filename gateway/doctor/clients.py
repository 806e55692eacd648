"""Clients for HTTP, WebSocket and STOMP, which show what a server does instead of failing at it.

A status, the body of a refusal, a missing subprotocol, pings, close codes and the bytes of another protocol are results
here.  So the protocols are those of h11, wsproto and gateway.client.protocol, on a plain stream.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import h11
import trio
from wsproto.connection import Connection as WebSocket
from wsproto.connection import ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Message, Ping
from wsproto.utilities import generate_accept_token, generate_nonce

from gateway.client.protocol import ClientProtocol
from gateway.client.server import FileError, context_of, reason_of
from gateway.codec import Frame, ProtocolError

from .model import TCP, WEBSOCKET, Problem, Target, printable

PROXY_HEADER = b"PROXY UNKNOWN\r\n"
SUBPROTOCOLS = ("v12.stomp", "v11.stomp", "v10.stomp")
_MOST_OF_PAGE = 4 << 20
_START = 80  # bytes of another protocol that are shown

# Detail and remedy by the number of OpenSSL (x509_vfy.h).
_CERTIFICATE_PROBLEMS = {
    9: ("is not valid yet", "Set the clock of this machine, or wait for the first day of the certificate"),
    10: ("has expired", "Renew the file of {setting}, and reload"),
    18: (
        "is self-signed, and clients do not trust it",
        "Get one of an authority that clients trust into {setting}, or give it by --ca",
    ),
    62: ("is not for {name}", "Connect to one of its names, or get a certificate for {name} into {setting}"),
}
_CERTIFICATE_PROBLEMS[64] = _CERTIFICATE_PROBLEMS[62]  # the name is an IP address
_UNKNOWN_AUTHORITY = (
    "has no authority that clients trust",
    "Put the whole chain into {setting} (certbot: fullchain.pem, not cert.pem), or give your own authority by --ca",
)


class CertificateProblem(Problem):
    """The server's certificate does not hold."""


class TlsProblem(Problem):
    """The TLS handshake failed for another reason."""


class NotHttp(Problem):
    """The answer is not HTTP, or the server closed without one."""

    def __init__(self, start: bytes) -> None:
        said = f"the answer is {printable(start)!r}, which is not HTTP" if start else "it closed without an answer"
        super().__init__(said, "Connect to an HTTP port")


class UpgradeRefused(Problem):
    """The answer to the upgrade is not 101."""

    def __init__(self, response: HttpResponse) -> None:
        super().__init__(f"the upgrade is refused: {response}", "See the line on the upgrade")
        self.response = response


class NoFrame(Exception):
    """The connection ended, or its bytes are not STOMP; `start` is the beginning of the conversation."""

    def __init__(self, start: bytes) -> None:
        super().__init__("no frame")
        self.start = start


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An answer; the names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def __str__(self) -> str:
        body = printable(self.body)
        return f"{self.status}" + (f", {body!r}" if body else "")


def tls_context(ca: Path | None = None, cert: Path | None = None, key: Path | None = None) -> ssl.SSLContext:
    """A context with the system's authorities or those of a file; raises Problem where a file cannot be used."""
    try:
        return context_of(*[str(each or "") for each in (ca, cert, key)])
    except FileError as error:
        raise Problem(str(error), "Name files in PEM by --ca, --cert and --key") from None


@dataclass(frozen=True, slots=True)
class Connector:
    patience: float  # seconds for each step
    tls: ssl.SSLContext  # the authorities, and the client certificate
    certificate: Path | None = None  # file of the client certificate
    source: str | None = None  # the address to connect from; None: the system's choice
    preface: bytes = b""  # before all other bytes, also before TLS

    @asynccontextmanager
    async def connect(self, target: Target) -> AsyncIterator[trio.abc.Stream]:
        """A connection for the time of the block, after TLS; raises CertificateProblem, TlsProblem or Problem."""
        tcp = await self._connect_tcp(target)
        try:
            yield await self._handshake(tcp, target)
        finally:
            await trio.aclose_forcefully(tcp)

    async def local_address(self, target: Target) -> str:
        """The address from which this machine connects; raises Problem."""
        tcp = await self._connect_tcp(target)
        host: str = tcp.socket.getsockname()[0]
        await trio.aclose_forcefully(tcp)
        return host

    async def _connect_tcp(self, target: Target) -> trio.SocketStream:
        where = f"{target.host}:{target.port}"
        try:
            with trio.fail_after(self.patience):
                return await trio.open_tcp_stream(target.host, target.port, local_address=self.source)
        except trio.TooSlowError:
            detail = f"no answer from {where} within {self.patience:g} s"
            raise Problem(detail, "A firewall drops the packets: open the port there") from None
        except socket.gaierror:
            detail = f"the host name {target.host} cannot be resolved"
            raise Problem(detail, "Write a name that the DNS knows") from None
        except OSError as error:
            cause: BaseException = error.__cause__ or error
            while isinstance(cause, BaseExceptionGroup):
                cause = cause.exceptions[0]  # there is one for each address of the host name
            if isinstance(cause, OSError) and cause.errno == errno.ECONNREFUSED:
                remedy = "Start the gateway or the proxy, or name the port where it listens (`gateway check-config`)"
                raise Problem(f"{where} has no listener", remedy) from None
            reason = (getattr(cause, "strerror", "") or str(cause)).lower()
            remedy = "Check the network between this machine and that one"
            raise Problem(f"{where} cannot be reached: {reason}", remedy) from None

    async def _handshake(self, tcp: trio.SocketStream, target: Target) -> trio.abc.Stream:
        context = self.tls
        if not target.is_trusted:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        name = target.certificate_name or target.host
        remedy = "Connect to a port that speaks TLS"
        try:
            with trio.fail_after(self.patience):
                if self.preface:
                    await tcp.send_all(self.preface)
                if not target.tls:
                    return tcp
                secured = trio.SSLStream(tcp, context, server_hostname=name, https_compatible=True)
                await secured.do_handshake()
                return secured
        except trio.TooSlowError:
            raise TlsProblem(f"no TLS handshake within {self.patience:g} s", remedy) from None
        except trio.BrokenResourceError as error:
            cause = error.__cause__
            if isinstance(cause, ssl.SSLCertVerificationError):
                raise _certificate_problem(target, cause.verify_code) from None
            if (refusal := self.certificate_refusal(target, error)) is not None:
                raise refusal from None
            reason = getattr(cause, "reason", "") or "the server closed"
            detail = f"the TLS handshake failed: {reason.lower().replace('_', ' ')}"
            raise TlsProblem(detail, remedy) from None

    def certificate_refusal(self, target: Target, error: trio.BrokenResourceError) -> TlsProblem | None:
        """The server's refusal of the client certificate, or of none; None: the connection ended for another reason."""
        if not isinstance(error.__cause__, OSError) or (self.certificate and not target.is_trusted):
            return None  # the certificate was not shown to an untrusted server
        reason = reason_of(error.__cause__, cert=str(self.certificate or ""))
        remedy = "Give a certificate of an authority in tls_client_ca by --cert and --key"
        return TlsProblem(reason, remedy) if reason else None


def _certificate_problem(target: Target, code: int) -> CertificateProblem:
    words = {
        "name": target.certificate_name or target.host,
        "setting": "tls_certificate" if target.kind == TCP else "tls_certificate, or nginx's ssl_certificate",
    }
    detail, remedy = [text.format(**words) for text in _CERTIFICATE_PROBLEMS.get(code, _UNKNOWN_AUTHORITY)]
    return CertificateProblem(f"the certificate {detail}", remedy)


async def http_get(
    connector: Connector, target: Target, path: str, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """Request a page; raises NotHttp, or Problem where there is no answer."""
    async with connector.connect(target) as stream:
        response, _ = await _request(stream, target, path, {"Connection": "close", **(headers or {})}, connector)
    return response


async def _request(
    stream: trio.abc.Stream, target: Target, path: str, headers: Mapping[str, str], connector: Connector
) -> tuple[HttpResponse, bytes]:
    """Send a GET; returns the answer with as much of its body as comes, and the bytes behind a 101."""
    http = h11.Connection(h11.CLIENT)
    fields = [(name.encode(), value.encode()) for name, value in {"Host": target.authority, **headers}.items()]
    get = h11.Request(method="GET", target=path, headers=fields)
    head: h11.Response | h11.InformationalResponse | None = None
    start = body = b""
    try:
        with trio.move_on_after(connector.patience):
            await stream.send_all((http.send(get) or b"") + (http.send(h11.EndOfMessage()) or b""))
            while len(body) < _MOST_OF_PAGE:
                event = http.next_event()
                if event is h11.NEED_DATA:
                    data = await _receive(stream)
                    start = start or data[:_START]
                    http.receive_data(data)
                elif isinstance(event, (h11.Response, h11.InformationalResponse)):
                    head = event
                elif isinstance(event, h11.Data):
                    body += event.data
                else:
                    break
    except (h11.RemoteProtocolError, trio.BrokenResourceError):
        if head is None:
            raise NotHttp(start) from None
    if head is None:
        detail = f"no answer to a GET of {path} within {connector.patience:g} s"
        raise Problem(detail, "Look into the log of the server there")
    answered = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
    return HttpResponse(head.status_code, answered, body), http.trailing_data[0]


async def _receive(stream: trio.abc.Stream) -> bytes:
    """The next bytes; empty at the end."""
    try:
        return bytes(await stream.receive_some(65_536))
    except trio.BrokenResourceError:
        return b""


@asynccontextmanager
async def stomp_connection(
    connector: Connector, target: Target, headers: Mapping[str, str] | None = None
) -> AsyncIterator[StompClient]:
    """A connection for the block, before CONNECT; raises UpgradeRefused, NotHttp, or Problem without an answer."""
    async with connector.connect(target) as stream:
        if target.kind != WEBSOCKET:
            yield StompClient(stream)
            return
        nonce = generate_nonce()
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": nonce.decode(),
            "Sec-WebSocket-Protocol": ", ".join(SUBPROTOCOLS),
            **(headers or {}),
        }
        response, data = await _request(stream, target, target.path or "/", upgrade, connector)
        if response.status != 101:
            raise UpgradeRefused(response)
        if response.headers.get("sec-websocket-accept", "").encode() != generate_accept_token(nonce):
            detail = "the answer belongs to another upgrade"
            raise Problem(detail, "Switch off the cache in front of the WebSocket")
        client = StompClient(stream, WebSocket(ConnectionType.CLIENT, trailing_data=data))
        client.subprotocol = response.headers.get("sec-websocket-protocol", "")
        yield client


class StompClient:
    """A STOMP 1.2 conversation over TCP or a WebSocket."""

    def __init__(self, stream: trio.abc.Stream, websocket: WebSocket | None = None) -> None:
        self.subprotocol = ""  # of the WebSocket; empty: the server named none
        self.heartbeats = self.pings = 0  # that came
        self.on_ping: Callable[[], None] | None = None
        self.close_reason = ""  # of the WebSocket, in brackets; empty: none came
        self._stream = stream
        self._websocket = websocket
        self._lock = trio.Lock()  # pongs are sent beside frames
        self._start = b""
        self._protocol = ClientProtocol()
        self._frames: deque[Frame] = deque()

    @property
    def heartbeat_interval(self) -> float:
        """Seconds within which the server sends a heart-beat; 0: it does not."""
        return self._protocol.receive_interval

    async def connect(self, headers: Mapping[str, str]) -> Frame:
        """Send CONNECT; returns the answer, or raises NoFrame."""
        await self._send(self._protocol.connect(headers))
        return await self.frame()

    async def send(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        """Send a frame.  A connection that has ended is no error here: `frame` raises it."""
        await self._send(self._protocol.encode(command, headers, body))

    async def send_heartbeats(self, interval: float) -> None:
        """Send heart-beats until cancelled, somewhat earlier than agreed."""
        while True:
            await self._send(b"\n")
            await trio.sleep(interval * 0.8)

    async def frame(self) -> Frame:
        """The next frame; raises NoFrame."""
        while not self._frames:
            data = await self._receive()
            if not data.strip(b"\r\n") and not self._protocol.incomplete:
                self.heartbeats += data.count(b"\n")
            self._start = (self._start + data)[:_START]
            # Another protocol is seen by its first bytes: what the decoder waits for may never come.
            command = self._start.lstrip(b"\r\n")
            if not b"CONNECTED".startswith(command[:9]) and not b"ERROR".startswith(command[:5]):
                raise NoFrame(self._start)
            try:
                self._frames.extend(self._protocol.receive(data))
            except ProtocolError:
                if not self._frames:
                    raise NoFrame(self._start) from None
        return self._frames.popleft()

    async def _receive(self) -> bytes:
        """The next bytes of STOMP; raises NoFrame."""
        while True:
            data = await _receive(self._stream)
            if not data or self.close_reason:
                raise NoFrame(self._start)
            if self._websocket is None:
                return data
            self._websocket.receive_data(data)
            payload = b""
            for event in self._websocket.events():
                if isinstance(event, Message):
                    payload += event.data.encode() if isinstance(event.data, str) else event.data
                elif isinstance(event, Ping) and not self.close_reason:
                    self.pings += 1
                    await self._write(self._websocket.send(event.response()))
                    if self.on_ping is not None:
                        self.on_ping()
                elif isinstance(event, CloseConnection):
                    reason = f", {printable(event.reason)!r}" if event.reason else ""
                    self.close_reason = f" (WebSocket close code {int(event.code)}{reason})"
            if payload:
                return payload

    async def _send(self, data: bytes) -> None:
        if self._websocket is not None:
            data = b"" if self.close_reason else self._websocket.send(BytesMessage(data))
        await self._write(data)

    async def _write(self, data: bytes) -> None:
        with suppress(trio.BrokenResourceError):
            async with self._lock:
                await self._stream.send_all(data)
