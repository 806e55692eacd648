"""WebSocket: the HTTP upgrade, and the link on it.

trio-websocket does the opening handshake, on a stream of ours that gives it exactly the bytes of the HTTP request.
When that is done its reader task ends and the link goes on with our own framing (`wire/websocket_framing.py` says why),
so that an idle WebSocket costs no second task and a message no second parser.

A client is accepted with the right path; with an Origin that has our own host name or is listed, or without one (then
it is no web page); with a subprotocol that we know, or none offered at all; and if the connection limits have room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import ip_address
from urllib.parse import parse_qs, urlsplit

import structlog
import trio
import trio_websocket

from gateway.broker.model.identity import Upgrade
from gateway.codec import encoder
from gateway.net import can_be_listed, is_listed

from ..wire.forwarded import NO_PROXIES, ForwardedError, Trusted
from ..wire.link import UNKNOWN, BrokenLink, Buffers, Pipe, Remote, advance, joined
from ..wire.websocket_framing import CloseCode, Deframer, Opcode, WebSocketError, close_frame, header, pack

log = structlog.get_logger("gateway.websocket")

_LOOPBACK = "localhost"
_PROXY_FIELDS = frozenset(["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip"])
# Best first.
SUBPROTOCOLS = ("v12.stomp", "v11.stomp", "v10.stomp")
_END_OF_REQUEST = b"\r\n\r\n"
# Bytes of a read, unless a large frame is under way: as many small ones as are unmasked in half a millisecond.
_READ_OF_SMALL_FRAMES = 32 * 1024
_LONGEST_REQUEST = 16 * 1024  # bytes of an HTTP upgrade request; nginx and browsers stay below 8 KiB
_MOST_PARAMETERS = 100  # of its query; we read one of them
_READ = 4 * 1024
# The translation of a request for trio-websocket: it takes bytes above 127 for an error of its own.
_ASCII = bytes([byte if byte < 128 else ord("?") for byte in range(256)])
_BAD_REQUEST = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 36\r\nConnection: close\r\n\r\n"
    b"the request is no WebSocket upgrade\n"
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an upgrade is refused, as an HTTP response."""

    status: int
    reason: str
    retry_after: int | None = None  # seconds after which the client should come back; None where it should not
    request: bytes = b""  # of the peer, for the log


def choose_subprotocol(offered: Sequence[str]) -> str | Refusal | None:
    """The best version offered (WST-01); None if none was offered (WST-02)."""
    for name in SUBPROTOCOLS:
        if name in offered:
            return name
    if offered:  # browsers drop a connection without an answer to their offer, with an error that says less
        return Refusal(400, f"none of the subprotocols offered is one of {', '.join(SUBPROTOCOLS)}")
    return None


def check_origin(
    fields: Mapping[str, str], allowed: Sequence[str], *, open_to_all: bool, secure: bool = False
) -> Refusal | None:
    """Refuse an Origin that has not the host name of the request and is not listed.

    The port is not compared: the gateway's own page comes from another port than its WebSocket.  All names of loopback
    are one host.  If anonymous clients are accepted, a name that is no address counts only behind a proxy or TLS: any
    page can make its own name mean 127.0.0.1 (DNS rebinding).  A page without TLS does not count if the WebSocket has
    TLS (`secure`): any router on the way can have written that page.
    """
    origin = fields.get("origin")
    if origin is None or is_listed(origin, allowed):
        return None
    ours = _host_name(f"//{fields.get('host', '')}")
    if ours is not None and _host_name(origin) == ours:
        if ours == _LOOPBACK:
            return None
        counts = not open_to_all or secure or not _PROXY_FIELDS.isdisjoint(fields) or _is_address(ours)
        if counts and not (secure and origin.lower().startswith("http:")):
            return None
    remedy = "add it to allowed_origins" if can_be_listed(origin) else "no entry of allowed_origins but * could name it"
    return Refusal(403, f"the origin {origin[:200]!r} is not allowed; {remedy}")


