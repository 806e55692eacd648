"""Preflight: what the NATS servers must be, asked before a node relies on them.

Every connection looks at the server's INFO (`unfit`).  The start asks for the rest (`check`): whether JetStream is on,
and whether `sync_interval` is `always`.  A server tells that to its system account alone, unless the gateway's account
imports the request:

    accounts {
      SYS { exports: [{service: "$SYS.REQ.SERVER.PING.VARZ", response: stream, accounts: [APP]}], ... }
      APP { imports: [{service: {account: SYS, subject: "$SYS.REQ.SERVER.PING.VARZ"}}], ... }
    }
    system_account: SYS
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from .nats.connection import NatsConnection
from .nats.faults import About, NatsRefused, NatsUnavailable
from .nats.jetstream import JetStream, JetStreamError
from .room import SERVERS

OLDEST = (2, 11)
"""Version of a server: the first with a time to live for messages."""

LEAST_PAYLOAD = 1_000_000
"""Bytes of a message that a server must take (`max_payload`): a part of a record, and its headers."""

_GATHERED = 0.5
"""Seconds in which servers that tell of themselves answer."""


def unfit(info: Mapping[str, Any]) -> str:
    """Why a server cannot be used, by its INFO; empty: it can."""
    version = str(info.get("version", ""))
    found = re.match(r"(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < OLDEST:
        return f"has version {version}: the cluster needs {OLDEST[0]}.{OLDEST[1]} or newer"
    most = info.get("max_payload")
    if isinstance(most, int) and most < LEAST_PAYLOAD:
        return f"takes messages up to {most:,} bytes: set its max_payload to 1MB, the default, or more"
    return ""


def check(jets: JetStream) -> bool:
    """Look at the servers; returns whether they tell that they synchronize always.

    Raises NatsUnavailable: they do not answer yet; NatsRefused: they are not what a cluster needs.
    """
    try:
        jets.call("INFO")
    except JetStreamError as error:
        raise NatsRefused(f"{jets.connection.server} refuses JetStream to this user: {error}", About.LOGIN) from None
    told = list(_told(jets.connection))
    lazy = [name for name, always in told if not always]
    if lazy:
        names = f"servers {', '.join(sorted(lazy))}" if len(lazy) > 1 else f"server {lazy[0]}"
        sentence = (
            f"sync_interval of the NATS {names} is not always, so that a power cut loses what is "
            "receipted: write jetstream { sync_interval: always }"
        )
        raise NatsRefused(sentence, About.SERVER)
    return bool(told)


def _told(connection: NatsConnection) -> Iterable[tuple[str, bool]]:
    """The servers that tell of themselves: name, and whether each write is synchronized."""
    try:
        for answer in connection.request_many(SERVERS, timeout=_GATHERED):
            values = json.loads(answer.payload)
            config = values["data"].get("jetstream", {}).get("config")
            if config:
                yield values["server"]["name"], bool(config.get("sync_always"))
    except (NatsUnavailable, ValueError, KeyError, AttributeError, TypeError):
        return  # all have answered, or none may
