"""Settings of a push: the options of the command line, or a file.

    server = "stomp://push@127.0.0.1:61613"
    passcode_file = "push.passcode"

    [[push]]
    source = "/queue/orders"
    url = "https://shop.example/hooks/orders"
    secret_file = "orders.secret"

Paths in the file are relative to its folder.  Each table is a connection of its own, so that one which the server ends
stops no other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gateway.client.address import StompAddress, read_address
from gateway.client.server import FileError, context_of
from gateway.config.command_file import (
    PlanError,
    check_keys,
    http_address,
    read_passcode,
    read_tables,
    read_values,
    text_of,
)
from gateway.config.values import Address, parse_duration

from .addresses import is_public, literal
from .signature import SecretError, SecretFile

EXAMPLE = "127.0.0.1:9001"  # an address for `http`
CONCURRENCY, MOST_CONCURRENCY = 10, 1000
TIMEOUT, LONGEST_TIMEOUT = 15.0, 600.0
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# The request's own; `webhook-` and `stomp-` are those of the message.
_RESERVED = frozenset("host content-length transfer-encoding connection keep-alive upgrade te trailer expect".split())
_TEXTS = ("source", "url", "secret_file", "selector", "resume", "ca", "cert", "key")
_KEYS = {*_TEXTS, "concurrency", "timeout", "allow_private", "headers"}
_OF_SERVER = ("server", "passcode_file", "ca", "cert", "key", "vhost", "http")


@dataclass(frozen=True)
class PushEndpoint:
    """A URL.  `headers`: more of each request.  `timeout`: seconds of a request in all."""

    url: str
    secrets: SecretFile | None = None  # None: requests are not signed
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    concurrency: int = CONCURRENCY  # requests at the same time
    timeout: float = TIMEOUT
    allow_private: bool = False
    ca: str = ""
    cert: str = ""
    key: str = ""

    @property
    def name(self) -> str:
        """The URL without its query, which may hold a secret, for the log and the metrics."""
        return self.url.partition("?")[0]


@dataclass(frozen=True)
class PushPlan:
    """Messages of one source, and where they go."""

    source: str
    endpoint: PushEndpoint
    selector: str = ""
    resume: str = ""


@dataclass(frozen=True)
class PushServer:
    """The STOMP server of all plans."""

    url: str
    passcode: str = field(default="", repr=False)
    vhost: str = ""
    ca: str = ""
    cert: str = ""
    key: str = ""

    @property
    def address(self) -> StompAddress:
        return read_address(self.url)


@dataclass(frozen=True)
class PushConfig:
    """Settings of one process.  `http`: address of the pages for monitoring; None: none."""

    server: PushServer
    plans: tuple[PushPlan, ...]
    http: Address | None = None


def make_endpoint(url: str, *, secret_file: Path | None = None, **fields: Any) -> PushEndpoint:
    """An endpoint of its parts.  Raises PlanError."""
    _check_url(url, allow_private=fields.get("allow_private", False))
    try:
        secrets = None if secret_file is None else SecretFile(secret_file)
        endpoint = PushEndpoint(url, secrets, **fields)
        context_of(endpoint.ca, endpoint.cert, endpoint.key)
    except (SecretError, FileError) as error:
        raise PlanError(str(error)) from None
    if not 1 <= endpoint.concurrency <= MOST_CONCURRENCY:
        raise PlanError(f"concurrency is {endpoint.concurrency}, and must be from 1 to {MOST_CONCURRENCY}")
    if not 0 < endpoint.timeout <= LONGEST_TIMEOUT:
        raise PlanError(f"timeout is {endpoint.timeout:g} s, and must be above 0 and at most {LONGEST_TIMEOUT:g}")
    for name, value in endpoint.headers.items():
        if not _NAME.fullmatch(name) or name.lower() in _RESERVED:
            raise PlanError(f"headers: {name[:80]!r} cannot be a header of the request")
        if not (value.isascii() and value.isprintable()):
            raise PlanError(f"headers: the value of {name} must be printable ASCII")
    return endpoint


def _check_url(url: str, *, allow_private: bool) -> None:
    wrong = PlanError(f"{url[:80]!r} is no URL of an endpoint: write https://host/path")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or parts.fragment:
        raise wrong
    if not url.isascii() or not url.isprintable() or " " in url:
        raise PlanError(f"{url[:80]!r} has characters that a URL must not have: percent-encode them")
    if parts.username is not None:
        raise PlanError("a password must not stand in a URL, where the log shows it: write it into headers")
    address = literal(parts.hostname)
    if address is not None and not allow_private and not is_public(address):
        raise PlanError(f"{url[:80]!r} is no public address; allow_private = true permits it")


def make_plan(source: str, endpoint: PushEndpoint, *, selector: str = "", resume: str = "") -> PushPlan:
    """Raises PlanError: the source is no destination."""
    if not source.startswith("/"):
        raise PlanError(f"{source[:80]!r} is no destination: write source like /queue/orders")
    return PushPlan(source, endpoint, selector, resume)


def make_server(url: str, passcode: str, *, vhost: str = "", ca: str = "", cert: str = "", key: str = "") -> PushServer:
    """The STOMP server.  Raises PlanError: URL or files of certificates are wrong."""
    server = PushServer(url, passcode, vhost, ca, cert, key)
    try:
        address = read_address(url)
        if (ca or cert or key) and not address.is_tls:
            raise PlanError(f"{url[:80]!r} has no TLS, and certificates are for TLS: write stomps://")
        context_of(ca, cert, key)
    except ValueError as error:
        raise PlanError(str(error)) from None
    return server


def read_duration(value: object) -> float:
    """Seconds, of a number or a text with a unit.  Raises PlanError."""
    try:
        if isinstance(value, str):
            return parse_duration(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    except ValueError as error:
        raise PlanError(f"timeout: {error}") from None
    raise PlanError('timeout must be a duration, like 15 or "15s"')


def read(path: Path) -> PushConfig:
    """Read a file of settings.  Raises PlanError: the file is wrong."""
    values = read_values(path)
    try:
        check_keys(values, {*_OF_SERVER, "push"})
        server, http = _server_of(values, path.parent), http_address(text_of(values, "http"), EXAMPLE)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None
    return PushConfig(server, read_tables(path, "push", values.get("push"), _of_table), http)


def _server_of(values: Mapping[str, Any], folder: Path) -> PushServer:
    if not (url := text_of(values, "server")):
        raise PlanError('server is missing: write server = "stomp://user@host:port" before the tables')
    passcode_file = text_of(values, "passcode_file")
    passcode = read_passcode(folder / passcode_file) if passcode_file else ""
    return make_server(url, passcode, vhost=text_of(values, "vhost"), **_files(values, folder))


def _of_table(table: Mapping[str, Any], folder: Path) -> PushPlan:
    check_keys(table, _KEYS)
    for name in ("source", "url"):
        if not text_of(table, name):
            raise PlanError(f"{name} is missing")
    concurrency, private = table.get("concurrency", CONCURRENCY), table.get("allow_private", False)
    if type(concurrency) is not int:
        raise PlanError("concurrency must be a whole number")
    if type(private) is not bool:
        raise PlanError("allow_private must be true or false")
    headers = table.get("headers", {})
    if not isinstance(headers, dict) or not all(isinstance(each, str) for each in headers.values()):
        raise PlanError('headers must be a table of texts, like {authorization = "Bearer ..."}')
    secret_file = text_of(table, "secret_file")
    endpoint = make_endpoint(
        text_of(table, "url"),
        secret_file=folder / secret_file if secret_file else None,
        headers=headers,
        concurrency=concurrency,
        timeout=read_duration(table.get("timeout", TIMEOUT)),
        allow_private=private,
        **_files(table, folder),
    )
    texts = {name: text_of(table, name) for name in ("selector", "resume")}
    return make_plan(text_of(table, "source"), endpoint, **texts)


def _files(values: Mapping[str, Any], folder: Path) -> dict[str, str]:
    found = {name: text_of(values, name) for name in ("ca", "cert", "key")}
    return {name: str(folder / text) if text else "" for name, text in found.items()}
