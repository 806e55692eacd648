"""`gateway cluster`: what it prints, and its refusals; on a real NATS server, with nodes that tell of themselves."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli import main
from gateway.cluster import directory
from gateway.cluster.directory import NodeState, Primary
from gateway.cluster.nats.connection import NatsOptions
from gateway.cluster.records import Kind, Record
from gateway.cluster.replica import Replica
from gateway.cluster.servers import Servers
from gateway.stores import SQLiteStore
from tests.cluster.servers import NatsServer, nats_servers
from tests.stores.batches import new

SINCE = 1_700_000_000.0
NOWHERE = "http://127.0.0.1:1"
_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def _nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.startswith("GATEWAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """No node renews what a test has told, and a command may take longer than a lease."""
    for name in ("LEASE", "PRESENCE", "WISH"):
        monkeypatch.setattr(directory, name, 600)


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_servers(tmp_path_factory.mktemp("nats"), 1) as (server,):
        yield server


class Shop:
    """A cluster, and its commands."""

    def __init__(self, server: NatsServer) -> None:
        self.name = f"shop{next(_numbers)}"
        self.server = server
        self.servers = Servers(lambda purpose: NatsOptions([server.address], name=purpose), self.name)

    def make(self) -> None:
        for make in (self.servers.log().make, self.servers.directory().make, self.servers.snapshots().make):
            make(1)

    def lead(self, primary: Primary) -> None:
        directory = self.servers.directory()
        directory.take(primary, directory.primary()[0])

    def tell(self, *nodes: NodeState) -> None:
        for each in nodes:
            directory = self.servers.directory()
            directory.tell(each, directory.node(each.node)[0])

    def run(self, *words: str, **others: str) -> Result:
        settings = {
            "cluster": self.name,
            "cluster_servers": str(self.server.address),
            "cluster_replicas": "1",
            "cluster_replicas_anyway": "true",
            "store": "sqlite:node.db",
            **others,
        }
        variables = {f"GATEWAY_{name.upper()}": value for name, value in settings.items() if value}
        return CliRunner().invoke(main.main, ["cluster", *words], env=variables)

    def refused(self, *words: str, **others: str) -> str:
        """The sentence of a command that ends with status 1."""
        result = self.run(*words, **others)
        assert (result.exit_code, result.stdout) == (1, ""), result.output
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1
        return result.stderr.removeprefix("Error: ").strip()


@pytest.fixture
def shop(nats: NatsServer) -> Iterator[Shop]:
    found = Shop(nats)
    with found.servers:
        yield found


A = Primary("node-a", "10.0.0.1:61613", 3, since=SINCE, reason="a handover")
OF_A = NodeState("node-a", "10.0.0.1:61613", "primary", "1.0", 2, 12_000, NOWHERE, applied=SINCE + 1)
OF_B = NodeState("node-b", "10.0.0.2:61613", "standby", "1.0", 1, 0)


class TestStatus:
    def test_a_table(self, shop: Shop) -> None:
        shop.make()
        for last in (0, 1):
            shop.servers.log().append(b"x", last)
        shop.lead(A)
        shop.tell(OF_A, OF_B)
        result = shop.run("status")
        lines = result.stdout.splitlines()
        size = lines[3].split()[-2]
        address = str(shop.server.address)
        lines[2:5] = [re.sub(r", \d+[smhd] ago", ", X ago", line) for line in lines[2:5]]
        assert (result.exit_code, lines) == (
            0,
            [
                f"cluster   {shop.name}, version 1.0",
                "primary   node-a, epoch 3",
                "since     2023-11-14 22:13:20 UTC, X ago: a handover",
                f"log       messages 1 to 2, {size} bytes",
                "last      record of 2023-11-14 22:13:21 UTC, X ago",
                "snapshot  none yet",
                "",
                f"server  {'address'.ljust(len(address))}  answers  leads",
                f"{shop.server.name}      {address}  yes      log, lease",
                "",
                "node    role     ready  lag  clients  address",
                "node-a  primary  -        0   12,000  10.0.0.1:61613",
                "node-b  standby  -        1        0  10.0.0.2:61613",
                "",
                f"node-a: {NOWHERE} does not answer: Connection refused",
                "node-b: its pages have no address: set cluster_url there",
            ],
        )
        shop.tell(dataclasses.replace(OF_B, version="1.1"))
        lines = shop.run("status").stdout.splitlines()
        assert (lines[0], lines[-4]) == (
            f"cluster   {shop.name}",
            "node-b  standby  -        1        0  1.1      10.0.0.2:61613",
        )

    def test_eighty_columns(self, shop: Shop) -> None:
        shop.make()
        name = "gateway-of-the-shop-berlin"
        shop.lead(Primary(name, "192.168.100.100:61613", 12_345, since=SINCE, reason="the lease of the last one ended"))
        shop.tell(NodeState(name, "192.168.100.100:61613", "primary", "1.0", 0, 100))
        assert max(map(len, shop.run("status").stdout.partition("\nno node could")[0].splitlines())) <= 80

    def test_json(self, shop: Shop) -> None:
        shop.make()
        shop.lead(A)
        shop.tell(OF_A, OF_B)
        (shop.server.folder / "copy").write_bytes(b"a snapshot")
        shop.servers.snapshots().put(shop.server.folder / "copy", 7, 100)
        result = shop.run("status", "--json")
        found = json.loads(result.stdout)
        assert result.exit_code == 0
        assert (found["cluster"], found["primary"], found["epoch"]) == (shop.name, "node-a", 3)
        assert (found["since"], found["reason"]) == (SINCE, "a handover")
        snapshot = found["log"]["snapshot"]
        assert (snapshot["sequence"], snapshot["bytes"]) == (7, 10)
        assert abs(snapshot["made"] - time.time()) < 60
        assert [each["node"] for each in found["nodes"]] == ["node-a", "node-b"]
        assert "snapshot  of message 7, 10 bytes, 20" in shop.run("status").stdout

    def test_status_1_without_primary_or_standby(self, shop: Shop) -> None:
        shop.make()
        result = shop.run("status")
        assert result.exit_code == 1
        assert "primary   none\nlog       no messages, 0 bytes\n" in result.stdout
        assert "\nno node is there\n\nno node runs: start the nodes of the cluster\n" in result.stdout
        shop.tell(OF_B)
        assert shop.run("status").exit_code == 1
        shop.lead(A)
        assert shop.run("status").exit_code == 0

    def test_what_to_see_to(self, shop: Shop) -> None:
        shop.make()
        shop.lead(A)
        shop.tell(OF_A, dataclasses.replace(OF_B, role="primary", failure="the disk is full"))
        lines = shop.run("status").stdout.splitlines()
        assert lines[-2:] == ["", "no node could take over from node-a: node-b does not follow: the disk is full"]
        assert "node-b  was primary  -        0        0  10.0.0.2:61613" in lines

    def test_nodes_that_were_there(self, shop: Shop) -> None:
        shop.make()
        shop.lead(A)
        shop.tell(OF_A)
        shop.servers.directory().remember(OF_B)
        result = shop.run("status")
        assert result.exit_code == 1
        assert "node-b  away     -        -        0  10.0.0.2:61613" in result.stdout
        assert result.stdout.splitlines()[-1] == "no node could take over from node-a: start the gateway on node-b"

    def test_no_server_and_no_log(self, shop: Shop, tmp_path: Path) -> None:
        result = shop.run("status", cluster_servers="127.0.0.1:1", cluster_node="node-c", http="127.0.0.1:2")
        lines = result.stdout.splitlines()
        assert result.exit_code == 1
        assert lines[:3] == [f"cluster   {shop.name}", "primary   none", "log       not known"]
        assert "127.0.0.1:1 cannot be reached: Connection refused" in lines
        assert "node-c: http://127.0.0.1:2 does not answer: Connection refused" in lines
        assert lines[-1] == (
            "no NATS server answers: start nats-server on 127.0.0.1:1, or look at the network of this machine; and the "
            "gateway on node-c"
        )
        sentence = "the cluster has no log: start a node, which makes it or says why not"
        assert shop.run("status").stdout.splitlines()[-1] == sentence
        replica = Replica.open(tmp_path / "node.db")
        replica.write(new([1]), Record(Kind.BATCH, 0, 1, 0, b""), 7)
        replica.close()
        found = json.loads(shop.run("status", "--json").stdout)
        assert found["problem"].startswith(f"the log of the cluster {shop.name} is empty or gone, and this node's copy")
        assert found["log"] is None


class TestEveryCommand:
    @pytest.mark.parametrize("word", ["status", "handover"])
    def test_refusals(self, shop: Shop, word: str) -> None:
        sentence = "this gateway is no node of a cluster: the setting cluster names one"
        assert shop.refused(word, cluster="") == sentence
        assert "cluster_credentials" in shop.refused(word, cluster_credentials="none.creds")

    def test_no_server(self, shop: Shop) -> None:
        sentence = shop.refused("handover", cluster_servers="127.0.0.1:1")
        assert sentence.endswith("Connection refused; `gateway cluster status` asks each NATS server")


class TestHandover:
    def test_it_is_asked_for(self, shop: Shop) -> None:
        shop.make()
        shop.lead(A)
        shop.tell(OF_A, OF_B)
        result = shop.run("handover", "node-b")
        said = "asked node-a to hand over to node-b: see `gateway cluster status`\n"
        assert (result.exit_code, result.stdout) == (0, said)
        wish = shop.servers.directory().wish()
        assert wish is not None
        assert wish[1] == "node-b"
        assert shop.run("handover").stdout.startswith("asked node-a to hand over to a standby: ")

    def test_refusals(self, shop: Shop) -> None:
        assert shop.refused("handover") == "the cluster has no directory: a node that runs or starts makes it"
        shop.make()
        assert shop.refused("handover") == "the cluster has no primary for now"
        shop.lead(A)
        shop.tell(OF_A)
        assert shop.refused("handover", "node-a") == "node-a is the primary already"
        assert shop.refused("handover") == "there is no standby that could take over"
        shop.tell(OF_B)
        assert shop.refused("handover", "node-c") == f"node-c is no standby of {shop.name}: node-b"


class TestBootstrap:
    def test_a_store_becomes_that_of_a_cluster(self, shop: Shop, tmp_path: Path) -> None:
        store = SQLiteStore.open(tmp_path / "old.db", reserve=0)
        store.write(new([1, 2, 3]))
        run = partial(shop.run, "bootstrap", "--from", "sqlite:old.db")
        assert "is in use" in shop.refused("bootstrap", "--from", "sqlite:old.db")
        store.close(clean=True)
        result = run()
        said = f"the cluster {shop.name} begins with 3 messages of old.db; start its nodes now\n"
        assert (result.exit_code, result.stdout) == (0, said)
        (snapshot,) = shop.servers.snapshots().all()
        assert snapshot.sequence == 2
        sentence = f"the cluster {shop.name} has messages already: it takes no other store"
        assert shop.refused("bootstrap", "--from", "sqlite:old.db") == sentence

    @pytest.mark.parametrize("source", ["sqlite:none.db", "memory", "sqlite:"])
    def test_no_such_file(self, shop: Shop, source: str) -> None:
        assert shop.refused("bootstrap", "--from", source).endswith("write --from sqlite:FILE")

    def test_something_else(self, shop: Shop, tmp_path: Path) -> None:
        (tmp_path / "old.db").write_text("not SQLite" * 20)
        assert "old.db is damaged: file is not a database" in shop.refused("bootstrap", "--from", "sqlite:old.db")


@pytest.mark.slow
def test_status_in_an_outage(tmp_path: Path) -> None:
    with nats_servers(tmp_path / "nats", 3) as (first, second, third):
        shop = Shop(first)
        addresses = ", ".join([str(each.address) for each in (first, second, third)])
        all_of_them = {"cluster_servers": addresses, "cluster_replicas": "3"}
        with shop.servers as servers:
            for make in (servers.log().make, servers.directory().make):
                make(3)
            servers.directory().remember(dataclasses.replace(OF_B, url=NOWHERE))
            found = json.loads(shop.run("status", "--json", cluster_replicas="3").stdout)
            assert {each["name"] for each in found["servers"]} == {"n0", "n1", "n2"}, (
                "the first one tells of the others"
            )
            assert sorted([what for each in found["servers"] for what in each["leads"]]) == ["lease", "log"]
            assert found["problem"] == "no node runs: start the gateway on node-b"
            for each in (second, third):
                each.kill()
            end = time.monotonic() + 60
            # A leader that has lost its followers gives up some seconds later, of each stream at its own time.
            while found["log"] is not None or not found["nodes"] or any(each["leads"] for each in found["servers"]):
                assert time.monotonic() < end, found
                began = time.monotonic()
                found = json.loads(shop.run("status", "--json", **all_of_them).stdout)
                assert time.monotonic() - began < 20
    assert [(each["name"], each["answers"], each["leads"]) for each in found["servers"]] == [
        ("n0", True, []),
        (None, False, []),
        (None, False, []),
    ]
    assert found["problem"] == (
        f"two of three NATS servers do not answer: start nats-server on {second.address} and {third.address}; and the "
        "gateway on node-b"
    )
