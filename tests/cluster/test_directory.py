"""One node at a time has the lease, and the nodes that are there are known."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace

import pytest

from gateway.cluster.directory import LEASE, LeaseLost, NodeState, Primary
from gateway.cluster.nats.jetstream import JetStream
from gateway.cluster.servers import Servers
from tests.cluster.conftest import ACluster
from tests.cluster.servers import connection

A = Primary("a", "127.0.0.1:1", 1)
B = Primary("b", "127.0.0.1:2", 2)


def test_the_lease_has_one_holder(servers: Servers) -> None:
    directory = servers.directory()
    assert directory.primary() == (0, None)
    revision = directory.take(A, 0)
    with pytest.raises(LeaseLost):
        directory.take(B, 0)
    assert directory.primary() == (revision, A)
    again = directory.take(A, revision)
    with pytest.raises(LeaseLost):
        directory.take(B, revision)
    assert directory.primary() == (again, A)


def test_the_lease_ends_without_renewal(servers: Servers) -> None:
    directory = servers.directory()
    directory.take(A, 0)
    until = time.monotonic() + LEASE + 10
    while (found := directory.primary())[1] is not None:
        assert time.monotonic() < until
    assert directory.take(B, found[0])


def test_what_the_last_primary_won_outlives_its_lease(cluster: ACluster, servers: Servers) -> None:
    directory = servers.directory()
    assert directory.won() == 0
    won = directory.win(A, 0)
    renewed = directory.take(A, won)
    assert directory.won() == won
    next_one = directory.win(B, renewed)
    assert directory.won() == next_one > renewed
    with closing(connection([cluster.server])) as stranger:
        JetStream(stranger).append(f"$KV.GW_{cluster.name}.won", b"", {})
    assert directory.won() == 0


def test_nodes_tell_of_themselves(servers: Servers) -> None:
    directory = servers.directory()
    first = NodeState("b", "127.0.0.1:2", "standby", "1", 5, 0)
    other = NodeState("a", "127.0.0.1:1", "primary", "1", 9, 3)
    revision = directory.tell(first, 0)
    for unseen in (0, revision + 1):
        with pytest.raises(LeaseLost):
            directory.tell(first, unseen)
    directory.tell(other, 0)
    revision = directory.tell(first, revision)
    told = [replace(each, server="n0") for each in (other, first)]
    assert directory.nodes() == told
    assert directory.node("b") == (revision, told[1])
    directory.leave("b", revision)
    assert directory.nodes() == told[:1]
    ended, found = directory.node("b")
    assert found is None
    assert directory.tell(first, ended)
    assert directory.node("c") == (0, None)


def test_a_handover_is_asked_for(servers: Servers) -> None:
    directory = servers.directory()
    assert directory.wish() is None
    directory.ask_for_handover("b")
    first = directory.wish()
    directory.ask_for_handover("b")
    second = directory.wish()
    assert first is not None
    assert second is not None
    assert first[0] < second[0]
    assert (first[1], second[1]) == ("b", "b")
