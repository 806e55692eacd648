"""Sessions that last as long as their token does, and sessions that follow the users file when it is read again."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog
import trio
from structlog.typing import EventDict
from trio.testing import MockClock

from gateway import auth
from gateway.auth import passwords
from gateway.broker.core.scheduler import Scheduler
from gateway.broker.errors import LoginRefused, SessionEnded
from gateway.broker.model.access import Access
from gateway.broker.model.destinations import EVENTS, RENEW
from gateway.broker.model.identity import Credentials, Identity
from gateway.config import settings
from gateway.runtime.gateway import Gateway, open_gateway
from gateway.transports import TransportOptions
from gateway.transports.connection.session_expiry import SessionReviewer

from ..broker.granted import Granted
from .harness import Harness, MakeHarness
from .peers import Peer, dial

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


async def test_a_warning_comes_before_the_end(tokens: Tokens, autojump_clock: MockClock) -> None:
    peer = await tokens.connect("tcp", alice(100), EVENTS)
    began = trio.current_time()
    with trio.fail_after(200):  # longer than `Peer.receive` waits
        message = await peer._receive()
    assert 40 <= trio.current_time() - began < 41
    assert message is not None
    assert (message["destination"], message["event"], message["expires-in"]) == (EVENTS, "token-expiring", "60")
    assert message["content-type"] == "text/plain;charset=utf-8"
    assert tokens.events == ["connected", "token expires soon"]
    await peer.listen(50)
    await peer.aclose()


class TestEnd:
    @pytest.mark.parametrize(
        ("method", "what"),
        [("token", "token"), ("cookie", "cookie"), ("certificate", "certificate"), ("ldap", "token")],
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


class Groups:
    """Rules by which a group may subscribe to the topic of its name."""

    def access_of(self, identity: Identity, transport: str, address: str) -> Access:
        return Granted(subscribe=" ".join(f"/topic/{group}" for group in identity.groups))


async def test_new_groups_count_from_a_renewal_on(tokens: Tokens, autojump_clock: MockClock) -> None:
    tokens.harness.server._authorizer = Groups()
    peer = await tokens.connect("tcp", alice(30, groups=frozenset({"a"})))
    await peer.subscribe("/topic/a")
    await tokens.renewed(peer, alice(60, groups=frozenset({"a", "b"})))
    await peer.subscribe("/topic/b", 2)
    await tokens.renew(peer, alice(60, groups=frozenset({"b"})))
    error = await peer.at_end_after_error()
    assert error["message"] == "access refused", "what it is subscribed to is no longer allowed"
    await peer.aclose()


HASH, OTHER = passwords.hash_passcode("right"), passwords.hash_passcode("other")
SETTINGS = 'users_file = "users"\nlogin_delay = 0\nclose_linger = 0.1\n' + "".join(
    f'{name} = "127.0.0.1:0"\n' for name in ("tcp", "websocket", "http")
)
RULES = '[[rule]]\ndestination = "/topic/**"\ngroups = ["ops"]\nallow = ["send", "subscribe"]\n'


def write(name: str, text: str) -> None:
    """For tests that are `async`."""
    Path(name).write_text(text)


@asynccontextmanager
async def opened(users: str) -> AsyncIterator[Gateway]:
    """A gateway whose users and rules stand in files of the working directory."""
    write("users", users)
    write("gateway.toml", f"{SETTINGS}{RULES}")
    found = settings.load()
    async with open_gateway(found, authenticator=auth.for_settings(found), read=settings.load) as gateway:
        yield gateway


async def come(gateway: Gateway, kind: str, login: str) -> Peer:
    peer = await dial(kind, gateway.addresses[kind][0])
    await peer.connect(login=login, passcode="right")
    return peer


def read_again(gateway: Gateway, users: str) -> None:
    write("users", users)
    gateway.reload()


async def test_sessions_follow_the_users_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Ada is gone, bob has another passcode, cid a new group; dan and eve have lost theirs, and dan used it."""
    monkeypatch.chdir(tmp_path)
    before = f"ada:{HASH}\nbob:{HASH}\ncid:{HASH}\ndan:{HASH}:ops\neve:{HASH}:ops\n"
    with structlog.testing.capture_logs() as logs:
        async with opened(before) as gateway:
            ada, bob, cid, dan, eve = [await come(gateway, kind, name) for name in ("ada", "bob", "cid", "dan", "eve")]
            await dan.subscribe("/topic/a")
            read_again(gateway, f"bob:{OTHER}\ncid:{HASH}:ops,traders\ndan:{HASH}\neve:{HASH}\n")
            for peer, message, words in (
                (ada, "user removed", "no longer has the user 'ada'; ask its operator"),
                (bob, "passcode changed", "the passcode of 'bob' has been changed; log in with the new one"),
                (dan, "access refused", "groups have changed: dan may no longer subscribe to '/topic/a'"),
            ):
                error = await peer.at_end_after_error()
                assert error["message"] == message
                assert words in error.body.decode()
            await cid.subscribe("/topic/a")
            await eve.send_frame("BEGIN", transaction="t", receipt="r")
            await eve.frame("RECEIPT")
            await eve.send_frame("SEND", b"", destination="/topic/a")
            assert (await eve.at_end_after_error())["message"] == "access refused"
            for peer in (ada, bob, cid, dan, eve):
                await peer.aclose()
    revoked = [(line["login"], line["reason"]) for line in logs if line["event"] == "login revoked"]
    assert revoked == [("ada", "user removed"), ("bob", "passcode changed")]
    assert {"login": "cid", "groups": ["ops", "traders"]}.items() <= next(
        line for line in logs if line["event"] == "groups changed"
    ).items()
    assert "argon2" not in str(logs)


async def test_groups_and_rules_of_one_reload_belong_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With his old groups he may do nothing by the new rules, and with the new ones nothing by the old rules."""
    monkeypatch.chdir(tmp_path)
    async with opened(f"ada:{HASH}:ops\n") as gateway:
        ada = await come(gateway, "tcp", "ada")
        await ada.subscribe("/topic/a")
        write("gateway.toml", f"{SETTINGS}{RULES}".replace('"ops"', '"operators"'))
        read_again(gateway, f"ada:{HASH}:operators\n")
        await ada.settled()
        await ada.publish("/topic/a", b"m")
        assert (await ada.frame("MESSAGE")).body == b"m"
        await ada.aclose()


async def test_many_follow_in_turns(
    make_harness: MakeHarness, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """All lose their rights at once, and no turn ends more than some."""
    gone: list[str] = []

    def review(identity: Identity) -> Identity:
        if identity.user in gone:
            raise SessionEnded("user removed", "for a test")
        return identity

    class Directory:
        async def authenticate(self, credentials: Credentials) -> Identity:
            return Identity(credentials.login or "", review=review)

    harness = make_harness(authenticator=Directory())
    peers = [await harness.session("tcp", login="ada") for _ in range(7)]
    other = await harness.session("tcp", login="bob")
    gone.append("ada")
    proceed, left = Scheduler.proceed, [len(peers)]

    def counted(scheduler: Scheduler) -> bool:
        more = proceed(scheduler)
        left.append(sum(each._ending is None for each in harness.server.connections.values()) - 1)
        return more

    monkeypatch.setattr(Scheduler, "proceed", counted)
    SessionReviewer("directory", lambda: None, harness.server, per_turn=2).reload()
    for peer in peers:
        assert (await peer.at_end_after_error())["message"] == "user removed"
        await peer.aclose()
    await other.settled()
    assert max(before - after for before, after in itertools.pairwise(left)) == 2
    await other.aclose()
