"""Directory of a cluster: who is primary, and which nodes are there; a bucket of keys in JetStream, each with a time to
live.

    primary     node, address, epoch of the primary; the lease: it ends 3 s after its last renewal
    won         the revision of the lease with which the last primary won it; it never ends
    node.NAME   what a node tells of itself; ends 5 s after its last word
    known.NAME  the same, for a day: where to ask a node that is lost, or that no majority of the servers tells of
    handover    an operator asks the primary to hand over, and to which node

The lease decides who may try, so that two nodes do not take turns in fencing each other.  It is not what makes writing
safe: that is the sequence of the log (`log.py`).  The bucket is a key-value store as `nats kv` knows it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import Any

from .log import LogUnavailable
from .nats import jetstream
from .nats.jetstream import JetStream, leader_of
from .refusals import told

LEASE = 3
"""Seconds after its last renewal at which the lease ends."""

PRESENCE = 5
"""Seconds after its last word at which a node counts as gone."""

TIMEOUT = 1.5
"""Seconds for a call: less than what a primary may do without its lease."""

KNOWN = 86_400
"""Seconds for which a node is known after its last word for that."""

WISH = 10
"""Seconds for which a handover may be asked for."""

WAS_PRIMARY = "was primary"
"""Role of a node that another one has taken over from, and that has told nothing since."""

_PRIMARY = "primary"
_WON = "won"
_WISH = "handover"


class NoDirectory(LogUnavailable):
    """The servers answer that there is no bucket."""


class LeaseLost(Exception):
    """A key has changed: another node has it, or it had ended."""


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
    `form`: the newest one of records that it reads.  `failure`: why it does not follow the log; empty: it does.
    `applied`: when its last record was written, in seconds since 1970 by the writer's clock; 0: it has none.
    `server`: of NATS, through which it told this.  `run`: of its process, to know two nodes with one name apart.
    """

    node: str
    address: str
    role: str
    version: str
    sequence: int
    load: int
    url: str = ""
    form: int = 1
    failure: str = ""
    applied: float = 0.0
    server: str = ""
    run: str = ""


_told = partial(
    told,
    "the directory of the cluster refuses",
    {
        **dict.fromkeys(jetstream.WRONG_LAST_SEQUENCE, lambda error: LeaseLost()),
        jetstream.STREAM_NOT_FOUND: lambda error: NoDirectory(
            "the cluster has no directory: a node that runs or starts makes it"
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

    def make_again(self, replicas: int) -> None:
        """The same, for a node that runs."""
        with _told():
            self.make(replicas)

    def leader(self) -> str:
        """The server that leads the bucket, and so the lease; empty: none that a majority follows."""
        with _told():
            return leader_of(self._jets.call(f"STREAM.INFO.KV_{self._bucket}", timeout=TIMEOUT))

    def leave_server(self) -> None:
        """Ask another server from now on."""
        self._jets.connection.leave()

    def primary(self) -> tuple[int, Primary | None]:
        """Revision and value of the lease; 0 or the revision of a lease that was given up, and None: nobody has it."""
        with _told():
            found = self._jets.last(f"KV_{self._bucket}", self._subject(_PRIMARY), timeout=TIMEOUT)
        if found is None:
            return 0, None
        revision, payload = found
        return revision, _read(Primary, payload)

    def take(self, value: Primary, revision: int, timeout: float = TIMEOUT) -> int:
        """Take or renew the lease; returns its new revision.

        `revision`: the last one that was seen.  `timeout`: in seconds.  Raises LeaseLost: there is another.
        """
        headers = {"Nats-TTL": f"{LEASE}s", "Nats-Expected-Last-Subject-Sequence": str(revision)}
        with _told():
            return self._jets.append(self._subject(_PRIMARY), _write(value), headers, timeout=timeout)

    def win(self, value: Primary, revision: int) -> int:
        """Take the lease as a new primary, and note that; as `take`."""
        won = self.take(value, revision)
        with _told():
            self._jets.append(self._subject(_WON), str(won).encode(), {}, timeout=TIMEOUT)
        return won

    def won(self) -> int:
        """The revision of the lease with which the last primary won it; 0: it is not known."""
        with _told():
            found = self._jets.last(f"KV_{self._bucket}", self._subject(_WON), timeout=TIMEOUT)
        return int(found[1]) if found is not None and found[1].isdigit() else 0

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

    def tell(self, state: NodeState, revision: int) -> int:
        """Tell of this node; returns the revision.

        `revision`: of its last word; 0: there is none.  Raises LeaseLost: there is another.
        """
        with _told():
            state = replace(state, server=str(self._jets.connection.info.get("server_name", "")))
            return self._put(state.node, _write(state), revision)

    def remember(self, state: NodeState) -> None:
        """Let this node be known for a day."""
        with _told():
            subject = self._subject(f"known.{state.node}")
            self._jets.append(subject, _write(state), {"Nats-TTL": f"{KNOWN}s"}, timeout=TIMEOUT)

    def known(self) -> list[NodeState]:
        """The nodes that were there within a day, by name, as each was when it told that."""
        return self._all("known.*")

    def leave(self, node: str, revision: int) -> None:
        """Take the last word of a node back: it stops.  Raises LeaseLost: there is another."""
        with _told():
            self._put(node, b"", revision)

    def node(self, name: str) -> tuple[int, NodeState | None]:
        """Revision and value of a node's last word; 0 or the revision of its end, and None: it is not there."""
        with _told():
            found = self._jets.last(f"KV_{self._bucket}", self._subject(f"node.{name}"), timeout=TIMEOUT)
        return (0, None) if found is None else (found[0], _read(NodeState, found[1]))

    def nodes(self) -> list[NodeState]:
        """The nodes that are there, by name."""
        return self._all("node.*")

    def _all(self, keys: str) -> list[NodeState]:
        """Of any server of the bucket, also where these have no majority."""
        with _told():
            stream = f"KV_{self._bucket}"
            found = self._jets.read(stream, 1, 1_000, 1_000_000, subject=self._subject(keys), timeout=TIMEOUT)
        states = [_read(NodeState, each.payload) for each in found]
        return sorted([each for each in states if each is not None], key=lambda each: each.node)

    def _put(self, node: str, payload: bytes, revision: int) -> int:
        headers = {"Nats-TTL": f"{PRESENCE}s", "Nats-Expected-Last-Subject-Sequence": str(revision)}
        return self._jets.append(self._subject(f"node.{node}"), payload, headers, timeout=TIMEOUT)

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


def present(nodes: Sequence[NodeState], primary: Primary | None) -> list[NodeState]:
    """The nodes; one that told of itself as primary, and from which another one took over, has the role WAS_PRIMARY."""
    leads = primary.node if primary is not None else ""
    return [
        replace(each, role=WAS_PRIMARY) if each.role == "primary" and leads not in ("", each.node) else each
        for each in nodes
    ]


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
