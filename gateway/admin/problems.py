"""Problems: what is wrong at present, since when, and what helps; for the console, `gateway top` and programs.

One table (`KINDS`) has the words.  Each kind stands for an alert (`deploy/prometheus/rules.yml`) and its section of
docs/alerts.md, and has its severity; so a gateway without Prometheus tells the same.  Thresholds are those of the alert
or lower, and times shorter: a person that looks at the console wants to know at once.

Known weakness: of many destinations with the same problem, some are named.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote_plus

import trio
from pydantic import Field

from gateway.admin.cluster import DRAINED, PRIMARY, STANDBY, lease_age
from gateway.admin.edges import edges_of
from gateway.admin.endpoint import ApiModel, Seconds
from gateway.broker.admin.rows import title_of
from gateway.config.toml_file import config_file
from gateway.observe.destination_watch import DestinationWatch
from gateway.observe.sampler import Sampler
from gateway.runtime.gateway import Gateway

MOST = 50  # problems that are told

Severity = Literal["critical", "warning", "info"]
_ORDER = {"critical": 0, "warning": 1, "info": 2}
_DAY = 86_400
_LONGEST = 80  # characters of a name in a sentence

_DESTINATION = "#/destination?name={}"
_LARGEST = "#/destinations?sort=-octets"
_SESSIONS, _DESTINATIONS, _SETTINGS, _OVERVIEW = "#/sessions", "#/destinations", "#/settings", "#/overview"
_CLUSTER = "#/cluster"

# As in the alerts.
_LAGS = 5_000  # messages of the log
_LEASE = 2.0  # seconds
_FULL = 0.75  # part of the room for the log
_EDGE_LASTS = 600.0  # seconds that an edge must run to count as well again
_GROWN = 3  # times what should make a snapshot due


class ProblemRow(ApiModel):
    """Something that is wrong at present."""

    id: str = Field(description="its kind")
    target: str = Field(description="the destination, the node, or the edge; empty: the whole gateway")
    severity: Severity
    title: str
    what: str = Field(description="a sentence")
    since: Seconds
    link: str = Field(description="where it is in the console")
    remedy: str = Field(description="what helps")
    page: str = Field(description="in the documentation")


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A kind of problem.

    Attributes:
        remedy: `{file}` is the settings file in force.
        alert: the name of the alert behind `StompGateway`; or a page of the documentation.
        hold: seconds that it must last before it is told.
    """

    severity: Severity
    title: str
    remedy: str
    alert: str
    link: str = _OVERVIEW
    hold: float = 0.0

    @property
    def page(self) -> str:
        return self.alert if "/" in self.alert else f"docs/alerts.md#stompgateway{self.alert.lower()}"


