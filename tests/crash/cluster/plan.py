"""Acts of a round.  All of it follows from the seed; only the timing of the processes does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from tests.crash.plan import PLACES

CUTS = ("partition", "partition out", "partition in", "partition one")

WAYS = {
    "primary": {"kill": 5, "stop": 3, "handover": 2, "end": 2, **dict.fromkeys(CUTS, 2)},
    "standby": {"kill": 2, "stop": 1, "end": 1, **dict.fromkeys(CUTS, 1)},
    "log leader": {"kill": 3, "stop": 2, **dict.fromkeys(CUTS, 2)},
    "log follower": {"kill": 2, "stop": 1, **dict.fromkeys(CUTS, 1)},
    "all gateways": {"kill": 2, "stop": 1, "end": 1},
    "majority": {"kill": 2, "stop": 1, "partition": 1},
}
"""Victims, and the ways to hit them, with weights.  `kill`: SIGKILL; `stop`: SIGSTOP and SIGCONT; `end`: SIGTERM;
`handover`: the primary is asked to hand over.  `majority`: of the servers of NATS.

A partition cuts the victim's machine, with its gateway and its server of NATS, off the two others; its clients still
reach it.  `out`: what it sends is lost, `in`: what is sent to it, `one`: both, but with one other machine alone.  With
a majority cut off, each machine is alone."""

EDGE_WAYS = {"edge": {"kill": 6, "stop": 3, "hang": 2}, "all edges": {"kill": 2, "stop": 1}}
"""The same of edges: one of any node, or those of all.  `hang`: SIGSTOP, until its node has given it up."""

STOPPED = 12.0
"""Seconds from SIGSTOP to SIGCONT: longer than any lease and any patience."""

_LONGEST_DOWN = 6.0
# Shorter and longer than the lease, and than the elections of the log.
_CUT = 1.0, 15.0
_LONGEST_WORK = 2.0


@dataclass(frozen=True)
class Act:
    """Something bad.

    `work`: seconds before it, in which clients work.  `down`: seconds until what was ended starts again, or the network
    is mended.
    """

    victim: str
    way: str
    work: float
    down: float

    def __str__(self) -> str:
        return f"{self.victim} {self.way}"


@dataclass(frozen=True)
class ClusterPlan:
    """A round.

    `last`: how all gateways end before what is left is given out: `kill` or `end`.  `edges`: of each node; 0: clients
    connect to the primary.
    """

    seed: int
    gateways: int
    producers: int
    acts: list[Act]
    last: str
    edges: int = 0


def plan(seed: int, acts: int, edges: int = 0) -> ClusterPlan:
    """A round with so many acts."""
    random = Random(seed)
    ways = {**WAYS, **EDGE_WAYS} if edges else WAYS
    return ClusterPlan(
        seed,
        random.choice((2, 2, 3)),
        random.randint(2, 4),
        [_act(random, ways) for _ in range(acts)],
        random.choice(("kill", "kill", "end")),
        edges,
    )


def consumers(random: Random) -> dict[str, int]:
    """How many consumers each queue has for the time of a primary; there is always one."""
    found = {place.name: random.randint(0, place.consumers) for place in PLACES}
    # What is moved goes through several hands, and an exclusive queue needs a second one that waits.  A primary that
    # refuses a frame ends a client, which is an attempt.
    return found | {"/queue/in": 2, "/queue/out": 1, "/queue/one": 2, "/queue/once": 0}


def _act(random: Random, ways: Mapping[str, Mapping[str, int]]) -> Act:
    victim = random.choices(list(ways), weights=[sum(each.values()) for each in ways.values()])[0]
    way = random.choices(list(ways[victim]), weights=list(ways[victim].values()))[0]
    down = _CUT if way in CUTS else (0.2, _LONGEST_DOWN)
    return Act(victim, way, random.uniform(0.5, _LONGEST_WORK), random.uniform(*down))
