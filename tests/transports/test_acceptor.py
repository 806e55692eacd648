"""One connection is accepted in a round; where rounds are long, more are."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.transports import Listening, close, open_listeners
from gateway.transports.accept.listener import Acceptor
from gateway.transports.wire.fairness import SHARE_OF_HANDSHAKES

from .peers import dial_stream

MANY = 12


@pytest.fixture
async def listening() -> AsyncIterator[Listening]:
    found = await open_listeners("127.0.0.1", 0, "")
    yield found
    await close(found)


def switches() -> int:
    """How often this task gave the loop back."""
    return trio.lowlevel.current_task()._schedule_points


async def accept_all(acceptor: Acceptor, listening: Listening, count: int) -> int:
    """Accept so many that have come already; returns how many rounds that took."""
    clients = [await dial_stream(listening.addresses[0]) for _ in range(count)]
    before = switches()
    for _ in range(count):
        await (await acceptor.accept()).aclose()
    after = switches()
    for client in clients:
        await client.aclose()
    return after - before - count  # each close is one


async def test_one_in_a_round(listening: Listening) -> None:
    acceptor = Acceptor(listening.listeners[0], clock=lambda: 0.0)
    assert await accept_all(acceptor, listening, MANY) == MANY
    await acceptor.aclose()


async def test_more_where_rounds_are_long(listening: Listening) -> None:
    times = iter([each * 5.5 * SHARE_OF_HANDSHAKES for each in range(1000)])
    acceptor = Acceptor(listening.listeners[0], clock=lambda: next(times))
    assert await accept_all(acceptor, listening, MANY) == MANY / 6
    await acceptor.aclose()


async def test_later_connections_are_waited_for(listening: Listening, nursery: trio.Nursery) -> None:
    times = iter([each * 5.5 * SHARE_OF_HANDSHAKES for each in range(1000)])
    acceptor = Acceptor(listening.listeners[0], clock=lambda: next(times))
    came: list[trio.SocketStream] = []

    async def accept() -> None:
        while len(came) < 3:
            came.append(await acceptor.accept())

    nursery.start_soon(accept)
    await wait_all_tasks_blocked()
    assert not came
    clients = []
    for number in range(1, 4):
        clients.append(await dial_stream(listening.addresses[0]))
        await wait_all_tasks_blocked()
        assert len(came) == number
    await clients[2].send_all(b"hello")
    assert await came[2].receive_some() == b"hello"
    for stream in (*clients, *came, acceptor):
        await stream.aclose()


async def test_what_trio_refuses_is_refused(listening: Listening, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more files may be open: trio's caller waits a moment and comes again, if it is told."""
    acceptor = Acceptor(listening.listeners[0])
    client = await dial_stream(listening.addresses[0])

    def none_left(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr("socket.socket._accept", none_left, raising=True)
        with pytest.raises(OSError, match="Too many open files"):
            await acceptor.accept()
    await (await acceptor.accept()).aclose()
    await client.aclose()
    await acceptor.aclose()


async def test_no_connection_is_accepted_behind_its_close(tmp_path: Path) -> None:
    listening = await open_listeners("", 0, str(tmp_path / "socket"))
    acceptor = Acceptor(listening.listeners[0])
    await acceptor.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await acceptor.accept()
    with pytest.raises(OSError, match=r"failed to connect|refused"):
        await dial_stream(listening.addresses[0])
    await close(listening)