KINDS: dict[str, ProblemKind] = {
    "not-ready": ProblemKind(
        "critical", "No new clients", "Restart the gateway when the log says drained.", "NotReady", _SESSIONS
    ),
    "memory-full": ProblemKind(
        "critical", "Memory is full", "Start consumers, or purge queues.", "MemoryFull", _LARGEST
    ),
    "memory-high": ProblemKind(
        "warning", "Memory is short", "Start consumers, or raise memory_mark.", "MemoryHigh", _SESSIONS
    ),
    "messages-fill-memory": ProblemKind(
        "warning",
        "Messages fill memory",
        "Start consumers, or set max_bytes in a policy.",
        "MessagesFillMemory",
        _LARGEST,
    ),
    "publishers-held": ProblemKind(
        "warning",
        "Publishers wait",
        "Start consumers for the full queues, or end the sessions that do not read.",
        "PublishersHeld",
        f"{_DESTINATIONS}?state=full",
        hold=5.0,
    ),
    "consumers-stalled": ProblemKind(
        "warning",
        "Consumers do not settle messages",
        "Restart the hung workers; a worker that needs longer sends ACK with in-progress:true.",
        "ConsumersStalled",
        "#/subscriptions?sort=-stalled",
        hold=5.0,
    ),
    "memory-only": ProblemKind(
        "info",
        "Nothing is stored",
        'Write store = "sqlite:store.db" into {file} and restart, if messages must survive a crash.',
        "docs/durability.md",
        _SETTINGS,
    ),
    "store-failing": ProblemKind(
        "critical", "The store fails", "Make room on its disk, or correct its access rights.", "StoreFailing"
    ),
    "store-damaged": ProblemKind(
        "critical", "The store is damaged", "Copy the file first, then check the disk.", "StoreDamaged"
    ),
    "store-slow": ProblemKind(
        "warning", "The store is slow", "Look for other programs that write to its disk.", "StoreSlow"
    ),
    "disk-short": ProblemKind("warning", "A disk is nearly full", "Make room, or archive the journal.", "DiskShort"),
    "journal-failing": ProblemKind(
        "warning", "Nothing is recorded", "Make room on its disk, or correct its access rights.", "JournalFailing"
    ),
    "journal-dropping": ProblemKind(
        "warning", "The journal has gaps", "Use a faster disk, or journal_when_full = block.", "JournalDropping"
    ),
    "spans-failing": ProblemKind("info", "Traces are lost", "Start the collector of traces.", "SpansDropped"),
    "losing": ProblemKind(
        "warning",
        "Messages are lost",
        "Start consumers, or change max_messages, when_full, slow_consumer or time_to_live in the policy.",
        "MessagesLost",
        _DESTINATION,
    ),
    "dead-lettering": ProblemKind(
        "warning",
        "Messages become dead letters",
        "Read the reasons in its dead-letter queue, and remove the cause.",
        "DeadLetters",
        _DESTINATION,
    ),
    "dead-letters": ProblemKind(
        "warning",
        "Dead letters wait",
        "Read the reasons, remove the cause, and requeue them.",
        "DeadLetters",
        _DESTINATION,
    ),
    "no-consumer": ProblemKind(
        "info", "No consumer", "Start one, or correct the name that is sent to.", "NoConsumer", _DESTINATION, hold=300.0
    ),
    "standing-still": ProblemKind(
        "warning",
        "Consumers stand still",
        "Look whether they hang, do not acknowledge, or have a selector that does not match.",
        "OldMessages",
        _DESTINATION,
        hold=60.0,
    ),
    "slow-consumers": ProblemKind(
        "warning",
        "Slow clients are closed",
        "Let them read faster, or set slow_consumer in a policy.",
        "SlowConsumers",
        _SESSIONS,
    ),
    "handlers-fail": ProblemKind(
        "warning", "Functions fail", "Read the tracebacks in the log.", "HandlersFail", _DESTINATIONS
    ),
    "logins-fail": ProblemKind(
        "warning", "Logins are refused", "Look in the log for the address, and the reason.", "LoginsFail", _SESSIONS
    ),
    "access-refused": ProblemKind(
        "warning", "Rules refuse much", "Add the rule that is missing; the log names it.", "AccessRefused", _SETTINGS
    ),
    "heartbeats-missed": ProblemKind(
        "warning",
        "Clients fall silent",
        "Check the network, and raise heartbeat_margin.",
        "HeartbeatTimeouts",
        _SESSIONS,
    ),
    "connections-refused": ProblemKind(
        "warning",
        "Connections are refused",
        "Raise the limit that the overview names, or end clients.",
        "ConnectionsRefused",
        _SESSIONS,
    ),
    "lag": ProblemKind(
        "warning", "Everything is slow", "Look for very large messages, and for other programs.", "TurnsSlow"
    ),
    "processor-full": ProblemKind(
        "warning", "The processor is full", "Send fewer and larger messages.", "ProcessorFull", hold=30.0
    ),
    "edge-away": ProblemKind(
        "critical",
        "An edge does not run",
        "Read in the log why it cannot start; of another machine, also look at its network.",
        "EdgeDown",
        hold=5.0,
    ),
    "edge-restarted": ProblemKind(
        "warning", "An edge has ended", "Read in the log why, and look for the system's OOM killer.", "EdgeRestarts"
    ),
    "certificate-ends": ProblemKind(
        "warning", "The certificate ends", "Renew it, and reload the gateway.", "CertificateEnds", _SETTINGS
    ),
    "cluster-unavailable": ProblemKind(
        "critical",
        "The cluster's log is away",
        "Start the NATS servers: a majority must run.",
        "ClusterUnavailable",
        _CLUSTER,
    ),
    "no-primary": ProblemKind(
        "critical",
        "The cluster has no primary",
        "Read in the logs of the standbys why none takes over.",
        "ClusterNoPrimary",
        _CLUSTER,
        hold=10.0,
    ),
    "no-standby": ProblemKind(
        "warning", "No standby", "Start another node of the cluster.", "ClusterNoStandby", _CLUSTER, hold=10.0
    ),
    "standby-lags": ProblemKind(
        "warning",
        "A standby lags",
        "See its log, and look for a slow disk or other programs on its machine.",
        "ClusterStandbyLags",
        _CLUSTER,
        hold=10.0,
    ),
    "lease-not-renewed": ProblemKind(
        "warning",
        "The lease is not renewed",
        "Look at the NATS servers and the network to them.",
        "ClusterLeaseNotRenewed",
        _CLUSTER,
    ),
    "log-short": ProblemKind(
        "critical",
        "The cluster's log is short of room",
        "Raise max_file of the NATS servers and restart them one by one, or their account's or stream's limit.",
        "ClusterLogShort",
        _CLUSTER,
    ),
    "log-grows": ProblemKind(
        "warning",
        "The cluster's log grows",
        "Start a standby: it makes snapshots. Its log says why it makes none.",
        "ClusterLogGrows",
        _CLUSTER,
    ),
}

