"""Problems: each is told while it is there, in the words of its alert, and not before it has lasted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import yaml
from trio.testing import MockClock

from gateway.admin.problems import KINDS, MOST, ProblemRow, Problems
from gateway.broker import Broker
from gateway.broker.core.counters import Tally
from gateway.cluster.log import Bounds
from gateway.cluster.room import Room
from gateway.observe.destination_watch import Troubles
from gateway.observe.sampler import Percentiles
from gateway.runtime.edges import Edge
from tests.observe.everything import a_node

ROOT = Path(__file__).parent.parent.parent
EPOCH = 1_700_000_000.0


class Stand:
    """A gateway without faults, in parts that can be broken."""

    def __init__(self) -> None:
        self.broker = Broker(epoch=lambda: EPOCH)
        self.broker.storage = cast(Any, SimpleNamespace(failure="", is_suspended=False))
        self.disks = {"store": 0.5}
        self.troubles = Troubles()
        self.seconds: list[Any] = []
        self.turns: Percentiles | None = None
        self.gateway: Any = SimpleNamespace(
            broker=self.broker,
            memory_guard=SimpleNamespace(reason="", mark=0, resident=0),
            draining=False,
            blocked_publishers=[],
            certificates=None,
            committer=SimpleNamespace(damaged=0, commits=0, seconds=0.0),
            journal=None,
            tracing=None,
            functions=None,
            is_standby=False,
            node=None,
            edges=None,
            remote_edges=None,
            connection_limits=SimpleNamespace(refusals={"max_connections": 0}),
        )
        sampler: Any = SimpleNamespace(turns=lambda: self.turns, last_ones=lambda most: self.seconds[-most:])
        self.problems = Problems(self.gateway, sampler, cast(Any, self), lambda: self.disks)

    def look(self) -> list[dict[str, object]]:
        """Look now; returns what is told."""
        self.problems.look(EPOCH + trio.current_time())
        for each in self.problems.present:
            ProblemRow.model_validate(each)
        return self.problems.present

    def lose(self, name: str, **counts: int) -> None:
        tally = self.troubles.losing.setdefault(name, Tally(name, 0.0))
        tally.drops = {"queue-full": counts.pop("dropped", tally.dropped)}
        for field, count in counts.items():
            setattr(tally, field, count)
        tally.look(trio.current_time())


@pytest.fixture
async def stand() -> Stand:
    found = Stand()
    assert found.look() == []
    return found


def setter(path: str, value: Any) -> Callable[[Stand], object]:
    """Sets one thing of the gateway."""
    *parts, last = path.split(".")

    def change(stand: Stand) -> None:
        target: Any = stand.gateway
        for part in parts:
            target = target[part] if isinstance(target, dict) else getattr(target, part)
        if isinstance(target, dict):
            target[last] = value
        else:
            setattr(target, last, value)

    return change


def both(*changes: Callable[[Stand], object]) -> Callable[[Stand], object]:
    return lambda stand: [change(stand) for change in changes]


def of_stand(name: str, value: Any) -> Callable[[Stand], object]:
    return lambda stand: setattr(stand, name, value)


def edge_with(**values: Any) -> Callable[[Stand], object]:
    """The gateway has an edge with these values, besides one without faults."""
    return setter("edges", SimpleNamespace(all=[Edge("1", is_ready=True), Edge("2", **values)]))


def a_node_with(**values: Any) -> Callable[[Stand], object]:
    """The gateway is a primary, with a standby that has applied 7,000 messages; but for these values."""

    def change(stand: Stand) -> None:
        stand.gateway.node = node = a_node()
        node.bounds = Bounds(1, 7_000, 0)
        vars(node).update(values)

    return change


COUNTERS = "broker.counters."
SAMPLE = SimpleNamespace(lag_ms=20.0, cpu=0.99)

CASES: dict[str, tuple[Callable[[Stand], object], str]] = {
    "not-ready": (setter("draining", True), "the gateway is shutting down"),
    "memory-full": (setter("memory_guard.reason", "it is full"), "it is full"),
    "memory-high": (
        both(setter("memory_guard.mark", 100), setter("memory_guard.resident", 85)),
        "the process takes 85% of memory_mark",
    ),
    "messages-fill-memory": (
        lambda stand: setattr(stand.broker.memory, "used", stand.broker.quotas.memory_limit * 3 // 4),
        "messages take 75% of memory_limit",
    ),
    "publishers-held": (
        setter("blocked_publishers", [1] * 2000),
        "2,000 publishers are not read, until queues or memory have room",
    ),
    "memory-only": (setter("broker.storage", None), "all messages end with the process: the setting store is memory"),
    "store-failing": (setter("broker.storage.failure", "full"), "durable messages are refused: full"),
    "store-damaged": (setter("committer.damaged", 3000), "3,000 messages cannot be read"),
    "store-slow": (
        both(setter("committer.commits", 10), setter("committer.seconds", 3.0)),
        "a commit takes 0.30 s, and a RECEIPT waits for one or two",
    ),
    "disk-short": (of_stand("disks", {"journal": 0.05}), "the disk of the journal has 5% left"),
    "journal-failing": (setter("journal", SimpleNamespace(failure="no", rows_dropped=0)), "no"),
    "spans-failing": (setter("tracing", SimpleNamespace(failure="it is gone")), "it is gone"),
    "losing": (
        lambda stand: stand.lose("/queue/a", dropped=94_700, expired=2),
        "94,700 dropped, 2 expired at /queue/a, the last within a minute",
    ),
    "dead-lettering": (
        lambda stand: stand.lose("/queue/a", dead_lettered=3),
        "3 dead-lettered at /queue/a, the last within a minute",
    ),
    "dead-letters": (
        of_stand("troubles", Troubles(dead_letters={"/queue/d": 5000})),
        "5,000 messages wait in /queue/d",
    ),
    "no-consumer": (
        of_stand("troubles", Troubles(unconsumed={"/queue/a b": 5000})),
        "5,000 messages wait in /queue/a b, which has no consumer",
    ),
    "standing-still": (
        of_stand("troubles", Troubles(still={"/queue/a": 5000})),
        "5,000 messages wait in /queue/a, and its consumers take none",
    ),
    "slow-consumers": (
        setter(COUNTERS + "slow_consumers", 4000),
        "clients did not read and were closed: 4,000 within 15 minutes",
    ),
    "consumers-stalled": (
        setter("broker.context.stalled_consumers", 2),
        "2 consumers get nothing more, for a message was not settled in time",
    ),
    "handlers-fail": (setter("functions", SimpleNamespace(failures=6)), "requests failed: 6 within 15 minutes"),
    "logins-fail": (setter(COUNTERS + "failed_logins.token", 11), "refused logins: 11 within 5 minutes"),
    "access-refused": (
        setter(COUNTERS + "forbidden.send", 21),
        "refused SENDs, SUBSCRIBEs and queue arguments: 21 within 15 minutes",
    ),
    "heartbeats-missed": (
        setter(COUNTERS + "heartbeat_timeouts", 21),
        "clients were taken for dead: 21 within 15 minutes",
    ),
    "connections-refused": (
        setter("connection_limits.refusals.max_connections", 1),
        "connections over a limit: 1 within 10 minutes",
    ),
    "lag": (of_stand("turns", Percentiles(1, 2, 250)), "1 of 100 batches of frames takes more than 250 ms"),
    "processor-full": (of_stand("seconds", [SAMPLE] * 10), "the gateway uses a whole core"),
    "certificate-ends": (
        setter("certificates", SimpleNamespace(ends=EPOCH + 3 * 86_400)),
        "it ends in 3 days",
    ),
    "edge-away": (
        edge_with(ended="exit status 1"),
        "edge 2 serves no clients, and the last time it ended by exit status 1",
    ),
    "edge-restarted": (
        edge_with(is_ready=True, ended="signal SIGKILL", ended_at=EPOCH - 5.0),
        "edge 2 was started again: it ended by signal SIGKILL",
    ),
    "cluster-unavailable": (a_node_with(unavailable="they are down"), "they are down"),
    "no-primary": (a_node_with(role="standby", nodes=[]), "a is a standby, and no node is primary"),
    "no-standby": (a_node_with(nodes=[]), "no node could take over from a"),
    "standby-lags": (a_node_with(bounds=Bounds(1, 17_000, 0)), "b has not applied 10,000 messages of the log"),
    "lease-not-renewed": (
        a_node_with(term=SimpleNamespace(lease=SimpleNamespace(age=4.0))),
        "it was renewed 4 s ago, so stored messages are held back",
    ),
    "log-short": (
        a_node_with(room=Room("the NATS server n1", 76, 100)),
        "the NATS server n1 has used 76% of 100 bytes for JetStream",
    ),
    "log-grows": (
        a_node_with(bounds=Bounds(1, 7_000, 1 << 30), snapshots=SimpleNamespace(due=256 << 20)),
        "it has 1,024 MiB, and snapshots should have cut it",
    ),
}


@pytest.mark.parametrize("kind", CASES)
async def test_it_is_told_once_it_lasts(kind: str, stand: Stand, autojump_clock: MockClock) -> None:
    breaks, what = CASES[kind]
    await trio.sleep(5)
    breaks(stand)
    hold = KINDS[kind].hold
    if hold:
        assert stand.look() == []
        await trio.sleep(hold)
    (found,) = stand.look()
    assert (found["id"], found["what"], found["since"]) == (kind, what, EPOCH + 5)
    assert found["severity"] == KINDS[kind].severity
    assert str(found["page"]).partition("#")[0] in ("docs/alerts.md", "docs/durability.md")


async def test_other_words_for_the_same(stand: Stand, autojump_clock: MockClock) -> None:
    stand.seconds = [SimpleNamespace(lag_ms=300.0, cpu=0.1)]
    stand.gateway.certificates = SimpleNamespace(ends=EPOCH - 1)
    stand.gateway.journal = SimpleNamespace(failure="", rows_dropped=0)
    stand.broker.judge_memory(scarce=True, flooded=False, nearly_exhausted=False, exhausted="")
    stand.look()
    stand.gateway.journal.rows_dropped = 7000
    assert {each["id"]: each["what"] for each in stand.look()} == {
        "lag": "the event loop was 300 ms late within the last ten seconds",
        "certificate-ends": "it has ended",
        "memory-high": "publishers are held back, because memory is short",
        "journal-dropping": "7,000 rows were left out within ten minutes",
    }


async def test_the_state_of_nodes_in_words(stand: Stand, autojump_clock: MockClock) -> None:
    nodes = [SimpleNamespace(node="b", role="standby", sequence=7_000, failure="a newer gateway wrote records")]
    a_node_with(role="drained", nodes=nodes)(stand)
    stand.look()
    await trio.sleep(60)
    assert {each["id"]: each["what"] for each in stand.look()} == {
        "standby-lags": "b does not follow the log: a newer gateway wrote records",
        "no-primary": "a is drained, and no node is primary",
        "not-ready": "a is drained, and takes over no more",
    }


async def test_a_log_that_is_full(stand: Stand) -> None:
    a_node_with(full="the log is full", unavailable="they are off")(stand)
    assert {each["id"]: each["what"] for each in stand.look()} == {
        "log-short": "nothing can be written or acknowledged: the log is full",
        "cluster-unavailable": "they are off",
    }


async def test_a_standby_is_no_fault(stand: Stand) -> None:
    a_node_with(role="standby")(stand)
    stand.gateway.is_standby = stand.gateway.draining = True
    stand.broker.storage = stand.gateway.committer = None
    assert stand.look() == []


async def test_a_lease_that_is_not_renewed_is_no_fault_of_the_store(stand: Stand) -> None:
    term = SimpleNamespace(lease=SimpleNamespace(age=4.0))
    a_node_with(unavailable="they are down", term=term)(stand)
    stand.broker.storage = cast(Any, SimpleNamespace(failure="the cluster does not answer", is_suspended=True))
    found = {each["id"]: each["what"] for each in stand.look()}
    assert found == {"cluster-unavailable": "they are down, so durable messages are refused"}


async def test_a_store_that_waits_for_the_cluster_has_no_fault_of_its_own(
    stand: Stand, autojump_clock: MockClock
) -> None:
    a_node_with(unavailable="they are down")(stand)
    stand.broker.storage.failure = "the cluster does not answer"
    stand.look()
    await trio.sleep(60)
    assert [each["id"] for each in stand.look()] == ["cluster-unavailable"]


async def test_a_way_of_losing_that_is_over_is_not_told(stand: Stand, autojump_clock: MockClock) -> None:
    stand.lose("/queue/a", dropped=94_700)
    await trio.sleep(60)
    stand.lose("/queue/a", dead_lettered=3)
    (found,) = stand.look()
    assert (found["id"], found["what"]) == ("dead-lettering", CASES["dead-lettering"][1])
    await trio.sleep(60)
    stand.lose("/queue/a")
    assert stand.look() == [], "the watch has not been round since"


async def test_a_remedy_names_the_settings_file_in_force(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    stand.broker.storage = None
    monkeypatch.setenv("GATEWAY_CONFIG", "/etc/other.toml")
    assert 'store = "sqlite:store.db" into /etc/other.toml and' in str(stand.look()[0]["remedy"])


async def test_it_ends_and_begins_anew(stand: Stand, autojump_clock: MockClock) -> None:
    stand.broker.counters.slow_consumers = 4
    assert [each["since"] for each in stand.look()] == [EPOCH]
    await trio.sleep(901)
    assert stand.look() == []
    stand.broker.counters.slow_consumers = 8
    assert [each["since"] for each in stand.look()] == [EPOCH + 901]


async def test_the_worst_first_and_of_very_many_some(stand: Stand, autojump_clock: MockClock) -> None:
    stand.gateway.draining = True
    stand.troubles.dead_letters = {f"/queue/dlq.{number}": 1 for number in range(60)}
    stand.lose("/queue/a b", dead_lettered=1)
    stand.look()
    await trio.sleep(5)
    stand.broker.storage = None
    found = stand.look()
    assert (len(found), found[0]["id"]) == (MOST, "not-ready")
    assert {each["severity"] for each in found[1:]} == {"warning"}
    stand.troubles.dead_letters = {}
    found = stand.look()
    assert [each["id"] for each in found] == ["not-ready", "dead-lettering", "memory-only"]
    assert found[1]["link"] == "#/destination?name=%2Fqueue%2Fa+b"


async def test_a_name_that_is_cut_says_so(stand: Stand, autojump_clock: MockClock) -> None:
    stand.troubles.dead_letters = {"/queue/" + 80 * "d": 1}
    stand.look()
    await trio.sleep(60)
    assert [each["what"] for each in stand.look()] == [f"1 message waits in /queue/{72 * 'd'}…"]


def test_each_is_an_alert_and_has_its_severity() -> None:
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules.yml").read_text())
    severities = {
        f"docs/alerts.md#{rule['alert'].lower()}": rule["labels"]["severity"]
        for group in rules["groups"]
        for rule in group["rules"]
    }
    for name, kind in KINDS.items():
        if kind.alert.startswith("docs/"):
            assert (ROOT / kind.alert).is_file()
        else:
            assert kind.severity == severities[kind.page], name
        assert kind.remedy.endswith(".")
        assert not kind.title.endswith(".")
    assert set(CASES) == set(KINDS) - {"journal-dropping"}
