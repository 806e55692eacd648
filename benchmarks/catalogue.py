"""The rows: what each scenario runs with, what it may cost, and what two well-known brokers cost.

The budgets are the project's own for 2 cores of a small cloud machine.  Where a transport has none, its row is there to
be looked at.  The peers' figures were recorded once on such a machine by the same method, with
RabbitMQ 3.10.8 and ActiveMQ 5.17.2 as Debian packages them; no run of this suite measures them again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from benchmarks import durable, features, growth, logins, scenarios
from benchmarks.loop import Sample
from benchmarks.server import Server, gateway
from benchmarks.wire import Transport

MIB = 1024 * 1024
TCP, WS = ("tcp",), ("ws",)
BOTH = TCP + WS


@dataclass(frozen=True)
class Part:
    """A further row of a scenario, called by its name behind a slash: what `Sample.beside` has of that name.

    Attributes:
        at_least: the budget is the least that it should be, not the most.
    """

    title: str
    unit: str = "us"
    budget: float | None = None
    at_least: bool = False


@dataclass(frozen=True)
class Scenario:
    """One scenario: a row for each transport, and one for each of its parts.

    Attributes:
        run: measures one round.
        unit: of the budgets and peers (RabbitMQ, ActiveMQ), too.
        sizes: arguments of `run` that say how much of something there is; `--scale` makes them smaller.
        settings: the gateway's `gateway.toml`.
        prepare: puts into the gateway's folder what shall be there at its start; it gets the sizes, too.
        rounds: at most so many; a long scenario that holds its comparison in itself needs fewer.
        secured: the connections carry TLS.
        clustered: the gateway is the primary of a cluster.
        edges: processes that have the sockets; 0: there is one process.
        login: of all clients.
    """

    name: str
    title: str
    run: Callable[..., Sample]
    unit: str = "us"
    transports: tuple[str, ...] = BOTH
    budget: Mapping[str, float] = field(default_factory=dict)
    peers: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    parts: Mapping[str, Part] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    settings: str = ""
    prepare: Callable[..., None] | None = None
    rounds: int | None = None
    secured: bool = False
    clustered: bool = False
    edges: int = 0
    login: tuple[str, str] | None = None

    @property
    def has_store(self) -> bool:
        """It needs a folder on a disk."""
        return durable.SETTINGS in self.settings

    def start(self, disk: Path, scale: float) -> AbstractContextManager[Server]:
        """The gateway that it measures, started anew, with its folder on that disk."""
        if self.clustered:
            from benchmarks import cluster

            return cluster.primary(self.settings, disk=disk)
        start = partial(gateway, self.settings, disk=disk, secured=self.secured, edges=self.edges, login=self.login)
        return start() if self.prepare is None else start(prepare=partial(self.prepare, **self._scaled(scale)))

    def sample(self, server: Server, transport: Transport, seconds: float, scale: float) -> Sample:
        """Run one round."""
        return self.run(server, transport, seconds, **self._scaled(scale))

    def in_cluster(self) -> Scenario | None:
        """The same row for the primary of a cluster; None: that would say nothing of it."""
        if not self.has_store or self.sizes:
            return None
        budget = {transport: most + _CLUSTER for transport, most in self.budget.items()}
        return replace(
            self, name=f"{self.name}-cluster", title=f"{self.title}, in a cluster", budget=budget, clustered=True
        )

    def with_edges(self, edges: int) -> Scenario | None:
        """The same row with so many edges; None: its samples do not tell the primary from its edges."""
        if self.unit != "us" or self.sizes or self.clustered:
            return None
        shares = {"primary": Part("of that the primary"), "edges": Part("of that the edges")}
        return replace(
            self,
            name=f"{self.name}-edges{edges}",
            title=f"{self.title}, {edges} edge{'s' * (edges != 1)}",
            budget={},
            peers={},
            parts={name: replace(part, budget=None) for name, part in self.parts.items()} | shares,
            edges=edges,
        )

    def _scaled(self, scale: float) -> dict[str, int]:
        return {name: max(_LEAST, round(size * scale)) for name, size in self.sizes.items()}


# A hundred of anything is enough for each scenario to make sense.
_LEAST = 100
# What a publisher's cost may grow by when ten become very many.
_GROWTH = 1.5
# Microseconds that a durable message may cost the primary of a cluster more.
_CLUSTER = 5
# Durable receipts in a second, with 100 producers.
_RECEIPTS = 15_000
# A million messages of 100 bytes take 0.3 GB, but count for 0.75: the decoder shares equal headers, and each message
# counts them as its own.
_ROOM_FOR_A_MILLION = f"memory_limit = {2048 * MIB}"


def _both(limit: float) -> dict[str, float]:
    return dict.fromkeys(BOTH, limit)


def _policy(match: str, *lines: str) -> str:
    return "\n".join(["[[policy]]", f'match = "{match}"', *lines])


def _awaited(name: str, title: str, producers: int, window: int = 1, most: float | None = None) -> Scenario:
    """Durable SENDs with their receipts awaited; what each may cost, where that has a budget."""
    return Scenario(
        name,
        title,
        partial(durable.awaited, producers=producers, window=window),
        transports=TCP,
        budget={} if most is None else {"tcp": most},
        parts={
            "wait": Part("median time of a receipt", "ms"),
            "rate": Part("receipts", "/s", None if most is None else _RECEIPTS, at_least=True),
            "syncs": Part("fsyncs for each receipt, in a short round under strace", "fsyncs"),
        },
        settings=durable.SETTINGS,
    )


SCENARIOS = [
    Scenario(
        "q100",
        "queue 1 to 1, 100 B",
        partial(scenarios.deliver, kind="queue", window=2_000),
        budget={"tcp": 6},
        peers={"tcp": ("28.4", "24.5")},
    ),
    Scenario(
        "q1k",
        "queue 1 to 1, 1 KiB",
        partial(scenarios.deliver, kind="queue", size=1024, window=2_000),
        budget={"tcp": 9},
        peers={"tcp": ("29.4", "51.7")},
    ),
    Scenario(
        "t100",
        "topic 1 to 1, 100 B",
        partial(scenarios.deliver, kind="topic", window=2_000),
        peers={"tcp": ("33.4", "18.6"), "ws": ("41.3", "-")},
    ),
    Scenario(
        "fan50",
        "topic 1 to 50, 100 B, in bulk, per delivery",
        partial(scenarios.deliver, kind="topic", window=200, receivers=50),
        budget=_both(0.8),
        peers={"tcp": ("24.2 (1:100)", "6.15 (1:100)"), "ws": ("23.7 (1:100)", "-")},
    ),
    Scenario(
        "fan100x1",
        "topic 1 to 100, 100 B, one publish at a time, per delivery",
        partial(scenarios.deliver, kind="topic", window=1, receivers=100),
        budget=_both(5),
        peers={"tcp": ("24.1", "14.0"), "ws": ("24.6", "-")},
    ),
    Scenario("q100tls", "q100 in TLS", partial(scenarios.deliver, kind="queue", window=2_000), secured=True),
    Scenario(
        "fan50tls",
        "fan50 in TLS, per delivery",
        partial(scenarios.deliver, kind="topic", window=200, receivers=50),
        secured=True,
    ),
    Scenario(
        "fan100tls",
        "fan100x1 in TLS, per delivery",
        partial(scenarios.deliver, kind="topic", window=1, receivers=100),
        secured=True,
    ),
    Scenario(
        "ackind",
        "queue 1 to 1, 100 B, client-individual, ACK each",
        partial(scenarios.deliver, kind="queue", window=2_000, acknowledges=True),
        budget={"tcp": 11},
        peers={"tcp": ("42.3", "33.5")},
    ),
    Scenario(
        "rcpt",
        "queue SEND with receipt, 100 outstanding, no consumer",
        partial(scenarios.receipts, window=100, limit=400_000),
        peers={"tcp": ("67.3 (durable)", "296 (durable)")},
    ),
    Scenario(
        "rcptwait",
        "queue SEND, each waits for its receipt",
        partial(scenarios.receipts, window=1, limit=400_000),
        budget={"tcp": 100},
    ),
    *[
        Scenario(
            f"rcptwait{clients}",
            f"queue SEND by {clients} clients, each waits for its receipt",
            partial(durable.awaited, producers=clients, window=1, is_durable=False),
            transports=TCP,
            parts={"wait": Part("median time of a receipt", "ms")},
        )
        for clients in (8, 32, 100)
    ],
    Scenario(
        "storm1",
        "connect and disconnect, one after the other",
        partial(scenarios.connects, parallel=1),
        budget={"tcp": 400},
        peers={"tcp": ("1,418", "654")},
    ),
    Scenario(
        "storm50",
        "connect and disconnect, 50 at a time",
        partial(scenarios.connects, parallel=50),
        budget={"tcp": 400},
        peers={"tcp": ("1,481", "536"), "ws": ("1,695", "-")},
    ),
    Scenario(
        "logins",
        "CONNECT with a passcode (argon2) and DISCONNECT, 16 at a time",
        partial(logins.flood, parallel=16),
        parts={
            "quiet": Part("99 of 100 receipts of another client, before that, at most", "ms"),
            "beside": Part("the same meanwhile", "ms"),
        },
        settings=logins.SETTINGS,
        prepare=logins.write_users,
        login=logins.LOGIN,
    ),
    Scenario(
        "dest10k",
        "10,000 topic subscriptions on 10 connections, in turn",
        partial(scenarios.many_destinations, links=10),
        transports=TCP,
        sizes={"subscriptions": 10_000},
        budget={"tcp": 8},
        peers={"tcp": ("98.3", "46.2")},
    ),
    Scenario(
        "big1m",
        "topic 1 to 1, 1 MiB bodies",
        partial(scenarios.large_bodies, size=MIB, window=8),
        unit="us/MB",
        budget={"tcp": 1_500},
        peers={"tcp": ("788", "21,803")},
    ),
    Scenario(
        "idle",
        "2,000 idle connections, one subscription each",
        scenarios.idle_connections,
        unit="KiB",
        sizes={"connections": 2_000},
        budget={"tcp": 14, "ws": 24},
        peers={"tcp": ("169", "50.9")},
    ),
    Scenario(
        "backlog",
        "200,000 waiting messages, 100 B",
        scenarios.backlog,
        unit="bytes",
        transports=TCP,
        sizes={"messages": 200_000},
        budget={"tcp": 1_000},
        peers={"tcp": ("6,736", "1,556")},
    ),
    Scenario(
        "topics",
        "publish in turn to 100,000 topics, each with a subscriber",
        partial(growth.topics, few=10, links=10),
        transports=TCP,
        sizes={"many": 100_000},
        parts={
            "few": Part("the same to 10 of them, while there are no others"),
            "ratio": Part("cost of the others", "x", _GROWTH),
        },
        rounds=2,
    ),
    Scenario(
        "patterns",
        "publish new names, each matched by one of 10,000 patterns",
        partial(growth.patterns, few=10, links=10),
        transports=TCP,
        sizes={"many": 10_000},
        parts={
            "few": Part("the same with 10 patterns"),
            "ratio": Part("cost of the others", "x", _GROWTH),
            "again": Part("publish in turn to 1,000 names that were seen before"),
            "memory": Part("resident memory of each pattern's subscription", "bytes"),
        },
        rounds=2,
    ),
    Scenario(
        "deep",
        "publish one, consume one, ACK each, 1,000,000 wait",
        partial(growth.deep_queue, few=10),
        transports=TCP,
        sizes={"many": 1_000_000},
        settings=_ROOM_FOR_A_MILLION,
        parts={
            "few": Part("the same, 10 wait"),
            "ratio": Part("cost of the others", "x", _GROWTH),
            "auto": Part("publish one, consume one, auto, 1,000,000 wait"),
            "auto-few": Part("the same, 10 wait"),
            "auto-ratio": Part("cost of the others", "x", _GROWTH),
        },
        rounds=2,
    ),
    Scenario(
        "selective",
        "a consumer with a selector, ACK each, 1,000,000 wait that do not match",
        partial(growth.selective, few=10),
        transports=TCP,
        sizes={"many": 1_000_000},
        settings=_ROOM_FOR_A_MILLION,
        parts={
            "few": Part("the same, 10 wait"),
            "ratio": Part("cost of the others", "x", _GROWTH),
            "stall": Part("longest work before a bystander's RECEIPT while they are read first", "ms", 50),
        },
        rounds=2,
    ),
    Scenario(
        "slots",
        "topic, 100 subscribers with a selector each, one of them matches",
        partial(features.selectors, subscribers=100),
        transports=TCP,
        rounds=2,
    ),
    Scenario(
        "groups",
        "queue, 1,000 groups in turn, 10 consumers",
        partial(features.groups, groups=1_000, consumers=10),
        transports=TCP,
        rounds=2,
    ),
    Scenario(
        "priorities",
        "10,000 messages of mixed priorities wait and are consumed",
        features.priorities,
        transports=TCP,
        sizes={"messages": 10_000},
        rounds=2,
    ),
    Scenario(
        "delays",
        "10,000 messages with delays of up to 4 s",
        features.delays,
        transports=TCP,
        sizes={"messages": 10_000, "spread": 4_000},
        parts={
            "p99": Part("lateness of 99 of 100 at most", "ms"),
            "longest": Part("lateness of the last; none is early", "ms", 50),
        },
        rounds=2,
    ),
    Scenario(
        "conflate",
        "news of 1,000 symbols for a slow reader, per SEND",
        partial(features.conflation, symbols=1_000),
        transports=TCP,
        settings=_policy("/topic/conflated.#", 'slow_consumer = "conflate"', 'conflate_by = "symbol"'),
        rounds=2,
    ),
    Scenario(
        "fan50drop",
        "topic 1 to 50, 100 B, in bulk, slow_consumer = drop-oldest, per delivery",
        partial(scenarios.deliver, kind="topic/dropping", window=200, receivers=50),
        transports=TCP,
        settings=_policy("/topic/dropping.#", 'slow_consumer = "drop-oldest"'),
        rounds=2,
    ),
    _awaited("durable1", "durable SEND, 200 B, each waits for its receipt", 1),
    _awaited("durable10", "the same by 10 producers", 10),
    _awaited("durable100", "the same by 100 producers", 100, most=25),
    _awaited("durable1x100", "durable SEND, 200 B, one producer, 100 receipts outstanding", 1, window=100),
    Scenario(
        "durableq",
        "durable queue 1 to 1, 100 B, client-individual, ACK each",
        partial(scenarios.deliver, kind="queue", window=2_000, acknowledges=True, durable=True),
        transports=TCP,
        settings=durable.SETTINGS,
    ),
    Scenario(
        "recovery",
        "start with 1,000,000 messages of 100 B in the store",
        durable.recovery,
        unit="s",
        transports=TCP,
        sizes={"messages": 1_000_000},
        budget={"tcp": 3},
        parts={"memory": Part("resident memory behind it", "MiB")},
        settings=durable.SETTINGS,
        prepare=durable.fill_store,
        rounds=2,
    ),
    Scenario(
        "paging",
        "most resident memory with 5,000,000 messages of 1 KiB waiting, from that with 500,000",
        durable.paging,
        unit="MiB",
        transports=TCP,
        sizes={"messages": 500_000},
        budget={"tcp": 1_024},
        parts={
            "growth": Part("resident memory of each waiting message", "bytes"),
            "fill": Part("SEND of each", "us"),
            "drain": Part("delivery of each, in auto", "us"),
        },
        settings=durable.SETTINGS,
        rounds=1,
    ),
]
