"""Closing: the log line of a connection that ends, and the last that its client reads.

A slow consumer cannot be told, because it does not read: nothing more is written to it.  Writes take a moment at most
to a client that is closed to make room in memory, because its outbox takes room for so long; to a connection without a
session, because a flood of clients that do not read would keep as many files open; and to a client that has come again
on another connection, because it waits there for the messages that it does not read here.
"""

from contextlib import suppress

import structlog
import trio

from gateway.broker import Session
from gateway.broker.errors import (
    AccessLost,
    AccessRefused,
    LoginRefused,
    SessionEnded,
    SlowConsumer,
    TakenOver,
    TooCostly,
)
from gateway.codec import Frame, MalformedFrame, ProtocolError

from ..flow.connected import log_fields
from ..server import Server
from ..wire.link import BrokenLink, Buffers, Link, Pipe
from ..wire.websocket_framing import CloseCode
from .writer import ConnectionWriter, write_all

log = structlog.get_logger("gateway.connection")

# Seconds of the last write, to a client that reads slowly; and to one that has come again on another connection.
LONGEST = 10.0
LONGEST_OF_REPLACED = 1.0
# Stands in the log for a login that is no user's name: some clients put their passcode, token or ticket there.
_HIDDEN = "(hidden)"
_READ = 64 * 1024


def warn_of_tls(first_bytes: bytes, peer: str) -> bool:
    """Log that a peer speaks TLS on a port without TLS, and return True, if it does."""
    if not first_bytes.startswith(b"\x16\x03"):
        return False
    log.warning("TLS hello on a plain port", peer=peer, hint="the client dials with TLS, and this port has none")
    return True


def bare(error: ProtocolError) -> ProtocolError:
    """An error without its traceback, which would keep whole transactions alive until the collector runs."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error


def our_fault() -> ProtocolError:
    """The ERROR for a fault of the server's: it tells the client nothing of its inside."""
    return ProtocolError("internal error", "the server failed on this frame; its log says more")


def refused(
    server: Server, link: Link, error: ProtocolError, frame: Frame | None, first_bytes: bytes, *, told: bool
) -> None:
    """Count and log that a connection ends without a session, because of a frame or of bytes that are no STOMP.

    If it was `told`, the log has the line already.
    """
    server.broker.counters.refuse(error)
    login = None if frame is None else frame.headers.get("login")
    login = _HIDDEN if login else login
    fields: dict[str, str | None] = {}
    if isinstance(error, LoginRefused):
        login = error.user or login
        known = {"method": error.method, "why": error.why}
        fields = {"login": login, **{key: text for key, text in known.items() if text}}
    if not told and not warn_of_tls(first_bytes, link.peer):
        # Not the detail: it may quote the passcode.
        log.info("connection refused", peer=link.peer, reason=str(error), **fields)
    server.broker.records.refused(link.transport, link.peer, login, error)


def failed(session: Session, error: ProtocolError) -> None:
    """Log that a session ends by an error."""
    if isinstance(error, TooCostly):  # the memory guard has logged more
        return
    if isinstance(error, TakenOver):  # two programs with one client-id end each other: the operator must see it
        log.info("client-id taken over", **log_fields(session), client_id=session.client_id, by=error.by)
        return
    # The detail of a malformed frame quotes the client, and an end that was ordered is no failure.
    detail = "" if isinstance(error, MalformedFrame) else error.detail
    say = log.debug if isinstance(error, SessionEnded) and not isinstance(error, AccessLost) else log.info
    fields: dict[str, object] = {**log_fields(session)}
    if isinstance(error, SlowConsumer):
        fields |= {"limit": error.limit, "waiting_octets": session.outbox.size}
    if isinstance(error, (AccessLost, AccessRefused)) and error.rule:
        fields["rule"] = error.rule
    say("session failed", **fields, reason=str(error), detail=detail)


async def write_last(
    link: Link, writer: ConnectionWriter | None, failure: ProtocolError | None, last_frame: Buffers, *, outbox: bool
) -> bool:
    """Write what is left, with the `outbox` or without, and end our side of the stream; False if the peer is gone.

    `last_frame` is the ERROR of a connection without a session; `failure` is None if the client has ended it.
    """
    close = link.close_bytes(*_close_code(failure))
    with suppress(BrokenLink):
        if writer is not None:
            await writer.write_out(outbox=outbox)
        await write_all(link, [*last_frame, close] if close else last_frame)
        await link.pipe.send_eof()
        return True
    return False


async def linger(pipe: Pipe, seconds: float) -> None:
    """Read on until the peer has closed, too, or the time is over.

    Else a reset could overtake what we wrote (STOMP 1.2, Connection Lingering).
    """
    with trio.move_on_after(seconds):
        while await pipe.receive(_READ):
            pass


def _close_code(failure: ProtocolError | None) -> tuple[CloseCode, str]:
    if failure is None:
        return CloseCode.NORMAL, ""
    if isinstance(failure, SessionEnded):
        code = CloseCode.POLICY_VIOLATION if failure.retry_after is None else CloseCode.SERVICE_RESTART
        return code, str(failure)
    if isinstance(failure, (AccessRefused, LoginRefused)):
        return CloseCode.POLICY_VIOLATION, str(failure)
    return CloseCode.TRY_AGAIN_LATER if isinstance(failure, TooCostly) else CloseCode.PROTOCOL_ERROR, str(failure)
