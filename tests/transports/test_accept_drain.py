"""The entrance while the gateway drains: nobody comes in, and who knocks is told when to come back.

Of all that knocking the log says nothing.
"""

from __future__ import annotations

import pytest
import structlog.testing
import trio
from trio.testing import MockClock

from gateway.transports import ConnectionHandler, TransportOptions

from .harness import Harness
from .peers import Peer, TcpWire, read_all, until
from .test_accept import HEADER, UNIX, MakeHarness, Visit, parametrize


@parametrize(("retry", "seconds"), [(0, "0"), (1, "1"), (1500, "2"), (2000, "2")])
async def test_an_upgrade(make_harness: MakeHarness, retry: int, seconds: str) -> None:
    harness = make_harness(options=TransportOptions(drain_retry=retry))
    harness.server.draining = True
    visit = Visit(harness, ConnectionHandler(harness.server, "websocket"))
    with structlog.testing.capture_logs() as logs:
        answer = await visit.refused()
        await visit.stream.aclose()
        await until(lambda: not harness.server.connection_limits.connections)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert harness.counters.refusals["draining"] == 1
    assert f"\r\nRetry-After: {seconds}\r\n".encode() in answer
    assert b"shutting down" in answer
    assert not logs


@parametrize("proxied", [False, True])
async def test_tcp(harness: Harness, proxied: bool) -> None:
    harness.server.draining = True
    visit = Visit(harness, ConnectionHandler(harness.server, proxied=proxied, trusted=UNIX))
    with structlog.testing.capture_logs() as logs:
        if proxied:
            await visit.stream.send_all(HEADER)
        error = await Peer(TcpWire(visit.stream)).frame("ERROR")
        await visit.stream.aclose()
        await until(lambda: not harness.server.connection_limits.connections)
    assert (error["message"], error["retry-after"]) == ("server is shutting down", "2000")
    assert (harness.counters.refused, harness.counters.sessions) == (1, 0)
    assert not logs


async def test_a_client_that_does_not_wait_for_the_answer(harness: Harness) -> None:
    harness.server.draining = True
    visit = Visit(harness, ConnectionHandler(harness.server))
    with structlog.testing.capture_logs() as logs:
        await visit.stream.aclose()
        await until(lambda: not harness.server.connection_limits.connections)
    assert not logs


async def test_a_silent_client(make_harness: MakeHarness, autojump_clock: MockClock) -> None:
    """It hears the ERROR, and has `close_linger` to go."""
    harness = make_harness(options=TransportOptions(close_linger=3.0))
    harness.server.draining = True
    visit = Visit(harness, ConnectionHandler(harness.server))
    assert (await read_all(visit.stream)).startswith(b"ERROR\n")
    await until(lambda: not harness.server.connection_limits.connections)
    assert trio.current_time() == pytest.approx(3.0, abs=0.1)
