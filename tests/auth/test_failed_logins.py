"""Failed logins: their counts by address and by login, and the queue of each address."""

from __future__ import annotations

import pytest
import trio
from structlog.typing import EventDict
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.auth.failed_logins import FailedLogins, LoginQueue, TooManyFailedLogins

ADDRESS_REFUSED = "too many failed logins, the address is refused"
NAME_REFUSED = "too many failed logins with one name, it is refused there"


def is_refused(found: FailedLogins, address: str, login: str = "") -> bool:
    try:
        found.check(address, login)
    except TooManyFailedLogins:
        return True
    return False


class TestAddress:
    async def test_refused_for_a_minute(self, autojump_clock: MockClock, logged: list[EventDict]) -> None:
        found = FailedLogins(3)
        for _ in range(3):
            assert not is_refused(found, "a")
            found.count("a")
            await trio.sleep(10)
        with pytest.raises(TooManyFailedLogins, match=r"^too many failed logins$") as error:
            found.check("a")
        assert error.value.detail == "3 logins of this address failed in a minute (login_attempts); try again in 50 s"
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


class TestLogin:
    async def test_a_login_that_succeeded_there_is_checked(self, autojump_clock: MockClock) -> None:
        found = FailedLogins(3)
        found.succeed("a", "good")
        for _ in range(3):
            found.count("a", "old")
        assert not is_refused(found, "a", "good")
        for login in ("old", "new", "", "goo"):
            assert is_refused(found, "a", login)
        await trio.sleep(60)
        assert not is_refused(found, "a", "old")

    async def test_a_guesser_gains_nothing(self, autojump_clock: MockClock, logged: list[EventDict]) -> None:
        """Neither by a right passcode of its own, nor by a login that is known to have succeeded."""
        found = FailedLogins(3)
        for login in ("mine", "alice"):
            found.succeed("a", login)
        checked = 0
        for _ in range(20):
            if not is_refused(found, "a", "alice"):
                checked += 1
                found.count("a", "alice")
            found.succeed("a", "mine")
        assert checked == 3
        assert is_refused(found, "a", "bob")
        assert not is_refused(found, "a", "mine")
        with pytest.raises(TooManyFailedLogins) as error:
            found.check("a", "alice")
        assert error.value.detail == (
            "3 logins with this name at this address failed in a minute (login_attempts); try again in 60 s"
        )
        assert [line["event"] for line in logged] == [ADDRESS_REFUSED]
        assert "alice" not in str(logged)
        found = FailedLogins(1)
        found.succeed("2001:db8::1", "good")
        for address in ("2001:db8::2", "2001:db8:0:1::1"):  # a success counts at its network only
            found.count(address, "old")
        assert not is_refused(found, "2001:db8::3", "good")
        assert is_refused(found, "2001:db8:0:1::1", "good")
        found.count("2001:db8::3", "good")
        assert (logged[-1]["event"], logged[-1]["login_attempts"]) == (NAME_REFUSED, 1)

    async def test_the_oldest_success_is_forgotten(self) -> None:
        found = FailedLogins(1, max_succeeded=2)
        for login in ("one", "two", "one", "three"):
            found.succeed("a", login)
        found.count("a", "old")
        assert [login for login in ("one", "two", "three") if is_refused(found, "a", login)] == ["two"]


class TestQueue:
    async def test_guesses_that_wait_are_refused_unchecked(self) -> None:
        """A thousand guesses at once learn no more than one after the other."""
        failed, release, answers = FailedLogins(2), trio.Event(), []
        queue = LoginQueue(failed, places=2)

        async def guess() -> None:
            try:
                async with queue.place("2001:db8::1"):
                    await release.wait()
                    failed.count("2001:db8::2")
                    answers.append("wrong")
            except TooManyFailedLogins:
                answers.append("unchecked")

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(guess)
            await wait_all_tasks_blocked()
            assert list(queue._queues) == ["2001:db8::/64"]
            release.set()
        assert (answers.count("wrong"), answers.count("unchecked")) == (2, 8)
        with pytest.raises(TooManyFailedLogins):
            queue.check("2001:db8::1")
        async with queue.place("192.0.2.1"):
            pass
        assert queue._queues == {}


class TestOtherProcesses:
    async def test_one_that_starts_knows_what_another_knows(self, autojump_clock: MockClock) -> None:
        first, second = FailedLogins(2), FailedLogins(2)
        first.succeed("a", "alice")
        first.count("a", "bob")
        await trio.sleep(10)
        first.count("a", "carol")
        first.count("b", "dave")
        second.take_known(first.known())
        assert is_refused(second, "a", "bob")
        assert not is_refused(second, "a", "alice"), "it was right there"
        assert not is_refused(second, "b", "dave")
        second.count("b", "dave")
        assert is_refused(second, "b", "dave")
        await trio.sleep(59)
        assert is_refused(second, "a", "bob")
        await trio.sleep(1)
        assert not is_refused(second, "a", "bob")
        assert first.known().of_addresses == []

    async def test_what_it_knows_stays(self, autojump_clock: MockClock) -> None:
        first, second = FailedLogins(2), FailedLogins(2)
        for _ in range(2):
            second.count("a")
        first.count("a")
        second.take_known(first.known())
        assert is_refused(second, "a")
        second.take_known(first.known())
        assert is_refused(second, "a")
