"""What the operator wants to have looked at, and what he shows for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gateway.config.address import Address
from gateway.config.settings import Settings

from .places import HTTP, TCP, WEBSOCKET, Place

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client shows in CONNECT; empty where it shows nothing."""

    login: str = ""
    passcode: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    def __bool__(self) -> bool:
        return bool(self.passcode or self.token)

    def headers(self) -> dict[str, str]:
        """Those of CONNECT."""
        found = {"login": self.login, "passcode": self.passcode or self.token}
        return {name: text for name, text in found.items() if text}


@dataclass(frozen=True, slots=True)
class Orders:
    """What is to be done.

    Attributes:
        settings: of the gateway, where it is on this machine.
        authorities: that clients believe; None: the system's.
        certificate, key: files that clients show; None: nothing, and a key in the first.
        origin: of the page that will open the WebSocket; empty: that of `http`, or of the WebSocket's own host.
        idle: seconds that a silent connection is held; 0: none is.
        patience: seconds for an answer.
        size: octets of the large message.
        user: that the gateway runs as; empty: whoever has its ports, or we.
        nginx: its configuration, to be read.
        pipeline: start Spark, too.
        now: seconds since the epoch, by this machine.
    """

    http: Place | None = None
    tcp: tuple[Place, ...] = ()
    websocket: tuple[Place, ...] = ()
    credentials: Credentials = field(default_factory=Credentials)
    settings: Settings | None = None
    origin: str = ""
    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    idle: float = 30.0
    patience: float = 10.0
    size: int = 256 << 10
    user: str = ""
    nginx: Path | None = None
    pipeline: bool = False
    now: Callable[[], float] = time.time

    def is_direct(self, place: Place) -> bool:
        """Whether that is the gateway's own port, with no proxy in front, as far as one can tell."""
        if self.settings is None:
            return place.is_loopback
        texts = getattr(self.settings, f"{place.kind}_tls" if place.tls and place.kind != HTTP else place.kind)
        return place.port in [Address.parse(text).port for text in texts]

    def wants_header(self, place: Place) -> bool:
        """Whether that is the gateway's own port, where each connection must begin with a PROXY header.

        The host counts here, and not the port alone: a proxy may have the same port at another address.
        """
        settings = self.settings
        if settings is None or place.kind == HTTP or not getattr(settings, f"{place.kind}_proxy_protocol"):
            return False
        ours = {(each.host, each.port, each.tls) for each in own_places(settings)[place.kind]}
        return (place.host, place.port, place.tls) in ours

    def page_origin(self, place: Place) -> str:
        """The origin of a page that opens that WebSocket."""
        return self.origin or (self.http or place).origin


def own_places(settings: Settings, certified: tuple[str, ...] = ()) -> dict[str, tuple[Place, ...]]:
    """Where the gateway of these settings listens, to be dialled from this machine; by kind.

    Args:
        certified: the names that its certificate is for: they are expected of it, whatever is dialled.
    """
    name = certified[0].replace("*", "doctor") if certified else ""
    found: dict[str, tuple[Place, ...]] = {}
    for kind, tls in ((HTTP, False), (TCP, False), (TCP, True), (WEBSOCKET, False), (WEBSOCKET, True)):
        addresses = [Address.parse(text) for text in getattr(settings, f"{kind}_tls" if tls else kind)]
        path = settings.websocket_path if kind == WEBSOCKET else ""
        places = [
            Place(kind, _EVERYWHERE.get(each.host, each.host), each.port, tls, path, name if tls else "")
            for each in addresses
            if each.port
        ]
        found[kind] = (*found.get(kind, ()), *places)
    return found
