"""The way out: one write that does not wait, the writer that does, and what both owe to the outbox."""

from __future__ import annotations

import math
from itertools import chain

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.auth.authenticator import Anonymous
from gateway.broker import Quotas
from gateway.broker.core.outbox import Outbox
from gateway.codec import V12, ProtocolError
from gateway.transports import Server
from gateway.transports.connection.writer import ConnectionWriter, write_all
from gateway.transports.wire.link import TcpLink

from .pipes import ControlledPipe

LIMIT = 64_000
LARGE = b"x" * 40_000


class Exit:
    """An `ConnectionWriter` with a session's outbox before it and a pipe behind it."""

    def __init__(self, nursery: trio.Nursery, room: float = math.inf) -> None:
        self.server = Server(Anonymous(), Quotas(max_outbound=LIMIT))
        self.pipe = ControlledPipe(room)
        self.session = self.server.broker.open_session(
            V12, "guest", peer="test", transport="tcp", connected_at=0.0, carrier=self
        )
        self.outbox: Outbox = self.session.outbox
        self.writer = ConnectionWriter(self.server, TcpLink(self.pipe, "test"), nursery, self.outbox)

    def flush(self) -> None:
        self.writer.flush()

    def end(self, error: ProtocolError) -> None:
        raise AssertionError(error)

    def put(self, *frames: bytes) -> None:
        """Append frames and flush, as a turn does."""
        for frame in frames:
            self.outbox.append(frame)
        self.flush()

    @property
    def written(self) -> bytes:
        return bytes(self.pipe.written)


class TestFlush:
    async def test_all_at_once_and_without_a_task(self, nursery: trio.Nursery) -> None:
        exit = Exit(nursery)
        exit.server.turn_time = 42.0
        exit.put(b"one", b"two")
        assert (exit.written, exit.outbox.size, exit.writer.writing) == (b"onetwo", 0, False)
        assert exit.writer.last_write == 42.0
        assert exit.server.broker.counters.bytes_out == 6
        assert not nursery.child_tasks

    @pytest.mark.parametrize("room", [0, 1, 3, 5])
    async def test_the_writer_does_the_rest(self, nursery: trio.Nursery, room: int) -> None:
        exit = Exit(nursery, room)
        exit.put(b"one", b"two")
        assert exit.writer.writing
        assert exit.outbox.size == 6 - room
        await wait_all_tasks_blocked()
        assert exit.written == b"onetwo"[:room]
        exit.pipe.open()
        await wait_all_tasks_blocked()
        assert (exit.written, exit.outbox.size, exit.writer.writing) == (b"onetwo", 0, False)
        assert exit.server.broker.counters.bytes_out == 6


class TestBroken:
    async def test_at_the_first_write(self, nursery: trio.Nursery) -> None:
        """The reader will see the end; what is appended meanwhile is thrown away."""
        exit = Exit(nursery)
        exit.pipe.broken = True
        exit.put(b"one")
        assert exit.outbox.closed
        exit.put(b"two")
        assert exit.outbox.size == 0
        await exit.writer.write_out(outbox=True)
        assert exit.written == b""

    async def test_in_the_writer(self, nursery: trio.Nursery) -> None:
        exit = Exit(nursery, 2)
        exit.put(b"one", b"two")
        waiter = Waiter(nursery, exit.writer)
        await wait_all_tasks_blocked()
        exit.pipe.hang_up()
        await wait_all_tasks_blocked()
        assert exit.outbox.closed
        assert (exit.writer.rest, exit.writer.writing, waiter.relieved) == ([], False, True)


class Waiter:
    """Waits for relief."""

    def __init__(self, nursery: trio.Nursery, writer: ConnectionWriter) -> None:
        self.relieved = False
        nursery.start_soon(self._wait, writer)

    async def _wait(self, writer: ConnectionWriter) -> None:
        await writer.wait_relief()
        self.relieved = True


class TestRelief:
    async def test_at_half_of_the_high_mark(self, nursery: trio.Nursery) -> None:
        exit = Exit(nursery, 0)
        exit.put(b"x" * exit.outbox.high)
        waiters = [Waiter(nursery, exit.writer) for _ in range(3)]
        await wait_all_tasks_blocked()
        half = exit.outbox.high - exit.outbox.high // 2
        exit.pipe.open(half - 1)
        await wait_all_tasks_blocked()
        assert not any(waiter.relieved for waiter in waiters)
        exit.pipe.open(1)
        await wait_all_tasks_blocked()
        assert all(waiter.relieved for waiter in waiters)


async def test_write_all(nursery: trio.Nursery) -> None:
    pipe = ControlledPipe(3)
    link = TcpLink(pipe, "test")
    await write_all(link, [])
    nursery.start_soon(write_all, link, [b"one", b"two", b"three"])
    await wait_all_tasks_blocked()
    assert pipe.written == b"one"
    for _ in range(8):
        pipe.open(1)
        await wait_all_tasks_blocked()
    assert pipe.written == b"onetwothree"


@pytest.mark.parametrize(
    ("room", "frames", "controls", "behind", "written"),
    [
        (math.inf, [], [b"ping"], [], b"ping"),
        (1, [], [b"ping"], [b"one"], b"pingone"),
        (1, [b"one"], [b"ping"], [], b"oneping"),
        (1, [b"one"], [b"ping"], [b"two"], b"onepingtwo"),
        (1, [b"one"], [b"%d" % number for number in range(1000)], [], b"one999"),
    ],
    ids=["at once", "the rest by the writer", "not in a message", "between messages", "only the latest waits"],
)
async def test_control_frames_of_websocket_stand_between_messages(
    nursery: trio.Nursery, room: float, frames: list[bytes], controls: list[bytes], behind: list[bytes], written: bytes
) -> None:
    exit = Exit(nursery, room)
    if frames:
        exit.put(*frames)
    for control in controls:
        exit.writer.send_control(control)
    if behind:
        exit.put(*behind)
    exit.pipe.open()
    await wait_all_tasks_blocked()
    assert (exit.written, exit.outbox.size, exit.writer.writing) == (written, 0, False)


async def test_a_control_frame_for_a_peer_that_has_gone(nursery: trio.Nursery) -> None:
    exit = Exit(nursery)
    exit.pipe.broken = True
    exit.writer.send_control(b"ping")
    assert not exit.writer.writing


@pytest.mark.parametrize("how", ["slow", "gone while it was written", "gone before"])
async def test_what_was_not_written_is_abandoned(nursery: trio.Nursery, how: str) -> None:
    """So that it can be freed in steps."""
    exit = Exit(nursery, 2)
    exit.pipe.broken = how == "gone before"
    exit.put(LARGE)
    exit.outbox.append(LARGE)
    if how == "gone while it was written":
        exit.pipe.hang_up()
        await wait_all_tasks_blocked()
    left = b"".join(chain(*exit.writer.abandon()))
    assert left == (LARGE if how == "gone before" else LARGE[2:] + LARGE)
    assert exit.writer.rest == []


@pytest.mark.parametrize(("outbox", "written"), [(True, b"onetwo"), (False, b"one")])
async def test_what_is_left_is_written_at_the_end(nursery: trio.Nursery, outbox: bool, written: bytes) -> None:
    exit = Exit(nursery, 2)
    exit.put(b"one")
    exit.writer.stop()
    exit.outbox.append(b"two")
    exit.pipe.open(100)
    await exit.writer.write_out(outbox=outbox)
    assert exit.written == written
    nursery.cancel_scope.cancel()
