"""Authentication of a client, by its first frame and what its connection has shown; it may take long."""

from __future__ import annotations

import structlog
import trio

from gateway.broker import Session
from gateway.broker.errors import LoginRefused
from gateway.broker.headers.connect import Opening, read_opening
from gateway.broker.model.identity import Credentials, Identity
from gateway.codec import Frame

from ..server import Server
from ..wire.link import Link

log = structlog.get_logger("gateway.connection")


async def log_in(server: Server, link: Link, frame: Frame) -> tuple[Opening, Identity]:
    """Read the first frame, and have its sender authenticated.

    Raises:
        ProtocolError: the frame is no valid CONNECT, the gateway drains, or the credentials are refused.
    """
    server.turn_time = trio.current_time()
    opening = read_opening(frame)
    if server.draining:
        raise server.shutting_down()
    return opening, await identify(server, credentials_of(link, opening))


async def identify(server: Server, credentials: Credentials) -> Identity:
    """Ask the authenticator; refusals are counted.

    Raises:
        LoginRefused: the credentials are refused.
    """
    try:
        identity = await server.authenticator.authenticate(credentials)
        if identity is None:
            raise LoginRefused
    except LoginRefused as error:
        server.broker.counters.fail_login(error.method)
        raise
    return identity


def tell_of_login(event: str, link: Link, session: Session, identity: Identity) -> None:
    """Log a login; of anonymous clients only at level debug."""
    say = log.debug if identity.method == "anonymous" else log.info
    say(
        event,
        session=session.id,
        login=session.login,
        method=identity.method,
        peer=session.peer,
        transport=link.transport,
    )


def fits_a_line(text: str) -> bool:
    """True if CONNECTED, which has no escapes, can carry that text."""
    return "\n" not in text and "\r" not in text


def credentials_of(link: Link, opening: Opening) -> Credentials:
    """All that a client has shown so far."""
    remote = link.remote
    return Credentials(
        login=opening.login,
        passcode=opening.passcode,
        authorization=opening.authorization,
        transport=link.transport,
        address=remote.address,
        secure=remote.secure,
        upgrade=remote.upgrade,
        certificate=remote.certificate,
    )
