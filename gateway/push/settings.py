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
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gateway.client.address import StompAddress, read_address
from gateway.client.server import FileError, context_of
from gateway.config import toml_faults, toml_file
from gateway.config.values import Address, parse_duration

from .addresses import is_public, literal
from .signature import SecretError, SecretFile

CONCURRENCY, MOST_CONCURRENCY = 10, 1000
TIMEOUT, LONGEST_TIMEOUT = 15.0, 600.0
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# The request's own; `webhook-` and `stomp-` are those of the message.
_RESERVED = frozenset("host content-length transfer-encoding connection keep-alive upgrade te trailer expect".split())
_TEXTS = ("source", "url", "secret_file", "selector", "resume", "ca", "cert", "key")
_KEYS = {*_TEXTS, "concurrency", "timeout", "allow_private", "headers"}
_OF_SERVER = ("server", "passcode_file", "ca", "cert", "key", "vhost", "http")


class PushPlanError(ValueError):
    """The settings are wrong; the text is one sentence."""


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
    """An endpoint of its parts.  Raises PushPlanError."""
    _check_url(url, allow_private=fields.get("allow_private", False))
    try:
        secrets = None if secret_file is None else SecretFile(secret_file)
        endpoint = PushEndpoint(url, secrets, **fields)
        context_of(endpoint.ca, endpoint.cert, endpoint.key)
    except (SecretError, FileError) as error:
        raise PushPlanError(str(error)) from None
    if not 1 <= endpoint.concurrency <= MOST_CONCURRENCY:
        raise PushPlanError(f"concurrency is {endpoint.concurrency}, and must be from 1 to {MOST_CONCURRENCY}")
    if not 0 < endpoint.timeout <= LONGEST_TIMEOUT:
        raise PushPlanError(f"timeout is {endpoint.timeout:g} s, and must be above 0 and at most {LONGEST_TIMEOUT:g}")
    for name, value in endpoint.headers.items():
        if not _NAME.fullmatch(name) or name.lower() in _RESERVED:
            raise PushPlanError(f"headers: {name[:80]!r} cannot be a header of the request")
        if not (value.isascii() and value.isprintable()):
            raise PushPlanError(f"headers: the value of {name} must be printable ASCII")
    return endpoint


def _check_url(url: str, *, allow_private: bool) -> None:
    wrong = PushPlanError(f"{url[:80]!r} is no URL of an endpoint: write https://host/path")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or parts.fragment:
        raise wrong
    if not url.isascii() or not url.isprintable() or " " in url:
        raise PushPlanError(f"{url[:80]!r} has characters that a URL must not have: percent-encode them")
    if parts.username is not None:
        raise PushPlanError("a password must not stand in a URL, where the log shows it: write it into headers")
    address = literal(parts.hostname)
    if address is not None and not allow_private and not is_public(address):
        raise PushPlanError(f"{url[:80]!r} is no public address; allow_private = true permits it")


def make_plan(source: str, endpoint: PushEndpoint, *, selector: str = "", resume: str = "") -> PushPlan:
    """Raises PushPlanError: the source is no destination."""
    if not source.startswith("/"):
        raise PushPlanError(f"{source[:80]!r} is no destination: write source like /queue/orders")
    return PushPlan(source, endpoint, selector, resume)


def make_server(
    url: str, passcode: str, *, vhost: str = "", ca: str = "", cert: str = "", key: str = ""
) -> PushServer:
    """The STOMP server.  Raises PushPlanError: URL or files of certificates are wrong."""
    server = PushServer(url, passcode, vhost, ca, cert, key)
    try:
        address = read_address(url)
        if (ca or cert or key) and not address.is_tls:
            raise PushPlanError(f"{url[:80]!r} has no TLS, and certificates are for TLS: write stomps://")
        context_of(ca, cert, key)
    except ValueError as error:
        raise PushPlanError(str(error)) from None
    return server


def http_address(text: str) -> Address | None:
    """The address of the pages for monitoring; "": none.  Raises PushPlanError: the text is no address with a port."""
    try:
        found = Address.parse(text) if text else None
    except ValueError:
        found = Address("", 0)
    if found is not None and not found.port:
        raise PushPlanError(f"http is {text[:80]!r}, which is no address: write 127.0.0.1:9001")
    return found


