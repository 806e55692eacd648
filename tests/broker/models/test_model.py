"""Anything that clients may do, in any order: after each step the broker is what the model says.

No message is lost, none is given to two who could both consume it, none is delivered again without being marked, each
consumer sees each publisher's messages in order, no consumer gets what it does not want or what is another's, nothing
comes too early or too late, and the accounts are right at every step and zero in the end.

The number of examples is small enough for every run of the tests, ten times as large under `long`; to search longer,
set MODEL_EXAMPLES.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from gateway.broker.core.ports import Recorder
from gateway.broker.core.work_limits import WorkLimits
from gateway.broker.model.message import Message
from gateway.broker.model.policy import OnNack, WhenFull
from gateway.broker.model.policy import SlowConsumerAction as Slow
from gateway.journal import Journal, found
from tests.journal.desk import as_dict
from tests.journal.reading import Segment

from ..client import WITH_NACK, Scene
from ..recorder import Notebook, Notes, RecordedScene, row_of_journal
from . import streams
from .batches import POLICIES, Batches
from .batches import QUEUES as DURABLE
from .exact import DEDUP_WINDOW
from .exact_books import Rules
from .exact_watch import MOVED, Exact
from .program import EXPIRIES, QUARTER, Clients, Setup, pick
from .rows import Rows
from .streams import Streams

QUEUES = ["/queue/plain", "/queue/few", "/queue/retry", "/queue/last", "/queue/brief"]
TOPICS = ["/topic/a.b", "/topic/a.c", "/topic/a.*"], ["/topic/slow.a", "/topic/slow.b", "/topic/slow.*"]


def everything(data: st.DataObject) -> Setup:
    """Queues and topics with all sorts of rules, and no store: each delivery is foreseen."""
    draw = data.draw
    rules = {
        "/queue/few": Rules(
            max_messages=3, when_full=draw(st.sampled_from(["drop-oldest", "drop-newest", "dead-letter", "block"]))
        ),
        "/queue/retry": Rules(
            max_attempts=3,
            backoff=QUARTER,
            backoff_max=2 * QUARTER,
            dead_letter_expired=True,
            on_nack=draw(st.sampled_from(["redeliver", "redeliver", "dead-letter", "drop"])),
        ),
        "/queue/last": Rules(conflate_by="symbol", time_to_live=EXPIRIES[2] / 1000),
        "/queue/brief": Rules(auto_delete=True),
        "/topic/slow.#": Rules(
            slow_consumer=draw(st.sampled_from(["drop-oldest", "drop-newest", "conflate", "disconnect"])),
            slow_messages=2,
            conflate_by="symbol",
        ),
    }
    queues = draw(st.lists(st.sampled_from(QUEUES), min_size=1, max_size=2, unique=True))
    topics = draw(st.sampled_from(TOPICS))
    several = [",".join([*queues, topics[0]]), ", ".join(topics[:2])]
    dead_letters = [name.replace("/queue/", "/queue/dlq.") for name in queues]
    return Setup(
        partial(Exact, rules=rules),
        {pattern: each.policy() for pattern, each in rules.items()},
        sends=[*queues * 3, *topics[:2], *several],
        subscribes=[*queues * 4, *dead_letters, MOVED, *topics, "/topic/#"],
        wishes="  priority group group delay ttl key dedup retain large large".split(" "),
        demands="  selector selector prefetch octets priority exclusive browser no-local slow".split(" "),
        quotas={"max_unacknowledged": 3, "max_outbound": 64 * 1024, "dedup_window": DEDUP_WINDOW},
        often=("publish",) * 5 + ("settle",) * 12 + ("subscribe", "subscribe", "resume", "wait", "end", "operate"),
    )


def one_queue(data: st.DataObject) -> Setup:
    """Many consumers of one queue, whose ready lists are read in short turns."""
    rules = {QUEUES[0]: Rules(max_attempts=0, backoff=pick(data, [0.0, 0.0, QUARTER]))}
    selective = pick(data, ["", "selector"])
    return Setup(
        partial(Exact, rules=rules),
        {QUEUES[0]: rules[QUEUES[0]].policy()},
        sends=QUEUES[:1],
        subscribes=QUEUES[:1],
        wishes="  group priority ttl large".split(" "),
        demands=[*"  prefetch prefetch octets priority exclusive".split(" "), selective, selective],
        quotas={"max_outbound": 16 * 1024},
        limits=WorkLimits(selector_reads=2),
        consumers=8,
        transactions=1,
    )


def kills(data: st.DataObject) -> Setup:
    """Durable queues on a store that fails, process after process."""
    return Setup(
        Batches,
        POLICIES,
        sends=list(DURABLE),
        subscribes=[*DURABLE, "/queue/dlq.a", "/queue/dlq.b"],
        wishes=["", "priority", "persistent", "persistent"],
        demands=["", "", "selector", "selector", "prefetch", "priority", "exclusive"],
        versions=WITH_NACK,
        stored=True,
        fails=True,
        receipts=True,
        limits=SMALL_PAGES,
        often=("publish", "settle", "publish", "settle", "subscribe", "take_batch", "write_batch", "write", "drain"),
        clients=6,
        consumers=6,
    )


def rows(data: st.DataObject, *, journal: bool = False) -> Setup:
    """Destinations of all kinds, a store, and a recorder whose rows must add up: in memory, or read from a journal."""
    queues = [pick(data, [each for each in RECORDED if "queue" in each]) for _ in range(3)]
    topics = [pick(data, [each for each in RECORDED if "topic" in each]) for _ in range(3)]
    dead_letters = [name.replace("/queue/", "/queue/dlq.") for name in queues]
    also = ["/topic/a.b", "/exchange/amq.topic/a", "/amq/queue/a", f"{queues[0]},{topics[0]}"]
    patterns = ["/topic/*", "/topic/#", "/topic/a.*", "/exchange/amq.topic/a"]
    journals = Journals() if journal else None
    read = partial(Rows, notes=journals.read, each_step=False) if journals else partial(Rows, notes=recorded_by)
    return Setup(
        partial(read, logs=LOGS),
        RECORDED,
        sends=[*(queues + topics) * 2, *also],
        subscribes=[*queues * 2, *topics, *patterns, *dead_letters],
        logs=LOGS,
        wishes=["", "", *WISHES.split()],
        demands=["", "", *DEMANDS.split(), "log first", "log resume", "log seq"],
        demands_at_once=1,
        versions=WITH_NACK,
        quotas={"max_retained": 2, "dedup_window": 10_000.0},
        stored=True,
        recorder=journals.make if journals else lambda: cast(Recorder, Notebook()),
        close=journals.close if journals else dict,
        limits=SMALL_PAGES,
        ends_empty=False,
        often=("publish", "settle") * 4 + ("subscribe", "begin", "end", "connect") * 3,
    )


def replay(data: st.DataObject) -> Setup:
    """Topics with logs, and readers that come back; with a store, process after process."""
    return Setup(
        Streams,
        streams.POLICIES,
        sends=streams.TOPICS,
        subscribes=[*streams.TOPICS, "/topic/*"],
        logs=[*streams.TOPICS, "/topic/*"],
        wishes=["", "", "large"],
        wishes_at_once=1,
        demands=[*[f"log {each}" for each in "first last seq resume resume-first".split()], "", "prefetch"],
        versions=WITH_NACK,
        quotas={"max_outbound": 64 * 1024},
        stored=pick(data, [False, True]),
        limits=WorkLimits(replay_messages=2, tail_messages=2, stream_slack=3),
        often=("publish", "publish", "settle", "settle", "subscribe", "resume"),
        consumers=5,
        transactions=0,
        waits=(1.0, 6.0),
        away=(1.0,),
    )


WISHES = "persistent persistent priority past key dedup retain long-delay long-ttl group large"
DEMANDS = "selector prefetch sequence browser exclusive no-local durable durable shared"
LOGS = ("/topic/c", "/topic/f")
RECORDED: Mapping[str, Mapping[str, object]] = {
    "/queue/a": {"max_attempts": 2},
    "/queue/b": {"max_messages": 2, "when_full": WhenFull.DROP_OLDEST},
    "/queue/c": {"max_messages": 2, "when_full": WhenFull.DROP_NEWEST, "on_nack": OnNack.DROP},
    "/queue/d": {"max_messages": 2, "when_full": WhenFull.DEAD_LETTER, "dead_letter_expired": True},
    "/queue/e": {"auto_delete": True, "conflate_by": "symbol", "on_nack": OnNack.DEAD_LETTER},
    "/queue/f": {"idle_timeout": 10.0, "time_to_live": 7.0, "backoff": 2.0},
    "/queue/g": {"dead_letter": "/topic/a", "max_attempts": 1, "dead_letter_expired": True},
    "/queue/h": {"dead_letter": "", "max_attempts": 1, "dead_letter_expired": True},
    "/topic/a": {},
    "/topic/b": {"slow_consumer": Slow.CONFLATE, "conflate_by": "symbol", "slow_messages": 2},
    "/topic/c": {"log_messages": 4, "dead_letter": "/queue/a", "max_attempts": 1},
    "/topic/d": {"slow_consumer": Slow.DROP_OLDEST, "slow_messages": 2, "dead_letter_expired": True},
    "/topic/e": {"slow_consumer": Slow.DISCONNECT, "slow_messages": 2},
    "/topic/f": {"slow_consumer": Slow.DROP_NEWEST, "slow_messages": 2, "log_messages": 4},
}
SMALL_PAGES = WorkLimits(in_memory_bytes=2_000, few_messages=2, page_messages=3, index_slack=2)


def recorded_by(scene: Scene) -> Notes:
    return cast(Notebook, cast(RecordedScene, scene).recorder)


class Journals:
    """Journals of processes, one after the other; each is closed to be read."""

    def __init__(self) -> None:
        self.folder = TemporaryDirectory()
        self.run = Message.run.decode()
        self.journals: list[Journal] = []

    def make(self) -> Recorder:
        self.journals.append(Journal(Path(self.folder.name), f"g{len(self.journals)}", run=self.run))
        return cast(Recorder, self.journals[-1])

    def close(self) -> None:
        for journal in self.journals:
            journal.close()
        self.folder.cleanup()

    def read(self, scene: Scene) -> Notes:
        journal = self.journals[-1]
        journal.start()
        assert journal.close() == 0
        assert journal.rows_dropped == 0
        segments = [Segment(path) for path in found(Path(self.folder.name) / f"g{len(self.journals) - 1}")]
        rows = [as_dict(row) for segment in segments for row in segment]
        assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
        return Notes([row_of_journal(row, self.run) for row in rows])


def examples(count: int) -> settings:
    return settings(
        max_examples=int(os.environ.get("MODEL_EXAMPLES", str(count))),
        # The same examples each time: a failure is of the change at hand.  MODEL_EXAMPLES=2000 looks for others.
        derandomize="MODEL_EXAMPLES" not in os.environ,
        stateful_step_count=50,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


PROFILES = {
    "everything": (everything, 25),
    "one queue": (one_queue, 25),
    "kills": (kills, 40),
    "rows": (rows, 15),
    "journal": (partial(rows, journal=True), 6),
    "replay": (replay, 30),
}


@pytest.mark.timeout(400)  # when it fails, the search for a short example may take 300 s
@pytest.mark.parametrize("times", [1, pytest.param(10, marks=[pytest.mark.long, pytest.mark.timeout(1_800)])])
@pytest.mark.parametrize("name", PROFILES)
def test_the_broker_does_what_the_model_says(name: str, times: int) -> None:
    profile, count = PROFILES[name]
    run_state_machine_as_test(partial(Clients, profile), settings=examples(count * times))
