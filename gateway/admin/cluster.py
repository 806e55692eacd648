"""The cluster: its nodes, its log, and a handover; as this node sees it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, Field
from starlette.responses import JSONResponse, Response

from gateway.admin.audit import AuditEntry
from gateway.admin.endpoint import Api, ApiError, ApiModel, Endpoint, Seconds
from gateway.broker.core.ports import StoreError
from gateway.runtime.gateway import Gateway

if TYPE_CHECKING:
    from gateway.cluster.node import Node

# As in `gateway.cluster.node.Role`, which is not imported where there is no cluster.
STARTING, STANDBY, TAKING_OVER, PRIMARY, DRAINED = ROLES = ("starting", "standby", "taking over", "primary", "drained")

# As in `gateway.cluster.term`.
STAGES = ("lease", "log", "recovery", "open")

_NONE = "this gateway is no node of a cluster: the setting cluster names one"


class ClusterNode(ApiModel):
    """A node that is there."""

    node: str
    role: str = Field(description="starting, standby, taking over, primary, drained, or was primary")
    address: str = Field(description="of its STOMP listener")
    url: str | None = Field(description="of its pages; null: not known")
    version: str
    sequence: int = Field(description="of the log, up to which it has applied")
    lag: int = Field(description="messages of the log that it has not applied")
    applied: Seconds = Field(description="when the last record that it has was written; 0: it has none")
    failure: str | None = Field(description="why it does not follow the log")
    server: str | None = Field(description="NATS server that it uses")
    connections: int


class TakeOverStages(ApiModel):
    """Seconds of each stage of a take-over."""

    lease: float = Field(description="from the last sign of the old primary until the node had the lease")
    log: float = Field(description="until it had applied the rest of the log")
    recovery: float = Field(description="until its broker had all messages")
    open: float = Field(description="until clients could connect")


class PrimaryChange(ApiModel):
    """A change of the primary."""

    time: Seconds
    node: str
    epoch: int
    reason: str
    took: TakeOverStages | None = Field(description="null: another node took over, or it is not done")


class ClusterSnapshot(ApiModel):
    """The newest snapshot of the log."""

    sequence: int = Field(description="of the log, up to which it has all")
    bytes: int
    made: Seconds


class LogServer(ApiModel):
    """A NATS server that holds the log."""

    name: str
    leads: bool
    leads_lease: bool = Field(description="it leads the bucket of the lease")
    current: bool = Field(description="it is there, and has all of the log")


class LogRoom(ApiModel):
    """Room for the log, of what has the least of it."""

    what: str = Field(description="the stream of the log, the account of the NATS servers, or one of these")
    used: int
    limit: int = Field(description="bytes; from 90% on, new durable messages are refused")


class ClusterLog(ApiModel):
    """The log of the cluster."""

    first: int = Field(description="sequence of the first message that is kept")
    last: int
    bytes: int
    servers: list[LogServer] = Field(description="empty: not known")
    room: LogRoom | None = Field(description="the least that is known; null: no limit is known")
    snapshot: ClusterSnapshot | None = Field(description="null: there is none yet")
    snapshot_due: int = Field(description="bytes by which the log grows until the next snapshot")


class ClusterAnswer(ApiModel):
    """The cluster, as this node sees it; null: this gateway is no node of one."""

    cluster: str | None
    node: str | None = Field(description="this node")
    role: str | None
    primary: str | None = Field(description="null: there is none for now")
    epoch: int | None
    failure: str | None = Field(description="why the NATS servers do not answer, or this node does not follow the log")
    known: Seconds | None = Field(description="when the NATS servers last told of nodes and log; null: they answer")
    nodes: list[ClusterNode]
    log: ClusterLog | None
    changes: list[PrimaryChange] = Field(description="since this process began, the last one first")


class Handover(ApiModel):
    """Which node shall be the primary."""

    model_config = ConfigDict(json_schema_extra={"example": {"node": "node-b"}})

    node: str = Field("", description="its name; empty: any standby")


class HandingOver(ApiModel):
    """The primary is asked to hand over."""

    asked: Literal[True]
    primary: str = Field(description="the present one")


class ClusterApi(Api):
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @Endpoint("GET", "/api/v1/cluster", "gateway", ClusterAnswer)
    async def cluster(self) -> Response:
        """The nodes of the cluster, who is primary, and the log."""
        return JSONResponse(state_of(self._gateway.node))

    @Endpoint(
        *("POST", "/api/v1/cluster/handover", "gateway", HandingOver),
        errors=(404, 409, 503),
        accepts=True,
        action="handover",
    )
    async def hand_over(self, body: Handover, audit: AuditEntry) -> Response:
        """Let another node become primary. GET /api/v1/cluster shows when it is."""
        node = self._gateway.node
        if node is None:
            raise ApiError(404, _NONE)
        if node.unavailable:
            raise ApiError(503, node.unavailable)
        from gateway.cluster.directory import refuse_handover

        primary = node.primary
        reason = refuse_handover(primary, node.nodes, body.node, "there is no standby of that name")
        if primary is None or reason:
            raise ApiError(409, reason)
        audit.target(body.node)
        try:
            await node.ask_for_handover(body.node)
        except StoreError as error:
            raise ApiError(503, str(error)) from None
        return JSONResponse({"asked": True, "primary": primary.node}, 202)


def drain_node(node: Node, *, force: bool) -> str:
    """Drain a node of a cluster; returns what to do then.  `force`: even if no other node can take over.

    Raises ApiError: none can.
    """
    if node.role in (STANDBY, DRAINED):
        node.drain()
        return "stop or restart the process: this node takes over no more, and it had no clients"
    if not (force or node.is_drained):
        reason = node.unavailable or ("" if node.has_standby else "there is no standby that could take over")
        if reason:
            raise ApiError(409, f"{reason}: with force=true, clients wait until another node, or this one, is started")
    node.drain()
    return "another node takes over: stop or restart the process when GET /api/v1/cluster says that this one is drained"


def state_of(node: Node | None) -> dict[str, Any]:
    """The answer, for a node or for a gateway that is none."""
    if node is None:
        empty = dict.fromkeys(("cluster", "node", "role", "primary", "epoch", "failure", "log"))
        return {**empty, "known": None, "nodes": [], "changes": []}
    from gateway.cluster.rows import of_log, of_nodes

    primary, bounds, snapshot = node.primary, node.bounds, node.snapshots.newest
    return {
        "cluster": node.options.cluster,
        "node": node.options.name,
        "role": str(node.role),
        "primary": primary.node or None if primary is not None else None,
        "epoch": primary.epoch if primary is not None else None,
        "failure": node.failure or None,
        "known": node.known if node.unavailable else None,
        "nodes": of_nodes(node.nodes, bounds),
        "log": {**of_log(bounds, snapshot, node.room, node.lease_leader), "snapshot_due": node.snapshots.due},
        "changes": [
            {"time": each.time, "node": each.node, "epoch": each.epoch, "reason": each.reason, "took": each.took}
            for each in reversed(node.changes)
        ],
    }


def figures_of(node: Node) -> dict[str, Any]:
    """The arguments of `of_cluster`."""
    found = Counter([each.role for each in node.nodes])
    bounds, room = node.bounds, node.room
    return {
        "role": str(node.role),
        "epoch": 0 if node.primary is None else node.primary.epoch,
        "lag": node.lag,
        "nodes": {role: found[role] for role in ROLES},
        "log_messages": max(0, bounds.last - bounds.first + 1),
        "log_bytes": bounds.nbytes,
        "room_used": 0 if room is None else room.used,
        "room_limit": 0 if room is None else room.limit,
        "snapshot_due": node.snapshots.due,
        "changes": node.changed,
        "is_available": not node.unavailable,
        "lease_age": lease_age(node),
        "took": {**dict.fromkeys(STAGES, 0.0), **({} if node.took is None else node.took.seconds)},
    }


def lease_age(node: Node) -> float:
    """Seconds since this node renewed the lease; 0: it does not have it."""
    return 0.0 if node.term is None else node.term.lease.age


def standby_of(gateway: Gateway) -> dict[str, str | None] | None:
    """The node and the primary, for the console of a standby; None: this gateway is none."""
    node = gateway.node
    if node is None or not gateway.is_standby:
        return None
    primary = node.primary
    if primary is None or not primary.node:
        return {"node": node.options.name, "primary": None, "address": None, "url": None}
    url = next((each.url for each in node.nodes if each.node == primary.node), "")
    return {"node": node.options.name, "primary": primary.node, "address": primary.address, "url": url or None}