def read_duration(value: object) -> float:
    """Seconds, of a number or a text with a unit.  Raises PushPlanError."""
    try:
        if isinstance(value, str):
            return parse_duration(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    except ValueError as error:
        raise PushPlanError(f"timeout: {error}") from None
    raise PushPlanError('timeout must be a duration, like 15 or "15s"')


def read_passcode(path: Path) -> str:
    """The passcode in a file, without its line end.  Raises PushPlanError: the file cannot be read."""
    return _text_in(path, "the passcode file ").rstrip("\r\n")


def _text_in(path: Path, kind: str = "") -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise PushPlanError(f"{kind}{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PushPlanError(f"{kind}{path} cannot be read: it is not UTF-8") from None


def read(path: Path) -> PushConfig:
    """Read a file of settings.  Raises PushPlanError: the file is wrong."""
    text = _text_in(path)
    try:
        values = tomllib.loads(text)
    except ValueError as error:
        raise PushPlanError(toml_faults.explain(path, text, str(error))) from None
    tables = values.pop("push", [])
    if unknown := sorted(values.keys() - set(_OF_SERVER)):
        raise PushPlanError(f"{path}: {_unknown(unknown[0], {*_OF_SERVER, 'push'})}")
    try:
        server, http = _server_of(values, path.parent), http_address(_text(values, "http"))
    except PushPlanError as error:
        raise PushPlanError(f"{path}: {error}") from None
    if not tables or not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise PushPlanError(f"{path} has no table [[push]]")
    plans = []
    for number, table in enumerate(tables, 1):
        try:
            plans.append(_of_table(table, path.parent))
        except PushPlanError as error:
            raise PushPlanError(f"{path}, [[push]] number {number}: {error}") from None
    return PushConfig(server, tuple(plans), http)


def _unknown(key: str, known: set[str]) -> str:
    hint = toml_file.did_you_mean(key, known) or f"keys are {', '.join(sorted(known))}"
    return f"{key!r} is unknown; {hint}"


def _server_of(values: Mapping[str, Any], folder: Path) -> PushServer:
    if not (url := _text(values, "server")):
        raise PushPlanError('server is missing: write server = "stomp://user@host:port" before the tables')
    passcode_file = _text(values, "passcode_file")
    passcode = read_passcode(folder / passcode_file) if passcode_file else ""
    return make_server(url, passcode, vhost=_text(values, "vhost"), **_files(values, folder))


def _of_table(table: Mapping[str, Any], folder: Path) -> PushPlan:
    if unknown := sorted(table.keys() - _KEYS):
        raise PushPlanError(_unknown(unknown[0], _KEYS))
    for name in ("source", "url"):
        if not _text(table, name):
            raise PushPlanError(f"{name} is missing")
    concurrency, private = table.get("concurrency", CONCURRENCY), table.get("allow_private", False)
    if type(concurrency) is not int:
        raise PushPlanError("concurrency must be a whole number")
    if type(private) is not bool:
        raise PushPlanError("allow_private must be true or false")
    headers = table.get("headers", {})
    if not isinstance(headers, dict) or not all(isinstance(each, str) for each in headers.values()):
        raise PushPlanError('headers must be a table of texts, like {authorization = "Bearer ..."}')
    secret_file = _text(table, "secret_file")
    endpoint = make_endpoint(
        _text(table, "url"),
        secret_file=folder / secret_file if secret_file else None,
        headers=headers,
        concurrency=concurrency,
        timeout=read_duration(table.get("timeout", TIMEOUT)),
        allow_private=private,
        **_files(table, folder),
    )
    texts = {name: _text(table, name) for name in ("selector", "resume")}
    return make_plan(_text(table, "source"), endpoint, **texts)


def _files(values: Mapping[str, Any], folder: Path) -> dict[str, str]:
    found = {name: _text(values, name) for name in ("ca", "cert", "key")}
    return {name: str(folder / text) if text else "" for name, text in found.items()}


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise PushPlanError(f"{key} must be a string")
    return value
