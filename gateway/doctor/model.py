"""Targets, options and results: the data that all checks share.

A target is an address as users write it:

    http://host[:port]      https://                                  pages, health, admin API
    ws://host[:port]/ws     wss://                                    STOMP over WebSocket
    host:port               stomp://host[:port]   stomps://           STOMP over TCP
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from gateway.config.settings import Settings
from gateway.config.values import Address

HTTP, TCP, WEBSOCKET = "http", "tcp", "websocket"
_LONGEST_TEXT = 160
# By kind: an example, and for each scheme whether it has TLS, and its port.
_FORMS = {
    HTTP: ("https://stomp.example.org", {"http": (False, 80), "https": (True, 443)}),
    WEBSOCKET: ("wss://stomp.example.org/ws", {"ws": (False, 80), "wss": (True, 443)}),
    TCP: (
        "stomp.example.org:61613, or stomps://stomp.example.org:61614",
        {"stomp": (False, 61613), "stomps": (True, 61614)},
    ),
}
_SCHEMES = {(kind, tls): scheme for kind, (_, schemes) in _FORMS.items() for scheme, (tls, _) in schemes.items()}
_LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True, slots=True)
class Target:
    kind: str  # `http`, `tcp` or `websocket`
    host: str
    port: int
    tls: bool = False
    path: str = ""  # of a WebSocket, with a slash in front
    certificate_name: str = ""  # the name that the certificate must have; empty: the host
    is_trusted: bool = True  # False once its certificate did not hold; no passcode is sent then

    @classmethod
    def parse(cls, kind: str, text: str) -> Target:
        """Read an address of that kind; raises ValueError with a sentence."""
        example, schemes = _FORMS[kind]
        wrong = ValueError(f"{text[:80]!r} is no address of {kind}: write {example}")
        try:
            parts = urlsplit(text if "://" in text or kind != TCP else f"stomp://{text}")
            tls, usual_port = schemes[parts.scheme]
            port = usual_port if parts.port is None else parts.port
            host = (parts.hostname or "").encode("idna").decode()
        except (ValueError, KeyError):
            raise wrong from None
        if parts.username is not None or parts.password is not None:
            raise ValueError("a passcode in an address can be read by others: use --passcode-file")
        path = parts.path if parts.path != "/" else ""
        is_path = not path or (kind == WEBSOCKET and path.isascii() and path.isprintable() and " " not in path)
        if not port or not host or not is_path or parts.query or parts.fragment:
            raise wrong
        return cls(kind, host, port, tls, path)

    @property
    def authority(self) -> str:
        """host:port as browsers write `Host`: without the port that the scheme implies."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.kind != TCP and self.port == (443 if self.tls else 80)
        return host if usual else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """The origin of a page that comes from this address."""
        return f"http{'s' if self.tls else ''}://{self.authority}"

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach it."""
        return Address(self.host, self.port).is_loopback

    def __str__(self) -> str:
        return f"{_SCHEMES[self.kind, self.tls]}://{self.authority}{self.path}"


def own_targets(settings: Settings, certificate_hosts: tuple[str, ...] = ()) -> dict[str, tuple[Target, ...]]:
    """The listeners of a gateway as targets of this machine, by kind; its certificate has one of those hosts."""
    name = certificate_hosts[0].replace("*", "doctor") if certificate_hosts else ""
    found: dict[str, tuple[Target, ...]] = {HTTP: (), TCP: (), WEBSOCKET: ()}
    for kind, tls in ((HTTP, False), (TCP, False), (TCP, True), (WEBSOCKET, False), (WEBSOCKET, True)):
        path = settings.websocket_path if kind == WEBSOCKET else ""
        for each in map(Address.parse, getattr(settings, f"{kind}_tls" if tls else kind)):
            if each.port:  # neither a unix socket nor one of systemd
                host = _LOOPBACK_OF.get(each.host, each.host)
                found[kind] += (Target(kind, host, each.port, tls, path, name if tls else ""),)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    url: Target | None = None
    tcp: tuple[Target, ...] = ()
    websocket: tuple[Target, ...] = ()
    login: str = ""
    passcode: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    settings: Settings | None = None  # of the gateway, where it is on this machine
    nginx: Path | None = None
    origin: str = ""  # of the page that opens the WebSocket; empty: that of `url`, or of the WebSocket's own host
    ca: Path | None = None  # authorities that clients trust; None: the system's
    cert: Path | None = None
    key: Path | None = None  # None: it is in `cert`
    user: str = ""  # that the gateway runs as; empty: the owner of its process, or of this one
    idle: float = 30.0  # seconds for which silent connections are held; 0: the doctor holds none
    patience: float = 10.0  # seconds to wait for an answer
    message_size: int = 256 << 10
    pipeline: bool = False
    now: Callable[[], float] = time.time

    def setting(self, name: str) -> Any:
        """The value of a setting; its default where the settings are not on this machine."""
        return getattr(self.settings, name) if self.settings else Settings.model_fields[name].default

    @property
    def login_headers(self) -> dict[str, str]:
        """Headers of CONNECT; empty without a passcode or token."""
        secret = self.passcode or self.token
        headers = {"login": self.login, "passcode": secret}
        return {name: value for name, value in headers.items() if value} if secret else {}

    def is_direct(self, target: Target) -> bool:
        """True if the target is a port of the gateway itself, without a proxy, as far as the settings tell."""
        if self.settings is None:
            return target.is_loopback
        texts = getattr(self.settings, f"{target.kind}_tls" if target.tls and target.kind != HTTP else target.kind)
        return target.port in [Address.parse(text).port for text in texts]

    def needs_proxy_header(self, target: Target) -> bool:
        """True if the target is a port of the gateway itself where each connection begins with a PROXY header."""
        if self.settings is None or target.kind == HTTP or not self.setting(f"{target.kind}_proxy_protocol"):
            return False
        # The host counts, too: a proxy may have the same port at another address.
        own = {(each.host, each.port, each.tls) for each in own_targets(self.settings)[target.kind]}
        return (target.host, target.port, target.tls) in own


class Level(StrEnum):
    """How bad a result is; only FAIL changes the exit status."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of the output."""

    level: Level
    what: str
    detail: str
    remedy: str = ""  # the setting or directive to change, with its value; empty where all is well

    def __str__(self) -> str:
        return f"{self.level:4} {self.what}: {self.detail}" + (f". {self.remedy}" if self.remedy else "")


