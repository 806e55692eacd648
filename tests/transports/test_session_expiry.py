"""Sessions that last as long as their token does: the warning, the renewal, the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import structlog
import trio
from structlog.typing import EventDict
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.broker.errors import LoginRefused
from gateway.broker.model.access import Access, Action, Coverage
from gateway.broker.model.destinations import EVENTS, RENEW
from gateway.broker.model.identity import Credentials, Identity
from gateway.transports import TransportOptions

from .harness import Harness
from .peers import Peer, Received

SECRET = "planted-secret"
POLICY_VIOLATION = 1008


class Issuer:
    """Says what the test tells it to, of whoever shows something."""

    def __init__(self) -> None:
        self.answers: dict[str | None, Identity | Exception | None] = {}
        self.asked: list[Credentials] = []
        self.slowness = 0.0

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        self.asked.append(credentials)
        if len(self.asked) > 1:
            await trio.sleep(self.slowness)
        answer = self.answers[credentials.passcode or credentials.authorization]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def logged() -> Iterator[list[EventDict]]:
    with structlog.testing.capture_logs() as lines:
        yield lines
    assert SECRET not in str(lines)


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
async def harness(make_harness: Callable[..., Harness], issuer: Issuer, autojump_clock: MockClock) -> Harness:
    found = make_harness(authenticator=issuer, options=TransportOptions(token_warning=60.0, connect_timeout=5.0))
    found.broker.scheduler.epoch = trio.current_time  # so that tokens age with the test's clock
    return found


def alice(seconds: float, method: str = "token", groups: frozenset[str] = frozenset()) -> Identity:
    return Identity("alice", groups, trio.current_time() + seconds, method)


async def connect(harness: Harness, issuer: Issuer, kind: str, identity: Identity) -> Peer:
    issuer.answers["first"] = identity
    return await harness.session(kind, passcode="first")


async def listening(harness: Harness, issuer: Issuer, kind: str, seconds: float) -> Peer:
    peer = await connect(harness, issuer, kind, alice(seconds))
    await peer.subscribe(EVENTS)
    return peer


async def renew(peer: Peer, **headers: object) -> None:
    await peer.send_frame("SEND", destination=RENEW, receipt="renewed", **headers)


def events(logged: list[EventDict]) -> list[str]:
    return [line["event"] for line in logged]


class TestWarning:
    async def test_it_comes_before_the_end(
        self, harness: Harness, issuer: Issuer, logged: list[EventDict], autojump_clock: MockClock
    ) -> None:
        peer = await listening(harness, issuer, "tcp", 100)
        began = trio.current_time()
        message = await house_message(peer, 200)
        assert 40 <= trio.current_time() - began < 41
        assert (message["destination"], message["event"], message["expires-in"]) == (EVENTS, "token-expiring", "60")
        assert message["content-type"] == "text/plain;charset=utf-8"
        assert events(logged) == ["connected", "token expires soon"]
        await peer.listen(50)
        await peer.aclose()

    async def test_a_client_that_subscribes_late_is_told_then(
        self, harness: Harness, issuer: Issuer, logged: list[EventDict], autojump_clock: MockClock
    ) -> None:
        peer = await connect(harness, issuer, "tcp", alice(30))
        await peer.listen(10)
        await peer.subscribe(EVENTS)
        assert int((await peer.frame("MESSAGE"))["expires-in"]) in (19, 20)
        await peer.listen(15)
        assert events(logged) == ["connected", "token expires soon"], "said once"
        await peer.aclose()


async def house_message(peer: Peer, seconds: float) -> Received:
    """The next MESSAGE, which may take longer than tests usually wait."""
    with trio.fail_after(seconds):
        received = await peer._receive()
    assert received is not None
    assert received.command == "MESSAGE"
    return received


class TestEnd:
    @pytest.mark.parametrize(
        ("method", "what"),
        [
            ("token", "token"),
            ("ticket", "token"),
            ("cookie", "cookie"),
            ("certificate", "certificate"),
            ("ldap", "token"),
        ],
    )
    async def test_error_and_close(
        self,
        harness: Harness,
        issuer: Issuer,
        kind: str,
        method: str,
        what: str,
        logged: list[EventDict],
        autojump_clock: MockClock,
    ) -> None:
        peer = await connect(harness, issuer, kind, alice(15, method))
        began = trio.current_time()
        error = await peer.at_end_after_error()
        assert 15 <= trio.current_time() - began < 15.1
        assert error["message"] == f"{what} expired"
        assert b"log in with a new one" in error.body
        if kind == "websocket":
            assert peer.websocket.closed == (POLICY_VIOLATION, f"{what} expired")
        assert f"{what} expired" in events(logged)
        await peer.aclose()
        assert harness.broker.sessions == {}

    async def test_a_clock_that_is_set(self, harness: Harness, issuer: Issuer, autojump_clock: MockClock) -> None:
        """The epoch's clock may jump: it is looked at once a minute at least."""
        peer = await connect(harness, issuer, "tcp", alice(100_000))
        began = trio.current_time()
        harness.broker.scheduler.epoch = lambda: trio.current_time() + 200_000
        with trio.fail_after(100):
            error = await peer._receive()
        assert error is not None
        assert error["message"] == "token expired"
        assert trio.current_time() - began <= 61
        await peer.aclose()

    async def test_a_session_that_is_gone_leaves_nothing_to_end(
        self, harness: Harness, issuer: Issuer, autojump_clock: MockClock
    ) -> None:
        peer = await connect(harness, issuer, "tcp", alice(15))
        await peer.aclose()
        await trio.sleep(120)
        await wait_all_tasks_blocked()
        assert harness.server.timers._slots == {}
        assert harness.counters.errors == 0


