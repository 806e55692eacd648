"""Lines of the log about strangers: a few of each address in a minute, then how many more there were."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.admin.audit import MAX_ADDRESSES, MAX_LINES, MINUTE, RefusalLimiter
from gateway.broker.core.scheduler import Scheduler


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.scheduler = Scheduler(lambda: self.now, lambda: 0.0, lambda due: None, lambda: None)

    def pass_by(self, seconds: float) -> list[Any]:
        """So much time; returns the lines that were written then."""
        self.now += seconds
        with capture_logs() as logs:
            self.scheduler.tick()
        return [*logs]


@pytest.fixture
def clock() -> Clock:
    return Clock()


def told(strangers: RefusalLimiter, address: str, times: int) -> int:
    """How many of so many refusals the log is told of."""
    return sum(strangers.admit(address) for _ in range(times))


class TestOne:
    def test_a_few_in_a_minute(self, clock: Clock) -> None:
        strangers = RefusalLimiter(clock.scheduler)
        assert told(strangers, "192.0.2.1", 10_000) == MAX_LINES
        assert clock.pass_by(MINUTE - 1) == []
        assert told(strangers, "192.0.2.1", 1) == 0
        assert clock.pass_by(1) == [
            {
                "event": "more of this address was refused than is told one by one",
                "log_level": "warning",
                "address": "192.0.2.1",
                "count": 10_001 - MAX_LINES,
                "seconds": 60,
            }
        ]
        assert told(strangers, "192.0.2.1", 10) == MAX_LINES

    def test_where_nothing_is_left_out_nothing_is_said(self, clock: Clock) -> None:
        strangers = RefusalLimiter(clock.scheduler)
        assert told(strangers, "192.0.2.1", MAX_LINES) == MAX_LINES
        assert clock.pass_by(MINUTE) == []
        assert len(clock.scheduler) == 0

    def test_another_address_is_told_of_all_the_same(self, clock: Clock) -> None:
        strangers = RefusalLimiter(clock.scheduler)
        assert [told(strangers, each, 10) for each in ("192.0.2.1", "192.0.2.2", "unix")] == [MAX_LINES] * 3

    def test_a_network_of_ipv6_is_one(self, clock: Clock) -> None:
        strangers = RefusalLimiter(clock.scheduler)
        assert sum(strangers.admit(f"2001:db8::{number:x}") for number in range(100)) == MAX_LINES
        (line,) = clock.pass_by(MINUTE)
        assert (line["address"], line["count"]) == ("2001:db8::/64", 100 - MAX_LINES)


class TestMany:
    def test_beyond_so_many_all_others_are_as_one(self, clock: Clock) -> None:
        strangers = RefusalLimiter(clock.scheduler, max_addresses=3)
        assert [told(strangers, f"192.0.2.{number}", 10) for number in range(6)] == [MAX_LINES] * 4 + [0, 0]
        assert told(strangers, "192.0.2.1", 1) == 0
        lines = clock.pass_by(MINUTE)
        assert [(line["address"], line["count"]) for line in lines] == [
            ("192.0.2.0", 10 - MAX_LINES),
            ("192.0.2.1", 11 - MAX_LINES),
            ("192.0.2.2", 10 - MAX_LINES),
            ("all others", 30 - MAX_LINES),
        ]
        assert told(strangers, "192.0.2.9", 1) == 1

    def test_memory_and_lines_are_bounded(self, clock: Clock) -> None:
        strangers = RefusalLimiter(clock.scheduler)
        written = sum(strangers.admit(f"10.{number >> 8}.{number & 255}.1") for number in range(20_000))
        assert written == MAX_ADDRESSES + MAX_LINES
        assert len(clock.scheduler) == MAX_ADDRESSES + 1