class Problem(Exception):
    """The reason why a check cannot go on: detail and remedy of its result."""

    def __init__(self, detail: str, remedy: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.remedy = remedy


class CheckReport:
    """Takes the results of all checks, and passes them to `emit`."""

    def __init__(self, emit: Callable[[CheckResult], None]) -> None:
        self._emit = emit
        self.has_failures = False

    def check(self, what: str) -> Check:
        return Check(what, self)

    def add(self, result: CheckResult) -> None:
        self.has_failures |= result.level is Level.FAIL
        self._emit(result)


class Check:
    """The results on one thing.  As a block it ends with a FAIL where a Problem is raised."""

    def __init__(self, what: str, report: CheckReport) -> None:
        self._what = what
        self._report = report

    def ok(self, detail: str) -> None:
        """All is well."""
        self._report.add(CheckResult(Level.OK, self._what, detail))

    def warn(self, detail: str, remedy: str) -> None:
        """It works now and may not always, or was not tried."""
        self._report.add(CheckResult(Level.WARN, self._what, detail, remedy))

    def fail(self, detail: str, remedy: str) -> None:
        """It does not work, or is open to others than it should be."""
        self._report.add(CheckResult(Level.FAIL, self._what, detail, remedy))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, Problem):
            self.fail(error.detail, error.remedy)
        return isinstance(error, Problem)


def printable(text: str | bytes) -> str:
    """The beginning of a peer's text, on one line, without control characters."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    line = " ".join("".join([each if each.isprintable() else " " for each in text]).split())
    return line if len(line) <= _LONGEST_TEXT else line[: _LONGEST_TEXT - 3] + "..."
