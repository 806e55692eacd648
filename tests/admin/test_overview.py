"""The overview: what the gateway does now, held against the OpenAPI document, and the samples of its last seconds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

import gateway
from gateway.admin.overview import OverviewApi, OverviewNow
from gateway.broker.core.counters import Counters
from gateway.config.settings import load
from gateway.observe import sampler
from gateway.observe.sampler import Sampler
from gateway.runtime.gateway import Gateway

from .running import Running, running
from .test_site import OpenGateway


def sampler_of(opened: OpenGateway) -> Sampler:
    return Sampler(opened.broker, opened.connection_limits, opened.turns, epoch=lambda: 1.7e9 + trio.current_time())


class TestNow:
    async def test_of_an_empty_gateway(self, site: Running) -> None:
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

    async def test_memory_limits_and_the_drain(self, site: Running) -> None:
        found = await site.get("overview")
        memory = site.gateway.memory_guard
        assert found["memory"]["mark"] == (memory.mark or None)
        assert found["memory"]["messages_limit"] == site.gateway.broker.quotas.memory_limit
        assert found["memory"]["pressed"] is False
        assert {"max_connections", "max_handshakes", "max_outbound", "memory"} <= set(found["limits"])
        assert set(found["limits"].values()) == {0}
        await site.gateway.drain()
        found = await site.get("overview")
        assert (found["ready"], found["reason"]) == (False, "the gateway is shutting down")
        assert found["drain"] == "draining"

    async def test_with_a_store_and_a_journal(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        async with running(store="sqlite:store.db", journal="journal") as site:
            peer = await site.peer()
            await peer.publish("/queue/a", b"", persistent="true", receipt="r")
            await peer.frame("RECEIPT")
            found = await site.get("overview")
            assert found["store"]["failing"] is None
            assert found["store"]["commits"] >= 1
            assert found["store"]["commit_seconds"] >= 0
            assert found["journal"]["failing"] is None
            assert found["journal"]["rows"] + found["journal"]["pending_octets"] > 0
            assert found["journal"]["dropped"] == 0
            await peer.aclose()


class TestSamples:
    @pytest.fixture
    async def opened(self) -> OpenGateway:
        return OpenGateway()

    async def now(self, opened: OpenGateway, running: Sampler, since: float = 0.0) -> dict[str, Any]:
        overview = OverviewApi(cast("Gateway", opened), load(), running)
        found = overview.now(since)
        OverviewNow.model_validate(found, strict=False)
        return found

    async def test_only_newer_ones_are_told(
        self, opened: OpenGateway, nursery: trio.Nursery, autojump_clock: MockClock
    ) -> None:
        running = sampler_of(opened)
        nursery.start_soon(running.run)
        await trio.sleep(0.5)
        opened.turns.add(170, 100)
        opened.broker.counters.published += 7
        await trio.sleep(5)
        every = (await self.now(opened, running))["samples"]
        assert len(every) == 5
        assert [each["published"] for each in every] == [7, 0, 0, 0, 0]
        just_before = math.nextafter(every[-1]["at"], 0)
        assert (await self.now(opened, running, just_before))["samples"] == every[-1:]

    async def test_latencies_of_the_last_seconds_and_no_more_samples_than_are_kept(
        self, opened: OpenGateway, nursery: trio.Nursery, autojump_clock: MockClock
    ) -> None:
        running = sampler_of(opened)
        nursery.start_soon(running.run)
        await trio.sleep(0.5)
        opened.turns.add(170, 100)
        await trio.sleep(3)
        found = await self.now(opened, running)
        assert found["latency"]["turn_ms"] == {"p50": 0.175, "p95": 0.198, "p99": 0.2}
        assert found["memory"]["process"] == found["samples"][-1]["memory"] > 0
        await trio.sleep(sampler.KEPT + 10)
        assert len((await self.now(opened, running))["samples"]) == sampler.KEPT
