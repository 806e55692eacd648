"""Failed logins by address."""

from __future__ import annotations

import pytest
import trio
from structlog.typing import EventDict
from trio.testing import MockClock

from gateway.auth import failures
from gateway.auth.failures import Failures, TooManyFailures, network_of


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("", ""),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8:0:0:ffff::9", "2001:db8::/64"),
        ("2001:db8:0:1::", "2001:db8:0:1::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::/64"),
        ("no:address", "no:address"),
    ],
)
def test_networks(address: str, network: str) -> None:
    assert network_of(address) == network


def is_refused(found: Failures, address: str) -> bool:
    try:
        found.check(address)
    except TooManyFailures:
        return True
    return False


class TestFailures:
    async def test_refused_for_a_minute(self, autojump_clock: MockClock, logged: list[EventDict]) -> None:
        found = Failures(3)
        for _ in range(3):
            assert not is_refused(found, "a")
            found.count("a")
            await trio.sleep(10)
        with pytest.raises(TooManyFailures) as error:
            found.check("a")
        assert str(error.value) == "too many failed logins"
        assert error.value.detail == ("3 logins of this address failed in a minute (login_attempts); try again in 50 s")
        assert not error.value.is_guess
        assert not is_refused(found, "b")
        assert [(line["log_level"], line["address"], line["login_attempts"]) for line in logged] == [
            ("warning", "a", 3)
        ]
        await trio.sleep(49)
        assert is_refused(found, "a")
        await trio.sleep(1)
        assert not is_refused(found, "a")
        found.count("a")
        assert not is_refused(found, "a"), "a new minute"

    async def test_those_of_a_minute_ago_do_not_count(self, autojump_clock: MockClock) -> None:
        found = Failures(2)
        for _ in range(5):
            found.count("a")
            await trio.sleep(60)
            assert not is_refused(found, "a")

    async def test_networks_of_version_6(self) -> None:
        found = Failures(2)
        found.count("2001:db8::1")
        found.count("2001:db8::2")
        assert is_refused(found, "2001:db8::3")
        assert not is_refused(found, "2001:db8:0:1::3")

    async def test_memory_is_bounded(self, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(failures, "MAX_ADDRESSES", 3)
        found = Failures(1)
        for number in range(5):
            found.count(str(number))
            await trio.sleep(1)
        assert [number for number in range(5) if is_refused(found, str(number))] == [2, 3, 4]
        await trio.sleep(60)
        found.count("x")
        assert list(found._known) == ["x"]
