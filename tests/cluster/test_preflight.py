"""Servers that a cluster cannot use are refused, each for a reason that says what to change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.cluster.nats.connection import NatsOptions, ServerAddress
from gateway.cluster.nats.credentials import NatsCredentials
from gateway.cluster.nats.faults import About, NatsRefused, NatsUnavailable
from gateway.cluster.preflight import unfit
from gateway.cluster.servers import Servers
from tests.cluster.nats.scripted import GOOD, greet, serving
from tests.cluster.servers import PATIENCE, NatsServer, nats_servers

ACCOUNTS = """
accounts {
  SYS {
    users: [{user: sys, password: sys}]
    exports: [{service: "$SYS.REQ.SERVER.PING.VARZ", response: stream, accounts: [GW]}]
  }
  GW {
    jetstream: enabled
    users: [{user: gw, password: gw}]
    imports: [{service: {account: SYS, subject: "$SYS.REQ.SERVER.PING.VARZ"}}]
  }
  OTHER { jetstream: enabled, users: [{user: other, password: other}] }
  NONE { users: [{user: none, password: none}] }
}
system_account: SYS
"""


@contextmanager
def servers(address: ServerAddress, user: str) -> Iterator[Servers]:
    with Servers(lambda _: NatsOptions([address], credentials=lambda: NatsCredentials(user, user)), "test") as found:
        yield found


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        ({"version": "2.9.10", "max_payload": 1 << 20}, "has version 2.9.10: the cluster needs 2.11 or newer"),
        ({"version": "1.99.0"}, "has version 1.99.0: the cluster needs 2.11 or newer"),
        ({"version": "2.11.0-RC.1"}, ""),
        ({"version": "2.11.0", "max_payload": 1 << 20}, ""),
        ({"version": "3.0.0"}, ""),
        ({"version": "main"}, ""),
        (
            {"version": "2.15.1", "max_payload": 65_536},
            "takes messages up to 65,536 bytes: set its max_payload to 1MB, the default, or more",
        ),
        ({}, ""),
    ],
)
def test_info_of_a_server(info: dict[str, object], reason: str) -> None:
    assert unfit(info) == reason


def test_an_old_server_gets_no_credentials() -> None:
    with serving(lambda connection: print(greet(connection, GOOD | {"version": "2.9.10"}))) as address:
        with servers(address, "gw") as ours, pytest.raises(NatsRefused) as refused:
            ours.check()
        assert str(refused.value) == f"the NATS server {address} has version 2.9.10: the cluster needs 2.11 or newer"
        assert refused.value.about is About.SERVER


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_servers(tmp_path_factory.mktemp("nats"), 1, ACCOUNTS) as (server,):
        yield server


def test_servers_that_tell_and_those_that_do_not(nats: NatsServer) -> None:
    for user, told in (("gw", True), ("other", False)):
        with servers(nats.address, user) as ours:
            assert ours.check() is told


def test_an_account_without_jetstream(nats: NatsServer) -> None:
    with servers(nats.address, "none") as ours, pytest.raises(NatsRefused) as refused:
        ours.check()
    sentence = f"the NATS server n0 ({nats.address}) refuses JetStream to this user: JetStream not enabled for account"
    assert str(refused.value) == sentence
    assert refused.value.about is About.LOGIN


def test_servers_that_synchronize_late(tmp_path: Path) -> None:
    with nats_servers(tmp_path, 3, ACCOUNTS, sync="2m") as found:
        with servers(found[0].address, "gw") as ours, pytest.raises(NatsRefused) as refused:
            await_cluster(ours)
        assert str(refused.value) == (
            "sync_interval of the NATS servers n0, n1, n2 is not always, so that a power cut loses what is receipted: "
            "write jetstream { sync_interval: always }"
        )
        with servers(found[1].address, "other") as ours:
            assert ours.check() is False


def await_cluster(ours: Servers) -> None:
    """Check until JetStream has a leader."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            ours.check()
        except NatsUnavailable as error:
            if isinstance(error, NatsRefused):
                raise
        time.sleep(0.1)
