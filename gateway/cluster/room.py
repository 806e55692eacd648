"""Room for the log: what JetStream may store, and what of it is used.

    the log's stream     its `max_bytes`; with each look at the log
    the account          its `max_storage`; JetStream tells
    each server          its `max_file`; it tells its system account, or its monitoring port

A server that reaches its `max_file` switches JetStream off, so that nothing can be written, purged or renewed any more
until it is restarted with more.  So a primary refuses new messages before that (`SHORT`), and goes on to acknowledge.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from .nats.faults import NatsUnavailable
from .nats.jetstream import JetStream, JetStreamError
from .nats.monitoring import MONITORING, monitored

SHORT = 0.9
"""Part of the limit from which on new messages are refused."""

ENOUGH = 0.85
"""Part of it below which they are taken again."""

SERVERS = "$SYS.REQ.SERVER.PING.VARZ"
"""Subject at which all servers tell of themselves, where the account may ask."""

_TIMEOUT = 1.0  # seconds for an answer
_GATHERED = 0.5  # seconds in which servers that tell of themselves answer


class Room(NamedTuple):
    """Room that something has.  `what`: "the NATS server n1", or another one with a limit."""

    what: str
    used: int  # bytes
    limit: int

    @property
    def part(self) -> float:
        """The part that is used."""
        return self.used / self.limit

    def __str__(self) -> str:
        return f"{self.what} has used {self.part:.0%} of {self.limit:,} bytes for JetStream"


def tightest(rooms: Iterable[Room]) -> Room | None:
    """The one of which most is used; None: none has a limit that is known."""
    return max(rooms, key=lambda each: each.part, default=None)


def rooms(jets: JetStream, monitoring: int = MONITORING) -> list[Room]:
    """All that have a limit, and tell it; those that do not are left out.  `monitoring`: port of the servers."""
    with suppress(NatsUnavailable, JetStreamError):
        return [*_of_account(jets), *(_of_servers(jets) or _monitored(jets, monitoring))]
    return []


def _of_account(jets: JetStream) -> Iterator[Room]:
    told = jets.call("INFO", timeout=_TIMEOUT)
    for tier in (told, *(told.get("tiers") or {}).values()):
        limit = tier.get("limits", {}).get("max_storage", -1)
        if limit > 0:
            yield Room("the account of the NATS servers", int(tier.get("storage", 0)), limit)


def _of_servers(jets: JetStream) -> list[Room]:
    found: list[Room] = []
    with suppress(NatsUnavailable, ValueError):  # all have answered, or none may
        for answer in jets.connection.request_many(SERVERS, timeout=_GATHERED):
            values = json.loads(answer.payload)
            found += _of_server(values.get("data", {}))
    return found


def _monitored(jets: JetStream, port: int) -> Iterator[Room]:
    for each in jets.connection.servers:
        yield from _of_server(monitored(each.host, port, _TIMEOUT) or {})


def _of_server(values: Mapping[str, Any]) -> Iterator[Room]:
    """Of what a server tells of itself."""
    jetstream = values.get("jetstream") or {}
    limit = jetstream.get("config", {}).get("max_storage", 0)
    if limit > 0:
        used = int(jetstream.get("stats", {}).get("storage", 0))
        yield Room(f"the NATS server {values.get('server_name', '')}", used, limit)