class TestRenewal:
    @pytest.mark.parametrize(
        ("headers", "body"),
        [({"passcode": SECRET}, b""), ({"Authorization": SECRET}, b""), ({}, SECRET.encode())],
        ids=["passcode", "authorization", "body"],
    )
    async def test_the_session_goes_on(
        self,
        harness: Harness,
        issuer: Issuer,
        kind: str,
        headers: dict[str, str],
        body: bytes,
        logged: list[EventDict],
        autojump_clock: MockClock,
    ) -> None:
        peer = await connect(harness, issuer, kind, alice(15))
        await peer.subscribe("/topic/a")
        await peer.listen(10)
        issuer.answers[SECRET] = alice(100)
        await peer.send_frame("SEND", body, destination=RENEW, receipt="renewed", **headers)
        assert (await peer.frame("RECEIPT"))["receipt-id"] == "renewed"
        asked = issuer.asked[-1]
        assert (asked.login, asked.transport, asked.upgrade, asked.certificate) == ("alice", kind, None, None)
        await peer.listen(90)
        await peer.publish("/topic/a", b"still here")
        assert (await peer.frame("MESSAGE")).body == b"still here"
        assert (await peer.at_end_after_error())["message"] == "token expired"
        await peer.aclose()

    async def test_one_a_second(
        self, harness: Harness, issuer: Issuer, logged: list[EventDict], autojump_clock: MockClock
    ) -> None:
        """Or a client that renews all the time fills the wheel with lives that are over."""
        peer = await connect(harness, issuer, "tcp", alice(1000))
        issuer.answers[SECRET] = alice(2000)
        began = trio.current_time()
        for _ in range(5):
            await renew(peer, passcode=SECRET)
            await peer.frame("RECEIPT")
        assert 4 <= trio.current_time() - began < 5
        await peer.aclose()

    async def test_frames_behind_it_do_not_wait(
        self, harness: Harness, issuer: Issuer, autojump_clock: MockClock
    ) -> None:
        issuer.slowness = 3.0
        peer = await connect(harness, issuer, "tcp", alice(15))
        issuer.answers[SECRET] = alice(100)
        await renew(peer, passcode=SECRET)
        began = trio.current_time()
        await peer.send_frame("SEND", destination="/topic/a", receipt="meanwhile")
        assert (await peer.frame("RECEIPT"))["receipt-id"] == "meanwhile"
        assert trio.current_time() - began < 1
        assert (await peer.frame("RECEIPT"))["receipt-id"] == "renewed"
        assert trio.current_time() - began == pytest.approx(3.0)
        await peer.aclose()

    @pytest.mark.parametrize(
        ("answer", "detail"),
        [
            (None, "what it shows is no token that this server accepts, and does not look like one"),
            (
                LoginRefused("the client sent no credentials; send login and passcode", method="none"),
                "what it shows is no token that this server accepts, and does not look like one",
            ),
            (LoginRefused("the token has expired"), "the token has expired"),
            (Identity("bob"), "the token is one of another user; connect anew to be that user"),
            (ValueError(SECRET[:3]), "the server failed to check the token; its log says more"),
        ],
    )
    async def test_refused(
        self,
        harness: Harness,
        issuer: Issuer,
        answer: Identity | Exception | None,
        detail: str,
        logged: list[EventDict],
        autojump_clock: MockClock,
    ) -> None:
        peer = await connect(harness, issuer, "tcp", alice(15))
        issuer.answers[SECRET] = answer
        await renew(peer, passcode=SECRET)
        error = await peer.at_end_after_error()
        assert (error["message"], error["receipt-id"], error.body.decode()) == ("renewal refused", "renewed", detail)
        assert "renewal refused" in events(logged)
        assert "renewed" not in events(logged)
        assert harness.counters.logins_failed == (answer is None or isinstance(answer, LoginRefused))
        await peer.aclose()

    async def test_the_client_leaves_meanwhile(
        self, harness: Harness, issuer: Issuer, autojump_clock: MockClock
    ) -> None:
        issuer.slowness = 3.0
        issuer.answers[SECRET] = alice(100)
        peer = await connect(harness, issuer, "tcp", alice(15))
        await renew(peer, passcode=SECRET)
        await peer.send_frame("DISCONNECT", receipt="bye")
        assert (await peer.frame("RECEIPT"))["receipt-id"] == "bye"
        await peer.at_end()
        await peer.aclose()
        await trio.sleep(10)
        assert harness.broker.sessions == {}

    async def test_the_newest_identity_counts(
        self, harness: Harness, issuer: Issuer, logged: list[EventDict], autojump_clock: MockClock
    ) -> None:
        """The warning comes again before the new end; an identity without an end stops the clock."""
        peer = await listening(harness, issuer, "tcp", 70)
        assert (await peer.frame("MESSAGE"))["expires-in"] == "60"
        issuer.answers[SECRET] = Identity("alice")
        await renew(peer, passcode=SECRET)
        await peer.frame("RECEIPT")
        await peer.listen(1000)
        issuer.answers[SECRET] = alice(75)
        await renew(peer, passcode=SECRET)
        await peer.frame("RECEIPT")
        began = trio.current_time()
        assert (await peer.frame("MESSAGE"))["expires-in"] == "60"
        assert 15 <= trio.current_time() - began < 16
        await peer.listen(59)
        assert (await peer.at_end_after_error())["message"] == "token expired"
        await peer.aclose()


