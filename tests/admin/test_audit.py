"""The audit log: a line for every change and every refusal, and nothing secret in any."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.admin.audit import MAX_LINES, MINUTE

from .running import BEARER, STRANGER, Running


def lines(logs: Any) -> list[Any]:
    return [each for each in logs if each["event"] == "admin"]


class TestAudit:
    async def test_a_change(self, here: Running) -> None:
        with capture_logs() as logs:
            body = {"destination": "/queue/a", "body": "planted-body"}
            answer = await here.ask("POST", "publish", body, headers=BEARER, client=STRANGER)
        assert answer.status == 200
        assert lines(logs) == [
            {
                "event": "admin",
                "log_level": "info",
                "action": "publish",
                "target": "/queue/a",
                "user": "admin",
                "via": "token",
                "peer": "192.0.2.1",
                "outcome": "done",
                "octets": 12,
            }
        ]
        assert "planted" not in repr(logs)

    async def test_a_refusal_says_why(self, here: Running) -> None:
        with capture_logs() as logs:
            await here.ask("DELETE", "sessions/nobody", headers=BEARER, reason="because")
        (line,) = lines(logs)
        assert (line["outcome"], line["target"], line["reason"]) == ("refused", "nobody", "there is no such session")
        assert line["told"] == "because"

    async def test_a_wrong_token_is_not_written(self, here: Running) -> None:
        with capture_logs() as logs:
            await here.ask("POST", "drain", headers={"authorization": "Bearer planted-wrong"})
        (line,) = lines(logs)
        assert (line["outcome"], line["reason"]) == ("refused", "the token is wrong")
        assert "planted" not in repr(logs)

    async def test_a_fault_of_ours(self, here: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*arguments: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(here.gateway.broker, "end_session", fail)
        with capture_logs() as logs, pytest.raises(ZeroDivisionError):
            await here.ask("DELETE", "sessions/x", headers=BEARER)
        (line,) = lines(logs)
        assert (line["action"], line["outcome"]) == ("end session", "failed")

    async def test_reading_is_not(self, here: Running) -> None:
        with capture_logs() as logs:
            await here.ask("GET", "sessions", headers=BEARER)
            await here.ask("GET", "sessions")
        assert lines(logs) == []

    async def test_strangers_fill_no_log(self, here: Running, autojump_clock: MockClock) -> None:
        """Whatever they are refused for, and whatever they are answered."""
        wrong = {"authorization": "Bearer planted-wrong"}
        with capture_logs() as logs:
            found = [await here.ask("POST", "drain", headers=wrong, client=STRANGER) for _ in range(80)]
            found += [await here.ask("POST", "login", {"token": "no"}, client=STRANGER) for _ in range(20)]
            found += [await here.ask("DELETE", "sessions/x", client=STRANGER) for _ in range(100)]
            assert len(lines(logs)) == MAX_LINES
            await trio.sleep(MINUTE)
            await wait_all_tasks_blocked()
        assert {answer.status for answer in found} == {401, 429}
        assert logs[-1]["event"].startswith("more of this address was refused")
        assert (logs[-1]["address"], logs[-1]["count"]) == ("192.0.2.1", 200 - MAX_LINES)

    async def test_whoever_is_logged_in_is_always_told_of(self, here: Running) -> None:
        with capture_logs() as logs:
            for _ in range(20):
                await here.ask("DELETE", "sessions/nobody", client=STRANGER)
            for _ in range(20):
                await here.ask("DELETE", "sessions/nobody", headers=BEARER, client=STRANGER)
                await here.ask("POST", "login", {"token": "planted-token"}, client=STRANGER)
        outcomes = [(line["user"], line["outcome"]) for line in lines(logs)]
        assert outcomes == [("", "refused")] * MAX_LINES + [("admin", "refused"), ("admin", "done")] * 20

    async def test_long_names_are_cut(self, here: Running) -> None:
        with capture_logs() as logs:
            await here.ask("DELETE", f"sessions/{'x' * 5000}", headers=BEARER)
        assert len(lines(logs)[0]["target"]) == 200
