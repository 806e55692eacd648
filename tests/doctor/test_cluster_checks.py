"""Faults of a cluster: its NATS servers, its log, its nodes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from gateway.cluster.directory import NodeState, Primary
from gateway.cluster.nats.connection import NatsOptions
from gateway.cluster.nats.faults import NatsUnavailable
from gateway.cluster.records import Kind, Record
from gateway.cluster.replica import Replica
from gateway.cluster.servers import Servers
from gateway.config.settings import Settings
from gateway.doctor import cluster_checks
from gateway.doctor.cluster_checks import check_cluster
from gateway.doctor.examine import targets_of
from gateway.doctor.model import HTTP, TCP, WEBSOCKET, CheckOptions, CheckReport, CheckResult, Level
from tests.cluster.gateways import two_gateways
from tests.cluster.servers import NatsServer, await_jetstream, connection, nats_servers
from tests.doctor.scene import faults, look, only, settings_of
from tests.gateway_process import START_TIMEOUT, free_ports
from tests.stores.batches import new

NOTICED = 'ping_interval: "1s"\nping_max: 2\nwrite_deadline: "1s"'


class Scene:
    """A server with its monitoring, and the cluster `shop` on it.  `nodes` tell of themselves before each look."""

    def __init__(self, server: NatsServer, monitoring: int) -> None:
        self.server = server
        self.monitoring = monitoring
        self.servers = Servers(lambda purpose: NatsOptions([server.address], name=purpose), "shop")
        self.primary = Primary("node-a", "10.0.0.1:61613", 3)
        self.nodes = [NodeState("node-b", "10.0.0.2:61613", "standby", "1.0", 0, 0)]

    def look(self, *, monitoring: int = 0, ahead: float = 0.0, **settings: object) -> list[CheckResult]:
        directory = self.servers.directory()
        if self.primary.node:
            directory.take(self.primary, directory.primary()[0])
        for each in self.nodes:
            directory.tell(each, directory.node(each.node)[0])
        return examined(self.server, monitoring or self.monitoring, ahead, **settings)


def examined(server: NatsServer, monitoring: int, ahead: float = 0.0, **settings: object) -> list[CheckResult]:
    values: dict[str, object] = {
        "cluster": "shop",
        "cluster_servers": str(server.address),
        "cluster_replicas": 1,
        "cluster_replicas_anyway": True,
        "store": "sqlite:store.db",
        **settings,
    }
    found: list[CheckResult] = []
    options = CheckOptions(now=lambda: time.time() - ahead)
    check_cluster(Settings(**values), options, CheckReport(found.append), monitoring)  # type: ignore[arg-type]
    return found


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[NatsServer, int]]:
    (monitoring,) = free_ports(1)
    with nats_servers(tmp_path_factory.mktemp("nats"), 1, f"http: 127.0.0.1:{monitoring}\n{NOTICED}") as (server,):
        await_jetstream([server])
        yield server, monitoring


@pytest.fixture
def scene(started: tuple[NatsServer, int]) -> Iterator[Scene]:
    found = Scene(*started)
    with found.servers as servers:
        for make in (servers.log().make, servers.directory().make, servers.snapshots().make):
            make(1)
        yield found


def test_without_faults(scene: Scene) -> None:
    found = scene.look()
    assert [each for each in found if each.level is not Level.OK] == []
    assert only(found, f"NATS {scene.server.address}", Level.OK).detail.startswith("n0, nats-server 2.")
    assert only(found, "sync_interval", Level.OK)
    assert only(found, "silence", Level.OK).detail.startswith("ping_interval 1 s, ping_max 2, write_deadline 1 s: ")
    assert only(found, "cluster log", Level.OK).detail.startswith("1 replica, ")
    assert only(found, "cluster primary", Level.OK).detail == "node-a at 10.0.0.1:61613, epoch 3"
    assert only(found, "cluster standby", Level.OK).detail == "node-b"
    assert only(found, "cluster lag node-b", Level.OK).detail == "0 messages"
    assert only(found, "cluster clock", Level.OK)


def test_sync_interval_is_not_seen(scene: Scene) -> None:
    (other,) = free_ports(1)
    assert "sync_interval: always" in only(scene.look(monitoring=other), "sync_interval", Level.WARN).remedy


def test_fewer_replicas_than_the_setting(scene: Scene) -> None:
    fault = only(scene.look(cluster_replicas=3), "cluster log")
    assert fault.detail == "it has 1 replica, and cluster_replicas is 3"
    assert fault.remedy == "`nats stream edit GW_shop --replicas 3`"


def test_a_clock_that_differs(scene: Scene) -> None:
    found = scene.look(ahead=10.0)
    assert only(found, "cluster clock", Level.WARN).detail == "the clock of the NATS servers is 10 s ahead of this one"


def test_a_standby_that_lags_and_none(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_checks, "LAG", 0)
    log = scene.servers.log()
    log.append(b"x", log.bounds().last)
    last = log.bounds().last
    fault = only(scene.look(), "cluster lag node-b", Level.WARN)
    assert fault.detail == f"it has not applied {last} messages of the log"
    scene.nodes = [NodeState("node-b", "", "starting", "1.0", 0, 0)]
    assert only(scene.look(), "cluster standby", Level.WARN).detail == "no node could take over"


def test_a_standby_that_does_not_follow(scene: Scene) -> None:
    scene.nodes = [NodeState("node-b", "", "standby", "1.0", 0, 0, failure="a newer gateway wrote records")]
    fault = only(scene.look(), "cluster lag node-b")
    assert fault.detail == "it does not follow the log: a newer gateway wrote records"


def test_no_log_yet(scene: Scene) -> None:
    found = examined(scene.server, scene.monitoring, cluster="other")
    assert only(found, "cluster log").detail == "the cluster other has no log yet"


def test_a_log_that_was_lost(scene: Scene, tmp_path: Path) -> None:
    replica = Replica.open(tmp_path / "copy.db")
    replica.write(new([1]), Record(Kind.BATCH, 0, 1, 0, b""), 7)
    replica.close()
    found = examined(scene.server, scene.monitoring, cluster="other", store=f"sqlite:{tmp_path}/copy.db")
    fault = only(found, "cluster log")
    assert fault.detail == "the log of the cluster other is empty or gone, and this node's copy has it up to message 7"
    assert fault.remedy.endswith("do what docs/cluster.md says under A lost log")


def test_servers_that_cannot_be_used(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    found = scene.look(cluster_servers=f"127.0.0.1:{port}, {scene.server.address}")
    assert "Connection refused" in only(found, f"NATS 127.0.0.1:{port}").detail
    assert only(found, "cluster primary", Level.OK)
    monkeypatch.setattr(cluster_checks, "OLDEST", (99, 0))
    assert only(scene.look(), f"NATS {scene.server.address}").remedy == "Install 99.0 or newer"
    assert only(scene.look(), "cluster").detail == "no NATS server can be used"
    found = scene.look(cluster_credentials=tmp_path / "none")
    assert faults(found)[0].startswith("FAIL NATS: cluster_credentials")


def test_without_jetstream_and_without_sync(tmp_path: Path) -> None:
    (monitoring,) = free_ports(1)
    with nats_servers(tmp_path, 1, f"http: 127.0.0.1:{monitoring}") as (server,):
        server.kill()
        text = server.settings.read_text()
        server.settings.write_text(text.replace("sync_interval: always", "sync_interval: 2m"))
        server.start()
        _await(server)
        fault = only(examined(server, monitoring), "silence", Level.WARN)
        assert fault.detail == (
            "ping_interval 120 s, ping_max 2, write_deadline 10 s, so a take-over may take 40 s where a machine is "
            "gone without a word"
        )
        assert fault.remedy == 'Write `ping_interval: "1s", ping_max: 2, write_deadline: "1s"` in nats.conf'
        fault = only(examined(server, monitoring), "sync_interval")
        assert fault.remedy == "Write `jetstream { sync_interval: always }` in nats.conf"
        server.kill()
        server.settings.write_text("\n".join(each for each in text.splitlines() if "jetstream" not in each))
        server.start()
        _await(server)
        assert only(examined(server, monitoring), f"NATS {server.address}").detail == "JetStream is off there"


def _await(server: NatsServer) -> None:
    """Wait until it takes connections."""
    end = time.monotonic() + START_TIMEOUT
    with closing(connection([server])) as found:
        while not found.info:
            assert time.monotonic() < end
            with suppress(NatsUnavailable):
                found.request("probe", timeout=1)
            time.sleep(0.05)


@pytest.mark.long
@pytest.mark.slow
def test_a_server_of_three_is_away(tmp_path: Path) -> None:
    with nats_servers(tmp_path, 3) as (first, second, third):
        options = NatsOptions([first.address, second.address])
        with Servers(lambda purpose: options, "shop") as servers:
            for make in (servers.log().make, servers.directory().make):
                make(3)
            third.kill()
            addresses = ",".join([str(each.address) for each in (first, second, third)])
            (monitoring,) = free_ports(1)
            end = time.monotonic() + START_TIMEOUT
            # The others take a while to see it, and to choose another leader.
            found = away(addresses, monitoring)
            while not [each for each in found if each.detail.startswith("n2 lag behind its leader")] or (
                f"NATS {first.address}" in "".join(faults(found))
            ):
                assert time.monotonic() < end, found
                found = away(addresses, monitoring)
    assert only(found, "cluster log", Level.WARN).remedy == "Start these NATS servers"
    assert only(found, f"NATS {first.address}", Level.OK)
    assert "Connection refused" in only(found, f"NATS {third.address}").detail
    assert only(found, "cluster primary").detail == "no node runs"


def away(addresses: str, monitoring: int) -> list[CheckResult]:
    found: list[CheckResult] = []
    settings = Settings(cluster="shop", cluster_servers=addresses, store="sqlite:store.db")  # type: ignore[arg-type]
    check_cluster(settings, CheckOptions(), CheckReport(found.append), monitoring)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("listens", ["true", pytest.param("false", marks=pytest.mark.long)])
async def test_a_standby_is_no_fault(tmp_path: Path, listens: str) -> None:
    with two_gateways(tmp_path, cluster_standby_listens=listens) as pair:
        for name in pair.nodes:
            settings = settings_of(pair.nodes[name])
            targets = targets_of(settings)
            found = await look(settings=settings, url=targets[HTTP][0], tcp=targets[TCP], websocket=targets[WEBSOCKET])
            assert faults(found) == []
            assert ("not checked, because this node is a standby" in [each.detail for each in found]) == (name == "b")
