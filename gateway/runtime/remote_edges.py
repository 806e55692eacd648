"""Edges on other machines: the primary listens for their links, and an edge connects, with TLS; both ends show a
certificate.

An edge is this program with the setting `edge_of`.  It trusts its primary with its clients, and the primary trusts it
with logins: it has the users, the keys and the certificates for clients.
"""

from __future__ import annotations

import itertools
import socket
import ssl
import struct
import time
from collections.abc import Callable
from functools import partial

import structlog
import trio

from gateway.config.errors import StartError, unusable
from gateway.config.settings import Settings
from gateway.config.values import Address
from gateway.edges.link import EdgeLink
from gateway.edges.pipe import MessagePipe
from gateway.edges.primary import PrimaryLink
from gateway.edges.tls import PROTOCOL, EdgeFiles, EdgeFilesError
from gateway.runtime.edges import Edge, EdgePart
from gateway.transports import Listening, Server
from gateway.transports.accept.accept import peer_of
from gateway.transports.wire.link import SocketPipe
from gateway.transports.wire.tls import HandshakeError, TlsPipe

log = structlog.get_logger("gateway.edge")

# Seconds for a connection and its handshake, and between two attempts.
_LONGEST_CONNECT, _PAUSE = 5.0, 0.5
# Seconds without a message of the primary, which says something each second, until an edge counts the link as lost.
_LONGEST_SILENCE = 5.0
# Seconds for which an edge that was lost is shown.
_REMEMBERED = 600.0
_OTHER_FORM = "the other end speaks another form of the link: run the same release at both ends"


def context(settings: Settings, *, of_primary: bool) -> ssl.SSLContext:
    """The context of TLS of one end.  Raises StartError: a file cannot be used."""
    assert settings.edge_certificate is not None  # the settings are checked
    assert settings.edge_key is not None
    assert settings.edge_ca is not None
    files = EdgeFiles(settings.edge_certificate, settings.edge_key, settings.edge_ca)
    try:
        return files.context(of_primary=of_primary)
    except EdgeFilesError as error:
        raise StartError(unusable(error.setting, error)) from None


class EdgeListeners:
    """The listeners of a primary for edges on other machines.  Raises StartError: a file cannot be used."""

    def __init__(self, settings: Settings, server: Server, listening: Listening) -> None:
        self._context = context(settings, of_primary=True)
        self._server = server
        self._listening = listening
        self._known: list[Edge] = []

    @property
    def all(self) -> list[Edge]:
        """Edges with a link, and those that were lost of late; later their machines may be gone for good."""
        now = time.time()
        self._known = [each for each in self._known if each.link is not None or now - each.ended_at < _REMEMBERED]
        return self._known

    async def run(self) -> None:
        """Serve all links, until cancelled."""
        await trio.serve_listeners(self._serve, self._listening.listeners)

    async def _serve(self, stream: trio.SocketStream) -> None:
        pipe = TlsPipe(SocketPipe(stream), self._context)
        peer, address = peer_of(stream) or ("", "")
        try:
            with trio.fail_after(_LONGEST_CONNECT):
                await pipe.handshake()
            if pipe.protocol != PROTOCOL:
                raise HandshakeError(_OTHER_FORM)
        except (HandshakeError, trio.TooSlowError) as error:
            if str(error):
                log.warning("an edge is refused", address=peer, reason=str(error))
            await pipe.aclose()
            return
        edge = self._edge_of(pipe.peer_name or address, address)
        log.info("an edge has come", edge=edge.name, address=peer)
        link = PrimaryLink(self._server, MessagePipe(pipe), edge.name, on_ready=edge.serve)
        edge.begin(link, address)
        try:
            await link.run()
        finally:
            # Without sessions it had ended them before, and left.
            edge.end("silence" if link.is_silent else "a lost connection" if link.lost else "")
        log.warning("an edge has gone", edge=edge.name, address=peer, ended=link.lost)

    def _edge_of(self, name: str, address: str) -> Edge:
        """The edge of a new link, by the name in its certificate, which others may have, too."""
        if name.isdecimal():  # edges of this machine have numbers
            name = address
        known = {each.name: each for each in self.all}
        names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
        chosen = next(each for each in names if each not in known or known[each].link is None)
        if chosen not in known:
            known[chosen] = Edge(chosen)
            self._known.append(known[chosen])
        return known[chosen]


class Connector:
    """Connects an edge to its primary.  Raises StartError: a file cannot be used."""

    def __init__(self, settings: Settings) -> None:
        self._context = context(settings, of_primary=False)
        self._addresses = [Address.parse(each) for each in settings.edge_of]
        self._told: dict[str, str] = {}  # address -> the last reason that the log has

    async def __call__(self) -> MessagePipe:
        """Wait for the primary."""
        while True:
            for address in self._addresses:
                try:
                    with trio.fail_after(_LONGEST_CONNECT):
                        pipe, discard = await self._connected(address)
                except (OSError, HandshakeError, trio.TooSlowError) as error:
                    self._tell(str(address), _reason(error))
                    continue
                self._told.clear()
                log.info("the link to the primary is up", primary=str(address))
                return MessagePipe(pipe, discard)
            await trio.sleep(_PAUSE)

    async def _connected(self, address: Address) -> tuple[TlsPipe, Callable[[], None]]:
        """A pipe, and what has its socket send nothing more once that is closed."""
        stream = await trio.open_tcp_stream(address.host, address.port)
        pipe = TlsPipe(SocketPipe(stream), self._context, address.host)
        try:
            await pipe.handshake()
            if pipe.protocol != PROTOCOL:
                raise HandshakeError(_OTHER_FORM)
        except BaseException:
            await pipe.aclose()
            raise
        return pipe, partial(stream.setsockopt, socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _tell(self, address: str, reason: str) -> None:
        if self._told.get(address) != reason:
            self._told[address] = reason
            log.warning("the primary cannot be reached", primary=address, reason=reason)


def _reason(error: Exception) -> str:
    causes = (
        error.__cause__.exceptions if isinstance(error.__cause__, BaseExceptionGroup) else [error.__cause__ or error]
    )
    known = [each.strerror for each in causes if isinstance(each, OSError) and each.strerror]
    return known[0].lower() if known else str(error) or "it does not answer"


def part_of_edge(settings: Settings) -> EdgePart:
    """The part of this gateway as an edge.  Raises StartError: a file cannot be used."""
    return EdgePart(EdgeLink(), Connector(settings), longest_silence=_LONGEST_SILENCE)
