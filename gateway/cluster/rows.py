"""Nodes and log of a cluster as the admin API and `gateway cluster status` tell them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .directory import NodeState
from .log import Bounds
from .room import Room
from .snapshots import Snapshot


def of_nodes(nodes: Iterable[NodeState], bounds: Bounds) -> list[dict[str, Any]]:
    return [
        {
            "node": each.node,
            "role": each.role,
            "address": each.address,
            "url": each.url or None,
            "version": each.version,
            "sequence": each.sequence,
            "lag": max(0, bounds.last - each.sequence)
            if each.role != "primary"
            else 0,  # its word may be older than the log
            "applied": each.applied,
            "failure": each.failure or None,
            "connections": each.load,
            "server": each.server or None,
        }
        for each in nodes
    ]


def of_log(bounds: Bounds, snapshot: Snapshot | None, room: Room | None, lease_leader: str) -> dict[str, Any]:
    """`snapshot`: the newest one; None: there is none.  `room`: the least; None: no limit is known.

    `lease_leader`: server that leads the bucket of the lease; empty: not known.
    """
    made = None
    if snapshot is not None:
        made = {"sequence": snapshot.sequence, "bytes": snapshot.size, "made": snapshot.made}
    servers = [
        {
            "name": each.name,
            "leads": each.leads,
            "leads_lease": each.name == lease_leader,
            "current": each.is_current,
        }
        for each in bounds.servers
    ]
    return {
        "first": bounds.first,
        "last": bounds.last,
        "bytes": bounds.nbytes,
        "servers": servers,
        "room": None if room is None else room._asdict(),
        "snapshot": made,
    }
