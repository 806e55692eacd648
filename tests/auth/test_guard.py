"""The guard: failures are slow and counted, whoever is let in is not held up."""

from __future__ import annotations

import time

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.auth.authenticator import RateLimited
from gateway.auth.failed_logins import FailedLogins, TooManyFailedLogins
from gateway.auth.tickets import Tickets
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Credentials, Identity


class Inner:
    """Answers what it is told to."""

    name = "inner"
    tickets = Tickets()

    def __init__(self, answer: Identity | LoginRefused | None) -> None:
        self.answer = answer
        self.asked = 0

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        self.asked += 1
        if isinstance(self.answer, LoginRefused):
            raise self.answer
        return self.answer

    def reload(self) -> str | None:
        return "wrong"


def guard(inner: Inner, attempts: int = 3, delay: float = 1.0) -> RateLimited:
    return RateLimited(inner, FailedLogins(attempts), delay)


async def refusal(found: RateLimited, address: str = "a") -> tuple[LoginRefused, float]:
    """And after how many seconds it came."""
    began = trio.current_time()
    with pytest.raises(LoginRefused) as error:
        await found.authenticate(Credentials("alice", "x", address=address))
    return error.value, trio.current_time() - began


async def test_who_is_let_in_does_not_wait(autojump_clock: MockClock) -> None:
    began = trio.current_time()
    assert await guard(Inner(Identity("alice"))).authenticate(Credentials()) == Identity("alice")
    assert trio.current_time() == began


async def test_what_is_passed_on() -> None:
    found = guard(Inner(None))
    assert found.tickets is Inner.tickets
    assert found.reload() == "wrong"
    assert found.name == "inner"


@pytest.mark.parametrize("answer", [None, LoginRefused(), LoginRefused("the sentence", is_guess=False)])
async def test_failures_are_slow(answer: LoginRefused | None, autojump_clock: MockClock) -> None:
    error, seconds = await refusal(guard(Inner(answer), delay=2.5))
    assert seconds == 2.5
    assert error.detail == (answer or LoginRefused()).detail


async def test_failures_are_counted_by_address(autojump_clock: MockClock) -> None:
    failures = FailedLogins(2)
    found = RateLimited(Inner(None), failures)
    await refusal(found)
    failures.check("a")
    await refusal(found)
    with pytest.raises(TooManyFailedLogins):
        failures.check("a")
    failures.check("b")


async def test_who_was_let_in_is_heard_beside_those_who_fail(autojump_clock: MockClock) -> None:
    failures = FailedLogins(2)
    inner = Inner(Identity("alice"))
    found = RateLimited(inner, failures)
    await found.authenticate(Credentials("alice", "right", address="a"))
    inner.answer = None
    for _ in range(2):
        with pytest.raises(LoginRefused):
            await found.authenticate(Credentials("bob", "old", address="a"))
    failures.check("a", "alice")
    for login in ("", "bob", "carol"):
        with pytest.raises(TooManyFailedLogins):
            failures.check("a", login)


@pytest.mark.parametrize(
    ("login", "identity"),
    [
        ("alice", Identity("alice", method="token")),
        ("alice", Identity("alice", method="certificate")),
        ("alice", Identity("bob")),
        (None, Identity("alice")),
    ],
)
async def test_a_name_beside_what_is_no_passcode_is_not_remembered(login: str | None, identity: Identity) -> None:
    """Who has a token may write any name beside it."""
    failures = FailedLogins(1)
    await RateLimited(Inner(identity), failures).authenticate(Credentials(login, "x", address="a"))
    failures.count("a", "x")
    with pytest.raises(TooManyFailedLogins):
        failures.check("a", "alice")


async def test_all_at_once_are_counted_before_they_are_answered(autojump_clock: MockClock) -> None:
    failures = FailedLogins(100)
    found = RateLimited(Inner(None), failures)
    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(refusal, found)
        await wait_all_tasks_blocked()
        with pytest.raises(TooManyFailedLogins):
            failures.check("a")
    assert trio.current_time() < 2


async def test_who_shows_what_nobody_guesses_is_let_in_from_anywhere() -> None:
    """Or the failures of a neighbour behind the same address would end sessions that are to be renewed."""
    failures = FailedLogins(1)
    failures.count("a")
    found = RateLimited(Inner(Identity("alice", method="token")), failures)
    assert await found.authenticate(Credentials(address="a")) == Identity("alice", method="token")


async def test_what_is_no_guess_does_not_count(autojump_clock: MockClock) -> None:
    inner = Inner(LoginRefused("expired", is_guess=False))
    found = guard(inner)
    for _ in range(10):
        assert (await refusal(found))[0].detail == "expired"
    assert inner.asked == 10


async def test_the_log_learns_who_is_expired(autojump_clock: MockClock) -> None:
    error, _ = await refusal(guard(Inner(Identity("alice", expires=time.time() - 1, method="cookie"))))
    assert (error.method, error.why, error.user) == ("cookie", "expired", "alice")


async def test_who_is_expired_is_not_let_in(autojump_clock: MockClock) -> None:
    found = guard(Inner(Identity("alice", expires=time.time() - 1)))
    error, seconds = await refusal(found)
    assert (error.detail, seconds) == ("the credentials have expired; log in with new ones", 1.0)
    assert not error.is_guess


async def test_the_refusal_of_the_line_is_not_counted_twice(autojump_clock: MockClock) -> None:
    failures = FailedLogins(1)
    failures.count("a")
    with pytest.raises(LoginRefused) as error:
        failures.check("a")
    found = guard(Inner(error.value))
    for _ in range(5):
        assert (await refusal(found))[1] == 0
