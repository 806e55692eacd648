"""`gateway cluster status`: facts of servers, nodes and log, the tables, and one sentence on what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gateway.cli.top import age
from gateway.cluster import preflight
from gateway.cluster.directory import NodeState, Primary, present
from gateway.cluster.log import Bounds, LogUnavailable
from gateway.cluster.nats.connection import NatsOptions
from gateway.cluster.replica import applied_of
from gateway.cluster.room import SHORT, Room, tightest
from gateway.cluster.rows import of_log, of_nodes
from gateway.cluster.servers import LOST_REMEDY, Servers, lost
from gateway.cluster.snapshots import Snapshot
from gateway.cluster.survey import NodeAnswer, ServerAnswer, ask_nodes, ask_servers, nodes_here, nodes_of
from gateway.config.settings import Settings
from gateway.runtime.cluster import nats_options, url_of

AWAY = "away"
"""Role of a node that was there within a day."""

_WORDS = ("no", "one", "two", "three", "four", "five")


def facts_of(settings: Settings) -> dict[str, Any]:
    """Ask servers and nodes.  Raises StartError: the settings of the servers cannot be used."""
    options, cluster = replace(nats_options(settings, "status"), demand=preflight.unfit), settings.cluster
    servers = ask_servers(options, cluster)
    usable = replace(options, servers=[each.address for each in servers if not each.failure])
    log_leader = next((each.log_leader for each in servers if each.log_leader), "")
    lease_leader = next((each.lease_leader for each in servers if each.lease_leader), "")
    bounds, primary, snapshot, room = _led(usable, cluster, log_leader, lease_leader)
    nodes, known = (nodes_of(usable, cluster) if usable.servers else None) or _nodes_here(settings)
    nodes = present(nodes, primary)
    answers = ask_nodes(nodes, known)
    is_led = primary is not None and bool(primary.node)
    facts: dict[str, Any] = {
        "cluster": cluster,
        "primary": primary.node if primary is not None and is_led else None,
        "epoch": None if primary is None else primary.epoch,
        "since": primary.since if primary is not None and is_led else None,
        "reason": primary.reason if primary is not None and is_led else None,
        "log": None if bounds is None else of_log(bounds, snapshot, room, lease_leader),
        "servers": [_of_server(each, log_leader, lease_leader) for each in servers],
        "nodes": [_of_node(each, bounds) for each in answers],
    }
    has_log = next((each.has_log for each in servers if each.has_log is not None), None)
    applied = applied_of(settings.store_file) if settings.store_file is not None else 0
    if applied and (has_log is False or (bounds is not None and not bounds.last)):
        facts["problem"] = f"{lost(cluster, applied)}: {LOST_REMEDY}"
    else:
        facts["problem"] = _problem(facts, has_log) or None
    return facts


def _led(
    options: NatsOptions, cluster: str, log_leader: str, lease_leader: str
) -> tuple[Bounds | None, Primary | None, Snapshot | None, Room | None]:
    """What the leaders of log and lease tell; None: there is no leader, or no limit of storage that is known."""
    bounds, primary, snapshot, rooms = None, None, None, list[Room]()
    with Servers(lambda purpose: options, cluster) as servers:
        if log_leader:
            with suppress(LogUnavailable):
                bounds = servers.log().bounds()
                snapshot = next(iter(servers.snapshots().all()), None)
        if lease_leader:
            with suppress(LogUnavailable):
                _, primary = servers.directory().primary()
        if options.servers:
            rooms = servers.rooms()
    if bounds is not None and bounds.limit:
        rooms.append(Room("the stream of the log", bounds.nbytes, bounds.limit))
    return bounds, primary, snapshot, tightest(rooms)


def _nodes_here(settings: Settings) -> tuple[list[NodeState], list[NodeState]]:
    """The nodes that the gateway here knows; if it does not run, that one alone."""
    url = url_of(settings)
    found = nodes_here(url, settings.admin_token) if url else []
    return [], found or [NodeState(settings.node_name, "", AWAY, "", 0, 0, url)]


def _of_server(each: ServerAnswer, log_leader: str, lease_leader: str) -> dict[str, Any]:
    leads = [what for what, name in (("log", log_leader), ("lease", lease_leader)) if name and name == each.name]
    return {
        "address": str(each.address),
        "name": each.name or None,
        "answers": each.is_there,
        "failure": each.failure or None,
        "leads": leads,
    }


def _of_node(each: NodeAnswer, bounds: Bounds | None) -> dict[str, Any]:
    state = each.state if each.is_present else replace(each.state, role=AWAY, load=0)
    (row,) = of_nodes([state], bounds or Bounds(1, 0, 0))
    if bounds is None or not each.is_present:
        row["lag"] = None
    return {**row, "ready": each.is_ready, "ready_error": each.said or None}


# what is wrong


def _problem(facts: dict[str, Any], has_log: bool | None) -> str:
    """One sentence: what is wrong, and what to start; empty: nothing that is seen here."""
    servers, nodes = _of_servers(facts), _of_primary(facts) or _of_standbys(facts)
    led = {what for each in facts["servers"] for what in each["leads"]}
    if led >= _LED:
        return "; ".join(filter(None, [servers or _of_followers(facts), nodes]))
    if servers:
        silent = [each["node"] for each in facts["nodes"] if each["ready"] is None and each["url"]]
        return f"{servers}; and the gateway on {_list(silent)}" if silent else servers
    if has_log is False:
        return "the cluster has no log: start a node, which makes it or says why not"
    missing = " and the ".join(sorted(_LED - led))
    return (
        f"the NATS servers answer, and the {missing} has no leader: wait ten seconds; then look at the network between "
        "them"
    )


_LED = {"log", "lease"}


def _of_servers(facts: dict[str, Any]) -> str:
    servers = facts["servers"]
    silent = [each["address"] for each in servers if not each["answers"]]
    if silent:
        remedy = f"start nats-server on {_list(silent)}"
        if len(silent) == len(servers):
            return f"no NATS server answers: {remedy}, or look at the network of this machine"
        does = "does" if len(silent) == 1 else "do"
        return f"{_count(silent)} of {_count(servers)} NATS servers {does} not answer: {remedy}"
    useless = [each for each in servers if each["failure"]]
    if useless:
        return "; ".join([f"the NATS server {each['address']} {each['failure']}" for each in useless])
    return ""


def _of_followers(facts: dict[str, Any]) -> str:
    late = [each["name"] for each in facts["log"]["servers"] if not each["current"]] if facts["log"] else []
    return f"{_list(late)} lags behind the leader of the log, or is away: start it" if late else ""


def _of_primary(facts: dict[str, Any]) -> str:
    nodes = facts["nodes"]
    silent = [each["node"] for each in nodes if each["ready"] is None]
    if facts["primary"] is None:
        if not nodes:
            return "no node runs: start the nodes of the cluster"
        if all(each["role"] == AWAY for each in nodes):
            return f"no node runs: start the gateway on {_list([each['node'] for each in nodes])}"
        found = [f"{each['node']} {why}" for each in nodes if (why := _refusal(each))]
        why = "; ".join(found) or (f"start the gateway on {_list(silent)}" if silent else "wait some seconds")
        return f"no node is primary: {why}"
    (primary,) = [each for each in nodes if each["node"] == facts["primary"]] or [None]
    if primary is not None and primary["ready"] is False:
        return f"{primary['node']} is primary and not ready: {primary['ready_error']}"
    return ""


def _of_standbys(facts: dict[str, Any]) -> str:
    nodes, primary = facts["nodes"], facts["primary"]
    followers = [each for each in nodes if each["failure"]]
    if "standby" not in [each["role"] for each in nodes]:
        away = [each["node"] for each in nodes if each["role"] == AWAY]
        why = [f"{each['node']} does not follow: {each['failure']}" for each in followers]
        remedy = "; ".join(why) or f"start {f'the gateway on {_list(away)}' if away else 'another one'}"
        return f"no node could take over from {primary}: {remedy}"
    if followers:
        return f"{followers[0]['node']} does not follow: {followers[0]['failure']}"
    room = facts["log"]["room"] if facts["log"] else None
    if room is not None and Room(**room).part >= SHORT:
        return f"durable messages are refused, for {Room(**room)}: see docs/cluster.md, Disk of the servers"
    return ""


def _refusal(row: dict[str, Any]) -> str:
    """Why a node that is there does not take over."""
    if row["role"] == "drained":
        return "is drained: restart it"
    return f"does not follow: {row['failure']}" if row["failure"] else ""


def _count(things: Sequence[object]) -> str:
    return _WORDS[len(things)] if len(things) < len(_WORDS) else str(len(things))


def _list(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


# how it looks


def lines_of(facts: dict[str, Any], now: float) -> Iterator[str]:
    """The lines for a person."""
    log, nodes = facts["log"], facts["nodes"]
    versions = {each["version"] for each in nodes if each["role"] != AWAY}
    yield f"cluster   {facts['cluster']}" + (f", version {versions.pop()}" if len(versions) == 1 else "")
    yield f"primary   {facts['primary'] or 'none'}" + (f", epoch {facts['epoch']}" if facts["epoch"] else "")
    if facts["since"]:
        yield f"since     {_when(facts['since'], now)}: {facts['reason']}"
    yield from _of_log(log) if log is not None else ["log       not known"]
    if newest := max([each["applied"] for each in nodes], default=0):
        yield f"last      record of {_when(newest, now)}"
    if log is not None:
        yield f"snapshot  {_of_snapshot(log['snapshot'], now)}"
    yield ""
    yield from _table(("server", "address", "answers", "leads"), [_server(each) for each in facts["servers"]])
    yield ""
    if nodes:
        differ = len({each["version"] for each in nodes}) > 1
        names = ("node", "role", "ready", *_NUMBERS, *(["version"] * differ), "address")
        yield from _table(names, [_node(each, differ=differ) for each in nodes])
    else:
        yield "no node is there"
    yield from _said(facts)
    if facts["problem"]:
        yield from ["", facts["problem"]]


_NUMBERS = ("lag", "clients")


def _of_log(log: dict[str, Any]) -> Iterator[str]:
    messages = f"messages {log['first']:,} to {log['last']:,}" if log["last"] >= log["first"] else "no messages"
    yield f"log       {messages}, {log['bytes']:,} bytes"
    if log["room"] is not None:
        yield f"room      {Room(**log['room'])}"


def _of_snapshot(snapshot: dict[str, Any] | None, now: float) -> str:
    if snapshot is None:
        return "none yet"
    return f"of message {snapshot['sequence']:,}, {snapshot['bytes']:,} bytes, {_when(snapshot['made'], now)}"


def _when(moment: float, now: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S} UTC, {age(max(0.0, now - moment)).split()[0]} ago"


def _server(row: dict[str, Any]) -> tuple[str, ...]:
    return row["name"] or "-", row["address"], "yes" if row["answers"] else "no", ", ".join(row["leads"])


def _node(row: dict[str, Any], *, differ: bool) -> tuple[str, ...]:
    ready = {True: "yes", False: "no", None: "-"}[row["ready"]]
    lag = "-" if row["lag"] is None else f"{row['lag']:,}"
    version = [row["version"]] * differ
    return row["node"], row["role"], ready, lag, f"{row['connections']:,}", *version, row["address"]


def _said(facts: dict[str, Any]) -> Iterator[str]:
    """What servers and nodes say that is no good news, a line each."""
    found = [f"{each['address']} {each['failure']}" for each in facts["servers"] if each["failure"]]
    for each in facts["nodes"]:
        said = each["ready_error"]
        if said and not (each["role"] == "standby" and said.startswith("this node is a standby: ")):
            found.append(f"{each['node']}: {said}")
    yield from ["", *found] if found else []


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as they need be."""
    table = [names, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    sides: list[Callable[[str, int], str]] = [str.rjust if name in _NUMBERS else str.ljust for name in names]
    for row in table:
        yield "  ".join([side(cell, wide) for side, cell, wide in zip(sides, row, widths, strict=True)]).rstrip()
