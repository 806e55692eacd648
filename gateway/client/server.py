"""Address and login of a STOMP server, and the URLs that name one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from gateway.codec import VERSIONS

from .tls import FileError, context_of

DEFAULT_PORT = 61_613
_ALL = ",".join([version.name for version in VERSIONS])


@dataclass(frozen=True)
class StompServer:
    """A STOMP server and the login there.  Times are in milliseconds.

    `cert`, `key`: files of the client certificate and of its key, which may stand in `cert`, too; "": none.  `login`,
    `passcode`: "": not sent.
    """

    host: str = "localhost"
    port: int = DEFAULT_PORT
    tls: bool = False  # speak TLS; the certificate must be of `host`
    ca: str = ""  # a file of certificates to trust instead of the system's; "": the system's
    cert: str = ""
    key: str = ""
    login: str = ""
    passcode: str = field(default="", repr=False)
    vhost: str = ""  # the header `host`; "": the value of `host`
    versions: str = _ALL  # offered, with commas
    heartbeat: int = 10_000  # offered in both directions, by a client with heart-beats
    headers: Mapping[str, str] = field(default_factory=dict)  # more headers of CONNECT
    connect_timeout: int = 10_000  # of the TCP and TLS handshakes, and again of the answer to CONNECT
    receipt_timeout: int = 60_000  # longest wait for a RECEIPT, or for a full socket

    def connect_headers(self, beat: int) -> dict[str, str]:
        """The headers of CONNECT, with heart-beats of `beat` milliseconds; 0: none."""
        headers = {"accept-version": self.versions, "host": self.vhost or self.host}
        if self.login:
            headers["login"] = self.login
        if self.passcode:
            headers["passcode"] = self.passcode
        headers["heart-beat"] = f"{beat},{beat}"
        return headers | dict(self.headers)


def read_url(url: str, variable: str) -> tuple[StompServer, str]:
    """Read stomp://user@host:port/topic/name, or stomps:// for TLS.

    `variable`: of the environment, for the password.  Returns the server, and the destination; "": the URL has none.
    Raises ValueError: it is not the URL of a STOMP server, or has a password; the text is a sentence.
    """
    wrong = ValueError(f"{url[:80]!r} names no STOMP server: write stomp://user@host:port")
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORT
    except ValueError:
        raise wrong from None
    if parts.password is not None:
        raise ValueError(f"a password must not stand in a URL, where other users can see it: put it into {variable}")
    if parts.scheme not in ("stomp", "stomps") or not parts.hostname or parts.query or parts.fragment:
        raise wrong
    server = StompServer(parts.hostname, port, tls=parts.scheme == "stomps", login=unquote(parts.username or ""))
    return server, "" if parts.path == "/" else unquote(parts.path)


def server_at(
    url: str, variable: str, *, ca: Path | None = None, cert: Path | None = None, key: Path | None = None, **fields: Any
) -> StompServer:
    """The server of a URL without a destination, with more fields; files of certificates are read as a check.

    Raises FileError: the files cannot be used, or the URL has no TLS; ValueError: as `read_url`, or the URL has a
    destination.
    """
    server, destination = read_url(url, variable)
    if destination:
        raise ValueError(f"{url[:80]!r} has a destination: write destinations as arguments of their own")
    if (ca or cert or key) and not server.tls:  # otherwise the passcode would go over the network in clear
        raise FileError(f"{url[:80]!r} has no TLS, and certificates are for TLS: write stomps://")
    server = replace(server, ca=str(ca or ""), cert=str(cert or ""), key=str(key or ""), **fields)
    context_of(server.ca, server.cert, server.key)
    return server
