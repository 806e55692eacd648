"""Directory of a cluster: who is primary, and which nodes are there; a bucket of keys in JetStream, each with a time to
live.

    primary     node, address, epoch of the primary; the lease: it ends 3 s after its last renewal
    node.NAME   what a node tells of itself; ends 5 s after its last word
    handover    an operator asks the primary to hand over, and to which node

The lease decides who may try, so that two nodes do not take turns in fencing each other.  It is not what makes writing
safe: that is the sequence of the log (`log.py`).  The bucket is a key-value store as `nats kv` knows it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

from .log import LogUnavailable
from .nats import jetstream
from .nats.jetstream import JetStream
from .refusals import told

LEASE = 3
"""Seconds after its last renewal at which the lease ends."""

PRESENCE = 5
"""Seconds after its last word at which a node counts as gone."""

TIMEOUT = 1.5
"""Seconds for a call: less than what a primary may do without its lease."""

WISH = 10
"""Seconds for which a handover may be asked for."""

_PRIMARY = "primary"
_WISH = "handover"


class LeaseLost(Exception):
    """The key of the primary has changed: another node has it, or it had ended."""


@dataclass(frozen=True, slots=True)
class Primary:
    """The value of the lease.

    `address`: where clients reach it, for a person to read.  `handover`: the node that shall be next, while there is no
    primary.  `since`: when it won the lease, in seconds since 1970; `reason`: why it could.
    """

    node: str
    address: str
    epoch: int
    handover: str = ""
    since: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeState:
    """What a node tells of itself.

    `sequence`: of the log, up to which it has applied.  `load`: connections.  `url`: of its pages; empty: not known.
    """

    node: str
    address: str
    role: str
    version: str
    sequence: int
    load: int
    url: str = ""


_told = partial(
    told,
    "the directory of the cluster refuses",
    {
        **dict.fromkeys(jetstream.WRONG_LAST_SEQUENCE, lambda error: LeaseLost()),
        jetstream.STREAM_NOT_FOUND: lambda error: LogUnavailable(
            "the cluster has no directory yet: its first node makes it"
        ),
    },
)


class Directory:
    """The bucket, for one thread.

    `name`: of the cluster.  All methods raise LogUnavailable: JetStream does not answer.
    """

    def __init__(self, jets: JetStream, name: str) -> None:
        self._bucket = f"GW_{name}"
        self._jets = jets

    def make(self, replicas: int) -> None:
        """Make the bucket, unless it is there.  Raises NatsUnavailable."""
        self._jets.make(
            {
                "name": f"KV_{self._bucket}",
                "description": "the primary and the nodes of a cluster of STOMP gateways",
                "subjects": [f"$KV.{self._bucket}.>"],
                "storage": "file",
                "num_replicas": replicas,
                "max_msgs_per_subject": 1,
                "discard": "new",
                "allow_direct": True,
                "allow_msg_ttl": True,
                "allow_rollup_hdrs": True,
                "deny_delete": True,
                "duplicate_window": 0,
            }
        )

    def primary(self) -> tuple[int, Primary | None]:
        """Revision and value of the lease; 0 or the revision of a lease that was given up, and None: nobody has it."""
        with _told():
            found = self._jets.last(f"KV_{self._bucket}", self._subject(_PRIMARY), timeout=TIMEOUT)
        if found is None:
            return 0, None
        revision, payload = found
        return revision, _read(Primary, payload)

    def take(self, value: Primary, revision: int) -> int:
        """Take or renew the lease; returns its new revision.

        `revision`: the last one that was seen.  Raises LeaseLost: there is another.
        """
        headers = {"Nats-TTL": f"{LEASE}s", "Nats-Expected-Last-Subject-Sequence": str(revision)}
        with _told():
            return self._jets.append(self._subject(_PRIMARY), _write(value), headers, timeout=TIMEOUT)

    def ask_for_handover(self, to: str) -> None:
        """Ask the primary to hand over.  `to`: the node that shall be next; empty: any."""
        headers = {"Nats-TTL": f"{WISH}s"}
        with _told():
            self._jets.append(self._subject(_WISH), json.dumps({"to": to}).encode(), headers, timeout=TIMEOUT)

    def wish(self) -> tuple[int, str] | None:
        """Revision of the last wish for a handover, and the node that shall be next; None: there is none."""
        with _told():
            found = self._jets.last(f"KV_{self._bucket}", self._subject(_WISH), timeout=TIMEOUT)
        try:
            return None if found is None else (found[0], str(json.loads(found[1])["to"]))
        except (ValueError, KeyError, TypeError):
            return None

    def tell(self, state: NodeState) -> None:
        """Tell of this node."""
        subject = self._subject(f"node.{state.node}")
        with _told():
            self._jets.append(subject, _write(state), {"Nats-TTL": f"{PRESENCE}s"}, timeout=TIMEOUT)

    def nodes(self) -> list[NodeState]:
        """The nodes that are there, by name."""
        with _told():
            stream = f"KV_{self._bucket}"
            found = list(self._jets.read(stream, 1, 1_000, 1_000_000, subject=self._subject("node.*")))
        states = [_read(NodeState, each.payload) for each in found]
        return sorted([each for each in states if each is not None], key=lambda each: each.node)

    def _subject(self, key: str) -> str:
        return f"$KV.{self._bucket}.{key}"


def _write(value: Primary | NodeState) -> bytes:
    return json.dumps(asdict(value)).encode()


def _read(kind: type[Any], payload: bytes) -> Any:
    """A value; None: the key was deleted, or something else wrote it.  Fields of a newer gateway are left out."""
    try:
        values = json.loads(payload)
        return kind(**{each.name: values[each.name] for each in fields(kind) if each.name in values})
    except (ValueError, TypeError):
        return None


def refuse_handover(primary: Primary | None, nodes: Sequence[NodeState], to: str, stranger: str) -> str:
    """Why a handover cannot be asked for; empty: it can.

    `to`: the node that shall be next; empty: any.  `stranger`: begins the sentence on a node that is no standby.
    """
    standbys = [each.node for each in nodes if each.role == "standby"]
    if primary is None or not primary.node:
        return "the cluster has no primary for now"
    if to == primary.node:
        return f"{to} is the primary already"
    if not standbys:
        return "there is no standby that could take over"
    return f"{stranger}: {', '.join(standbys)}" if to and to not in standbys else ""
