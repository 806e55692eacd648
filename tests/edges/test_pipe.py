"""Batches of messages on a pipe that takes little, breaks, or brings what is none."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import msgpack
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.edges.pipe import MessagePipe

from .pipes import LinkPipe, pipe_pair

MESSAGES: list[Sequence[Any]] = [(1, "a", b"\xff" * 300), (2, None, {"k": "\udc80"}), (3, (1, 2.5), True)]


@pytest.fixture
def ends() -> tuple[LinkPipe, LinkPipe]:
    return pipe_pair()


async def read(pipe: MessagePipe, found: list[Sequence[Any]]) -> None:
    async with aclosing(pipe.batches()) as batches:
        async for batch in batches:
            found += batch


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
async def test_messages_come_whole(ends: tuple[LinkPipe, LinkPipe], piece: int, nursery: trio.Nursery) -> None:
    found: list[Sequence[Any]] = []
    ends[1].piece = piece
    nursery.start_soon(read, MessagePipe(ends[1]), found)
    pipe = MessagePipe(ends[0])
    for message in MESSAGES:
        pipe.put(*message)
    assert pipe.has_messages
    assert pipe.send()
    assert not pipe.has_messages
    assert pipe.sent == 1, "one write for all"
    await wait_all_tasks_blocked()
    assert found == MESSAGES


async def test_a_narrow_pipe_keeps_the_order(ends: tuple[LinkPipe, LinkPipe], nursery: trio.Nursery) -> None:
    found: list[Sequence[Any]] = []
    nursery.start_soon(read, MessagePipe(ends[1]), found)
    pipe = MessagePipe(ends[0])
    ends[0].room = 3
    pipe.put(*MESSAGES[0])
    assert not pipe.send()
    nursery.start_soon(pipe.drain)
    for message in MESSAGES[1:]:
        pipe.put(*message)
        assert not pipe.send(), "the rest of the first goes before it"
    assert pipe.waiting > 300
    while pipe.waiting:
        ends[0].open(5)
        await wait_all_tasks_blocked()
    assert found == MESSAGES
    assert pipe.sent == 2


@pytest.mark.parametrize("drains", [False, True])
async def test_a_broken_pipe_takes_all_and_keeps_nothing(ends: tuple[LinkPipe, LinkPipe], drains: bool) -> None:
    pipe = MessagePipe(ends[0])
    if drains:
        ends[0].room = 3
        pipe.put(*MESSAGES[0])
        pipe.send()
    ends[0].cut()
    for message in MESSAGES:
        pipe.put(*message)
        if drains:
            with trio.fail_after(30):
                await pipe.drain()
        assert pipe.send()
        assert not pipe.waiting


async def test_what_is_no_message(ends: tuple[LinkPipe, LinkPipe]) -> None:
    ends[0].send_nowait([b"\xc1"])  # the byte that MessagePack never uses
    with pytest.raises(msgpack.FormatError):
        await read(MessagePipe(ends[1]), [])


async def test_half_a_message_at_the_end_is_none(ends: tuple[LinkPipe, LinkPipe]) -> None:
    found: list[Sequence[Any]] = []
    pipe = MessagePipe(ends[0])
    ends[0].room = 20
    pipe.put(*MESSAGES[0])
    pipe.send()
    ends[0].cut()
    await read(MessagePipe(ends[1]), found)
    assert found == []


async def test_unread_bytes_are_no_silence(ends: tuple[LinkPipe, LinkPipe], autojump_clock: MockClock) -> None:
    pipe, other = MessagePipe(ends[0]), MessagePipe(ends[1])
    pipe.put(1)
    pipe.send()
    with trio.move_on_after(60) as waiting:
        await other.wait_silent(20.0, 5.0)
    assert waiting.cancelled_caught
    await pipe.aclose()
    assert ends[0].is_closed
    await read(other, [])
    began = trio.current_time()
    await other.wait_silent(20.0, 5.0)
    assert trio.current_time() - began == 5.0
