"""Accept: a connection on its way from a listener to STOMP.

    accepted -> room? -> PROXY header -> TLS handshake -> HTTP upgrade -> STOMP
                         where the listener has it        WebSocket

All of it is done in the connection's own task, under `connect_timeout`; the STOMP handshake has as much again.  No
exception may leave: it would end the whole listener.  The client's address is first the other end of the socket, then
the client that a trusted proxy names: by that the connection is counted, limited, and written into the log.

Clients can still connect while the gateway drains, if systemd holds the socket: an ERROR or a 503 tells them when to
come back.  The log has no line for each of them, because all of them come back again and again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING

import structlog
import trio

from gateway.broker.errors import NotAllowed, error_frame
from gateway.codec import encoder

from ..connection.closing import linger, warn_of_tls
from ..connection.connection import Connection
from ..flow.connection_limits import Slot
from ..server import Server
from ..wire.forwarded import NO_PROXIES, ProxyError, Resumed, Trusted, plain, read_header
from ..wire.link import BrokenLink, Link, Pipe, Remote, SocketPipe, TcpLink
from ..wire.tls import HandshakeError, TlsPipe
from .listener import name_of
from .websocket import Conditions, Refusal, accept

if TYPE_CHECKING:
    from ..wire.certificates import TlsCertificates  # which loads much that only TLS needs

log = structlog.get_logger("gateway.listen")

# The ERROR for a client without TLS on a port with TLS.
_TLS_ONLY = "this port speaks TLS only: dial it with TLS, or dial another port"
_STOMP = (b"CONNECT", b"STOMP", b"\n", b"\r\n")
_HTTP = (b"GET ", b"HEAD ", b"POST ", b"OPTIONS ")


class ConnectionRefused(Exception):
    """A connection ends before STOMP begins; `str()` says why, for the log; empty: it is worth no line."""


@dataclass(frozen=True, slots=True)
class ConnectionHandler:
    """One kind of listener."""

    server: Server
    transport: str = "tcp"  # or `websocket`
    certificates: TlsCertificates | None = None  # None: it has no TLS
    proxied: bool = False  # connections begin with a PROXY header
    trusted: Trusted = NO_PROXIES

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one accepted connection to its end."""
        other_end = peer_of(stream)
        if other_end is None:
            await trio.aclose_forcefully(stream)
            return
        peer, address = other_end
        pipe = SocketPipe(stream, self.server.fair_gates)
        scope = trio.CancelScope()
        slot = self.server.connection_limits.enter(address, lambda _: scope.cancel())
        link: Link | None = None
        try:
            if not slot.closes_at_once:
                link = await self._open_link(pipe, peer, Remote(address), slot, scope)
            if link is not None:
                await Connection(self.server, link, slot).serve()
        finally:
            slot.leave()
            if link is None:
                self.server.broker.counters.refusals[self._why_early(slot)] += 1
                with trio.CancelScope(shield=True):
                    await pipe.aclose()

    async def _open_link(
        self, pipe: Pipe, peer: str, remote: Remote, slot: Slot, scope: trio.CancelScope
    ) -> Link | None:
        """Do all that comes before STOMP; None: the connection was refused."""
        if self.transport == "tcp" and self.certificates is None and not self.proxied and not self.server.draining:
            slot.comes_from(remote.address)
            return TcpLink(pipe, peer, remote)
        stage = "PROXY header"
        try:
            with scope, trio.move_on_after(self.server.options.connect_timeout) as time_left:
                if self.proxied:
                    pipe, peer, remote = await self._behind_header(pipe, peer, remote)
                stage = "TLS handshake"
                if self.certificates is not None:
                    pipe, remote = await self._within_tls(self.certificates, pipe, peer, remote)
                stage = "HTTP upgrade"
                if self.transport == "websocket":
                    return await self._upgraded(pipe, peer, remote, slot)
                if self.server.draining:
                    await self._write_last(pipe, error_frame(self.server.shutting_down(), None, end=encoder.END))
                    return None
                slot.comes_from(remote.address)
                return TcpLink(pipe, peer, remote)
            if time_left.cancelled_caught and not self.server.draining:
                log.info("connection refused", peer=peer, reason=f"connect timeout: the {stage} did not come to an end")
        except ConnectionRefused as reason:
            if str(reason):
                log.info("connection refused", peer=peer, reason=str(reason))
        except Exception:
            log.exception("handshake failed", peer=peer, transport=self.transport)
        return None

    def _why_early(self, slot: Slot) -> str:
        """Why it ended before STOMP began, for the metrics."""
        if slot.refusal is not None:
            return slot.refusal.cause
        return "draining" if self.server.draining else "handshake"

    async def _behind_header(self, pipe: Pipe, peer: str, remote: Remote) -> tuple[Pipe, str, Remote]:
        """Read the PROXY header."""
        if remote.address not in self.trusted:
            setting = f"{self.transport}_proxy_protocol"
            raise ConnectionRefused(f"{setting} is on, and {remote.address or 'unix'} is not one of trusted_proxies")
        try:
            header, behind = await read_header(pipe)
        except ProxyError as error:
            raise ConnectionRefused(str(error)) from None
        if behind:
            pipe = Resumed(pipe, behind)
        if header.address:
            peer = name_of((header.address, header.port))
        return pipe, peer, Remote(header.address or remote.address, header.secure)

    async def _within_tls(
        self, certificates: TlsCertificates, pipe: Pipe, peer: str, remote: Remote
    ) -> tuple[Pipe, Remote]:
        """Do the TLS handshake."""
        secured = TlsPipe(pipe, certificates.context(self.transport))
        try:
            await secured.handshake()
        except HandshakeError as error:
            if error.data:
                await self._ask_for_tls(pipe, error.data)
            raise ConnectionRefused(str(error)) from None
        shown = secured.certificate
        return secured, replace(remote, secure=True, certificate=certificates.client(shown) if shown else None)

    async def _ask_for_tls(self, pipe: Pipe, data: bytes) -> None:
        """Tell a client that this port speaks TLS only, in HTTP or STOMP, as the client began."""
        answer = b""
        if data.startswith(_HTTP):
            head = f"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {len(_TLS_ONLY) + 1}\r\n"
            answer = f"{head}Connection: close\r\n\r\n{_TLS_ONLY}\n".encode()
        elif data.startswith(_STOMP):
            answer = error_frame(NotAllowed("TLS only", _TLS_ONLY), None, end=encoder.END)
        await self._write_last(pipe, answer)

    async def _write_last(self, pipe: Pipe, answer: bytes) -> None:
        """Write an answer, which may be empty, and close."""
        try:
            pipe.send_nowait([answer])
        except BrokenLink:
            return
        await pipe.send_eof()
        await linger(pipe, self.server.options.close_linger)

    async def _upgraded(self, pipe: Pipe, peer: str, remote: Remote, slot: Slot) -> Link | None:
        """Do the opening handshake of a WebSocket."""
        options = self.server.options
        conditions = Conditions(options.websocket_path, options.allowed_origins, options.anonymous, self.trusted)

        def admit(shown: Remote) -> Refusal | None:
            slot.comes_from(shown.address)
            if slot.refusal is not None:
                return Refusal(slot.status, f"{slot.refusal}: {slot.refusal.detail}")
            if self.server.draining:
                return Refusal(503, str(self.server.shutting_down()), math.ceil(options.drain_retry / 1000))
            return None

        result = await accept(pipe, peer, conditions, remote, admit)
        if not isinstance(result, Refusal):
            return result
        if slot.refusal is None and result.retry_after is None and not warn_of_tls(result.request[:2], peer):
            log.info("WebSocket refused", peer=peer, status=result.status, reason=result.reason)
        await pipe.send_eof()
        return None


def peer_of(stream: trio.SocketStream) -> tuple[str, str] | None:
    """Name and address of the peer; for a unix socket `unix` and an empty address; None: the peer has gone already."""
    try:
        address = stream.socket.getpeername()
    except OSError:
        return None
    return name_of(address), plain(ip_address(address[0])) if isinstance(address, tuple) else ""
