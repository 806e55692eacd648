"""Metrics of what is too much: by limit and by reason, all there from the start, and no others."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.auth.authenticator import Anonymous
from gateway.broker import Quotas
from gateway.observe.metrics import Metrics
from gateway.observe.overload_metrics import OverloadCollector
from gateway.transports import Server, TransportOptions
from gateway.transports.flow.back_pressure import REASONS
from gateway.transports.flow.connection_limits import Capacity
from gateway.transports.wire.fairness import FairGate

from .test_metrics import samples


@pytest.fixture
async def server() -> Server:
    return Server(Anonymous(), Quotas(memory_limit=4_000_000), TransportOptions(capacity=Capacity(max_connections=2)))


def metrics(server: Server) -> Metrics:
    overload = OverloadCollector(
        server.broker, server.back_pressure.blocked, server.connection_limits, server.memory_guard, server.fair_gates
    )
    return Metrics(server.broker, server.back_pressure.blocked, others=[overload])


async def test_all_are_there_from_the_start(server: Server) -> None:
    found = samples(metrics(server))
    for reason in REASONS:
        assert found[f"gateway_sessions_held{{reason={reason}}}"] == 0
        assert found[f"gateway_holds_total{{reason={reason}}}"] == 0
    for limit in ("max_connections", "max_connections_per_address", "max_connections_per_user", "max_handshakes"):
        assert found[f"gateway_connections_over_limit_total{{limit={limit}}}"] == 0
    for line in ("strangers", "bulk"):
        assert found[f"gateway_turnstile_waiting{{line={line}}}"] == 0
    for limit in ("max_outbound", "slow_messages", "browser"):
        assert found[f"gateway_slow_consumers_over_limit_total{{limit={limit}}}"] == 0


async def test_connections(server: Server) -> None:
    guests = [server.connection_limits.enter("10.0.0.1", lambda error: None) for _ in range(3)]
    guests[0].logs_in("ann")
    found = samples(metrics(server))
    assert found["gateway_connections_open"] == 2
    assert found["gateway_handshakes"] == 1
    assert found["gateway_connections_over_limit_total{limit=max_connections}"] == 1


async def test_who_waits_for_a_turn(server: Server) -> None:
    """The first that comes passes at once; each other one finds those before it in the line."""
    found: dict[str, list[float]] = {"bulk": [], "strangers": []}

    def waiting(name: str) -> float:
        return samples(metrics(server))[f"gateway_turnstile_waiting{{line={name}}}"]

    async def come(name: str, line: FairGate) -> None:
        found[name].append(waiting(name))
        await line.enter()

    async with trio.open_nursery() as keepers:
        keepers.start_soon(server.fair_gates.run)
        await wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(come, "bulk", server.fair_gates.bulk)
            for _ in range(3):
                nursery.start_soon(come, "strangers", server.fair_gates.handshakes)
        keepers.cancel_scope.cancel()
    assert found == {"bulk": [0, 0, 1, 2], "strangers": [0, 0, 1]}
    assert [waiting(name) for name in found] == [0, 0]


async def test_memory(server: Server) -> None:
    server.memory_guard.watch(1_000, "memory_mark", lambda: 1_500, lambda: None)
    server.memory_guard.tick(0.0)
    server.memory_guard.closed = 7
    server.broker.memory.buffer(3_500_000)
    found = samples(metrics(server))
    assert found["gateway_memory_mark_bytes"] == 1_000
    assert found["gateway_memory_resident_bytes"] == 1_500
    assert found["gateway_memory_short"] == 1
    assert found["gateway_memory_full"] == 1
    assert found["gateway_memory_closed_total"] == 7
    assert found["gateway_incomplete_bytes"] == 3_500_000
