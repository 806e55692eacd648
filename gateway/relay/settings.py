"""Settings of a relay: the options of the command line, or the tables of a file.

    [[relay]]
    from = "stomp://a@one:61613"
    to = "stomps://b@two:61614"
    destinations = ["/queue/orders", "/topic/prices.>=/topic/prices"]

Paths in the file are relative to its folder.  Passcodes stand in files or, for the command line, in the environment.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gateway.client import StompServer
from gateway.client.server import server_at
from gateway.config.command_file import (
    PlanError,
    check_keys,
    http_address,
    read_passcode,
    read_tables,
    read_values,
    text_of,
)
from gateway.config.values import Address

EXAMPLE = "127.0.0.1:9000"  # an address for `http`
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


def read(path: Path) -> RelayConfig:
    """Read a file of settings.  Raises PlanError: the file is wrong."""
    values = read_values(path)
    tables = values.pop("relay", [])
    try:
        http = http_address(text_of(values, "http"), EXAMPLE)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None
    values.pop("http", None)
    if values:
        raise PlanError(f"{path}: {next(iter(values))!r} is unknown: there are http and tables [[relay]]")
    return RelayConfig(read_tables(path, "relay", tables, _of_table), http)


def _of_table(table: Mapping[str, Any], folder: Path) -> RelayPlan:
    check_keys(table, _KEYS)
    destinations = table.get("destinations", [])
    if not isinstance(destinations, list) or not all(isinstance(each, str) for each in destinations):
        raise PlanError("destinations must be a list of strings")
    prefetch, durable = table.get("prefetch", PREFETCH), table.get("durable", False)
    if type(prefetch) is not int:
        raise PlanError("prefetch must be a whole number")
    if type(durable) is not bool:
        raise PlanError("durable must be true or false")
    source, target = [_side(table, side, folder) for side in _SIDES]
    name, client_id = text_of(table, "name"), text_of(table, "client_id")
    return make(source, target, destinations, name=name, prefetch=prefetch, durable=durable, client_id=client_id)


def _side(table: Mapping[str, Any], side: str, folder: Path) -> StompServer:
    url = text_of(table, side)
    if not url:
        raise PlanError(f'{side} is missing: write {side} = "stomp://user@host:port"')
    passcode_file, *names = [text_of(table, f"{side}_{key}") for key in ("passcode_file", "ca", "cert", "key")]
    passcode = read_passcode(folder / passcode_file) if passcode_file else ""
    variable = f"a file that {side}_passcode_file names"
    ca, cert, key = [folder / name if name else None for name in names]
    return server(url, passcode, variable, ca=ca, cert=cert, key=key, vhost=text_of(table, f"{side}_vhost"))
