"""The rows: what each scenario runs with, what it may cost, and what two well-known brokers cost.

The budgets are the project's own for 2 cores of a small cloud machine.  Where a transport has none, its row is there to
be looked at.  The peers' figures were recorded once on such a machine by the same method, with
RabbitMQ 3.10.8 and ActiveMQ 5.17.2 as Debian packages them; no run of this suite measures them again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from benchmarks import scenarios
from benchmarks.loop import Sample
from benchmarks.server import Server
from benchmarks.wire import Transport

MIB = 1024 * 1024
TCP, WS = ("tcp",), ("ws",)
BOTH = TCP + WS


@dataclass(frozen=True)
class Scenario:
    """One scenario: a row for each transport.  Budgets and peers (RabbitMQ, ActiveMQ) are in `unit`."""

    name: str
    title: str
    run: Callable[[Server, Transport, float], Sample]
    unit: str = "us"
    transports: tuple[str, ...] = BOTH
    budget: Mapping[str, float] = field(default_factory=dict)
    peers: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def _both(limit: float) -> dict[str, float]:
    return dict.fromkeys(BOTH, limit)


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
        "dest10k",
        "10,000 topic subscriptions on 10 connections, in turn",
        partial(scenarios.many_destinations, subscriptions=10_000, links=10),
        transports=TCP,
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
        partial(scenarios.idle_connections, connections=2_000),
        unit="KiB",
        budget={"tcp": 14, "ws": 24},
        peers={"tcp": ("169", "50.9")},
    ),
    Scenario(
        "backlog",
        "200,000 waiting messages, 100 B",
        partial(scenarios.backlog, messages=200_000),
        unit="octets",
        transports=TCP,
        budget={"tcp": 1_000},
        peers={"tcp": ("6,736", "1,556")},
    ),
]
