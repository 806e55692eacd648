"""Cluster: each NATS server by itself, then the log, the nodes and the clocks, as the servers tell of them.

NATS tells `sync_interval` at its monitoring port alone.  The doctor asks at the usual one, and says so where it gets no
answer.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from gateway.cluster.directory import Directory, NodeState, Primary
from gateway.cluster.log import LogUnavailable
from gateway.cluster.nats import jetstream
from gateway.cluster.nats.connection import NatsConnection, NatsOptions, ServerAddress
from gateway.cluster.nats.faults import NatsUnavailable
from gateway.cluster.nats.jetstream import JetStream, JetStreamError
from gateway.cluster.nats.monitoring import MONITORING, monitored
from gateway.cluster.replica import applied_of
from gateway.cluster.servers import LOST_REMEDY, lost
from gateway.cluster.stream_log import stream_of
from gateway.config.errors import StartError
from gateway.config.settings import Settings
from gateway.runtime.cluster import nats_options

from .model import Check, CheckOptions, CheckReport, Problem, printable

OLDEST = (2, 11)
"""The first release of NATS with a time to live for each message, which the lease needs."""

LAG = 5_000
"""Messages of the log that a standby may lag behind."""

_CLOCK_ERROR = 1.0  # seconds
_CLOCK_REMEDY = "Switch on the time service of the machine with the wrong clock (`timedatectl set-ntp true`)"
_NOTICED = {"ping_interval": '"1s"', "ping_max": "2", "write_deadline": '"1s"'}
_SOON, _PINGS = 5.0, 3  # seconds, and pings without an answer
_SYNC = "`jetstream { sync_interval: always }` in nats.conf"


def check_cluster(settings: Settings, options: CheckOptions, report: CheckReport, monitoring: int = MONITORING) -> None:
    """All checks of a cluster; blocks.  `monitoring`: the port of the servers' monitoring."""
    try:
        found = nats_options(settings, "doctor")
    except StartError as error:
        report.check("NATS").fail(str(error), "Correct the setting")
        return
    usable = [each for each in found.servers if _check_server(replace(found, servers=[each]), options, report)]
    for each in usable:
        _check_monitored(each, monitoring, options.patience, report)
    if not usable:
        report.check("cluster").fail("no NATS server can be used", "Start a majority of them")
        return
    connection = NatsConnection(replace(found, servers=usable))
    try:
        jets = JetStream(connection)
        with report.check("cluster log"):
            _check_log(jets, settings, options, report)
            _check_nodes(Directory(jets, settings.cluster), jets, settings, report)
    finally:
        connection.close()


def _check_server(found: NatsOptions, options: CheckOptions, report: CheckReport) -> bool:
    """Reach one server, and look at what it says of itself; False: it cannot be used."""
    (server,) = found.servers
    check = report.check(f"NATS {server}")
    connection, failure = NatsConnection(found), ""
    try:
        JetStream(connection).call("INFO", timeout=options.patience)
    except (NatsUnavailable, JetStreamError) as error:
        failure = str(error)
    if not connection.info:
        # JetStream may be what does not answer: of a subject without a receiver, the server itself says so.
        with suppress(NatsUnavailable):
            connection.request("gateway.doctor", timeout=options.patience)
    info = connection.info
    connection.close()
    if not info:
        check.fail(printable(failure), "Start it, or correct cluster_servers, the credentials or the TLS settings")
        return False
    version = str(info.get("version", ""))
    if tuple(map(int, re.findall(r"[0-9]+", version)[:2])) < OLDEST:
        check.fail(f"it is nats-server {version}", f"Install {'.'.join(map(str, OLDEST))} or newer")
        return False
    if not info.get("jetstream"):
        check.fail("JetStream is off there", "Write `jetstream { store_dir: ... }` into its nats.conf")
        return False
    if failure:
        check.fail(printable(failure), "Start a majority of the servers; the user needs JetStream and $JS.API.>")
        return False
    check.ok(f"{printable(str(info.get('server_name', '')))}, nats-server {version} with JetStream")
    return True


def _check_monitored(server: ServerAddress, port: int, patience: float, report: CheckReport) -> None:
    """What a server tells at its monitoring port alone."""
    check = report.check(f"NATS {server} sync_interval")
    values = monitored(server.host, port, min(patience, 2.0))
    if values is None:
        detail = f"not seen, and {', '.join(_NOTICED)} neither: port {port} does not tell them"
        check.warn(detail, f"See to {_SYNC}: without it a power cut of two servers may lose receipted messages")
    elif values.get("jetstream", {}).get("config", {}).get("sync_always"):
        check.ok("always: a commit is on the disks of a majority")
    else:
        check.fail("it is not always, so a power cut of two servers may lose receipted messages", f"Write {_SYNC}")
    if values is not None:
        _check_silence(values, report.check(f"NATS {server} silence"))


