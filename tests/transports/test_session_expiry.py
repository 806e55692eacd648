"""Sessions that last as long as their token does: the warning, the renewal, the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
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

from .harness import Harness, MakeHarness
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


def alice(seconds: float, method: str = "token", groups: frozenset[str] = frozenset()) -> Identity:
    return Identity("alice", groups, trio.current_time() + seconds, method)


class Tokens:
    """A harness whose clients log in by tokens, and all that it logs."""

    def __init__(self, harness: Harness, issuer: Issuer, logged: list[EventDict]) -> None:
        self.harness, self.issuer, self._logged = harness, issuer, logged
        harness.broker.scheduler.epoch = trio.current_time  # so that tokens age with the test's clock

    async def connect(self, kind: str, identity: Identity, events: str = "") -> Peer:
        self.issuer.answers["first"] = identity
        peer = await self.harness.session(kind, passcode="first")
        if events:
            await peer.subscribe(events)
        return peer

    async def renew(self, peer: Peer, identity: Identity | Exception | None) -> None:
        self.issuer.answers[SECRET] = identity
        await peer.send_frame("SEND", destination=RENEW, receipt="renewed", passcode=SECRET)

    async def renewed(self, peer: Peer, identity: Identity) -> None:
        await self.renew(peer, identity)
        await peer.frame("RECEIPT")

    @property
    def events(self) -> list[str]:
        return [line["event"] for line in self._logged]


@pytest.fixture
async def tokens(make_harness: MakeHarness) -> AsyncIterator[Tokens]:
    issuer, options = Issuer(), TransportOptions(token_warning=60.0, connect_timeout=5.0)
    with structlog.testing.capture_logs() as lines:
        yield Tokens(make_harness(authenticator=issuer, options=options), issuer, lines)
    assert SECRET not in str(lines)


class TestWarning:
    async def test_it_comes_before_the_end(self, tokens: Tokens, autojump_clock: MockClock) -> None:
        peer = await tokens.connect("tcp", alice(100), EVENTS)
        began = trio.current_time()
        message = await house_message(peer, 200)
        assert 40 <= trio.current_time() - began < 41
        assert (message["destination"], message["event"], message["expires-in"]) == (EVENTS, "token-expiring", "60")
        assert message["content-type"] == "text/plain;charset=utf-8"
        assert tokens.events == ["connected", "token expires soon"]
        await peer.listen(50)
        await peer.aclose()

    async def test_a_client_that_subscribes_late_is_told_then(self, tokens: Tokens, autojump_clock: MockClock) -> None:
        peer = await tokens.connect("tcp", alice(30))
        await peer.listen(10)
        await peer.subscribe(EVENTS)
        assert int((await peer.frame("MESSAGE"))["expires-in"]) in (19, 20)
        await peer.listen(15)
        assert tokens.events == ["connected", "token expires soon"], "said once"
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
        self, tokens: Tokens, kind: str, method: str, what: str, autojump_clock: MockClock
    ) -> None:
        peer = await tokens.connect(kind, alice(15, method))
        began = trio.current_time()
        error = await peer.at_end_after_error()
        assert 15 <= trio.current_time() - began < 15.1
        assert error["message"] == f"{what} expired"
        assert b"log in with a new one" in error.body
        if kind == "websocket":
            assert peer.websocket.closed == (POLICY_VIOLATION, f"{what} expired")
        assert f"{what} expired" in tokens.events
        await peer.aclose()
        assert tokens.harness.broker.sessions == {}

    async def test_a_clock_that_is_set(self, tokens: Tokens, autojump_clock: MockClock) -> None:
        """The epoch's clock may jump: it is looked at once a minute at least."""
        peer = await tokens.connect("tcp", alice(100_000))
        began = trio.current_time()
        tokens.harness.broker.scheduler.epoch = lambda: trio.current_time() + 200_000
        with trio.fail_after(100):
            error = await peer._receive()
        assert error is not None
        assert error["message"] == "token expired"
        assert trio.current_time() - began <= 61
        await peer.aclose()

    async def test_a_session_that_is_gone_leaves_nothing_to_end(
        self, tokens: Tokens, autojump_clock: MockClock
    ) -> None:
        peer = await tokens.connect("tcp", alice(15))
        await peer.aclose()
        await trio.sleep(120)
        await wait_all_tasks_blocked()
        assert tokens.harness.server.timers._slots == {}
        assert tokens.harness.counters.totals()["errors"] == 0