Found = Iterator[tuple[str, str, str]]
"""Kind, target, and sentence."""


class Problems:
    """What is wrong with a gateway.

    `disks`: returns the free part of each disk, by what it is for.
    """

    def __init__(
        self,
        gateway: Gateway,
        sampler: Sampler,
        watch: DestinationWatch,
        disks: Callable[[], Mapping[str, float]],
    ) -> None:
        self.present: list[dict[str, object]] = []  # of the last look, the worst first
        self._gateway = gateway
        self._sampler = sampler
        self._watch = watch
        self._disks = disks
        self._since: dict[tuple[str, str], float] = {}  # by trio's clock
        self._growth: dict[str, deque[tuple[float, float]]] = {}

    def look(self, epoch: float) -> None:
        """Look at everything, every few seconds.  `epoch`: seconds since the epoch."""
        now = trio.current_time()
        found = {(kind, target): what for kind, target, what in self._look()}
        self._since = {key: self._since.get(key, now) for key in found}
        present = [
            _row(kind, target, what, epoch - (now - self._since[kind, target]))
            for (kind, target), what in found.items()
            if now - self._since[kind, target] >= KINDS[kind].hold
        ]
        present.sort(key=lambda row: (_ORDER[KINDS[str(row["id"])].severity], row["since"]))
        self.present = present[:MOST]

    def _look(self) -> Found:
        yield from self._of_state()
        yield from self._of_store()
        yield from self._of_edges()
        yield from self._of_cluster()
        yield from self._of_destinations()
        yield from self._of_clients()
        yield from self._of_speed()

    def _of_state(self) -> Found:
        gateway, memory = self._gateway, self._gateway.broker.memory
        guard, limit = gateway.memory_guard, gateway.broker.quotas.memory_limit
        if gateway.draining and not gateway.is_standby:
            yield "not-ready", "", "the gateway is shutting down"
        if guard.reason:
            yield "memory-full", "", guard.reason
        elif guard.mark and guard.resident > 0.8 * guard.mark:
            yield "memory-high", "", f"the process takes {guard.resident / guard.mark:.0%} of memory_mark"
        elif memory.pressed:
            yield "memory-high", "", "publishers are held back, because memory is short"
        if memory.used > 0.7 * limit:
            yield "messages-fill-memory", "", f"messages take {memory.used / limit:.0%} of memory_limit"
        if held := len(gateway.blocked_publishers):
            yield "publishers-held", "", f"{held:,} publishers are not read, until queues or memory have room"
        ends = None if gateway.certificates is None else gateway.certificates.ends
        if ends is not None and (left := ends - gateway.broker.scheduler.epoch()) < 14 * _DAY:
            yield "certificate-ends", "", f"it ends in {left / _DAY:.0f} days" if left > 0 else "it has ended"

    def _of_store(self) -> Found:
        gateway = self._gateway
        storage, committer, journal = gateway.broker.storage, gateway.committer, gateway.journal
        if storage is None or committer is None:
            if not gateway.is_standby:  # its messages are in the cluster
                yield "memory-only", "", "all messages end with the process: the setting store is memory"
        else:
            # The cluster's own problem says it, and what to do about it.
            waits = storage.is_suspended or bool(gateway.node and gateway.node.unavailable)
            if storage.failure and not waits:
                yield "store-failing", "", f"durable messages are refused: {storage.failure}"
            if committer.damaged:
                yield "store-damaged", "", f"{committer.damaged:,} messages cannot be read"
            commits, seconds = self._grown("commits", committer.commits, 300), committer.seconds
            if (took := self._grown("commit_seconds", seconds, 300)) > 0.25 * commits > 0:
                yield "store-slow", "", f"a commit takes {took / commits:.2f} s, and a RECEIPT waits for one or two"
        for place, free in self._disks().items():
            if free < 0.1:
                yield "disk-short", "", f"the disk of the {place} has {free:.0%} left"
        if journal is not None:
            if journal.failure:
                yield "journal-failing", "", journal.failure
            if dropped := self._grown("journal", journal.rows_dropped, 600):
                yield "journal-dropping", "", f"{dropped:,.0f} rows were left out within ten minutes"
        if gateway.tracing is not None and gateway.tracing.failure:
            yield "spans-failing", "", gateway.tracing.failure

    def _of_edges(self) -> Found:
        if self._gateway.draining and not self._gateway.is_standby:
            return
        now = self._gateway.broker.scheduler.epoch()
        for edge in edges_of(self._gateway):
            called, again = f"edge {edge.name}", "was started again"
            if edge.address:
                called, again = f"{called} at {edge.address}", "has a link again"
            why = f", and the last time it ended by {edge.ended}" if edge.ended else ""
            if not edge.is_ready:
                yield "edge-away", edge.name, f"{called} serves no clients{why}"
            elif edge.ended and now - edge.ended_at < _EDGE_LASTS:
                yield "edge-restarted", edge.name, f"{called} {again}: it ended by {edge.ended}"
            if self._grown(f"cpu of {edge.name}", edge.load.cpu, 30) > 0.9 * 30:
                yield "processor-full", edge.name, f"{called} uses a whole core"

    def _of_cluster(self) -> Found:
        node = self._gateway.node
        if node is None:
            return
        age = lease_age(node)
        if node.full:
            yield "log-short", "", f"nothing can be written or acknowledged: {node.full}"
        elif node.room is not None and node.room.part >= _FULL:
            yield "log-short", "", str(node.room)
        if node.unavailable:
            what = ", so durable messages are refused" if age > _LEASE else ""
            yield "cluster-unavailable", "", f"{node.unavailable}{what}"
            return  # what it knows of the others is old
        if age > _LEASE:
            yield "lease-not-renewed", "", f"it was renewed {age:.0f} s ago, so stored messages are held back"
        roles = [each.role for each in node.nodes]
        if node.role in (STANDBY, DRAINED) and PRIMARY not in roles:
            role = "a standby" if node.role == STANDBY else "drained"
            yield "no-primary", "", f"{node.options.name} is {role}, and no node is primary"
        if node.role == DRAINED:
            yield "not-ready", "", f"{node.options.name} is drained, and takes over no more"
        if node.role == PRIMARY and STANDBY not in roles:
            yield "no-standby", "", f"no node could take over from {node.options.name}"
        for each in node.nodes:
            lag = node.bounds.last - each.sequence
            if each.failure:
                yield "standby-lags", each.node, f"{each.node} does not follow the log: {each.failure}"
            elif each.role == STANDBY and lag > _LAGS:
                yield "standby-lags", each.node, f"{each.node} has not applied {lag:,} messages of the log"
        if node.bounds.nbytes > _GROWN * node.snapshots.due:
            yield "log-grows", "", f"it has {node.bounds.nbytes >> 20:,} MiB, and snapshots should have cut it"

    def _of_destinations(self) -> Found:
        found = self._watch.troubles
        for name, tally in found.losing.items():
            losses = tally.present_losses
            told = ", ".join([f"{count:,} {way.replace('_', '-')}" for way, count in losses.items()])
            if told:  # else another look has found since that it is over
                kind = "dead-lettering" if losses.keys() == {"dead_lettered"} else "losing"
                yield kind, name, f"{told} at {self._called(name)}, the last within a minute"
        for name, count in found.dead_letters.items():
            yield "dead-letters", name, self._waiting(count, name)
        for name, count in found.unconsumed.items():
            yield "no-consumer", name, f"{self._waiting(count, name)}, which has no consumer"
        for name, count in found.still.items():
            yield "standing-still", name, f"{self._waiting(count, name)}, and its consumers take none"

    def _waiting(self, count: int, name: str) -> str:
        return f"{count:,} message{' waits' if count == 1 else 's wait'} in {self._called(name)}"

    def _called(self, name: str) -> str:
        """The name for people, in a sentence."""
        registry = self._gateway.broker.registry
        target = registry.find(name)
        called = name if target is None else title_of(registry, target)
        return called if len(called) <= _LONGEST else f"{called[: _LONGEST - 1]}…"

    def _of_clients(self) -> Found:
        gateway = self._gateway
        totals = gateway.broker.counters.totals()
        totals["limits"] = sum(gateway.connection_limits.refusals.values())
        totals["functions"] = 0 if gateway.functions is None else gateway.functions.failures
        for kind, total, seconds, most, what in _GROWTH:
            if (grown := self._grown(kind, totals[total], seconds)) > most:
                yield kind, "", f"{what}: {grown:,.0f} within {seconds // 60} minutes"
        if stalled := gateway.broker.context.stalled_consumers:
            yield (
                "consumers-stalled",
                "",
                f"{stalled:,} consumers get nothing more, for a message was not settled in time",
            )

    def _of_speed(self) -> Found:
        last = self._sampler.last_ones(10)
        turns = self._sampler.turns()
        lag = max([each.lag_ms for each in last], default=0.0)
        if turns is not None and turns.p99 > 200:
            yield "lag", "", f"1 of 100 batches of frames takes more than {turns.p99:.0f} ms"
        elif lag > 200:
            yield "lag", "", f"the event loop was {lag:.0f} ms late within the last ten seconds"
        if last and sum([each.cpu for each in last]) > 0.9 * len(last):
            yield "processor-full", "", "the gateway uses a whole core"

    def _grown(self, name: str, value: float, seconds: float) -> float:
        """By how much a counter has grown in so many seconds."""
        now = trio.current_time()
        known = self._growth.setdefault(name, deque())
        known.append((now, value))
        while now - known[0][0] > seconds:
            known.popleft()
        return value - known[0][1]


_GROWTH = (
    ("slow-consumers", "slow_consumers", 900, 3, "clients did not read and were closed"),
    ("handlers-fail", "functions", 900, 5, "requests failed"),
    ("logins-fail", "logins_failed", 300, 10, "refused logins"),
    ("access-refused", "forbidden", 900, 20, "refused SENDs, SUBSCRIBEs and queue arguments"),
    ("heartbeats-missed", "heartbeat_timeouts", 900, 20, "clients were taken for dead"),
    ("connections-refused", "limits", 600, 0, "connections over a limit"),
)
"""Kind, counter, seconds, the most that is no problem, and what it counts."""


def _row(kind: str, target: str, what: str, since: float) -> dict[str, object]:
    known = KINDS[kind]
    return {
        "id": kind,
        "target": target,
        "severity": known.severity,
        "title": known.title,
        "what": what,
        "since": round(since, 3),
        "link": known.link.format(quote_plus(target)),
        "remedy": known.remedy.replace("{file}", str(config_file())),
        "page": known.page,
    }