def _check_silence(values: dict[str, Any], check: Check) -> None:
    """How soon a server notices a machine that is gone without a word."""
    seconds = [values.get(name, 0) / 1e9 for name in ("ping_interval", "write_deadline")]
    pings = values.get("ping_max", 0)
    told = f"ping_interval {seconds[0]:g} s, ping_max {pings}, write_deadline {seconds[1]:g} s"
    if max(seconds) <= _SOON and pings <= _PINGS:
        check.ok(f"{told}: a machine that is gone without a word is noticed in seconds")
    else:
        detail = f"{told}, so a take-over may take 40 s where a machine is gone without a word"
        wanted = ", ".join([f"{name}: {value}" for name, value in _NOTICED.items()])
        check.warn(detail, f"Write `{wanted}` in nats.conf")


def _check_log(jets: JetStream, settings: Settings, options: CheckOptions, report: CheckReport) -> None:
    """The stream, its replicas, and the clock of its leader.  Raises Problem: it cannot be asked."""
    before = options.now()
    try:
        found = jets.call(f"STREAM.INFO.{stream_of(settings.cluster)}", timeout=options.patience)
    except JetStreamError as error:
        if error.code == jetstream.STREAM_NOT_FOUND:
            _check_lost(settings)
            raise Problem(f"the cluster {settings.cluster} has no log yet", "Start its first node") from None
        raise Problem(str(error), "Give the user of the NATS servers $JS.API.>") from None
    except NatsUnavailable as error:
        raise Problem(printable(str(error)), "Start a majority of the NATS servers") from None
    if not found["state"]["last_seq"]:
        _check_lost(settings)
    now = (before + options.now()) / 2
    check, replicas = report.check("cluster log"), int(found["config"]["num_replicas"])
    late = [each["name"] for each in found.get("cluster", {}).get("replicas") or () if not each.get("current")]
    state, told = found["state"], f"{replicas} replica{'s' if replicas != 1 else ''}"
    if replicas < settings.cluster_replicas:
        remedy = f"`nats stream edit {stream_of(settings.cluster)} --replicas {settings.cluster_replicas}`"
        check.fail(f"it has {told}, and cluster_replicas is {settings.cluster_replicas}", remedy)
    elif late:
        check.warn(f"{', '.join(map(printable, late))} lag behind its leader, or are away", "Start these NATS servers")
    else:
        check.ok(f"{told}, {state['messages']:,} messages, {state['bytes']:,} bytes")
    _check_clock(str(found.get("ts", "")), now, report)


def _check_lost(settings: Settings) -> None:
    """Raises Problem: this node's copy has messages of a log that is not there."""
    applied = applied_of(settings.store_file) if settings.store_file is not None else 0
    if applied:
        raise Problem(lost(settings.cluster, applied), LOST_REMEDY[0].upper() + LOST_REMEDY[1:])


def _check_clock(told: str, now: float, report: CheckReport) -> None:
    check = report.check("cluster clock")
    try:
        ahead = datetime.fromisoformat(told).timestamp() - now
    except ValueError:
        check.ok("the NATS servers do not tell their time")
        return
    if abs(ahead) > _CLOCK_ERROR:
        detail = f"the clock of the NATS servers is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this one"
        check.warn(detail, _CLOCK_REMEDY)
    else:
        check.ok("the clock of the NATS servers agrees with this machine's")


def _check_nodes(directory: Directory, jets: JetStream, settings: Settings, report: CheckReport) -> None:
    """Primary, standbys and their lag.  Raises Problem: the directory cannot be asked."""
    try:
        _, primary = directory.primary()
        nodes = directory.nodes()
        last = int(jets.call(f"STREAM.INFO.{stream_of(settings.cluster)}")["state"]["last_seq"])
    except (LogUnavailable, NatsUnavailable, JetStreamError) as error:
        raise Problem(printable(str(error)), "Start the nodes of the cluster, and a majority of its servers") from None
    _tell_primary(primary, nodes, report)
    standbys = [each for each in nodes if each.role == "standby"]
    check = report.check("cluster standby")
    if not standbys:
        check.warn("no node could take over", "Start another node of the cluster")
        return
    check.ok(", ".join([printable(each.node) for each in standbys]))
    for each in standbys:
        check, lag = report.check(f"cluster lag {printable(each.node)}"), max(0, last - each.sequence)
        if each.failure:
            check.fail(f"it does not follow the log: {printable(each.failure)}", "See the log of that node")
        elif lag > LAG:
            check.warn(f"it has not applied {lag:,} messages of the log", "Look for a slow disk or processor there")
        else:
            check.ok(f"{lag:,} messages")


def _tell_primary(primary: Primary | None, nodes: list[NodeState], report: CheckReport) -> None:
    check = report.check("cluster primary")
    if primary is not None and primary.node:
        check.ok(f"{printable(primary.node)} at {printable(primary.address)}, epoch {primary.epoch}")
    elif nodes:
        check.fail("no node is primary", "`gateway cluster status` shows what each node says, and what to start")
    else:
        check.fail("no node runs", "Start the nodes of the cluster")
