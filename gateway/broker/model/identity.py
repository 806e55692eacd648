"""Identity of a client: its credentials, and the identity that an authenticator finds.

Passcodes, tokens and cookies are left out of every `repr`, so that no log line can show them by accident.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Credentials in the HTTP request of a WebSocket; an empty text: the request has none.

    Attributes:
        authorization: the field `Authorization`.
        cookie: the field `Cookie`, whole.
        ticket: the parameter `ticket` of the query.
        origin: the field `Origin`, which has been checked; empty: the client is no browser page.
    """

    authorization: str = field(default="", repr=False)
    cookie: str = field(default="", repr=False)
    ticket: str = field(default="", repr=False)
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A TLS client certificate that the listener has verified.

    Attributes:
        subject: the distinguished name, as RFC 4514 writes it.
        common_name: the subject's CN; empty: none.
        names: the subject's alternative names, each with its kind in front: `dns:`, `email:` or `uri:`.
        expires: seconds since the epoch; the certificate is valid until then.
    """

    subject: str
    common_name: str = ""
    names: tuple[str, ...] = ()
    expires: float = math.inf


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of a connection, complete when its CONNECT has been read.

    Attributes:
        login: the claimed name; None: none.
        passcode: or None.
        authorization: the header `Authorization` of the CONNECT frame; empty: none.
        transport: `tcp` or `websocket`.
        address: the client's own address, behind all trusted proxies; empty: a unix socket.
        secure: the bytes came through TLS, ours or a trusted proxy's.
        upgrade: None on TCP.
        certificate: the client's; None: none.
    """

    login: str | None = None
    passcode: str | None = field(default=None, repr=False)
    authorization: str = field(default="", repr=False)
    transport: str = "tcp"
    address: str = ""
    secure: bool = False
    upgrade: Upgrade | None = None
    certificate: Certificate | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """User of a session, as the authenticator found it.

    Attributes:
        user: the name.
        groups: the groups of the user, which the rules name.
        expires: seconds since the epoch, after which the session ends unless it is renewed; infinite: never.
        method: how the user was authenticated: `anonymous`, `passcode`, `token`, `ticket`, `certificate`, `cookie`, or
            a word of the operator's own authenticator.
        review: returns the identity as it is now, perhaps with other groups; raises `SessionEnded` if the user is gone.
            None: the identity cannot change.
    """

    user: str
    groups: frozenset[str] = frozenset()
    expires: float = math.inf
    method: str = "passcode"
    review: Callable[[Identity], Identity] | None = field(default=None, compare=False, repr=False)


class Renewal:
    """What a client shows to stay longer.

    Attributes:
        login: the name that it claims; empty: the session's.
        passcode: empty: none.
        authorization: likewise, as HTTP has it.
        receipt: that it asked for.
    """

    __slots__ = ("authorization", "login", "passcode", "receipt")

    def __init__(self, login: str, passcode: str, authorization: str) -> None:
        self.login = login
        self.passcode = passcode
        self.authorization = authorization
        self.receipt: str | None = None
