"""Lines of the log about strangers: a few of each address in a minute, then how many more there were."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.admin import strangers as module
from gateway.admin.strangers import MINUTE, MOST_KNOWN, MOST_TOLD, Strangers
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


def told(strangers: Strangers, address: str, times: int) -> int:
    """How many of so many refusals the log is told of."""
    return sum(strangers.may_tell(address) for _ in range(times))


class TestOne:
    def test_a_few_in_a_minute(self, clock: Clock) -> None:
        strangers = Strangers(clock.scheduler)
        assert told(strangers, "192.0.2.1", 10_000) == MOST_TOLD
        assert clock.pass_by(MINUTE - 1) == []
        assert told(strangers, "192.0.2.1", 1) == 0
        assert clock.pass_by(1) == [
            {
                "event": "more of this address was refused than is told one by one",
                "log_level": "warning",
                "address": "192.0.2.1",
                "count": 10_001 - MOST_TOLD,
                "seconds": 60,
            }
        ]
        assert told(strangers, "192.0.2.1", 10) == MOST_TOLD

    def test_where_nothing_is_left_out_nothing_is_said(self, clock: Clock) -> None:
        strangers = Strangers(clock.scheduler)
        assert told(strangers, "192.0.2.1", MOST_TOLD) == MOST_TOLD
        assert clock.pass_by(MINUTE) == []
        assert len(clock.scheduler) == 0

    def test_another_address_is_told_of_all_the_same(self, clock: Clock) -> None:
        strangers = Strangers(clock.scheduler)
        assert [told(strangers, each, 10) for each in ("192.0.2.1", "192.0.2.2", "unix")] == [MOST_TOLD] * 3

    def test_a_network_of_ipv6_is_one(self, clock: Clock) -> None:
        strangers = Strangers(clock.scheduler)
        assert sum(strangers.may_tell(f"2001:db8::{number:x}") for number in range(100)) == MOST_TOLD
        (line,) = clock.pass_by(MINUTE)
        assert (line["address"], line["count"]) == ("2001:db8::/64", 100 - MOST_TOLD)


class TestMany:
    def test_beyond_so_many_all_others_are_as_one(self, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MOST_KNOWN", 3)
        strangers = Strangers(clock.scheduler)
        assert [told(strangers, f"192.0.2.{number}", 10) for number in range(6)] == [MOST_TOLD] * 4 + [0, 0]
        assert told(strangers, "192.0.2.1", 1) == 0
        lines = clock.pass_by(MINUTE)
        assert [(line["address"], line["count"]) for line in lines] == [
            ("192.0.2.0", 10 - MOST_TOLD),
            ("192.0.2.1", 11 - MOST_TOLD),
            ("192.0.2.2", 10 - MOST_TOLD),
            ("all others", 30 - MOST_TOLD),
        ]
        assert told(strangers, "192.0.2.9", 1) == 1

    def test_memory_and_lines_are_bounded(self, clock: Clock) -> None:
        strangers = Strangers(clock.scheduler)
        written = sum(strangers.may_tell(f"10.{number >> 8}.{number & 255}.1") for number in range(20_000))
        assert written == MOST_KNOWN + MOST_TOLD
        assert len(clock.scheduler) == MOST_KNOWN + 1
