"""Settings of a relay: the options of the command line, or the tables of a file.

    [[relay]]
    from = "stomp://a@one:61613"
    to = "stomps://b@two:61614"
    destinations = ["/queue/orders", "/topic/prices.>=/topic/prices"]

Paths in the file are relative to its folder.  Passcodes stand in files or, for the command line, in the environment.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gateway.client import StompServer
from gateway.client.server import server_at
from gateway.config import toml_faults, toml_file
from gateway.config.values import Address

PREFETCH = 1000
MOST_PREFETCH = 100_000
FROM_PASSCODE, TO_PASSCODE = "STOMP_FROM_PASSCODE", "STOMP_TO_PASSCODE"
_SIDES = ("from", "to")
_OF_A_SIDE = ("passcode_file", "ca", "cert", "key", "vhost")
_KEYS = {*_SIDES, "destinations", "name", "prefetch", "durable", "client_id"}
_KEYS |= {f"{side}_{key}" for side in _SIDES for key in _OF_A_SIDE}
# One thread serves both sides: while it waits for one server, its heart-beats to the other must not be late.
_HEARTBEAT = 30_000
_RECEIPT_TIMEOUT = 10_000
_CONNECT_TIMEOUT = 5_000


class PlanError(ValueError):
    """The settings are wrong; the text is one sentence."""


@dataclass(frozen=True)
class Route:
    """A subscription, and the destination of its messages; `target` "": the one that they were sent to."""

    source: str
    target: str = ""

    @property
    def is_pattern(self) -> bool:
        return any(sign in self.source for sign in "*#>")


@dataclass(frozen=True)
class RelayPlan:
    """One direction."""

    source: StompServer
    target: StompServer
    routes: tuple[Route, ...]
    name: str = ""  # of the relay in the header `relayed`; both directions between two servers share it
    prefetch: int = PREFETCH  # most messages of one route in flight
    durable: bool = False  # subscriptions to topics outlive the connection


@dataclass(frozen=True)
class RelayConfig:
    """Settings of one process.  `http`: address of the pages for monitoring; None: none."""

    plans: tuple[RelayPlan, ...]
    http: Address | None = None


def address(server: StompServer) -> str:
    """A server in log lines and sentences."""
    return f"{server.host}:{server.port}"


def make(
    source: StompServer,
    target: StompServer,
    destinations: Iterable[str],
    *,
    name: str = "",
    prefetch: int = PREFETCH,
    durable: bool = False,
    client_id: str = "",
) -> RelayPlan:
    """A plan of its parts.  Raises PlanError: the parts are wrong."""
    routes = tuple([_route(text) for text in destinations])
    sources = [route.source for route in routes]
    if not routes:
        raise PlanError("no destination is named: write SOURCE or SOURCE=TARGET, like /queue/orders")
    if twice := next((each for each in sources if sources.count(each) > 1), ""):
        raise PlanError(f"{twice[:80]!r} is named twice: one connection subscribes it once")
    if "," in name or "\n" in name or len(name) > 200:
        raise PlanError(f"{name[:80]!r} is no name of a relay: up to 200 characters, without comma and line end")
    if not 1 <= prefetch <= MOST_PREFETCH:
        raise PlanError(f"prefetch is {prefetch}, and must be from 1 to {MOST_PREFETCH}")
    headers = {"client-id": client_id} if client_id else {}
    times = {
        "heartbeat": _HEARTBEAT,
        "receipt_timeout": _RECEIPT_TIMEOUT,
        "connect_timeout": _CONNECT_TIMEOUT,
        "versions": "1.1,1.2",
    }
    return RelayPlan(
        replace(source, headers=headers, **times),  # type: ignore[arg-type]
        replace(target, **times),  # type: ignore[arg-type]
        routes,
        name or "-".join(sorted([address(source), address(target)])),
        prefetch,
        durable,
    )


def _route(text: str) -> Route:
    source, equals, target = text.partition("=")
    source, target = source.strip(), target.strip()
    if not source or (equals and not target):
        raise PlanError(f"{text[:80]!r} names no destination: write SOURCE or SOURCE=TARGET, like /queue/orders")
    route = Route(source, target)
    if target and Route(target).is_pattern:
        raise PlanError(f"{text[:80]!r} goes to a pattern: messages go to one destination")
    return route


def server(url: str, passcode: str, variable: str, **fields: Any) -> StompServer:
    """One side.

    Raises PlanError: URL or files of certificates are wrong: without this check they would be tried for ever.
    """
    try:
        return server_at(url, variable, passcode=passcode, **fields)
    except ValueError as error:
        raise PlanError(str(error)) from None


def http_address(text: str) -> Address | None:
    """The address of the pages for monitoring; "": none.  Raises PlanError: the text is not an address with a port."""
    try:
        found = Address.parse(text) if text else None
    except ValueError:
        found = Address("", 0)
    if found is not None and not found.port:
        raise PlanError(f"http is {text[:80]!r}, which is no address: write 127.0.0.1:9000")
    return found


def read_passcode(path: Path) -> str:
    """The passcode in a file, without its line end.  Raises PlanError: the file cannot be read."""
    return _text_in(path, "the passcode file ").rstrip("\r\n")


def _text_in(path: Path, kind: str = "") -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise PlanError(f"{kind}{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PlanError(f"{kind}{path} cannot be read: it is not UTF-8") from None


def read(path: Path) -> RelayConfig:
    """Read a file of settings.  Raises PlanError: the file is wrong."""
    text = _text_in(path)
    try:
        values = tomllib.loads(text)
    except ValueError as error:
        raise PlanError(toml_faults.explain(path, text, str(error))) from None
    tables = values.pop("relay", [])
    try:
        http = http_address(_text(values, "http"))
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None
    values.pop("http", None)
    if values:
        raise PlanError(f"{path}: {next(iter(values))!r} is unknown: there are http and tables [[relay]]")
    if not tables or not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise PlanError(f"{path} has no table [[relay]]")
    plans = []
    for number, table in enumerate(tables, 1):
        try:
            plans.append(_of_table(table, path.parent))
        except PlanError as error:
            raise PlanError(f"{path}, [[relay]] number {number}: {error}") from None
    return RelayConfig(tuple(plans), http)


def _of_table(table: Mapping[str, Any], folder: Path) -> RelayPlan:
    if unknown := sorted(table.keys() - _KEYS):
        hint = toml_file.did_you_mean(unknown[0], _KEYS) or f"keys are {', '.join(sorted(_KEYS))}"
        raise PlanError(f"{unknown[0]!r} is unknown; {hint}")
    destinations = table.get("destinations", [])
    if not isinstance(destinations, list) or not all(isinstance(each, str) for each in destinations):
        raise PlanError("destinations must be a list of strings")
    prefetch, durable = table.get("prefetch", PREFETCH), table.get("durable", False)
    if type(prefetch) is not int:
        raise PlanError("prefetch must be a whole number")
    if type(durable) is not bool:
        raise PlanError("durable must be true or false")
    source, target = [_side(table, side, folder) for side in _SIDES]
    name, client_id = _text(table, "name"), _text(table, "client_id")
    return make(source, target, destinations, name=name, prefetch=prefetch, durable=durable, client_id=client_id)


def _side(table: Mapping[str, Any], side: str, folder: Path) -> StompServer:
    url = _text(table, side)
    if not url:
        raise PlanError(f'{side} is missing: write {side} = "stomp://user@host:port"')
    passcode_file, *names = [_text(table, f"{side}_{key}") for key in ("passcode_file", "ca", "cert", "key")]
    passcode = read_passcode(folder / passcode_file) if passcode_file else ""
    variable = f"a file that {side}_passcode_file names"
    ca, cert, key = [folder / name if name else None for name in names]
    return server(url, passcode, variable, ca=ca, cert=cert, key=key, vhost=_text(table, f"{side}_vhost"))


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise PlanError(f"{key} must be a string")
    return value
