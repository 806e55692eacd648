"""What a round is like.  All of it follows from the seed; only the timing of the processes does not.

Queues differ in what makes their messages durable, how they are acknowledged, and by how many.  Topics have logs, in
the store or in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from .points import POINTS

POLICIES = """
[[policy]]
match = "/queue/#"
max_attempts = 0
backoff = 0.05

[[policy]]
match = ["/queue/orders", "/queue/urgent", "/queue/deep", "/queue/auto", "/queue/in", "/queue/out", "/queue/one",
  "/queue/groups", "/queue/dlq.#"]
durable = true

[[policy]]
match = ["/queue/memory", "/topic/memory"]
durable = false

[[policy]]
match = "/queue/once"
durable = true
max_attempts = 1

[[policy]]
match = ["/topic/all", "/topic/short", "/topic/memory"]
log_age = 86400
log_bytes = "1GiB"
max_attempts = 0
backoff = 0.02

[[policy]]
match = "/topic/short"
log_messages = 40
"""


@dataclass(frozen=True)
class Queue:
    """A queue of the round."""

    name: str
    durable: bool | None  # by policy; None: by the header of each message
    mode: str  # of its consumers
    consumers: int  # at most so many at a time
    priorities: bool = False  # its messages have some
    target: str = ""  # where its consumers move all that comes
    exclusive: bool = False  # one consumer gets all, the others stand by
    groups: tuple[str, ...] = ()  # of its messages; each goes to one consumer at a time
    attempts: int = 0  # after which a message is a dead letter; no end of a process is one; 0: any number

    @property
    def keeps(self) -> bool:
        """What is durable goes only when somebody has acknowledged it."""
        return self.mode != "auto"

    @property
    def is_single(self) -> bool:
        """One consumer at a time gets what is new, so that the order is seen."""
        return self.consumers == 1 or self.exclusive


@dataclass(frozen=True)
class Topic:
    """A topic with a stream."""

    name: str
    durable: bool  # the log is in the store
    most: int = 0  # messages that it keeps; 0: all
    consumers: int = 3  # at a time: one that keeps the number, and two that keep nothing but a name
    priorities: bool = False
    groups: tuple[str, ...] = ()

    @property
    def keeps(self) -> bool:
        return not self.most


QUEUES = (
    Queue("/queue/orders", True, "client-individual", 1),
    Queue("/queue/mail", None, "client", 3),
    Queue("/queue/urgent", True, "client-individual", 2, priorities=True),
    Queue("/queue/mixed", None, "client-individual", 2),
    Queue("/queue/deep", True, "client", 1),
    Queue("/queue/auto", True, "auto", 1),
    Queue("/queue/memory", False, "client", 1),
    Queue("/queue/in", True, "client-individual", 2, target="/queue/out"),
    Queue("/queue/out", True, "client-individual", 1),
    Queue("/queue/one", True, "client-individual", 2, exclusive=True),
    Queue("/queue/groups", True, "client-individual", 3, groups=("red", "green", "blue")),
    Queue("/queue/once", True, "client-individual", 1, attempts=1),
)
TOPICS = (Topic("/topic/all", True), Topic("/topic/short", True, most=40), Topic("/topic/memory", False))
PLACES = (*QUEUES, *TOPICS)
MOVED = tuple(queue for queue in QUEUES if queue.target)
# Where producers send: what is moved must not wait behind other messages, or nobody would see it soon.
SENT = tuple(place for place in PLACES if place.name not in {queue.target for queue in MOVED})

# Ways a life ends, with their weights.
_ENDS = {"moment": 6, "point": 10, "torn": 3, "start": 1, "stop": 1}
# The highest number of times that a process may come by a point; the others come by rarely.
_OFTEN = {"flushed": 400, "log": 300, "log-torn": 300, "log-written": 300, "statement": 500}
_SELDOM = {"recovery": 1}
_USUAL = 60
# Seconds that a process may take to come by a point, so often.
_LONGEST = 3.0


EDGE_ACTS = {
    "edge kill": 5, "edge cut": 3, "edge stop": 2, "edge hang": 2, "all edges kill": 1, "primary stop": 1
}  # fmt: skip
"""Victims, and the ways to hit them, with weights.  `kill`: SIGKILL; `cut`: its link is shut down, and the process goes
on; `stop`: SIGSTOP, and SIGCONT after `STOPPED`; `hang`: SIGSTOP, until the gateway has given it up."""

STOPPED = 2.0
"""Seconds from SIGSTOP to SIGCONT."""

# Seconds of silence after which an edge counts as hung in a life where one does: as usual, that takes too long.
_SILENCE = 8.0


@dataclass(frozen=True)
class EdgeAct:
    """Something bad that the gateway outlives.  `work`: seconds before it."""

    victim: str
    way: str
    work: float

    def __str__(self) -> str:
        return f"{self.victim} {self.way}"


@dataclass(frozen=True)
class Life:
    """One life of the gateway.

    It ends at a `moment`: killed after `seconds`; a `point`: it kills itself; `torn`: behind a commit that no client
    knows of, and then the end of the write-ahead log is damaged; `start`: killed while it starts; `stop`: SIGTERM;
    `all`: killed with all its edges.
    """

    end: str
    point: str
    seconds: float  # after which it is killed, if it has not done so itself
    log_pages: int  # see `process.gateway`
    consumers: dict[str, int]  # of each queue and topic
    acts: tuple[EdgeAct, ...] = ()  # before `seconds` begin

    @property
    def silence(self) -> float:
        """Seconds of silence after which an edge counts as hung; 0: as usual."""
        return _SILENCE if any(act.way == "hang" for act in self.acts) else 0.0


@dataclass(frozen=True)
class Plan:
    seed: int
    producers: int  # how many
    lives: list[Life]
    edges: int = 0


def plan(seed: int, most_lives: int = 4, edges: int = 0) -> Plan:
    random = Random(seed)
    producers = random.randint(2, 5)
    lives = [_life(random) for _ in range(random.randint(2, 4))][:most_lives]
    if edges:
        # Half of the lives end like those without edges.
        lives = [_with_acts(life, random) if random.random() < 0.5 else life for life in lives]
    return Plan(seed, producers, lives, edges)


def _with_acts(life: Life, random: Random) -> Life:
    names = random.choices(list(EDGE_ACTS), weights=list(EDGE_ACTS.values()), k=random.randint(1, 3))
    acts = [EdgeAct(*name.rsplit(" ", 1), work=random.uniform(0.1, 1.0)) for name in names]
    end = random.choice(["moment", "all", "stop"])
    return replace(life, end=end, point="", seconds=random.uniform(0.02, 0.7), acts=tuple(acts))


def _life(random: Random) -> Life:
    end = random.choices(list(_ENDS), weights=list(_ENDS.values()))[0]
    point, log_pages, seconds = "", random.choice([0, 0, 20, 100]), _LONGEST
    if end == "point":
        name = random.choice(POINTS)
        point = f"{name}:{random.randint(1, _SELDOM.get(name, _OFTEN.get(name, _USUAL)))}"
        if name.startswith("file"):
            log_pages = random.choice([20, 50, 100])
    elif end == "torn":
        point, log_pages = f"committed:{random.randint(3, _USUAL)}", 0
    else:
        seconds = random.uniform(0.02, 0.45 if end == "start" else 0.7)
    consumers = {place.name: random.randint(0, place.consumers) for place in PLACES}
    if random.random() < 0.7:
        consumers["/queue/deep"] = 0
    # Mostly there is a client that sees what is moved.
    if random.random() < 0.8:
        consumers |= {"/queue/in": 2, "/queue/out": 1}
    return Life(end, point, seconds, log_pages, consumers)