class Granted:
    """What an identity with these groups may do: what lies below a topic of that name."""

    def __init__(self, groups: frozenset[str]) -> None:
        self.sendable: set[str] = set()
        self.answerable: set[str] = set()
        self._groups = groups

    def may(self, action: Action, name: str) -> bool:
        return name.removeprefix("/topic/") in self._groups

    def reach(self, pattern: str) -> Coverage:
        return Coverage.NONE

    def options(self) -> list[str]:
        return [f"--group={group}" for group in sorted(self._groups)]

    def reason(self, action: Action, name: str) -> str:
        return "no rule"


class Groups:
    """Rules that go by groups."""

    def access_of(self, identity: Identity, transport: str, address: str) -> Access:
        return Granted(identity.groups)


class TestGroups:
    async def test_new_ones_count_at_once(self, harness: Harness, issuer: Issuer, autojump_clock: MockClock) -> None:
        harness.server._authorizer = Groups()
        peer = await connect(harness, issuer, "tcp", alice(30, groups=frozenset({"a"})))
        await peer.subscribe("/topic/a")
        issuer.answers[SECRET] = alice(60, groups=frozenset({"a", "b"}))
        await renew(peer, passcode=SECRET)
        await peer.frame("RECEIPT")
        await peer.subscribe("/topic/b", 2)
        issuer.answers[SECRET] = replace(alice(60), groups=frozenset({"b"}))
        await renew(peer, passcode=SECRET)
        error = await peer.at_end_after_error()
        assert error["message"] == "access refused", "what it is subscribed to is no longer allowed"
        await peer.aclose()
