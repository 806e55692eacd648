"""The last words of a connection: what its log line says, and what its client still reads.

    refused, failed    the log line, and the row of the records, of a connection that ends by an error
    say_goodbye        what is left is written, then the ERROR of one that has no session, then that nothing more comes
    linger             read on for a little while, so that what we wrote is not lost to a reset (STOMP 1.2, Connection
                       Lingering)

Who does not read cannot be told: to a slow consumer nothing more is written.  Who is sent away to make room in memory
is written to for a moment only, because what lies in its outbox takes room for so long; so is who has no session, for a
flood of those who read nothing would keep as many files open; and so is a client that has come again on another
connection, where it waits for what it does not read here.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

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

from ..wire.link import BrokenLink, Buffers, Link, Pipe
from ..wire.websocket_framing import CloseCode
from .writer import ConnectionWriter, write_all

if TYPE_CHECKING:
    from ..server import Server

log = structlog.get_logger("gateway.connection")

# Seconds for what is left to be written at the end, to a client that reads slowly.
LONGEST = 10.0
# The same where the client has come again on another connection.
LONGEST_OF_A_GHOST = 1.0
# What is written in place of a login that is no user's name: some put their passcode, token or ticket there.
_HIDDEN = "(hidden)"
_TLS_HELLO = b"\x16\x03"
_READ = 64 * 1024


def warn_of_tls(first_bytes: bytes, peer: str) -> bool:
    """Log that a peer speaks TLS on a port that does not, if it does."""
    if not first_bytes.startswith(_TLS_HELLO):
        return False
    log.warning("TLS hello on a plain port", peer=peer, hint="the client dials with TLS, and this port has none")
    return True


def bare(error: ProtocolError) -> ProtocolError:
    """An error without the way it came: that would keep its frames, with whole transactions, for the collector."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error


def our_fault() -> ProtocolError:
    """What a client reads of an error that is not its own: nothing of the server's inside."""
    return ProtocolError("internal error", "the server failed on this frame; its log says more")


def refused(
    server: Server, link: Link, error: ProtocolError, frame: Frame | None, first_bytes: bytes, *, told: bool
) -> None:
    """Count and tell that a connection ends without a session.

    Args:
        frame: that was refused; None: none came.
        first_bytes: what is not understood.
        told: the log has it already.
    """
    server.broker.counters.refuse(error)
    if not told and not warn_of_tls(first_bytes, link.peer):
        # Not the detail: it may quote the passcode.
        log.info("connection refused", peer=link.peer, reason=str(error), **_shown(frame, error))
    if server.broker.records is not None:
        server.broker.records.refused(link.transport, link.peer, _login_of(frame, error), error)


def _shown(frame: Frame | None, error: ProtocolError) -> dict[str, str | None]:
    """What the log says of a refused login."""
    if not isinstance(error, LoginRefused):
        return {}
    known = {"method": error.method, "why": error.why}
    return {"login": _login_of(frame, error), **{key: text for key, text in known.items() if text}}


def _login_of(frame: Frame | None, error: ProtocolError) -> str | None:
    """The name that a client claims that is refused, if somebody knows it for a user's."""
    if isinstance(error, LoginRefused) and error.user:
        return error.user
    login = None if frame is None else frame.headers.get("login")
    return _HIDDEN if login else login


def failed(session: Session, error: ProtocolError) -> None:
    """Tell that a session ends by an error."""
    if isinstance(error, TooCostly):  # whoever chose it has told more
        return
    if isinstance(error, TakenOver):  # two programs that have one client-id end each other: somebody must see it
        _taken_over(session, error)
        return
    # Bytes of the client's are not for the log, and an end that was ordered is no failure.
    detail = "" if isinstance(error, MalformedFrame) else error.detail
    say = log.debug if isinstance(error, SessionEnded) and not isinstance(error, AccessLost) else log.info
    whose: dict[str, object] = {"session": session.id, "login": session.login, "peer": session.peer}
    if isinstance(error, SlowConsumer):
        whose |= {"limit": error.limit, "waiting_octets": session.outbox.size}
    if isinstance(error, (AccessLost, AccessRefused)) and error.rule:
        whose["rule"] = error.rule
    say("session failed", **whose, reason=str(error), detail=detail)


def _taken_over(session: Session, error: TakenOver) -> None:
    log.info(
        "client-id taken over",
        session=session.id,
        login=session.login,
        client_id=session.client_id,
        peer=session.peer,
        by=error.by,
    )


def patience(failure: ProtocolError | None, *, has_session: bool, is_ghost: bool, hurry: float) -> float:
    """Seconds for what is left to be written.

    Args:
        failure: why it ends; None: the client wished it.
        is_ghost: the client has come again on another connection.
        hurry: for a client that costs too much memory, or has no session: nothing of its own is lost.
    """
    if not has_session or isinstance(failure, TooCostly):
        return hurry
    return LONGEST_OF_A_GHOST if is_ghost else LONGEST


async def say_goodbye(
    link: Link,
    writer: ConnectionWriter | None,
    failure: ProtocolError | None,
    last_frame: Buffers,
    *,
    outbox: bool,
) -> bool:
    """Write what is left; False when the peer does not take it.

    Args:
        failure: why it ends; None: the client wished it.
        last_frame: the ERROR of a connection that has no session.
        outbox: what lies in the outbox is written, too.
    """
    goodbye = link.goodbye(*_close_code(failure))
    with suppress(BrokenLink):
        if writer is not None:
            await writer.write_out(outbox=outbox)
        await write_all(link, [*last_frame, goodbye] if goodbye else last_frame)
        await link.pipe.send_eof()
        return True
    return False


async def linger(pipe: Pipe, seconds: float) -> None:
    """Read on until the peer has closed, too, or the time is over."""
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
