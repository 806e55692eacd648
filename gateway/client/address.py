"""Addresses of the async client: a server over TCP, TLS, WebSocket or a unix socket, as a URL names it.

stomp://user@host:61613     TCP             ws://user@host:15674/ws      WebSocket
stomps://user@host:61614    TLS             wss://user@host/ws           WebSocket over TLS
unix:/run/gateway.sock      unix socket
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from .server import DEFAULT_PORT

_PORTS = {"stomp": DEFAULT_PORT, "stomps": 61_614, "ws": 80, "wss": 443}


@dataclass(frozen=True)
class StompAddress:
    """A place to connect to.  `path`: of the WebSocket, or of the unix socket."""

    scheme: str
    host: str = "localhost"
    port: int = 0
    path: str = ""
    login: str = ""

    @property
    def is_websocket(self) -> bool:
        return self.scheme in ("ws", "wss")

    @property
    def is_tls(self) -> bool:
        return self.scheme in ("stomps", "wss")

    @property
    def authority(self) -> str:
        """Host and port, as the header `Host` of HTTP has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"unix:{self.path}" if self.scheme == "unix" else self.authority


def read_address(url: str) -> StompAddress:
    """The address of a URL.  Raises ValueError, with a sentence."""
    wrong = ValueError(
        f"{url[:80]!r} names no STOMP server: write stomp://user@host:port, stomps://, ws://, wss:// or unix:/path"
    )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise wrong from None
    if parts.password is not None:
        raise ValueError("a password must not stand in a URL, where other users can see it: give it as `passcode`")
    if parts.scheme == "unix" and not parts.netloc and parts.path.startswith("/"):
        return StompAddress("unix", path=unquote(parts.path))
    if parts.scheme not in _PORTS or not parts.hostname or parts.fragment:
        raise wrong
    address = StompAddress(
        parts.scheme, parts.hostname, port or _PORTS[parts.scheme], login=unquote(parts.username or "")
    )
    if address.is_websocket:
        query = f"?{parts.query}" if parts.query else ""
        return StompAddress(address.scheme, address.host, address.port, (parts.path or "/") + query, address.login)
    if parts.path not in ("", "/") or parts.query:
        raise wrong
    return address
