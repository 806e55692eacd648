"""The order of authenticators: which of them decides, by every pair of kinds that a client can show at once."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.auth import passwords
from gateway.auth.chain import Chain
from gateway.auth.claims import CertificateUsers
from gateway.auth.cookies import Cookies
from gateway.auth.custom import CustomAuthenticator
from gateway.auth.tickets import PREFIX, Tickets
from gateway.auth.tokens import Tokens
from gateway.auth.users import UsersFile
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Certificate, Credentials, Identity, Upgrade

from .issuer import LONG_SECRET, SECRET, token, write
from .test_cookies import KEY, flask

ORIGIN = "https://app.example"
HASH = passwords.hash_passcode("right")
OTHER_HASH = passwords.hash_passcode("other")


@dataclass
class Door:
    """All authenticators at once; what each client shows is of a user named like the way."""

    chain: Chain
    tickets: Tickets
    asked: list[Credentials]

    async def ask(self, credentials: Credentials) -> str:
        """The user, or `refused`."""
        try:
            identity = await self.chain.authenticate(credentials)
        except LoginRefused:
            return "refused"
        return "refused" if identity is None else identity.user

    def ticket(self, user: str) -> str:
        return self.tickets.issue(Identity(user))


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Door]:
    write(tmp_path / "users", f"passcode:{HASH}:ops\nbasic:{HASH}\n")
    write(tmp_path / "keys", SECRET)
    write(tmp_path / "secrets", KEY)
    asked: list[Credentials] = []

    def call(credentials: Credentials) -> str:
        asked.append(credentials)
        return "custom"

    def make(*names: str) -> Door:
        tickets = Tickets()
        parts: dict[str, Callable[[], Any]] = {
            "users": lambda: UsersFile(tmp_path / "users"),
            "tokens": lambda: Tokens(tmp_path / "keys"),
            "cookies": lambda: Cookies(tmp_path / "secrets"),
            "certificates": lambda: CertificateUsers("common-name"),
            "custom": lambda: CustomAuthenticator(call),
        }
        return Door(Chain(tickets=tickets, **{name: parts[name]() for name in names or parts}), tickets, asked)

    return make


def token_of(user: str) -> str:
    return token("HS256", SECRET, sub=user)


def bearer(user: str) -> str:
    return f"Bearer {token_of(user)}"


def basic(user: str = "basic", passcode: str = "right") -> str:
    return "Basic " + base64.b64encode(f"{user}:{passcode}".encode()).decode()


def cookie(user: str = "cookie") -> str:
    return f"session={flask({'user': user})}"


def upgraded(credentials: Credentials, **fields: str) -> Credentials:
    before = credentials.upgrade or Upgrade(origin=ORIGIN)
    return replace(credentials, upgrade=replace(before, **fields))


WAYS: dict[str, Callable[[Credentials, Door], Credentials]] = {
    "certificate": lambda shown, door: replace(shown, certificate=Certificate("CN=certificate", "certificate")),
    "bearer": lambda shown, door: replace(shown, authorization=bearer("bearer")),
    "passcode": lambda shown, door: replace(shown, passcode="right", login="passcode"),
    "upgrade": lambda shown, door: upgraded(shown, authorization=bearer("upgrade")),
    "ticket": lambda shown, door: upgraded(shown, ticket=door.ticket("ticket")),
    "cookie": lambda shown, door: upgraded(shown, cookie=cookie()),
}
WRONG: dict[str, Callable[[Credentials], Credentials]] = {
    "certificate": lambda shown: replace(shown, certificate=Certificate("O=x")),
    "bearer": lambda shown: replace(shown, authorization=f"Bearer {token('HS256', LONG_SECRET)}"),
    "passcode": lambda shown: replace(shown, passcode="wrong", login="passcode"),
    "upgrade": lambda shown: upgraded(shown, authorization=basic(passcode="wrong")),
    "ticket": lambda shown: upgraded(shown, ticket=PREFIX + "x"),
    "cookie": lambda shown: upgraded(shown, cookie="session=x"),
}
ORDER = list(WAYS)


class TestOrder:
    @pytest.mark.parametrize("way", ORDER)
    async def test_one_alone(self, make: Callable[..., Door], way: str) -> None:
        door = make()
        assert await door.ask(WAYS[way](Credentials(), door)) == way
        assert await door.ask(WRONG[way](Credentials())) == "refused"
        assert door.asked == [], "who is refused is not handed on"

    @pytest.mark.parametrize(
        ("first", "second"), [(a, b) for a in ORDER for b in ORDER if ORDER.index(a) < ORDER.index(b)]
    )
    async def test_of_two_the_first_decides(self, make: Callable[..., Door], first: str, second: str) -> None:
        door = make()
        both = replace(WAYS[first](WAYS[second](Credentials(), door), door), login=first if first == "passcode" else "")
        assert await door.ask(both) == first
        right_behind = WRONG[first](WAYS[second](Credentials(), door))
        assert await door.ask(right_behind) == "refused"

    async def test_what_is_not_looked_at_is_not_used_up(self, make: Callable[..., Door]) -> None:
        door = make()
        shown = WAYS["bearer"](WAYS["ticket"](Credentials(), door), door)
        assert await door.ask(shown) == "bearer"
        assert await door.ask(replace(shown, authorization="")) == "ticket"
        assert await door.ask(replace(shown, authorization="")) == "refused"

    async def test_nothing_shown_goes_to_the_operator(self, make: Callable[..., Door]) -> None:
        door = make()
        for shown in (
            Credentials(),
            Credentials("alice"),
            Credentials("alice", ""),
            Credentials(authorization="Digest x"),
            Credentials(authorization="Bearer opaque"),
            Credentials(upgrade=Upgrade(authorization="Bearer opaque", cookie="other=1", origin=ORIGIN)),
            Credentials(upgrade=Upgrade(authorization="Basic !", origin=ORIGIN)),
            Credentials(upgrade=Upgrade(authorization="Basic bm9jb2xvbg==", origin=ORIGIN)),
        ):
            assert await door.ask(shown) == "custom"
            assert door.asked[-1] == shown
        only = make("custom")
        assert await only.ask(Credentials("a", "b", bearer("x"))) == "custom", "opaque to us, perhaps not to him"


class TestPasscode:
    async def test_token_or_ticket(self, make: Callable[..., Door]) -> None:
        door = make("tokens", "users")
        for login in (None, "", "guest", "alice"):  # as RabbitMQ: what stands beside a token does not matter
            assert await door.ask(Credentials(login, token_of("alice"))) == "alice"
            assert await door.ask(Credentials(login, door.ticket("alice"))) == "alice"
        assert await door.ask(Credentials("passcode", token("HS256", LONG_SECRET))) == "refused"
        assert await door.ask(Credentials("passcode", PREFIX + "x")) == "refused"
        assert await door.ask(Credentials("passcode", "right")) == "passcode"

    async def test_without_keys_a_token_is_a_passcode_like_any_other(
        self, make: Callable[..., Door], tmp_path: Path
    ) -> None:
        text = token_of("alice")
        write(tmp_path / "users", f"alice:{passwords.hash_passcode(text)}\n")
        assert await make("users").ask(Credentials("alice", text)) == "alice"
        assert await make("users", "tokens").ask(Credentials("bob", text)) == "alice"

    async def test_groups_of_the_file(self, make: Callable[..., Door]) -> None:
        found = await make("users").chain.authenticate(Credentials("passcode", "right"))
        assert found == Identity("passcode", frozenset({"ops"}))


class TestLogin:
    @pytest.mark.parametrize("way", [way for way in ORDER if way != "passcode"])
    async def test_it_must_be_the_user_or_empty(self, make: Callable[..., Door], way: str) -> None:
        door = make()
        for login, found in [(way, way), ("", way), (None, way), ("somebody", "refused")]:
            assert await door.ask(replace(WAYS[way](Credentials(), door), login=login)) == found
        with pytest.raises(LoginRefused) as error:
            await door.chain.authenticate(replace(WAYS[way](Credentials(), door), login="somebody"))
        assert error.value.detail.startswith("login is not the user that the ")
        assert not error.value.is_guess

    async def test_basic(self, make: Callable[..., Door]) -> None:
        door = make()
        shown = Credentials(upgrade=Upgrade(authorization=basic()))
        assert await door.ask(shown) == "basic"
        assert await door.ask(replace(shown, login="basic")) == "basic"
        assert await door.ask(replace(shown, login="passcode")) == "refused"
        assert await make("tokens", "custom").ask(shown) == "custom", "nobody has users"


class TestCookie:
    async def test_only_of_a_page(self, make: Callable[..., Door]) -> None:
        door = make("cookies")
        assert await door.ask(Credentials(upgrade=Upgrade(cookie=cookie(), origin=ORIGIN))) == "cookie"
        assert await door.ask(Credentials(upgrade=Upgrade(cookie=cookie()))) == "refused"


class TestBearerInPasscode:
    async def test_before_a_token_or_a_ticket(self, make: Callable[..., Door]) -> None:
        door = make("tokens", "users")
        assert await door.ask(Credentials("guest", bearer("alice"))) == "alice"
        assert await door.ask(Credentials(None, f"bearer  {door.ticket('alice')}")) == "alice"
        assert await door.ask(Credentials("passcode", f"Bearer {token('HS256', LONG_SECRET)}")) == "refused"

    async def test_a_passcode_may_begin_so(self, make: Callable[..., Door], tmp_path: Path) -> None:
        write(tmp_path / "users", f"alice:{passwords.hash_passcode('Bearer of news')}\n")
        assert await make("tokens", "users").ask(Credentials("alice", "Bearer of news")) == "alice"


class TestLog:
    """What a refusal says to the log, and no client reads."""

    @pytest.mark.parametrize(
        ("shown", "method", "why", "user"),
        [
            (Credentials("passcode", "wrong"), "passcode", "wrong passcode", "passcode"),
            (Credentials("nobody", "wrong"), "passcode", "unknown user", ""),
            (Credentials("right", "passcode"), "passcode", "unknown user", ""),
            (Credentials(None, "wrong"), "passcode", "a passcode without a login", ""),
            (Credentials("passcode"), "none", "no credentials that this server knows", "passcode"),
            (Credentials(PREFIX + "x"), "none", "no credentials that this server knows", ""),
            (Credentials("passcode", PREFIX + "x"), "ticket", "the ticket is unknown, was used before, ", "passcode"),
            (Credentials("basic", token("HS256", LONG_SECRET)), "token", "Signature verification failed", "basic"),
            (WRONG["certificate"](Credentials()), "certificate", "the client certificate has no name of the kind ", ""),
            (WRONG["cookie"](upgraded(Credentials())), "cookie", "the cookie 'session' is older than ", ""),
            (WRONG["upgrade"](Credentials()), "passcode", "wrong passcode", "basic"),
            (
                Credentials("x", certificate=Certificate("CN=c", "c")),
                "certificate",
                "login is not the user that the certificate names",
                "",
            ),
        ],
    )
    async def test_why(self, make: Callable[..., Door], shown: Credentials, method: str, why: str, user: str) -> None:
        door = make("users", "tokens", "cookies", "certificates")
        with pytest.raises(LoginRefused) as error:
            await door.chain.authenticate(shown)
        refusal = error.value
        assert (refusal.method, refusal.user) == (method, user)
        assert refusal.why.startswith(why)
        assert not {"wrong passcode", "unknown user"} & {refusal.detail, str(refusal)}

    @pytest.mark.parametrize("answer", [None, LoginRefused("the account is locked")])
    async def test_the_operators_own(self, answer: LoginRefused | None) -> None:
        def call(credentials: Credentials) -> None:
            if answer is not None:
                raise answer

        with pytest.raises(LoginRefused) as error:
            await Chain(tickets=Tickets(), custom=CustomAuthenticator(call)).authenticate(Credentials("alice", "x"))
        refusal = error.value
        assert (refusal.method, refusal.user) == ("custom", "")
        assert refusal.why == ("" if answer else "the authenticator names no user")
        assert refusal.detail == (answer or LoginRefused()).detail

    @pytest.mark.parametrize("names", [("users",), ("users", "tokens")])
    async def test_a_client_learns_that_it_looks_like_no_token(
        self, make: Callable[..., Door], names: tuple[str, ...]
    ) -> None:
        details = set()
        for login in ("passcode", "nobody", None):
            with pytest.raises(LoginRefused) as error:
                await make(*names).chain.authenticate(Credentials(login, "Bearer garbage"))
            details.add(error.value.detail)
        more = ", and the passcode does not look like a token" if "tokens" in names else ""
        assert details == {f"login and passcode do not belong to a user of this server{more}"}


class TestNobody:
    async def test_the_sentence_names_what_is_counted(self, make: Callable[..., Door]) -> None:
        with pytest.raises(LoginRefused) as error:
            await make("users", "tokens", "cookies", "certificates").chain.authenticate(Credentials())
        assert error.value.detail == (
            "the client sent no credentials that this server knows; send login and passcode, or a token (JWT) in "
            "passcode or Authorization, or a cookie of the application, or a client certificate"
        )
        assert not error.value.is_guess


class TestAsOfNow:
    """What was found out a moment ago may be no longer so."""

    @staticmethod
    async def ticket_of(door: Door) -> str:
        identity = await door.chain.authenticate(Credentials("passcode", "right"))
        assert identity is not None
        return door.tickets.issue(identity)

    @pytest.mark.parametrize(("users", "why"), [("", "user removed"), (f"passcode:{OTHER_HASH}\n", "passcode changed")])
    async def test_a_ticket_is_worth_no_more_than_who_asked_for_it(
        self, make: Callable[..., Door], tmp_path: Path, users: str, why: str
    ) -> None:
        door = make("users")
        ticket = await self.ticket_of(door)
        write(tmp_path / "users", users)
        assert door.chain.reload() is None
        with pytest.raises(LoginRefused) as error:
            await door.chain.authenticate(Credentials(None, ticket))
        refusal = error.value
        assert (refusal.method, refusal.why, refusal.user) == ("ticket", why, "passcode")
        assert not refusal.is_guess

    async def test_a_ticket_has_the_groups_of_now(self, make: Callable[..., Door], tmp_path: Path) -> None:
        door = make("users")
        ticket = await self.ticket_of(door)
        write(tmp_path / "users", f"passcode:{HASH}:traders\n")
        assert door.chain.reload() is None
        identity = await door.chain.authenticate(Credentials(None, ticket))
        assert identity == Identity("passcode", frozenset({"traders"}), method="ticket")
        assert identity is not None
        assert identity.review is not None, "his session is asked, too"

    async def test_while_a_passcode_is_verified(
        self, make: Callable[..., Door], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        door = make("users")
        token = trio.lowlevel.current_trio_token()

        def verify(hashed: str, passcode: str) -> bool:
            write(tmp_path / "users", "")
            trio.from_thread.run_sync(door.chain.reload, trio_token=token)
            return True

        monkeypatch.setattr(passwords, "verify", verify)
        with pytest.raises(LoginRefused) as error:
            await door.chain.authenticate(Credentials("passcode", "right"))
        assert (error.value.method, error.value.why) == ("passcode", "user removed")

    async def test_what_no_file_of_users_says_is_not_asked_again(self, make: Callable[..., Door]) -> None:
        door = make()
        for name in ("bearer", "cookie", "certificate"):
            identity = await door.chain.authenticate(WAYS[name](Credentials(), door))
            assert identity is not None
            assert identity.review is None


class TestReload:
    def test_all_files(self, make: Callable[..., Door], tmp_path: Path) -> None:
        door = make()
        assert door.chain.reload() is None
        assert make("custom").chain.reload() is None
        write(tmp_path / "keys", "short")
        (tmp_path / "users").unlink()
        sentence = door.chain.reload()
        assert sentence is not None
        assert sentence.startswith("users_file (GATEWAY_USERS_FILE) is wrong: ")
        assert "; jwt_keys (GATEWAY_JWT_KEYS) is wrong: " in sentence
