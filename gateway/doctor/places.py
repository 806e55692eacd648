"""Where to dial: URLs as people write them.

http://host[:port]      https://                                  pages, health, admin API
ws://host[:port]/ws     wss://                                    STOMP over WebSocket
host:port               stomp://host[:port]   stomps://           STOMP over TCP
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

HTTP, TCP, WEBSOCKET = "http", "tcp", "websocket"

_FORMS = {
    HTTP: ("https://stomp.example.org", {"http": (False, 80), "https": (True, 443)}),
    WEBSOCKET: ("wss://stomp.example.org/ws", {"ws": (False, 80), "wss": (True, 443)}),
    TCP: (
        "stomp.example.org:61613, or stomps://stomp.example.org:61614",
        {"stomp": (False, 61613), "stomps": (True, 61614)},
    ),
}
_SCHEMES = {(kind, tls): scheme for kind, (_, schemes) in _FORMS.items() for scheme, (tls, _) in schemes.items()}


@dataclass(frozen=True, slots=True)
class Place:
    """One address.

    Attributes:
        kind: `http`, `tcp` or `websocket`.
        path: of a WebSocket, with a slash in front.
        name: that its certificate must have; empty: the host.
        is_verified: its certificate holds, or it has none: passcodes may be sent as far as that goes.
    """

    kind: str
    host: str
    port: int
    tls: bool = False
    path: str = ""
    name: str = ""
    is_verified: bool = True

    @classmethod
    def of(cls, kind: str, text: str) -> Place:
        """Read one.

        Raises:
            ValueError: it is none of that kind; the text is a sentence.
        """
        form, schemes = _FORMS[kind]
        wrong = ValueError(f"{text[:80]!r} is no address of {kind}: write {form}")
        try:
            parts = urlsplit(text if "://" in text or kind != TCP else f"stomp://{text}")
            tls, usual = schemes[parts.scheme]
            port = usual if parts.port is None else parts.port
            (parts.hostname or "").encode("idna")  # or nobody could look it up
        except (ValueError, KeyError):
            raise wrong from None
        if parts.username is not None or parts.password is not None:
            raise ValueError("a passcode must not stand in an address, where others can see it: use --passcode-file")
        path = parts.path if parts.path != "/" else ""
        if not port or not parts.hostname or parts.query or parts.fragment or (path and kind != WEBSOCKET):
            raise wrong
        return cls(kind, parts.hostname, port, tls, path)

    @property
    def authority(self) -> str:
        """host:port, without the port where the scheme says it: as a browser writes `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.kind != TCP and self.port == (443 if self.tls else 80)
        return host if usual else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Of a page that comes from there."""
        return f"http{'s' if self.tls else ''}://{self.authority}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"{_SCHEMES[self.kind, self.tls]}://{self.authority}{self.path}"
