"""The log on a real server of NATS: the same verbs as the log in memory, and its refusals as ours."""

from __future__ import annotations

import pytest

from gateway.cluster.log import Bounds, LogUnavailable, SequenceRefused
from gateway.cluster.servers import Servers
from tests.cluster.conftest import ACluster


def test_appends_in_order_and_reads_again(servers: Servers) -> None:
    log = servers.log()
    assert log.bounds().last == 0
    assert log.read(1) == []
    assert [log.append(b"%d" % number, number) for number in range(5)] == [1, 2, 3, 4, 5]
    assert [(each.sequence, each.data) for each in log.read(4)] == [(4, b"3"), (5, b"4")]
    assert log.read(6) == []


@pytest.mark.parametrize("expected", [0, 1, 3])
def test_refuses_any_other_sequence(servers: Servers, expected: int) -> None:
    log = servers.log()
    for number in range(2):
        log.append(b"", number)
    with pytest.raises(SequenceRefused):
        log.append(b"", expected)
    assert log.bounds().last == 2


def test_reads_more_than_fits_into_one_answer(servers: Servers) -> None:
    log = servers.log()
    for number in range(12):
        log.append(bytes(800_000), number)
    found = []
    while some := log.read(len(found) + 1):
        assert len(some) < 12
        found += some
    assert [each.sequence for each in found] == list(range(1, 13))


def test_is_purged_in_front_of_a_sequence(servers: Servers) -> None:
    log = servers.log()
    for number in range(5):
        log.append(b"x", number)
    log.purge(4)
    assert log.bounds()._replace(nbytes=0) == Bounds(4, 5, 0)
    assert [each.sequence for each in log.read(1)] == [4, 5]
    assert log.append(b"x", 5) == 6


def test_says_so_when_it_is_not_there(cluster: ACluster) -> None:
    with pytest.raises(LogUnavailable):
        cluster.servers.log().bounds()
