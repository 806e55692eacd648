"""Pipes in memory: what the server sees of the client's end, and the other way round."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.transports.wire.link import BrokenLink
from gateway.transports.wire.memory import MemoryPipe


async def test_bytes_go_both_ways() -> None:
    pipe = MemoryPipe()
    pipe.far.feed(b"hello")
    assert pipe.has_bytes()
    assert (await pipe.receive(3), await pipe.receive(3)) == (b"hel", b"lo")
    assert not pipe.has_bytes()
    assert pipe.send_nowait([b"good", memoryview(b"bye")]) == 7
    assert await pipe.far.read() == b"goodbye"


async def test_the_server_waits_for_room(nursery: trio.Nursery) -> None:
    pipe = MemoryPipe(room=4)
    assert pipe.send_nowait([b"123", b"456"]) == 4
    assert pipe.send_nowait([b"56"]) == 0
    sent: list[int] = []

    async def send() -> None:
        sent.append(await pipe.send_some([b"56"]))

    nursery.start_soon(send)
    await wait_all_tasks_blocked()
    assert sent == []
    assert await pipe.far.read() == b"1234"
    await wait_all_tasks_blocked()
    assert (sent, await pipe.far.read()) == ([2], b"56")


async def test_a_reader_waits_on_either_side(nursery: trio.Nursery) -> None:
    pipe, came = MemoryPipe(), list[bytes]()

    async def read_far() -> None:
        came.append(await pipe.far.read())

    async def read_near() -> None:
        came.append(await pipe.receive(10))

    nursery.start_soon(read_far)
    nursery.start_soon(read_near)
    await wait_all_tasks_blocked()
    pipe.send_nowait([b"a"])
    pipe.far.feed(b"b")
    await wait_all_tasks_blocked()
    assert sorted(came) == [b"a", b"b"]


async def test_a_client_that_hangs_up_is_read_to_its_end(nursery: trio.Nursery) -> None:
    pipe = MemoryPipe(room=1)
    pipe.send_nowait([b"1"])
    broken: list[BrokenLink] = []

    async def send() -> None:
        try:
            await pipe.send_some([b"2"])
        except BrokenLink as error:
            broken.append(error)

    nursery.start_soon(send)
    await wait_all_tasks_blocked()
    pipe.far.feed(b"last")
    pipe.far.hang_up()
    await wait_all_tasks_blocked()
    assert len(broken) == 1
    assert pipe.peer_has_gone()
    assert (await pipe.receive(10), await pipe.receive(10)) == (b"last", b"")


@pytest.mark.parametrize("ends", ["send_eof", "aclose"])
async def test_the_end_of_the_server(nursery: trio.Nursery, ends: str) -> None:
    pipe = MemoryPipe()
    pipe.send_nowait([b"last"])
    await getattr(pipe, ends)()
    assert (await pipe.far.read(), await pipe.far.read()) == (b"last", b"")
    if ends == "aclose":
        assert await pipe.receive(10) == b""
        with pytest.raises(BrokenLink):
            pipe.send_nowait([b"more"])
