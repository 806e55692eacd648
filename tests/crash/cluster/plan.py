"""Acts of a round.  All of it follows from the seed; only the timing of the processes does not."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.crash.plan import PLACES

WAYS = {
    "primary": {"kill": 5, "stop": 3, "handover": 2, "end": 2},
    "standby": {"kill": 2, "stop": 1, "end": 1},
    "log leader": {"kill": 3, "stop": 2},
    "log follower": {"kill": 2, "stop": 1},
    "all gateways": {"kill": 2, "stop": 1, "end": 1},
    "majority": {"kill": 2, "stop": 1},
}
"""Victims, and the ways to hit them, with weights.  `kill`: SIGKILL; `stop`: SIGSTOP and SIGCONT; `end`: SIGTERM;
`handover`: the primary is asked to hand over.  `majority`: of the servers of NATS."""

STOPPED = 12.0
"""Seconds from SIGSTOP to SIGCONT: longer than any lease and any patience."""

_LONGEST_DOWN = 6.0
_LONGEST_WORK = 2.0


@dataclass(frozen=True)
class Act:
    """Something bad.

    `work`: seconds before it, in which clients work.  `down`: seconds until what was ended starts again.
    """

    victim: str
    way: str
    work: float
    down: float

    def __str__(self) -> str:
        return f"{self.victim} {self.way}"


@dataclass(frozen=True)
class ClusterPlan:
    """A round.  `last`: how all gateways end before what is left is given out: `kill` or `end`."""

    seed: int
    gateways: int
    producers: int
    acts: list[Act]
    last: str


def plan(seed: int, acts: int) -> ClusterPlan:
    """A round with so many acts."""
    random = Random(seed)
    return ClusterPlan(
        seed,
        random.choice((2, 2, 3)),
        random.randint(2, 4),
        [_act(random) for _ in range(acts)],
        random.choice(("kill", "kill", "end")),
    )


def consumers(random: Random) -> dict[str, int]:
    """How many consumers each queue has for the time of a primary; there is always one."""
    found = {place.name: random.randint(0, place.consumers) for place in PLACES}
    # What is moved goes through several hands, and an exclusive queue needs a second one that waits.
    return found | {"/queue/in": 2, "/queue/out": 1, "/queue/one": 2}


def _act(random: Random) -> Act:
    victim = random.choices(list(WAYS), weights=[sum(ways.values()) for ways in WAYS.values()])[0]
    way = random.choices(list(WAYS[victim]), weights=list(WAYS[victim].values()))[0]
    return Act(victim, way, random.uniform(0.5, _LONGEST_WORK), random.uniform(0.2, _LONGEST_DOWN))
