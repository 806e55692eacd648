"""Edges: the processes that have the sockets of clients, as their primary sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field
from starlette.responses import JSONResponse, Response

from gateway.admin.endpoint import Api, ApiModel, Endpoint, Seconds
from gateway.runtime.gateway import Gateway

if TYPE_CHECKING:
    from gateway.runtime.edges import Edge


class EdgeRow(ApiModel):
    """An edge."""

    edge: str = Field(description="its name: a number, or on another machine the name in its certificate")
    address: str = Field(description="of the other machine that it is on; empty: it is on this one")
    pid: int | None = Field(description="null: it does not run, or is on another machine")
    ready: bool = Field(description="it serves clients")
    since: Seconds = Field(description="when it was started last; of another machine, when its link came")
    starts: int = Field(description="of another machine: links")
    ended: str = Field(description="why it ended the last time; empty: it has not")
    ended_at: Seconds | None = Field(description="when it ended the last time; null: it has not")
    sessions: int
    connections: int = Field(description="with or without a login")
    cpu_seconds: float = Field(description="since it was started")
    memory: int = Field(description="bytes that it takes")
    link_received: int = Field(description="bytes of its link that came from it")
    link_sent: int = Field(description="bytes of its link that went there")


class EdgesAnswer(ApiModel):
    """The edges; empty: this process has the sockets."""

    edges: list[EdgeRow]


class EdgesApi(Api):
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @Endpoint("GET", "/api/v1/edges", "gateway", EdgesAnswer)
    async def edges(self) -> Response:
        """The processes that have the sockets of clients: here by the setting `edges`, and on other machines.

        In a cluster each node has its own, and the primary those of all nodes, too, as on other machines.
        """
        return JSONResponse({"edges": rows_of(self._gateway)})


def edges_of(gateway: Gateway) -> list[Edge]:
    """All edges: those that this gateway or its node has started, and those that are linked from other machines."""
    node = None if gateway.node is None else gateway.node.edges
    return [edge for each in (gateway.edges, node, gateway.remote_edges) if each is not None for edge in each.all]


def rows_of(gateway: Gateway) -> list[dict[str, Any]]:
    """The edges of a gateway, which may have none."""
    return [_row(each) for each in edges_of(gateway)]


def _row(edge: Edge) -> dict[str, Any]:
    link, load = edge.link, edge.load
    received, sent = (0, 0) if link is None else link.nbytes
    return {
        "edge": edge.name,
        "address": edge.address,
        "pid": None if edge.process is None else edge.process.pid,
        "ready": edge.is_ready,
        "since": round(edge.since, 3),
        "starts": edge.starts,
        "ended": edge.ended,
        "ended_at": round(edge.ended_at, 3) if edge.ended else None,
        "sessions": 0 if link is None else link.sessions,
        "connections": load.connections,
        "cpu_seconds": round(load.cpu, 3),
        "memory": load.memory,
        "link_received": received,
        "link_sent": sent,
    }
