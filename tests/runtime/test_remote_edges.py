"""Listeners for edges on other machines: what they know of each edge."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import trio

from gateway.admin.edges import rows_of
from gateway.admin.gateway_api import metrics_of
from gateway.auth.authenticator import Anonymous
from gateway.broker.model.identity import Identity
from gateway.codec import V12
from gateway.config.settings import Settings
from gateway.edges.forms import EdgeLoad, ToPrimary, fields_of_login
from gateway.edges.pipe import MessagePipe
from gateway.runtime import remote_edges
from gateway.runtime.gateway import Gateway, open_gateway
from gateway.runtime.remote_edges import Connector
from gateway.transports.flow.connected import Login
from tests.edges.authority import Authority

FREE = "127.0.0.1:0"
PATIENCE = 10
LOGIN = Login(V12, (0, 0), "", Identity("user"), "127.0.0.1:50000", "tcp", "127.0.0.1", b"\0\n")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


Link: TypeAlias = Callable[[str], Awaitable[MessagePipe]]
"""Makes the link of an edge of that name, which serves clients."""


@asynccontextmanager
async def primary_of(authority: Authority) -> AsyncIterator[tuple[Gateway, Link]]:
    files: Any = authority.files("primary")
    settings = Settings(tcp=[FREE], websocket=[FREE], edge_listen=[FREE], close_linger=0.1, **files)
    with trio.fail_after(PATIENCE):
        async with open_gateway(settings, authenticator=Anonymous()) as gateway, AsyncExitStack() as closing:

            async def link(name: str) -> MessagePipe:
                files: Any = authority.files(name)
                pipe = await Connector(Settings(edge_of=gateway.addresses["edge_listen"], **files))()
                closing.push_async_callback(pipe.aclose)
                pipe.put(int(ToPrimary.LOAD), *EdgeLoad(memory=7, connections=3, strangers=2))
                await pipe.drain()
                return pipe

            yield gateway, link


async def until(is_so: Callable[[], object]) -> None:
    while not is_so():  # noqa: ASYNC110 - another process would ask, too
        await trio.sleep(0.01)


async def rows(primary: Gateway, *ready: bool) -> list[dict[str, Any]]:
    """The edges, once so many are there, and are ready or not."""
    await until(lambda: [row["ready"] for row in rows_of(primary)] == [*ready])
    return rows_of(primary)


async def test_what_is_told_of_each(authority: Authority) -> None:
    async with primary_of(authority) as (primary, link):
        began = time.time()
        await link("west")
        (row,) = await rows(primary, True)
        assert (row["edge"], row["address"], row["pid"]) == ("west", "127.0.0.1", None)
        assert (row["starts"], row["ended"], row["ended_at"]) == (1, "", None)
        assert (row["connections"], row["memory"]) == (3, 7)
        assert row["link_received"] > 0
        text, _ = await metrics_of(primary, primary.in_force.now).scrape("")
        assert b'gateway_turnstile_waiting{line="strangers"} 2.0' in text
        assert began - 1 < row["since"] < began + PATIENCE


async def test_names_are_told_apart_and_used_again(authority: Authority) -> None:
    async with primary_of(authority) as (primary, link):
        first = await link("west")
        second = await link("west")
        number = await link("1")
        assert [row["edge"] for row in await rows(primary, True, True, True)] == ["west", "west-2", "127.0.0.1"]
        await first.aclose()
        await rows(primary, True, True)
        await link("west")
        assert {row["edge"] for row in await rows(primary, True, True, True)} == {"west", "west-2", "127.0.0.1"}
        await second.aclose()
        await number.aclose()
        await rows(primary, True)


async def test_one_that_is_lost_with_sessions_is_shown_for_some_minutes(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with primary_of(authority) as (primary, link):
        for starts in (1, 2):
            edge = await link("west")
            (row,) = await rows(primary, True)
            assert row["starts"] == starts
            edge.put(int(ToPrimary.OPEN), 1, fields_of_login(LOGIN), False)
            await edge.drain()
            await until(lambda: rows_of(primary)[0]["sessions"])
            await edge.aclose()
            (row,) = await rows(primary, False)
            assert (row["ended"], row["sessions"]) == ("a lost connection", 0)
            assert time.time() - PATIENCE < row["ended_at"] <= time.time()
        later = time.time() + 601
        monkeypatch.setattr(remote_edges.time, "time", lambda: later)  # type: ignore[attr-defined]
        assert rows_of(primary) == []


async def test_connections_that_are_reset_at_once_end_nothing(authority: Authority) -> None:
    async with primary_of(authority) as (primary, link):
        host, _, port = primary.addresses["edge_listen"][0].rpartition(":")
        for _ in range(5):
            with socket.create_connection((host, int(port)), timeout=PATIENCE) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed by a reset
        await link("west")
        await rows(primary, True)
