"""Turns of a reader: a chunk may have very many frames, and each of them may take long, whatever it delivers.

For turns that end because they deliver much see `test_back_pressure`.
"""

from __future__ import annotations

import itertools

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.transports.connection import connection
from gateway.transports.flow import back_pressure

from .harness import Harness
from .peers import frame

SLOW = frame("SEND", b"slow", destination="/queue/a") * 100


@pytest.fixture
def frames_per_turn(monkeypatch: pytest.MonkeyPatch) -> int:
    """Each frame takes a third of the longest turn, by the clock that the reader looks at."""
    moments = itertools.count()
    for module in (connection, back_pressure):
        monkeypatch.setattr(module, "perf_counter", lambda: next(moments) * connection._LONGEST_TURN / 3)
    return 4


@pytest.mark.parametrize("after", [1, 40])
async def test_slow_frames_let_others_in_between(harness: Harness, kind: str, frames_per_turn: int, after: int) -> None:
    slow, other, reader = [await harness.session(kind) for _ in range(3)]
    await slow.send(SLOW)
    while harness.counters.published < after:
        await trio.lowlevel.checkpoint()
    seen = harness.counters.published
    assert seen < after + 2 * frames_per_turn
    await other.publish("/queue/a", b"other")
    await wait_all_tasks_blocked()
    bodies = [each.body for each in await reader.subscribe_and_read("/queue/a", 101)]
    assert seen <= bodies.index(b"other") <= seen + 5 * frames_per_turn


async def test_what_they_deliver_is_written_in_between(harness: Harness, kind: str, frames_per_turn: int) -> None:
    slow, reader = await harness.session(kind), await harness.session(kind)
    await reader.subscribe("/queue/a")
    await reader.settled()
    before = harness.counters.published
    await slow.send(SLOW)
    await reader.frame("MESSAGE")
    assert harness.counters.published - before <= 5 * frames_per_turn
    for _ in range(99):
        await reader.frame("MESSAGE")


async def test_quick_ones_have_one_turn(harness: Harness, kind: str) -> None:
    """To wait after each frame would cost more than the frame."""
    peer = await harness.session(kind)
    await peer.send(SLOW)
    while not harness.counters.published:
        await trio.lowlevel.checkpoint()
    assert harness.counters.published == 100
