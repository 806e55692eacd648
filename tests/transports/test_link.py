"""Pipes and the plain link: how bytes are grouped, and what a broken or a full connection looks like."""

from __future__ import annotations

import socket

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.transports.wire.link import BrokenLink, Buffers, Pipe, SocketPipe, advance, joined

from .peers import socket_streams, vanish

LARGE = 32 * 1024


class TestJoined:
    def test_large_parts_are_not_copied(self) -> None:
        """A large message to many receivers exists once."""
        large = b"x" * LARGE
        buffers = joined([b"a", large, b"b", b"c", large, large, b"d"], 3 * LARGE + 4)
        assert buffers == [b"a", large, b"bc", large, large, b"d"]
        assert sum([buffer is large for buffer in buffers]) == 3

    @settings(deadline=None, max_examples=100)
    @given(st.lists(st.sampled_from([b"", b"a", b"bc", b"x" * LARGE, b"y" * (LARGE - 1)]), min_size=1, max_size=8))
    def test_bytes_and_their_order_are_kept(self, parts: list[bytes]) -> None:
        whole = b"".join(parts)
        assert b"".join(joined(parts, len(whole))) == whole


class TestAdvance:
    @settings(deadline=None, max_examples=200)
    @given(st.lists(st.binary(min_size=1, max_size=5), min_size=1, max_size=5), st.data())
    def test_what_is_left(self, parts: list[bytes], data: st.DataObject) -> None:
        whole = b"".join(parts)
        sent = data.draw(st.integers(0, len(whole)))
        left = advance(list(parts), sent)
        assert b"".join(left) == whole[sent:]
        assert all(left)


def shrink(stream: trio.SocketStream) -> None:
    """Let the operating system buffer little."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)


async def tcp_streams() -> tuple[trio.SocketStream, trio.SocketStream]:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    theirs = await trio.open_tcp_stream(*listener.socket.getsockname())
    ours = await listener.accept()
    await listener.aclose()
    return theirs, ours


async def fill(pipe: Pipe, buffers: Buffers) -> int:
    """Write until nothing is taken any more."""
    total = 0
    while sent := pipe.send_nowait(buffers):
        total += sent
    return total


class TestSocketPipe:
    async def test_unread_bytes(self) -> None:
        theirs, ours = socket_streams()
        pipe = SocketPipe(ours)
        async with theirs, ours:
            assert not pipe.has_bytes()
            await theirs.send_all(b"hello")
            assert pipe.has_bytes()
            await pipe.receive(3)
            assert pipe.has_bytes()
            await pipe.receive(3)
            assert not pipe.has_bytes()
            await theirs.aclose()
            assert pipe.has_bytes(), "the end is something to read"

    async def test_a_full_socket_takes_nothing_and_says_so(self) -> None:
        theirs, ours = socket_streams()
        pipe = SocketPipe(ours)
        async with theirs, ours:
            shrink(ours)
            taken = await fill(pipe, [b"x" * 3000])
            assert taken > 0
            assert pipe.send_nowait([b"x"]) == 0
            assert pipe.send_nowait([b"x", b"y"]) == 0
            with trio.move_on_after(0.05) as scope:
                await pipe.send_some([b"x"])
            assert scope.cancelled_caught
            received = b""
            while len(received) < taken:
                received += await theirs.receive_some()
            assert received == b"x" * taken
            assert await pipe.send_some([b"y", b"z"]) == 2

    @pytest.mark.parametrize(
        "parts", [[b"a" * 100_000, b"b" * 100_000, b"c"], [b"%04d" % number for number in range(3000)]]
    )
    async def test_part_of_it_may_be_taken(self, nursery: trio.Nursery, parts: list[bytes]) -> None:
        """A full socket takes a part, and one system call only so many buffers."""
        theirs, ours = socket_streams()
        pipe = SocketPipe(ours)
        async with theirs, ours:
            shrink(ours)
            left: Buffers = list(parts)
            sent = pipe.send_nowait(left)
            assert 0 < sent < sum(map(len, parts))

            async def send() -> None:
                nonlocal left
                left = advance(left, sent)
                while left:
                    left = advance(left, await pipe.send_some(left))

            nursery.start_soon(send)
            received = b""
            while len(received) < sum(map(len, parts)):
                received += await theirs.receive_some()
            assert received == b"".join(parts)

    async def test_a_half_close_and_a_reset(self) -> None:
        """A reset is the end of the stream, not an error."""
        theirs, ours = await tcp_streams()
        pipe = SocketPipe(ours)
        async with ours:
            await pipe.send_eof()
            assert await theirs.receive_some() == b""
            await theirs.send_all(b"still here")
            assert await pipe.receive(100) == b"still here"
            vanish(theirs)
            assert await pipe.receive(10) == b""
            await pipe.send_eof()  # harmless, whatever the system thinks of it
            with pytest.raises(BrokenLink):
                pipe.send_nowait([b"x"])

    async def test_close_wakes_the_waiting_task_and_works_in_a_cancelled_one(self, nursery: trio.Nursery) -> None:
        theirs, ours = socket_streams()
        pipe = SocketPipe(ours)
        done = trio.Event()

        async def read() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await pipe.receive(10)
            done.set()

        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        with trio.CancelScope() as scope:
            scope.cancel()
            await pipe.aclose()
        await done.wait()
        async with theirs:
            assert await theirs.receive_some() == b""
        await pipe.aclose()
