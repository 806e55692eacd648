"""Identity of a client: its credentials, and the identity that an authenticator finds.

Passcodes, tokens and cookies are left out of every `repr`, so that no log line can show them by accident.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Credentials in the HTTP request of a WebSocket; an empty text: the request has none."""

    authorization: str = field(default="", repr=False)  # the field `Authorization`
    cookie: str = field(default="", repr=False)  # the field `Cookie`, whole
    ticket: str = field(default="", repr=False)  # the parameter `ticket` of the query
    origin: str = ""  # the field `Origin`, which has been checked; empty: the client is no browser page


@dataclass(frozen=True, slots=True)
class Certificate:
    """A TLS client certificate that the listener has verified."""

    subject: str  # the distinguished name, as RFC 4514 writes it
    common_name: str = ""  # the subject's CN; empty: none
    # the subject's alternative names, each with its kind in front: `dns:`, `email:` or `uri:`
    names: tuple[str, ...] = ()
    expires: float = math.inf  # seconds since the epoch; the certificate is valid until then


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of a connection, complete when its CONNECT has been read."""

    login: str | None = None  # the claimed name; None: none
    passcode: str | None = field(default=None, repr=False)  # or None
    authorization: str = field(default="", repr=False)  # the header `Authorization` of the CONNECT frame; empty: none
    transport: str = "tcp"  # `tcp` or `websocket`
    address: str = ""  # the client's own address, behind all trusted proxies; empty: a unix socket
    secure: bool = False  # the bytes came through TLS, ours or a trusted proxy's
    upgrade: Upgrade | None = None  # None on TCP
    certificate: Certificate | None = None  # the client's; None: none


@dataclass(frozen=True, slots=True)
class Identity:
    """User of a session, as the authenticator found it."""

    user: str  # the name
    groups: frozenset[str] = frozenset()  # the groups of the user, which the rules name
    # seconds since the epoch, after which the session ends unless it is renewed; infinite: never
    expires: float = math.inf
    # how the user was authenticated: `anonymous`, `passcode`, `token`, `ticket`, `certificate`, `cookie`, or a word of
    # the operator's own authenticator
    method: str = "passcode"
    # returns the identity as it is now, perhaps with other groups; raises `SessionEnded` if the user is gone.
    # None: the identity cannot change.
    review: Callable[[Identity], Identity] | None = field(default=None, compare=False, repr=False)
    # the stored hash by which `review` knows that the passcode is the same; empty: it needs none
    hashed: str = field(default="", compare=False, repr=False)


@dataclass(slots=True, eq=False)
class Renewal:
    """What a client shows to stay longer."""

    login: str  # the name that it claims; empty: the session's
    passcode: str = field(repr=False)  # empty: none
    authorization: str = field(repr=False)  # likewise, as HTTP has it
    receipt: str | None = None  # that it asked for
