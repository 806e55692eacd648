"""STOMP over WebSocket: the upgrade, and the link on it.

trio-websocket does the opening handshake, on a stream of ours that gives it exactly the octets of the HTTP request.
When that is done its reader task ends and the link goes on with our own framing (`websocket_frames` says why), so that
an idle WebSocket costs no second task and a message no second parser.

Whom we let in: the right path; a page from our own host name or a listed origin (a client without Origin is no page); a
subprotocol that we know, or none offered at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import ip_address
from urllib.parse import parse_qs, urlsplit

import trio
import trio_websocket

from gateway.broker.identity import Upgrade

from .link import UNKNOWN, BrokenLink, Buffers, Pipe, Remote, advance, joined
from .websocket_frames import CloseCode, Deframer, Opcode, WebSocketError, close_frame, header, pack

_LOOPBACK = "localhost"
_PROXY_FIELDS = frozenset(["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip"])
# Best first.
SUBPROTOCOLS = ("v12.stomp", "v11.stomp", "v10.stomp")
_END_OF_REQUEST = b"\r\n\r\n"
_LONGEST_REQUEST = 16 * 1024  # octets of an HTTP upgrade request; nginx and browsers stay below 8 KiB
_MOST_PARAMETERS = 100  # of its query; one of them is ours


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an upgrade is refused, as an HTTP response.

    Attributes:
        request: what the peer said, for the log.
    """

    status: int
    reason: str
    request: bytes = b""


def choose_subprotocol(offered: Sequence[str]) -> str | Refusal | None:
    """The best version offered (WST-01); None where nothing was offered (WST-02).

    An offer without any that we know is refused: browsers drop a connection whose offer was not answered, with an error
    that says less.
    """
    for name in SUBPROTOCOLS:
        if name in offered:
            return name
    if offered:
        return Refusal(400, f"none of the subprotocols offered is one of {', '.join(SUBPROTOCOLS)}")
    return None


def check_origin(fields: Mapping[str, str], allowed: Sequence[str], *, open_to_all: bool) -> Refusal | None:
    """Same host name or listed, else refused.

    The port is not compared: the gateway's own page comes from another port than its WebSocket.  All names of loopback
    are one host.  Where nobody must log in, a name that is no address and did not come through a proxy is not believed:
    a page of anybody's can make its own name mean 127.0.0.1 (DNS rebinding).
    """
    origin = fields.get("origin")
    if origin is None or "*" in allowed or origin in allowed:
        return None
    ours = _host_name(f"//{fields.get('host', '')}")
    believed = not open_to_all or not _PROXY_FIELDS.isdisjoint(fields)
    if ours is not None and _host_name(origin) == ours and (believed or ours == _LOOPBACK or _is_address(ours)):
        return None
    return Refusal(403, f"the origin {origin[:200]!r} is not allowed; add it to allowed_origins")


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


def check_request(
    path: str, fields: Mapping[str, str], *, wanted_path: str, allowed_origins: Sequence[str], open_to_all: bool
) -> Refusal | None:
    """Whether an upgrade request, with its header fields by lower-case name, may come in."""
    if path.partition("?")[0] != wanted_path:
        return Refusal(404, f"STOMP over WebSocket is at {wanted_path}")
    return check_origin(fields, allowed_origins, open_to_all=open_to_all)


class _HandshakeStream(trio.abc.Stream):
    """The pipe during the handshake: what comes behind the request is kept for the link."""

    def __init__(self, pipe: Pipe, scope: trio.CancelScope) -> None:
        self.behind = b""
        self._pipe = pipe
        self._scope = scope
        self.request = b""
        self._complete = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self._complete:
            await trio.sleep_forever()
        data = await self._pipe.receive(max_bytes or 4096)
        self.request += data
        end = self.request.find(_END_OF_REQUEST)
        if end >= 0:
            self._complete = True
            end += len(_END_OF_REQUEST) - (len(self.request) - len(data))
            self.behind = data[end:]
            return data[:end]
        if not data or len(self.request) > _LONGEST_REQUEST:
            self._scope.cancel()
        return data

    @property
    def fields(self) -> dict[str, str]:
        """Header fields of the request by lower-case name.  (trio-websocket keeps Host to itself.)"""
        lines = self.request.partition(_END_OF_REQUEST)[0].decode("latin-1").split("\r\n")[1:]
        pairs = [line.partition(":") for line in lines]
        return {name.strip().lower(): value.strip() for name, _, value in pairs}

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        left: Buffers = [bytes(data)]
        while left:
            try:
                left = advance(left, await self._pipe.send_some(left))
            except BrokenLink as error:
                raise trio.BrokenResourceError(str(error)) from None

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """trio-websocket closes when the request was no upgrade: the handshake is over without a request."""
        self._scope.cancel()
        await trio.lowlevel.checkpoint()


