"""Survey: what each NATS server and each node of a cluster says when it is asked by itself, all at the same time.

It serves in an outage: no call needs a majority, each has a bound of a second or two, and what does not answer is a
result.  Nodes are those that the directory knows, which one server alone tells; without any server, those that the
gateway of this machine knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from .directory import Directory, NodeState
from .log import LogUnavailable
from .nats.connection import NatsConnection, NatsOptions, ServerAddress
from .nats.faults import NatsRefused, NatsUnavailable, NoResponders
from .nats.jetstream import STREAM_NOT_FOUND, JetStream, JetStreamError, leader_of
from .stream_log import stream_of

T = TypeVar("T")
R = TypeVar("R")

LIMIT = 1.5
"""Seconds for each answer."""

_AT_ONCE = 32
_MOST = 100_000  # bytes of an answer of a node
_DIRECT = build_opener(ProxyHandler({}))


@dataclass(frozen=True)
class ServerAnswer:
    """A NATS server.

    `name`: empty where it does not answer.  `failure`: why it is of no use; empty: it is.  `is_there`: it answers, but
    refuses.  `info`: of its connection.  `log_leader`, `lease_leader`: what leads them, as far as this one knows.
    `has_log`: False: it says that there is no log; None: it does not say.
    """

    address: ServerAddress
    name: str = ""
    failure: str = ""
    is_there: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)
    log_leader: str = ""
    lease_leader: str = ""
    has_log: bool | None = None


@dataclass(frozen=True)
class NodeAnswer:
    """A node at its `/readyz`.

    `state`: its last word.  `is_present`: it tells of itself at present.  `is_ready`: it takes clients; None: it does
    not answer.  `said`: why it is not ready, or does not answer.
    """

    state: NodeState
    is_present: bool
    is_ready: bool | None
    said: str = ""


def ask_servers(options: NatsOptions, cluster: str) -> list[ServerAnswer]:
    """Ask all servers of the settings, then others that these tell of, where they answer."""

    def ask(addresses: Iterable[ServerAddress]) -> list[ServerAnswer]:
        return _at_once(lambda each: _ask_server(replace(options, servers=[each]), cluster), addresses)

    found = ask(options.servers)
    known = {str(each.address) for each in found}
    told = {url for each in found for url in each.info.get("connect_urls") or ()} - known
    seen = {each.info.get("server_id") for each in found}
    for other in ask(filter(None, map(_address, sorted(told)))):
        if other.name and other.info.get("server_id") not in seen:  # else it is one of the settings, by another name
            found.append(other)
            seen.add(other.info.get("server_id"))
    return found


def _ask_server(options: NatsOptions, cluster: str) -> ServerAnswer:
    (server,) = options.servers
    with closing(NatsConnection(options)) as connection:
        try:
            with suppress(NoResponders):
                connection.request("gateway.status", timeout=LIMIT)
        except NatsUnavailable as error:
            failure = str(error).removeprefix(f"the NATS server {server} ")
            return ServerAnswer(server, failure=failure, is_there=isinstance(error, NatsRefused))
        info = dict(connection.info)
        found = ServerAnswer(server, str(info.get("server_name", "")), is_there=True, info=info)
        if not info.get("jetstream"):
            return replace(found, failure="has JetStream switched off: it is not configured, or its storage is full")
        jets, has_log = JetStream(connection), None
        leaders = {}
        for stream in (stream_of(cluster), f"KV_GW_{cluster}"):
            try:
                leaders[stream] = leader_of(jets.call(f"STREAM.INFO.{stream}", timeout=LIMIT))
            except JetStreamError as error:
                if error.code == STREAM_NOT_FOUND and stream == stream_of(cluster):
                    has_log = False
            except NatsUnavailable:
                continue
        log_leader, lease_leader = (leaders.get(each, "") for each in (stream_of(cluster), f"KV_GW_{cluster}"))
        has_log = True if stream_of(cluster) in leaders else has_log
        return replace(found, log_leader=log_leader, lease_leader=lease_leader, has_log=has_log)


def nodes_of(options: NatsOptions, cluster: str) -> tuple[list[NodeState], list[NodeState]] | None:
    """The nodes that are there, and those that were within a day; None: no server tells.

    `options`: with the servers that answer.
    """

    def ask(server: ServerAddress) -> tuple[list[NodeState], list[NodeState]] | None:
        with closing(NatsConnection(replace(options, servers=[server]))) as connection, suppress(LogUnavailable):
            directory = Directory(JetStream(connection), cluster)
            return directory.nodes(), directory.known()
        return None

    return max(filter(None, _at_once(ask, options.servers)), key=lambda each: len(each[0] + each[1]), default=None)


def nodes_here(url: str, token: str) -> list[NodeState]:
    """The nodes as the gateway of this machine knows them; empty: it does not answer, or refuses the token."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    status, values = _get(f"{url}/api/v1/cluster", headers)
    rows = values.get("nodes") if status == 200 else None
    names = {"node", "address", "role", "version", "sequence", "url"}
    return [
        NodeState(**{**{key: each[key] or "" for key in names}, "load": each["connections"]}) for each in rows or ()
    ]


def ask_nodes(present: Sequence[NodeState], known: Sequence[NodeState]) -> list[NodeAnswer]:
    """Ask all nodes whether they are ready."""
    there = {each.node for each in present}
    states = [*present, *[each for each in known if each.node not in there]]
    return _at_once(lambda each: _ask_node(each, is_present=each.node in there), states)


def _ask_node(state: NodeState, *, is_present: bool) -> NodeAnswer:
    if not state.url:
        return NodeAnswer(state, is_present, None, "its pages have no address: set cluster_url there")
    status, values = _get(f"{state.url}/readyz", {})
    if not status:
        return NodeAnswer(state, is_present, None, f"{state.url} {values['error']}")
    if values.get("node", state.node) != state.node:
        said = f"at {state.url} the node {values['node']} answers: set cluster_url on both"
        return NodeAnswer(state, is_present, None, said)
    return NodeAnswer(state, is_present, status == 200, str(values.get("error", "")))


def _get(url: str, headers: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
    """Status and JSON object of a page; 0 and `error`: there was no answer that can be read."""
    try:
        with _DIRECT.open(Request(url, headers=dict(headers)), timeout=LIMIT) as answer:
            status, body = int(answer.status), answer.read(_MOST)
    except HTTPError as error:
        with error:
            status, body = error.code, error.read(_MOST)
    except OSError as error:
        reason = getattr(error, "reason", error)
        return 0, {"error": f"does not answer: {getattr(reason, 'strerror', None) or reason}"}
    try:
        values = json.loads(body)
    except ValueError:
        values = None
    return (status, values) if isinstance(values, dict) else (0, {"error": "does not answer as a gateway does"})


def _at_once(ask: Callable[[T], R], things: Iterable[T]) -> list[R]:
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(ask, things))


def _address(text: str) -> ServerAddress | None:
    host, _, port = text.rpartition(":")
    return ServerAddress(host.strip("[]"), int(port)) if host and port.isdigit() else None
