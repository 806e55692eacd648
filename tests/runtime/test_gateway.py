"""The runtime: what is open inside the block, how it ends, and what is said when it cannot start."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest
import structlog.testing
import trio

from gateway import __version__
from gateway.broker import Quotas
from gateway.config.settings import Settings
from gateway.runtime.gateway import StartError, options_of, quotas_of
from gateway.transports import TransportOptions

from ..transports.peers import dial_stream, until
from .gateways import FREE, KINDS, STORE, P, connected, refused, running, settings


class TestOpen:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_several_addresses_of_every_kind(self, kind: str, tmp_path: Path) -> None:
        path = tmp_path / "s.sock"
        async with running(**{kind: f"{FREE},[::1]:0,unix:{path}"}) as gateway:
            v4, v6, unix = gateway.addresses[kind]
            assert v4.startswith("127.0.0.1:")
            assert v6.startswith("[::1]:")
            assert unix == f"unix:{path}"
            peers = [await connected(gateway, kind, number) for number in range(3)]
            shown = [session.peer for session in gateway.broker.sessions.values()]
            assert shown[0].startswith("127.0.0.1:")
            assert shown[1].startswith("[::1]:")
            assert shown[2] == "unix"
            for peer in peers:
                await peer.settled()
                await peer.aclose()
        assert not path.exists()
        assert await refused(v4)


class TestDrain:
    @pytest.mark.requirement("LNG-02", "WST-08")
    @pytest.mark.parametrize("kind", KINDS)
    async def test_sessions_learn_when_to_come_back(self, kind: str) -> None:
        async with running(drain_retry=1234) as gateway:
            peer = await connected(gateway, kind)
            await peer.subscribe("/queue/a", ack="client")
            await peer.publish("/queue/a", b"x")
            await peer.frame("MESSAGE")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(gateway.drain)
                error = await peer.frame("ERROR")
                await peer.at_end()
                await peer.aclose()
            assert (error["message"], error["retry-after"]) == ("server is shutting down", "1234")
            assert error.body == b"connect again in 1234 ms"
            if kind == "websocket":
                assert peer.websocket.closed == (1012, "server is shutting down")
            assert not gateway.broker.sessions
            assert gateway.broker.context.waiting == 1

    @pytest.mark.parametrize("kind", KINDS)
    async def test_what_was_routed_before_is_written(self, kind: str) -> None:
        async with running() as gateway:
            peer, publisher = await connected(gateway, kind), await connected(gateway, kind)
            await peer.subscribe("/topic/a")
            for _ in range(200):
                await publisher.publish("/topic/a", b"x" * 5000)
            await publisher.settled()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(gateway.drain)
                for _ in range(200):
                    assert len((await peer.frame("MESSAGE")).body) == 5000
                await peer.at_end_after_error()
                await peer.aclose()
                await publisher.aclose()

    async def test_no_client_gets_what_another_one_gives_back(self) -> None:
        """It would be marked as redelivered, though the client that is about to be ended can do nothing with it."""
        async with running() as gateway:
            peers = [await connected(gateway, "tcp") for _ in range(3)]
            for peer in peers:
                await peer.subscribe("/queue/a", ack="client")
            for _ in peers:
                await peers[0].publish("/queue/a")
            for peer in peers:
                await peer.frame("MESSAGE")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(gateway.drain)
                for peer in peers:
                    await peer.at_end_after_error()
                    await peer.aclose()
            assert (gateway.broker.context.waiting, gateway.broker.counters.redelivered) == (3, 0)

    @pytest.mark.parametrize("kind", KINDS)
    async def test_nobody_new_comes_in(self, kind: str) -> None:
        async with running() as gateway:
            stream = await dial_stream(gateway.addresses[kind][0])
            await until(lambda: gateway._server.open_connections or kind == "websocket")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(gateway.drain)
                await trio.testing.wait_all_tasks_blocked()
                assert await refused(gateway.addresses[kind][0])
                await stream.aclose()

    async def test_twice(self) -> None:
        """At once and one after the other: SIGTERM, and then the block's own end."""
        began = trio.current_time()
        async with running() as gateway:
            peer = await connected(gateway, "tcp")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(gateway.drain)
                nursery.start_soon(gateway.drain)
                await peer.at_end_after_error()
                await peer.aclose()
        assert trio.current_time() - began < 9

    async def test_an_operators_drain_waits_for_the_last_and_for_the_store(self) -> None:
        """Beyond `drain_timeout`, because the process stays; the log says when it may be stopped."""
        with structlog.testing.capture_logs() as logs:
            async with running(drain_timeout=0.05, close_linger=30.0, store=STORE) as gateway:
                peer = await connected(gateway, "tcp")
                await peer.send_frame("SEND", b"x", destination="/queue/a", **P)
                await peer.settled()
                await gateway.drain()
                gateway.begin_drain()
                await trio.testing.wait_all_tasks_blocked()
                assert (gateway.draining, gateway.drained) == (True, False)
                await peer.at_end_after_error()
                await peer.aclose()
                await until(lambda: gateway.drained)
                assert [each["event"] for each in logs][-1] == "drained"
                assert gateway.broker.storage is not None
                assert not gateway.broker.storage.unwritten

    @pytest.mark.parametrize("kind", KINDS)
    async def test_bounded_in_time(self, kind: str) -> None:
        """A client that does not close is cut; the linger alone would be half a minute."""
        began = trio.current_time()
        async with running(drain_timeout=0.2, close_linger=30.0) as gateway:
            peer = await connected(gateway, kind)
            await gateway.drain()
            assert gateway._server.open_connections
        assert trio.current_time() - began < 15
        await peer.at_end_after_error()
        await peer.aclose()

    async def test_an_error_in_the_block_drains_as_well(self) -> None:
        peers = []

        async def fail() -> None:
            async with running() as gateway:
                peers.append(await connected(gateway, "tcp"))
                raise RuntimeError("the app failed")

        with pytest.raises(BaseExceptionGroup) as caught:
            await fail()
        assert caught.group_contains(RuntimeError, match="the app failed")
        await peers[0].at_end_after_error()
        await peers[0].aclose()

    async def test_cancelled_from_outside(self) -> None:
        """That cuts the connections, and leaves nothing behind."""
        with trio.CancelScope() as scope:
            async with running() as gateway:
                peer = await connected(gateway, "tcp")
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught
        assert not gateway.broker.sessions
        await peer.wire.receive()
        await peer.aclose()
        assert await refused(gateway.addresses["tcp"][0])


