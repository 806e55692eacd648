"""How many lines clients can cause in the log."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from gateway.log_limiter import LogLimiter


async def test_each_key_once() -> None:
    limiter = LogLimiter()
    assert [limiter.admit(key) for key in "abcab"] == [0, 0, 0, None, None]


async def test_in_a_minute(autojump_clock: MockClock) -> None:
    limiter = LogLimiter(lines=2)
    assert [limiter.admit(key) for key in "abcd"] == [0, 0, None, None]
    await trio.sleep(59)
    assert limiter.admit("e") is None
    await trio.sleep(1)
    assert [limiter.admit(key) for key in "fgh"] == [3, 0, None]


async def test_what_is_remembered_is_bounded() -> None:
    limiter = LogLimiter(keys=2)
    assert [limiter.admit(key) for key in "abcac"] == [0, 0, 0, 0, None]


async def test_once_in_a_quiet_time_for_each_key(autojump_clock: MockClock) -> None:
    limiter = LogLimiter(quiet=10.0)
    assert [limiter.admit(key) for key in "abaa"] == [0, 0, None, None]
    await trio.sleep(10)
    assert [limiter.admit(key) for key in "aab"] == [2, None, 0]