class TestRenewal:
    @pytest.mark.parametrize(
        ("headers", "body"),
        [({"passcode": SECRET}, b""), ({"Authorization": SECRET}, b""), ({}, SECRET.encode())],
        ids=["passcode", "authorization", "body"],
    )
    async def test_the_session_goes_on(
        self, tokens: Tokens, kind: str, headers: dict[str, str], body: bytes, autojump_clock: MockClock
    ) -> None:
        peer = await tokens.connect(kind, alice(15))
        await peer.subscribe("/topic/a")
        await peer.listen(10)
        tokens.issuer.answers[SECRET] = alice(100)
        await peer.send_frame("SEND", body, destination=RENEW, receipt="renewed", **headers)
        assert (await peer.frame("RECEIPT"))["receipt-id"] == "renewed"
        asked = tokens.issuer.asked[-1]
        assert (asked.login, asked.transport, asked.upgrade, asked.certificate) == ("alice", kind, None, None)
        await peer.listen(90)
        await peer.publish("/topic/a", b"still here")
        assert (await peer.frame("MESSAGE")).body == b"still here"
        assert (await peer.at_end_after_error())["message"] == "token expired"
        await peer.aclose()

    async def test_one_a_second(self, tokens: Tokens, autojump_clock: MockClock) -> None:
        """Or a client that renews all the time fills the wheel with lives that are over."""
        peer = await tokens.connect("tcp", alice(1000))
        began = trio.current_time()
        for _ in range(5):
            await tokens.renewed(peer, alice(2000))
        assert 4 <= trio.current_time() - began < 5
        await peer.aclose()

    async def test_frames_behind_it_do_not_wait(self, tokens: Tokens, autojump_clock: MockClock) -> None:
        tokens.issuer.slowness = 3.0
        peer = await tokens.connect("tcp", alice(15))
        await tokens.renew(peer, alice(100))
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
        self, tokens: Tokens, answer: Identity | Exception | None, detail: str, autojump_clock: MockClock
    ) -> None:
        peer = await tokens.connect("tcp", alice(15))
        await tokens.renew(peer, answer)
        error = await peer.at_end_after_error()
        assert (error["message"], error["receipt-id"], error.body.decode()) == ("renewal refused", "renewed", detail)
        assert "renewal refused" in tokens.events
        assert "renewed" not in tokens.events
        assert tokens.harness.counters.totals()["logins_failed"] == (answer is None or isinstance(answer, LoginRefused))
        await peer.aclose()

    async def test_the_client_leaves_meanwhile(self, tokens: Tokens, autojump_clock: MockClock) -> None:
        tokens.issuer.slowness = 3.0
        peer = await tokens.connect("tcp", alice(15))
        await tokens.renew(peer, alice(100))
        await peer.send_frame("DISCONNECT", receipt="bye")
        assert (await peer.frame("RECEIPT"))["receipt-id"] == "bye"
        await peer.at_end()
        await peer.aclose()
        await trio.sleep(10)
        assert tokens.harness.broker.sessions == {}

    async def test_the_newest_identity_counts(self, tokens: Tokens, autojump_clock: MockClock) -> None:
        """The warning comes again before the new end; an identity without an end stops the clock."""
        peer = await tokens.connect("tcp", alice(70), EVENTS)
        assert (await peer.frame("MESSAGE"))["expires-in"] == "60"
        await tokens.renewed(peer, Identity("alice"))
        await peer.listen(1000)
        await tokens.renewed(peer, alice(75))
        began = trio.current_time()
        assert (await peer.frame("MESSAGE"))["expires-in"] == "60"
        assert 15 <= trio.current_time() - began < 16
        await peer.listen(59)
        assert (await peer.at_end_after_error())["message"] == "token expired"
        await peer.aclose()

    async def test_no_answer_of_the_authenticator(self, tokens: Tokens, autojump_clock: MockClock) -> None:
        tokens.issuer.slowness = 1000.0
        peer = await tokens.connect("tcp", alice(15))
        await tokens.renew(peer, None)
        error = await peer.at_end_after_error()
        assert error.body == b"the authenticator did not answer within 5 s (connect_timeout)"
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
    async def test_new_ones_count_at_once(self, tokens: Tokens, autojump_clock: MockClock) -> None:
        tokens.harness.server._authorizer = Groups()
        peer = await tokens.connect("tcp", alice(30, groups=frozenset({"a"})))
        await peer.subscribe("/topic/a")
        await tokens.renewed(peer, alice(60, groups=frozenset({"a", "b"})))
        await peer.subscribe("/topic/b", 2)
        await tokens.renew(peer, replace(alice(60), groups=frozenset({"b"})))
        error = await peer.at_end_after_error()
        assert error["message"] == "access refused", "what it is subscribed to is no longer allowed"
        await peer.aclose()
