"""Authentication of a client, by its first frame and what its connection has shown; it may take long."""

from __future__ import annotations

import structlog
import trio

from gateway.broker import Session
from gateway.broker.errors import LoginRefused
from gateway.broker.headers.connect import Opening, read_opening
from gateway.broker.model.identity import Credentials, Identity
from gateway.codec import Frame

from ..flow.connected import log_fields
from ..server import Server
from ..wire.link import Link

log = structlog.get_logger("gateway.connection")


async def log_in(server: Server, link: Link, frame: Frame) -> tuple[Opening, Identity]:
    """Read the first frame, and have its sender authenticated; raises `ProtocolError`."""
    server.turn_time = trio.current_time()
    opening = read_opening(frame)
    if server.draining:
        raise server.shutting_down()
    return opening, await identify(server, credentials_of(link, opening))


async def identify(server: Server, credentials: Credentials) -> Identity:
    """Ask the authenticator; counts refusals, and raises them: `LoginRefused`."""
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
    say(event, **log_fields(session), method=identity.method, transport=link.transport)


def credentials_of(link: Link, opening: Opening) -> Credentials:
    """The credentials in CONNECT, and those that the connection has shown before."""
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
