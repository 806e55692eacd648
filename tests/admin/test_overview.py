"""The overview: what the gateway does now, and the samples of its last seconds."""

from __future__ import annotations

import math
from typing import Any

import trio
from trio.testing import MockClock

import gateway
from gateway.admin.monitor import Monitor
from gateway.admin.overview import OverviewApi, OverviewNow
from gateway.broker.core.counters import Counters

from .running import Running


class TestNow:
    async def test_of_an_empty_gateway_and_of_one_that_drains(self, site: Running) -> None:
        found = await site.get("overview")
        assert found["version"] == gateway.__version__
        assert found["server_name"] == site.settings.server_name
        assert (found["ready"], found["reason"], found["drain"], found["complaints"]) == (True, None, None, {})
        assert found["sessions"] == {"total": 0, "tcp": 0, "websocket": 0}
        assert found["started_at"] <= found["at"]
        assert 0 <= found["uptime"] <= found["at"] - found["started_at"] + 0.01
        assert (found["store"], found["journal"]) == (None, None)
        assert found["latency"] == {"turn_ms": None, "queue_ms": None, "ack_ms": None}
        assert (found["step"], found["samples"]) == (1.0, [])
        assert set(found["counters"]) == set(Counters().totals())
        assert found["memory"]["mark"] == (site.gateway.memory_guard.mark or None)
        assert found["memory"]["messages_limit"] == site.gateway.broker.quotas.memory_limit
        assert found["memory"]["pressed"] is False
        assert {"max_connections", "max_handshakes", "max_outbound", "memory"} <= set(found["limits"])
        assert set(found["limits"].values()) == {0}
        await site.gateway.drain()
        found = await site.get("overview")
        assert (found["ready"], found["reason"]) == (False, "the gateway is shutting down")
        assert found["drain"] == "draining"

    async def test_connections_and_messages(self, site: Running) -> None:
        peers = [await site.peer(kind) for kind in ("tcp", "tcp", "websocket")]
        await peers[0].subscribe("/queue/a", ack="client")
        for number in range(3):
            await peers[1].publish("/queue/a", b"%d" % number)
            await peers[0].frame("MESSAGE")
        await peers[1].publish("/queue/b")
        await peers[1].settled()
        found = await site.get("overview")
        assert found["sessions"] == {"total": 3, "tcp": 2, "websocket": 1}
        assert found["connections"] == 3
        assert (found["subscriptions"], found["destinations"]) == (1, 2)
        messages = found["messages"]
        assert (messages["waiting"], messages["unacknowledged"]) == (1, 3)
        assert messages["octets"] == found["memory"]["messages"] > 0
        assert found["counters"]["published"] == 5
        for each in peers:
            await each.aclose()


async def test_samples_that_are_newer_and_latencies_of_the_last_seconds(
    site: Running, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    opened = site.gateway
    monitor = Monitor(opened, site.settings, epoch=lambda: 1.7e9 + trio.current_time())
    overview = OverviewApi(opened, site.settings, monitor)
    nursery.start_soon(monitor.sampler.run)
    await monitor.look()
    await trio.sleep(0.5)
    opened.turns.add(170, 100)
    opened.broker.counters.published += 7
    opened.broker.counters.drops.update({"queue-full": 3, "purged": 5})
    await trio.sleep(5)
    found: dict[str, Any] = overview.now(0)
    OverviewNow.model_validate(found, strict=False)
    every = found["samples"]
    assert [each["published"] for each in every] == [7, 0, 0, 0, 0]
    assert [each["dropped"] for each in every] == [3, 0, 0, 0, 0]
    assert found["losses"] == {"dropped": 3, "dead_lettered": 0, "expired": 0, "conflated": 0}
    assert [each["id"] for each in found["problems"]] == ["memory-only"]
    assert overview.now(math.nextafter(every[-1]["at"], 0))["samples"] == every[-1:]
    assert found["latency"]["turn_ms"] == {"p50": 0.175, "p95": 0.198, "p99": 0.2}
    assert found["memory"]["process"] == every[-1]["memory"] > 0
