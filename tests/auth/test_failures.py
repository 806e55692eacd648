"""Failed logins, by address and by login."""

from __future__ import annotations

import pytest
import trio
from structlog.typing import EventDict
from trio.testing import MockClock

from gateway.auth.failed_logins import FailedLogins, TooManyFailedLogins
from gateway.net.client_address import network_of


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


def is_refused(found: FailedLogins, address: str, login: str = "") -> bool:
    try:
        found.check(address, login)
    except TooManyFailedLogins:
        return True
    return False


class TestFailures:
    async def test_refused_for_a_minute(self, autojump_clock: MockClock, logged: list[EventDict]) -> None:
        found = FailedLogins(3)
        for _ in range(3):
            assert not is_refused(found, "a")
            found.count("a")
            await trio.sleep(10)
        with pytest.raises(TooManyFailedLogins) as error:
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
        found = FailedLogins(2)
        for _ in range(5):
            found.count("a")
            await trio.sleep(60)
            assert not is_refused(found, "a")

    async def test_networks_of_version_6(self) -> None:
        found = FailedLogins(2)
        found.count("2001:db8::1")
        found.count("2001:db8::2")
        assert is_refused(found, "2001:db8::3")
        assert not is_refused(found, "2001:db8:0:1::3")

    async def test_memory_is_bounded(self, autojump_clock: MockClock) -> None:
        found = FailedLogins(1, max_counted=3)
        for number in range(5):
            found.count(str(number), "alice")
            await trio.sleep(1)
        assert [number for number in range(5) if is_refused(found, str(number))] == [2, 3, 4]
        await trio.sleep(60)
        found.count("x", "alice" * 10_000)
        assert list(found._of_addresses._counted) == [b"x"]
        assert [len(key) for key in found._of_logins._counted] == [16]


class TestNeighbours:
    """Many workers behind one address, some of them with an old passcode."""

    async def test_who_has_succeeded_there_is_heard(self, autojump_clock: MockClock) -> None:
        found = FailedLogins(3)
        found.succeed("a", "good")
        for _ in range(3):
            found.count("a", "old")
        assert not is_refused(found, "a", "good")
        assert is_refused(found, "a", "old")
        assert is_refused(found, "a", "new")
        assert is_refused(found, "a")
        assert is_refused(found, "a", "goo")
        await trio.sleep(60)
        assert not is_refused(found, "a", "old")

    async def test_only_there(self) -> None:
        found = FailedLogins(1)
        found.succeed("2001:db8::1", "good")
        for address in ("2001:db8::2", "2001:db8:0:1::1"):
            found.count(address, "old")
        assert not is_refused(found, "2001:db8::3", "good")
        assert is_refused(found, "2001:db8:0:1::1", "good")

    async def test_a_guesser_gains_nothing(self, autojump_clock: MockClock, logged: list[EventDict]) -> None:
        """Neither by a passcode of his own, nor where a user's name must is known to have been right."""
        found = FailedLogins(3)
        for login in ("mine", "alice"):
            found.succeed("a", login)
        heard = 0
        for _ in range(20):
            if not is_refused(found, "a", "alice"):
                heard += 1
                found.count("a", "alice")
            found.succeed("a", "mine")
        assert heard == 3
        assert is_refused(found, "a", "bob")
        assert not is_refused(found, "a", "mine")
        with pytest.raises(TooManyFailedLogins) as error:
            found.check("a", "alice")
        assert error.value.detail == (
            "3 logins with this name at this address failed in a minute (login_attempts); try again in 60 s"
        )
        assert [line["event"] for line in logged] == ["too many failed logins, the address is refused"]

    async def test_one_of_many_that_is_refused(self, logged: list[EventDict]) -> None:
        found = FailedLogins(3)
        found.succeed("a", "alice")
        for login in ("old", "old", "old", "alice", "alice", "alice"):
            found.count("a", login)
        assert is_refused(found, "a", "alice")
        assert [(line["event"], line["address"], line["login_attempts"]) for line in logged] == [
            ("too many failed logins, the address is refused", "a", 3),
            ("too many failed logins with one name, it is refused there", "a", 3),
        ]
        assert "alice" not in str(logged)

    async def test_a_success_helps_for_a_day(self, autojump_clock: MockClock) -> None:
        found = FailedLogins(1)
        found.succeed("a", "good")
        await trio.sleep(86_399)
        found.count("a", "old")
        assert not is_refused(found, "a", "good")
        await trio.sleep(1)
        assert is_refused(found, "a", "good")

    async def test_the_oldest_success_goes(self) -> None:
        found = FailedLogins(1, max_succeeded=2)
        for login in ("one", "two", "one", "three"):
            found.succeed("a", login)
        found.count("a", "old")
        assert [login for login in ("one", "two", "three") if is_refused(found, "a", login)] == ["two"]
