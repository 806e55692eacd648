"""Listeners: every kind of address, errors of those that cannot be opened, unix sockets, and the fair accept."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog.testing
import trio

from gateway.transports import AddressError, ConnectionHandler, Listening, close, open_listeners, unlinking
from gateway.transports.accept import accept as module
from gateway.transports.accept.listener import Acceptor
from gateway.transports.wire.fairness import SHARE_OF_HANDSHAKES

from .harness import Harness
from .peers import dial_stream, read_all, socket_streams, vanish

parametrize = pytest.mark.parametrize


@asynccontextmanager
async def opened(host: str = "", port: int = 0, path: str = "") -> AsyncIterator[Listening]:
    listening = await open_listeners(host, port, path)
    try:
        yield listening
    finally:
        for listener in listening.listeners:
            await listener.aclose()


async def meet(listening: Listening) -> None:
    """A client comes in at each address."""
    for listener, address in zip(listening.listeners, listening.addresses, strict=True):
        client = await dial_stream(address)
        accepted = await listener.accept()
        await client.send_all(b"hello")
        assert await accepted.receive_some() == b"hello"
        await client.aclose()
        await accepted.aclose()


class TestTcp:
    @parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
    async def test_a_port_that_is_taken(self, host: str, shown: str) -> None:
        async with opened(host) as listening:
            port = listening.listeners[0].socket.getsockname()[1]
            with pytest.raises(AddressError) as caught:
                await open_listeners(host, port, "")
        assert str(caught.value) == f"{shown}:{port}: the address is in use by another program"

    @parametrize(
        ("error", "words"),
        [
            (OSError(errno.EACCES, "Permission denied"), "not permitted to this user"),
            (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "the host name cannot be resolved"),
            (OSError(errno.ENOBUFS, "No buffer space available"), "no buffer space available"),
            (OSError("something else"), "something else"),
        ],
    )
    async def test_other_reasons(self, monkeypatch: pytest.MonkeyPatch, error: OSError, words: str) -> None:
        async def refuse(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(trio, "open_tcp_listeners", refuse)
        with pytest.raises(AddressError) as caught:
            await open_listeners("gateway.example", 1, "")
        assert str(caught.value) == f"gateway.example:1: {words}"


class TestUnix:
    async def test_a_file_that_another_gateway_has_taken(self, tmp_path: Path) -> None:
        """The next gateway, which came while this one, drained, had closed its listener and was still there."""
        path = tmp_path / "stomp.sock"
        drained = await open_listeners("", 0, str(path))
        for listener in drained.listeners:
            await listener.aclose()
        following = await open_listeners("", 0, str(path))
        await close(drained)
        client = await dial_stream(f"unix:{path}")
        await client.aclose()
        await close(following)
        assert not path.exists()

    async def test_a_file_in_use(self, tmp_path: Path) -> None:
        path = tmp_path / "stomp.sock"
        async with opened(path=str(path)) as listening:
            with pytest.raises(AddressError) as caught:
                await open_listeners("", 0, str(path))
            assert str(caught.value) == f"unix:{path}: the address is in use by another program"
            client = await dial_stream(f"unix:{path}")
            await client.aclose()
            for _ in range(2):  # the question whether somebody listens is the other
                await (await listening.listeners[0].accept()).aclose()
            await meet(listening)

    async def test_a_new_file_is_removed_at_the_end(self, tmp_path: Path) -> None:
        path = tmp_path / "stomp.sock"
        listening = await open_listeners("", 0, str(path))
        assert listening.addresses == [f"unix:{path}"]
        assert stat.S_ISSOCK(path.stat().st_mode)
        await meet(listening)
        await close(listening)
        assert not path.exists()

    @parametrize(("name", "words"), [("none/stomp.sock", "the folder does not exist$"), ("x" * 200, "path too long")])
    async def test_a_file_that_cannot_be(self, tmp_path: Path, name: str, words: str) -> None:
        with pytest.raises(AddressError, match=words):
            await open_listeners("", 0, str(tmp_path / name))

    def test_files_are_removed_after_an_error(self, tmp_path: Path) -> None:
        paths = [tmp_path / "a.sock", tmp_path / "b.sock"]
        for path in paths:
            path.touch()
        listed = ["127.0.0.1:1", *[f"unix:{path}" for path in paths], f"unix:{tmp_path / 'gone.sock'}"]
        with pytest.raises(RuntimeError), unlinking(listed):
            raise RuntimeError
        assert not any(path.exists() for path in paths)

    async def test_a_file_left_behind(self, tmp_path: Path) -> None:
        """By a gateway that was killed: nobody listens on it, so it is replaced."""
        path = tmp_path / "stomp.sock"
        async with opened(path=str(path)):
            pass
        assert path.exists()
        async with opened(path=str(path)) as listening:
            await meet(listening)


class TestServe:
    async def test_a_peer_that_has_gone_already(self, harness: Harness) -> None:
        """Reset between its connect and our accept: the system does not even know who it was."""
        async with opened("127.0.0.1") as listening:
            client = await dial_stream(listening.addresses[0])
            vanish(client)
            accepted = await listening.listeners[0].accept()
            await ConnectionHandler(harness.server, "tcp").serve(accepted)
            assert accepted.socket.fileno() == -1
        assert not harness.server.open_connections

    async def test_a_fault_of_the_handshake_stays_in_it(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An exception that left it would end the listener."""

        async def burn(*_: object, **__: object) -> None:
            raise RuntimeError("in the handshake")

        monkeypatch.setattr(module, "accept", burn)
        theirs, ours = socket_streams()
        async with theirs:
            with structlog.testing.capture_logs() as logs:
                await ConnectionHandler(harness.server, "websocket").serve(ours)
            assert await read_all(theirs) == b""
        assert logs[0]["event"] == "handshake failed"
        assert logs[0]["log_level"] == "error"
        assert harness.counters.totals()["refused"] == 1


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


@parametrize(("shares", "rounds"), [(0, MANY), (5.5, MANY / 6)], ids=["one in a round", "more in long rounds"])
async def test_so_many_are_accepted_in_a_round(listening: Listening, shares: float, rounds: float) -> None:
    times = iter([each * shares * SHARE_OF_HANDSHAKES for each in range(1000)])
    acceptor = Acceptor(listening.listeners[0], clock=lambda: next(times))
    assert await accept_all(acceptor, listening, MANY) == rounds
    await acceptor.aclose()
