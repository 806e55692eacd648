"""The rate-limited authenticator: failures are slow and counted, and valid credentials do not wait."""

from __future__ import annotations

import time

import pytest
import trio
from trio.testing import MockClock

from gateway.auth.authenticator import RateLimited
from gateway.auth.failed_logins import FailedLogins, TooManyFailedLogins
from gateway.auth.tickets import Tickets
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Credentials, Identity


class Inner:
    """An authenticator with one answer."""

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


async def refusal(found: RateLimited, login: str = "alice") -> tuple[LoginRefused, float]:
    began = trio.current_time()
    with pytest.raises(LoginRefused) as error:
        await found.authenticate(Credentials(login, "x", address="a"))
    return error.value, trio.current_time() - began


def refused(failed: FailedLogins, *logins: str) -> list[str]:
    found = []
    for login in logins:
        try:
            failed.check("a", login)
        except TooManyFailedLogins:
            found.append(login)
    return found


async def test_valid_credentials_do_not_wait_and_failures_are_slow(autojump_clock: MockClock) -> None:
    found = RateLimited(Inner(Identity("alice")), FailedLogins(3))
    began = trio.current_time()
    assert await found.authenticate(Credentials()) == Identity("alice")
    assert trio.current_time() == began
    assert (found.tickets, found.reload(), found.name) == (Inner.tickets, "wrong", "inner")
    for answer in (None, LoginRefused("the sentence", is_guess=False)):
        error, seconds = await refusal(RateLimited(Inner(answer), FailedLogins(3), 2.5))
        assert (seconds, error.detail) == (2.5, (answer or LoginRefused()).detail)


async def test_a_login_that_succeeded_is_checked_beside_failures(autojump_clock: MockClock) -> None:
    failed, inner = FailedLogins(2), Inner(Identity("alice"))
    found = RateLimited(inner, failed)
    await found.authenticate(Credentials("alice", "right", address="a"))
    inner.answer = None
    for _ in range(2):
        assert refused(failed, "alice", "") == []
        await refusal(found, "bob")
    assert refused(failed, "alice", "", "bob", "carol") == ["", "bob", "carol"]


@pytest.mark.parametrize(
    ("login", "identity"),
    [("alice", Identity("alice", method="token")), ("alice", Identity("bob")), (None, Identity("alice"))],
)
async def test_a_login_without_a_right_passcode_is_not_remembered(login: str | None, identity: Identity) -> None:
    failed = FailedLogins(1)
    await RateLimited(Inner(identity), failed).authenticate(Credentials(login, "x", address="a"))
    failed.count("a", "x")
    assert refused(failed, "alice") == ["alice"]


async def test_only_guesses_count_and_a_token_is_accepted_from_a_refused_address(autojump_clock: MockClock) -> None:
    """Otherwise the failures of one client would end sessions of the others that renew."""
    inner, failed = Inner(LoginRefused("expired", is_guess=False)), FailedLogins(1)
    found = RateLimited(inner, failed)
    for _ in range(3):
        assert (await refusal(found))[0].detail == "expired"
    failed.count("a")
    with pytest.raises(TooManyFailedLogins) as error:
        failed.check("a")
    inner.answer = error.value
    assert (await refusal(found))[1] == 0, "a refusal of the queue is not slow"
    inner.answer = Identity("alice", method="token")
    assert await found.authenticate(Credentials(address="a")) == Identity("alice", method="token")


async def test_expired_credentials_are_refused(autojump_clock: MockClock) -> None:
    identity = Identity("alice", expires=time.time() - 1, method="cookie")
    error, seconds = await refusal(RateLimited(Inner(identity), FailedLogins(3)))
    assert (error.detail, seconds) == ("the credentials have expired; log in with new ones", 1.0)
    assert (error.method, error.why, error.user, error.is_guess) == ("cookie", "expired", "alice", False)