def upgrade_of(path: str, fields: Mapping[str, str]) -> Upgrade:
    """What a request shows of who sent it.

    Args:
        path: with its query.
        fields: header fields by lower-case name.
    """
    query: dict[str, list[str]] = {}
    with suppress(ValueError):  # too many
        query = parse_qs(path.partition("?")[2], max_num_fields=_MOST_PARAMETERS)
    return Upgrade(
        authorization=fields.get("authorization", ""),
        cookie=fields.get("cookie", ""),
        ticket=query.get("ticket", [""])[0],
    )


async def accept(
    pipe: Pipe,
    peer: str,
    *,
    wanted_path: str,
    allowed_origins: Sequence[str],
    open_to_all: bool,
    remote: Remote = UNKNOWN,
) -> WebSocketLink | Refusal:
    """Do the opening handshake.

    Args:
        remote: what is known of the peer before it.

    Returns:
        The link, or why there is none; the HTTP response has been sent in both cases.
    """
    result: WebSocketLink | Refusal = Refusal(400, "the request is no WebSocket upgrade")
    async with trio.open_nursery() as nursery:
        stream = _HandshakeStream(pipe, nursery.cancel_scope)
        try:
            request = await trio_websocket.wrap_server_stream(nursery, stream)
            refusal = check_request(
                request.path,
                stream.fields,
                wanted_path=wanted_path,
                allowed_origins=allowed_origins,
                open_to_all=open_to_all,
            )
            chosen = refusal or choose_subprotocol(request.proposed_subprotocols)
            if isinstance(chosen, Refusal):
                result = chosen
                await request.reject(chosen.status, body=(chosen.reason + "\n").encode())
            else:
                await request.accept(subprotocol=chosen)
                shown = replace(remote, upgrade=upgrade_of(request.path, stream.fields))
                result = WebSocketLink(pipe, peer, stream.behind, shown)
        except trio_websocket.ConnectionClosed:
            result = Refusal(400, "the peer closed during the handshake")
        nursery.cancel_scope.cancel()
    return replace(result, request=stream.request) if isinstance(result, Refusal) else result


class WebSocketLink:
    """STOMP in WebSocket messages."""

    __slots__ = ("_behind", "_deframer", "_failure", "peer", "pipe", "remote")

    transport = "websocket"
    ping = header(Opcode.PING, 0)

    def __init__(self, pipe: Pipe, peer: str, behind: bytes = b"", remote: Remote = UNKNOWN) -> None:
        self.pipe = pipe
        self.peer = peer
        self.remote = remote
        self._behind = behind  # octets that came together with the upgrade request
        self._deframer = Deframer()
        self._failure: WebSocketError | None = None

    async def receive(self, size: int) -> bytes | None:
        """See `Link`.  A violation of the RFC is the end of the stream; `goodbye` tells the peer."""
        deframer = self._deframer
        if deframer.closed:
            return None
        data, self._behind = self._behind, b""
        if not data:
            data = await self.pipe.receive(size)
            if not data:
                return None
        try:
            return deframer.feed(data)
        except WebSocketError as error:
            self._failure = error
            return None

    def pack(self, parts: list[bytes], size: int) -> Buffers:
        """See `Link`."""
        return joined(pack(parts), size)

    def pong(self) -> bytes:
        """See `Link`."""
        pong, self._deframer.pong = self._deframer.pong, b""
        return pong

    def goodbye(self, code: CloseCode, reason: str) -> bytes:
        """A Close frame: the answer to the peer's, or our own."""
        if self._deframer.closed:
            return self._deframer.close_reply
        if self._failure is not None:
            return close_frame(self._failure.code, str(self._failure))
        return close_frame(code, reason)
