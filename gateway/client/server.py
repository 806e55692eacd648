"""A STOMP server: address, login and TLS, and the URLs that name one.

TLS: trusted authorities, the client certificate, and the alerts of a server that demands one.  In TLS 1.2 the alert
ends the handshake.  In 1.3 the client has finished the handshake before the server has checked the certificate, so the
alert stands in place of the first answer.

The files are read for each connection: a process that runs for months shows a renewed certificate.
"""

import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from gateway.codec import VERSIONS

DEFAULT_PORT = 61_613
_ALL = ",".join([version.name for version in VERSIONS])

_DEMANDED = "CERTIFICATE_REQUIRED"
# The alert of TLS 1.2 without a certificate, and for many other reasons.
_FAILED = "HANDSHAKE_FAILURE"
_REFUSED = (
    "ALERT_UNKNOWN_CA",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_UNSUPPORTED_CERTIFICATE",
    "ALERT_CERTIFICATE_",
    "ALERT_ACCESS_DENIED",
    "ALERT_DECRYPT_ERROR",
)


class FileError(ValueError):
    """A file of certificates or keys cannot be used; the text is a sentence."""


def context_of(ca: str = "", cert: str = "", key: str = "") -> ssl.SSLContext:
    """The TLS context of a client.

    Args:
        ca: a file of certificates to trust instead of the system's; "": the system's.
        cert: the client certificate, with those between it and its authority; "": none.
        key: the file of its key; "": `cert` holds the key, too.

    Raises:
        FileError: one of them cannot be used.
    """
    for path in filter(None, (ca, cert, key)):
        try:
            open(path, "rb").close()  # OpenSSL does not say which of its files it cannot read
        except OSError as error:
            name = f"the file of authorities {path}" if path == ca else path
            raise FileError(f"{name} cannot be read: {error.strerror}") from None
    if key and not cert:
        raise FileError(f"the key in {key} needs its certificate (cert)")
    try:
        context = ssl.create_default_context(cafile=ca or None)
    except ssl.SSLError:
        raise FileError(f"the file of authorities {ca} cannot be used: it has no certificate in PEM") from None
    if cert:
        _load(context, cert, key)
    return context


def _load(context: ssl.SSLContext, cert: str, key: str) -> None:
    asked = []

    def passphrase() -> str:
        asked.append(True)  # without this function OpenSSL would ask the terminal
        return ""

    try:
        context.load_cert_chain(cert, key or None, password=passphrase)
    except ssl.SSLError as error:
        if asked:
            raise FileError(f"the key in {key or cert} has a passphrase: give one without") from None
        if error.reason == "KEY_VALUES_MISMATCH":
            raise FileError(f"the key in {key or cert} is not that of the certificate in {cert}") from None
        files = f"{cert} and {key} have" if key else f"{cert} has"
        more = "" if key else "; the key may have a file of its own (key)"
        raise FileError(f"{files} no certificate with its key in PEM{more}") from None


def reason_of(error: OSError, ca: str = "", cert: str = "") -> str:
    """The fault of a certificate, the client's or the server's, for a sentence; "": another kind of error."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{ca or 'the system'} does not vouch for its certificate: {error.verify_message}"
    said = getattr(error, "reason", None) or "" if isinstance(error, ssl.SSLError) else ""
    if not cert:
        if _DEMANDED in said:
            return "it demands a client certificate, and none was shown (cert, key)"
        if _FAILED in said:
            return "it refuses the TLS handshake, perhaps for it demands a client certificate (cert, key)"
        if isinstance(error, ssl.SSLEOFError):  # the reset of a server that closed at once may take its alert away
            return "it ended TLS without a word, perhaps for it demands a client certificate (cert, key)"
    elif any(word in said for word in (*_REFUSED, _DEMANDED, _FAILED)):
        return f"it does not take the certificate in {cert}: {said.lower().replace('_', ' ')}"
    return ""


def unreachable(error: OSError, ca: str = "", cert: str = "") -> str:
    """Why a server cannot be reached, for a sentence."""
    if isinstance(error, ConnectionRefusedError):
        return "no server listens there"
    if isinstance(error, socket.gaierror):
        return "there is no host of that name"
    return reason_of(error, ca, cert) or error.strerror or str(error)


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