def _host_name(url: str) -> str | None:
    try:
        name = urlsplit(url).hostname
    except ValueError:
        return None
    if name is not None and (name == _LOOPBACK or (_is_address(name) and ip_address(name).is_loopback)):
        return _LOOPBACK
    return name


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Conditions:
    """Which upgrades an endpoint accepts."""

    path: str
    allowed_origins: Sequence[str] = ()  # besides the same host, as `gateway.net.listed` gives them
    open_to_all: bool = False  # anonymous clients are accepted
    trusted: Trusted = NO_PROXIES


def check_request(
    path: str, fields: Mapping[str, str], conditions: Conditions, *, secure: bool = False
) -> Refusal | None:
    """Check path and Origin of an upgrade request, by its header fields with lower-case names."""
    if path.partition("?")[0] != conditions.path:
        return Refusal(404, f"STOMP over WebSocket is at {conditions.path}")
    return check_origin(fields, conditions.allowed_origins, open_to_all=conditions.open_to_all, secure=secure)


class _HandshakeStream(trio.abc.Stream):
    """The pipe during the handshake: bytes behind the request are kept for the link."""

    def __init__(self, pipe: Pipe, scope: trio.CancelScope, first: bytes) -> None:
        self.behind = b""
        self._pipe = pipe
        self._first = first
        self._scope = scope
        self.request = b""
        self.answered = False
        self._complete = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self._complete:
            await trio.sleep_forever()
        data, self._first = self._first, b""
        data = data or await self._pipe.receive(_READ)
        self.request += data
        end = self.request.find(_END_OF_REQUEST)
        if end >= 0:
            self._complete = True
            end += len(_END_OF_REQUEST) - (len(self.request) - len(data))
            self.behind = data[end:]
            return data[:end].translate(_ASCII)
        if not data or len(self.request) > _LONGEST_REQUEST:
            self._scope.cancel()
        return data.translate(_ASCII)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        left: Buffers = [bytes(data)]
        self.answered = True
        while left:
            try:
                left = advance(left, await self._pipe.send_some(left))
            except BrokenLink as error:
                raise trio.BrokenResourceError(str(error)) from None

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """trio-websocket closes if the request is no upgrade: the handshake is over."""
        self._scope.cancel()
        await trio.lowlevel.checkpoint()


def fields_of(request: bytes) -> dict[str, str] | None:
    """Header fields of a request by lower-case name; repeated ones are joined by commas.

    None, if a proxy could read the request otherwise: trio-websocket accepts lines that end in LF alone, or are folded,
    and ignores them; and behind a body another request may begin.
    """
    head, end, _ = request.partition(_END_OF_REQUEST)
    lines = head.decode("latin-1").split("\r\n")
    if not end or not lines[0].endswith(" HTTP/1.1"):
        return None
    found: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or name.strip() != name or "\n" in line or "\r" in line:
            return None
        name, value = name.lower(), value.strip()
        found[name] = f"{found[name]}, {value}" if name in found else value
    has_body = "transfer-encoding" in found or found.get("content-length", "0") != "0"
    return None if has_body else found


def upgrade_of(path: str, fields: Mapping[str, str]) -> Upgrade:
    """The credentials in a request, by its path with the query, and its header fields by lower-case name."""
    query: dict[str, list[str]] = {}
    with suppress(ValueError):  # too many
        query = parse_qs(path.partition("?")[2], max_num_fields=_MOST_PARAMETERS)
    return Upgrade(
        authorization=fields.get("authorization", ""),
        cookie=fields.get("cookie", ""),
        ticket=query.get("ticket", [""])[0],
        origin=fields.get("origin", ""),
    )


def behind_proxies(remote: Remote, fields: dict[str, str], trusted: Trusted) -> Remote:
    """The client behind trusted proxies; puts the host name that it asked for into the fields (or `ForwardedError`)."""
    client = trusted.client_of(remote.address, fields)
    if client.host:
        fields["host"] = client.host
    secure = remote.secure if client.secure is None else client.secure
    return replace(remote, address=client.address, secure=secure)


Admit = Callable[[Remote], Refusal | None]


