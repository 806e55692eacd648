"""Who a client is: what it shows at the handshake, and what an authenticator makes of that.

What is secret here is left out of every `repr`, so that no log line can have it by accident.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What the HTTP request of a WebSocket shows; empty texts: it does not.

    Attributes:
        authorization: the field `Authorization`.
        cookie: the field `Cookie`, whole.
        ticket: the parameter `ticket` of the query.
        origin: the field `Origin`, which has been checked; a client without one is no page.
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
        common_name: the subject's CN; empty: it has none.
        names: the subject's alternative names, each with its kind in front: `dns:`, `email:` or `uri:`.
        expires: seconds since the epoch; until then it is good.
    """

    subject: str
    common_name: str = ""
    names: tuple[str, ...] = ()
    expires: float = math.inf


@dataclass(frozen=True, slots=True)
class Credentials:
    """All that a client shows until its CONNECT has been read.

    Attributes:
        login: the name that it claims; None: none.
        passcode: or None.
        authorization: the header `Authorization` of the CONNECT frame; empty: it has none.
        transport: `tcp` or `websocket`.
        address: the client's own address, behind all trusted proxies; empty: a unix socket.
        secure: the bytes came through TLS, ours or a trusted proxy's.
        upgrade: None on TCP.
        certificate: None: it showed none.
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
    """Who a client is, as its session knows it.

    Attributes:
        user: the name.
        groups: those that the user belongs to, for the rules.
        expires: seconds since the epoch, after which the session ends unless it is renewed; infinite: never.
        method: how it was found out: `anonymous`, `passcode`, `token`, `ticket`, `certificate`, `cookie`, or a word of
            the operator's own authenticator.
        review: who the client of this identity is by now, perhaps of other groups; `SessionEnded` where it is nobody
            any more.  None: that cannot change.
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


class Action(Enum):
    """What rules speak of."""

    SEND = "send"
    SUBSCRIBE = "subscribe"
    ADMIN = "admin"


class Coverage(Enum):
    """How much of what a pattern matches somebody may subscribe to."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


class Access(Protocol):
    """What one session may do.  All whom the rules cannot tell apart share what was found out of it.

    Attributes:
        sendable: destinations, as clients write them, that a plain SEND may go to; the broker adds what it has asked
            about, so that the next frame costs one look-up.  Whoever changes the rules empties it.
        answerable: likewise, what the `reply-to` of a SEND may be.
    """

    sendable: set[str]
    answerable: set[str]

    def may(self, action: Action, name: str) -> bool:
        """Whether that is allowed at the destination of that canonical name."""
        ...

    def reach(self, pattern: str) -> Coverage:
        """How much of what a canonical pattern matches may be subscribed to; SOME where that cannot be told."""
        ...

    def options(self) -> list[str]:
        """What `gateway acl explain` must be told beside the user's name to give the same answers: its options."""
        ...

    def reason(self, action: Action, name: str) -> str:
        """Which rule decides that, of a pattern which ones; for the operator."""
        ...