class TestStartError:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_port_that_is_taken(self, kind: str) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            with pytest.raises(StartError) as caught:
                async with running(**{kind: f"127.0.0.1:{port}"}):
                    raise AssertionError("it has started")
        assert str(caught.value) == (
            f"cannot listen on 127.0.0.1:{port}: the address is in use by another program; "
            f"change the setting {kind} (GATEWAY_{kind.upper()})"
        )
        assert caught.value.__cause__ is None

    @pytest.mark.parametrize("kind", KINDS)
    async def test_nothing_is_left_open(self, kind: str, tmp_path: Path) -> None:
        """Neither the listeners before it nor the files of their unix sockets."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        path = tmp_path / "s.sock"
        wrong = "192.0.2.1:1"
        addresses = {kind: f"127.0.0.1:{port},unix:{path},{wrong}"}
        if kind == "websocket":
            addresses = {"tcp": f"127.0.0.1:{port},unix:{path}", "websocket": f"{FREE},{wrong}"}
        with pytest.raises(StartError, match="this machine has no such address"):
            async with running(**addresses):
                raise AssertionError("it has started")
        assert await refused(f"127.0.0.1:{port}")
        assert not path.exists()


class TestSettings:
    """Each setting reaches the layer that it is for."""

    def test_values(self) -> None:
        chosen = settings(
            server_name="name",
            server_version=False,
            max_subscriptions=11,
            max_headers=12,
            max_connect_headers=13,
            max_connections=14,
            connect_timeout=1.5,
            allowed_origins="https://a.example",
        )
        options = options_of(chosen)
        assert quotas_of(chosen) == replace(Quotas(), max_subscriptions=11)
        assert (options.server, options.allowed_origins) == ("name", ("https://a.example",))
        assert (options.limits.headers, options.connect_limits.headers) == (12, 13)
        assert (options.capacity.max_connections, options.connect_timeout) == (14, 1.5)

    def test_defaults_are_the_same_everywhere(self) -> None:
        """A test that uses the bare classes sees what a user sees."""
        assert quotas_of(Settings()) == Quotas()
        assert options_of(Settings()) == TransportOptions(server=f"stomp-gateway/{__version__}")