async def accept(
    pipe: Pipe, peer: str, conditions: Conditions, remote: Remote = UNKNOWN, admit: Admit = lambda remote: None
) -> WebSocketLink | Refusal:
    """Do the opening handshake; returns the link, or why there is none.  The HTTP response has been sent in both cases.

    `admit` is called last, with all that is known of the client.
    """
    result: WebSocketLink | Refusal = Refusal(400, "the request is no WebSocket upgrade")
    first = await pipe.receive(_READ)
    if not first:  # a peer that sends nothing is worth neither task nor parser
        return result
    scope = trio.CancelScope()
    stream = _HandshakeStream(pipe, scope, first)
    try:
        with scope:
            async with trio.open_nursery() as nursery:
                with suppress(trio_websocket.ConnectionClosed):
                    request = await trio_websocket.wrap_server_stream(nursery, stream)
                    judged = _judge(request, fields_of(stream.request), conditions, remote, admit)
                    if isinstance(judged, Refusal):
                        result = judged
                        retry = judged.retry_after
                        extra = [] if retry is None else [(b"Retry-After", str(retry).encode())]
                        await request.reject(judged.status, extra_headers=extra, body=(judged.reason + "\n").encode())
                    else:
                        shown, subprotocol = judged
                        await request.accept(subprotocol=subprotocol)
                        name = peer if shown.address == remote.address else shown.address
                        result = WebSocketLink(pipe, name, stream.behind, shown)
                scope.cancel()
    except* (ValueError, trio_websocket.ConnectionClosed) as group:
        # The libraries below fail on some requests, and on clients that do not wait for the answer.
        log.debug("a request that cannot be read", peer=peer, errors=[repr(each) for each in group.exceptions])
        if not stream.answered:
            with suppress(trio.BrokenResourceError):
                await stream.send_all(_BAD_REQUEST)
    return replace(result, request=stream.request) if isinstance(result, Refusal) else result


def _judge(
    request: trio_websocket.WebSocketRequest,
    fields: dict[str, str] | None,
    conditions: Conditions,
    remote: Remote,
    admit: Admit,
) -> tuple[Remote, str | None] | Refusal:
    """The client and the subprotocol, or the refusal."""
    if fields is None:
        return Refusal(400, "the request must be HTTP/1.1, in whole lines that end in CR LF, and without a body")
    try:
        shown = behind_proxies(remote, fields, conditions.trusted)
    except ForwardedError as error:
        return Refusal(400, str(error))
    refusal = check_request(request.path, fields, conditions, secure=shown.secure)
    chosen = refusal or choose_subprotocol(request.proposed_subprotocols)
    if isinstance(chosen, Refusal):
        return chosen
    shown = replace(shown, upgrade=upgrade_of(request.path, fields))
    return admit(shown) or (shown, chosen)


class WebSocketLink:
    """STOMP in WebSocket messages."""

    __slots__ = ("_behind", "_deframer", "_failure", "overhead", "peer", "pipe", "remote")

    transport = "websocket"
    ping = header(Opcode.PING, 0)
    frame_end = encoder.END_IN_A_MESSAGE

    def __init__(self, pipe: Pipe, peer: str, behind: bytes = b"", remote: Remote = UNKNOWN) -> None:
        self.pipe = pipe
        self.peer = peer
        self.remote = remote
        self.overhead = 0
        self._behind = behind  # bytes that came together with the upgrade request
        self._deframer = Deframer()
        self._failure: WebSocketError | None = None

    async def receive(self, size: int) -> bytes | None:
        """As `Link` says.  A violation of the RFC is the end of the stream; `close_bytes` tells the peer."""
        deframer = self._deframer
        if deframer.closed:
            return None
        data, self._behind = self._behind, b""
        if not data:
            if deframer.left < size:
                size = min(size, _READ_OF_SMALL_FRAMES)
            data = await self.pipe.receive(size)
            if not data:
                return None
        try:
            payload = deframer.feed(data)
        except WebSocketError as error:
            self._failure = error.with_traceback(None)  # which refers back to us
            return None
        self.overhead = len(data) - len(payload)
        return payload

    def pack(self, parts: list[bytes], size: int) -> Buffers:
        return joined(pack(parts), size)

    def pong(self) -> bytes:
        pong, self._deframer.pong = self._deframer.pong, b""
        return pong

    def close_bytes(self, code: CloseCode, reason: str) -> bytes:
        """A Close frame: the answer to the peer's, or our own."""
        if self._deframer.closed:
            return self._deframer.close_reply
        if self._failure is not None:
            return close_frame(self._failure.code, str(self._failure))
        return close_frame(code, reason)
