"""The audit log: a line for every change and every refusal, and nothing secret in any."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.admin.audit import MAX_ADDRESSES, MAX_LINES, MINUTE, RefusalLimiter
from gateway.broker.core.scheduler import Scheduler

from .running import BEARER, STRANGER, Running


def lines(logs: Any) -> list[Any]:
    return [each for each in logs if each["event"] == "admin"]


class TestAudit:
    async def test_a_change(self, here: Running) -> None:
        with capture_logs() as logs:
            body = {"destination": "/queue/a", "body": "planted-body"}
            answer = await here.ask("POST", "publish", body, headers=BEARER, client=STRANGER)
        assert answer.status == 200
        (line,) = lines(logs)
        assert (line["log_level"], line["action"], line["target"], line["octets"]) == (
            "info",
            "publish",
            "/queue/a",
            12,
        )
        assert (line["user"], line["via"], line["peer"], line["outcome"]) == ("admin", "token", "192.0.2.1", "done")
        assert "planted" not in repr(logs)

    async def test_a_refusal_says_why(self, here: Running) -> None:
        with capture_logs() as logs:
            await here.ask("DELETE", "sessions/nobody", headers=BEARER, reason="because")
            await here.ask("POST", "drain", headers={"authorization": "Bearer planted-wrong"})
            await here.ask("DELETE", f"sessions/{'x' * 5000}", headers=BEARER)
            for headers in (BEARER, {}):
                await here.ask("GET", "sessions", headers=headers)  # reading has no line
        unknown, wrong, long = lines(logs)
        assert (unknown["outcome"], unknown["target"], unknown["told"]) == ("refused", "nobody", "because")
        assert unknown["reason"] == "there is no such session"
        assert (wrong["outcome"], wrong["reason"]) == ("refused", "the token is wrong")
        assert len(long["target"]) == 200
        assert "planted" not in repr(logs)

    async def test_a_fault_of_ours(self, here: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*arguments: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(here.gateway.broker, "end_session", fail)
        with capture_logs() as logs, pytest.raises(ZeroDivisionError):
            await here.ask("DELETE", "sessions/x", headers=BEARER)
        (line,) = lines(logs)
        assert (line["action"], line["outcome"]) == ("end session", "failed")

    async def test_clients_with_a_login_always_have_a_line(self, here: Running) -> None:
        with capture_logs() as logs:
            for _ in range(20):
                await here.ask("DELETE", "sessions/nobody", client=STRANGER)
            for _ in range(20):
                await here.ask("DELETE", "sessions/nobody", headers=BEARER, client=STRANGER)
                await here.ask("POST", "login", {"token": "planted-token"}, client=STRANGER)
        outcomes = [(line["user"], line["outcome"]) for line in lines(logs)]
        assert outcomes == [("", "refused")] * MAX_LINES + [("admin", "refused"), ("admin", "done")] * 20


class Clock:
    """A limiter, and a clock that the test moves."""

    def __init__(self, max_addresses: int = MAX_ADDRESSES) -> None:
        self.now = 0.0
        self.scheduler = Scheduler(lambda: self.now, lambda: 0.0, lambda due: None, lambda: None)
        self.limiter = RefusalLimiter(self.scheduler, max_addresses=max_addresses)

    def pass_by(self, seconds: float) -> list[Any]:
        self.now += seconds
        with capture_logs() as logs:
            self.scheduler.tick()
        return [*logs]

    def lines(self, address: str, times: int) -> int:
        return sum(self.limiter.admit(address) for _ in range(times))


class TestRefusalLimiter:
    def test_an_address_has_a_few_lines_a_minute_and_then_a_count(self) -> None:
        clock = Clock()
        assert clock.lines("192.0.2.1", MAX_LINES) == MAX_LINES
        assert (clock.pass_by(MINUTE), len(clock.scheduler)) == ([], 0), "nothing was left out"
        assert clock.lines("192.0.2.1", 10_000) == MAX_LINES
        assert clock.pass_by(MINUTE - 1) == []
        assert clock.lines("192.0.2.1", 1) == 0
        assert clock.pass_by(1) == [
            {
                "event": "more of this address was refused than is told one by one",
                "log_level": "warning",
                "address": "192.0.2.1",
                "count": 10_001 - MAX_LINES,
                "seconds": 60,
            }
        ]
        assert clock.lines("192.0.2.1", 10) == MAX_LINES

    def test_addresses_count_apart_and_a_network_of_ipv6_is_one(self) -> None:
        clock = Clock()
        assert [clock.lines(each, 10) for each in ("192.0.2.2", "unix")] == [MAX_LINES] * 2
        assert sum(clock.limiter.admit(f"2001:db8::{number:x}") for number in range(100)) == MAX_LINES
        *_, line = clock.pass_by(MINUTE)
        assert (line["address"], line["count"]) == ("2001:db8::/64", 100 - MAX_LINES)

    def test_beyond_so_many_addresses_all_others_count_as_one(self) -> None:
        clock = Clock(max_addresses=3)
        assert [clock.lines(f"192.0.2.{number}", 10) for number in range(6)] == [MAX_LINES] * 4 + [0, 0]
        assert (clock.lines("192.0.2.1", 1), len(clock.scheduler)) == (0, 4)
        assert [(line["address"], line["count"]) for line in clock.pass_by(MINUTE)] == [
            ("192.0.2.0", 10 - MAX_LINES),
            ("192.0.2.1", 11 - MAX_LINES),
            ("192.0.2.2", 10 - MAX_LINES),
            ("all others", 30 - MAX_LINES),
        ]
        assert clock.lines("192.0.2.9", 1) == 1
