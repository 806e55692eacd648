"""The order of authenticators: which one decides, for every pair of credentials that a client can send at once."""

from __future__ import annotations

import base64
import itertools
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


@dataclass
class Authenticators:
    """All authenticators at once.  Credentials of each kind are of a user named like the kind."""

    chain: Chain
    tickets: Tickets
    asked: list[Credentials]

    async def ask(self, credentials: Credentials) -> str:
        try:
            identity = await self.chain.authenticate(credentials)
        except LoginRefused:
            return "refused"
        return "refused" if identity is None else identity.user

    def ticket(self, user: str) -> str:
        return self.tickets.issue(Identity(user))


Make = Callable[..., Authenticators]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    write(tmp_path / "users", f"passcode:{HASH}:ops\nbasic:{HASH}\n")
    write(tmp_path / "keys", SECRET)
    write(tmp_path / "secrets", KEY)
    asked: list[Credentials] = []

    def call(credentials: Credentials) -> str:
        asked.append(credentials)
        return "custom"

    def make(*names: str) -> Authenticators:
        tickets = Tickets()
        parts: dict[str, Callable[[], Any]] = {
            "users": lambda: UsersFile(tmp_path / "users"),
            "tokens": lambda: Tokens(tmp_path / "keys"),
            "cookies": lambda: Cookies(tmp_path / "secrets"),
            "certificates": lambda: CertificateUsers("common-name"),
            "custom": lambda: CustomAuthenticator(call),
        }
        return Authenticators(
            Chain(tickets=tickets, **{name: parts[name]() for name in names or parts}), tickets, asked
        )

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


KINDS: dict[str, Callable[[Credentials, Authenticators], Credentials]] = {
    "certificate": lambda sent, found: replace(sent, certificate=Certificate("CN=certificate", "certificate")),
    "bearer": lambda sent, found: replace(sent, authorization=bearer("bearer")),
    "passcode": lambda sent, found: replace(sent, passcode="right", login="passcode"),
    "upgrade": lambda sent, found: upgraded(sent, authorization=bearer("upgrade")),
    "ticket": lambda sent, found: upgraded(sent, ticket=found.ticket("ticket")),
    "cookie": lambda sent, found: upgraded(sent, cookie=cookie()),
}
WRONG: dict[str, Callable[[Credentials], Credentials]] = {
    "certificate": lambda sent: replace(sent, certificate=Certificate("O=x")),
    "bearer": lambda sent: replace(sent, authorization=f"Bearer {token('HS256', LONG_SECRET)}"),
    "passcode": lambda sent: replace(sent, passcode="wrong", login="passcode"),
    "upgrade": lambda sent: upgraded(sent, authorization=basic(passcode="wrong")),
    "ticket": lambda sent: upgraded(sent, ticket=PREFIX + "x"),
    "cookie": lambda sent: upgraded(sent, cookie="session=x"),
}
ORDER = list(KINDS)


class TestOrder:
    async def test_each_kind_alone(self, make: Make) -> None:
        found = make()
        for kind in ORDER:
            assert await found.ask(KINDS[kind](Credentials(), found)) == kind
            assert await found.ask(WRONG[kind](Credentials())) == "refused"
        assert found.asked == [], "refused credentials go to no other authenticator"
        found = make("cookies")
        assert await found.ask(Credentials(upgrade=Upgrade(cookie=cookie()))) == "refused", "without an origin"

    async def test_of_two_kinds_the_first_decides(self, make: Make) -> None:
        found = make()
        for first, second in itertools.combinations(ORDER, 2):
            both = KINDS[first](KINDS[second](Credentials(), found), found)
            both = replace(both, login=first if first == "passcode" else "")
            assert await found.ask(both) == first, (first, second)
            assert await found.ask(WRONG[first](KINDS[second](Credentials(), found))) == "refused", (first, second)

    async def test_unknown_credentials_go_to_the_operators_function(self, make: Make) -> None:
        found = make()
        for credentials in (
            Credentials(),
            Credentials("alice"),
            Credentials("alice", ""),
            Credentials(authorization="Digest x"),
            Credentials(authorization="Bearer opaque"),
            Credentials(upgrade=Upgrade(authorization="Bearer opaque", cookie="other=1", origin=ORIGIN)),
            Credentials(upgrade=Upgrade(authorization="Basic !", origin=ORIGIN)),
            Credentials(upgrade=Upgrade(authorization="Basic bm9jb2xvbg==", origin=ORIGIN)),
        ):
            assert await found.ask(credentials) == "custom"
            assert found.asked[-1] == credentials
        assert await make("custom").ask(Credentials("a", "b", bearer("x"))) == "custom"


class TestPasscode:
    async def test_token_or_ticket(self, make: Make) -> None:
        found = make("tokens", "users")
        forged = token("HS256", LONG_SECRET)
        for login in (None, "", "guest", "alice"):  # as with RabbitMQ, any login may stand beside a token
            for passcode in (token_of("alice"), found.ticket("alice"), bearer("alice")):
                assert await found.ask(Credentials(login, passcode)) == "alice"
        assert await found.ask(Credentials(None, f"bearer  {found.ticket('alice')}")) == "alice"
        for wrong in (forged, PREFIX + "x", f"Bearer {forged}"):
            assert await found.ask(Credentials("passcode", wrong)) == "refused"
        assert await found.ask(Credentials("passcode", "right")) == "passcode"

    async def test_a_passcode_may_look_like_a_token(self, make: Make, tmp_path: Path) -> None:
        text = token_of("alice")
        write(tmp_path / "users", f"alice:{passwords.hash_passcode(text)}\n")
        assert await make("users").ask(Credentials("alice", text)) == "alice"
        assert await make("users", "tokens").ask(Credentials("bob", text)) == "alice"
        write(tmp_path / "users", f"alice:{passwords.hash_passcode('Bearer of news')}\n")
        assert await make("tokens", "users").ask(Credentials("alice", "Bearer of news")) == "alice"


async def test_a_login_must_be_the_user_or_empty(make: Make) -> None:
    found = make()
    for kind in set(ORDER) - {"passcode"}:
        for login, answer in [(kind, kind), ("", kind), (None, kind), ("other", "refused")]:
            assert await found.ask(replace(KINDS[kind](Credentials(), found), login=login)) == answer
        with pytest.raises(LoginRefused, match="login refused") as error:
            await found.chain.authenticate(replace(KINDS[kind](Credentials(), found), login="other"))
        assert error.value.detail.startswith("login is not the user that the ")
        assert not error.value.is_guess
    credentials = Credentials(upgrade=Upgrade(authorization=basic()))
    for login, answer in (("", "basic"), ("basic", "basic"), ("passcode", "refused")):
        assert await found.ask(replace(credentials, login=login)) == answer
    assert await make("tokens", "custom").ask(credentials) == "custom", "there is no users file"


@pytest.mark.parametrize(
    ("credentials", "method", "why", "user"),
    [
        (Credentials("passcode", "wrong"), "passcode", "wrong passcode", "passcode"),
        (Credentials("unknown", "wrong"), "passcode", "unknown user", ""),
        (Credentials(None, "wrong"), "passcode", "a passcode without a login", ""),
        (Credentials("passcode"), "none", "no credentials that this server knows", "passcode"),
        (Credentials(PREFIX + "x"), "none", "no credentials that this server knows", ""),
        (Credentials("passcode", PREFIX + "x"), "ticket", "the ticket is unknown, was used before, ", "passcode"),
        (Credentials("basic", token("HS256", LONG_SECRET)), "token", "Signature verification failed", "basic"),
        (WRONG["certificate"](Credentials()), "certificate", "the client certificate has no name of the kind ", ""),
        (WRONG["cookie"](upgraded(Credentials())), "cookie", "the cookie 'session' is older than ", ""),
        (WRONG["upgrade"](Credentials()), "passcode", "wrong passcode", "basic"),
    ],
)
async def test_fields_of_a_refusal(make: Make, credentials: Credentials, method: str, why: str, user: str) -> None:
    with pytest.raises(LoginRefused) as error:
        await make("users", "tokens", "cookies", "certificates").chain.authenticate(credentials)
    refusal = error.value
    assert (refusal.method, refusal.user) == (method, user)
    assert refusal.why.startswith(why)
    assert not {"wrong passcode", "unknown user"} & {refusal.detail, str(refusal)}


async def test_a_refusal_of_the_operators_function() -> None:
    chain = Chain(tickets=Tickets(), custom=CustomAuthenticator(lambda credentials: None))
    with pytest.raises(LoginRefused) as error:
        await chain.authenticate(Credentials("alice", "x"))
    assert (error.value.method, error.value.user) == ("custom", "")
    assert error.value.why == "the authenticator names no user"


class TestReview:
    @staticmethod
    async def ticket_of(found: Authenticators) -> str:
        identity = await found.chain.authenticate(Credentials("passcode", "right"))
        assert identity is not None
        return found.tickets.issue(identity)

    async def test_a_ticket_has_the_groups_of_now_and_ends_with_its_user(self, make: Make, tmp_path: Path) -> None:
        found = make("users")
        first, second = [await self.ticket_of(found) for _ in range(2)]
        write(tmp_path / "users", f"passcode:{HASH}:traders\n")
        assert found.chain.reload() is None
        identity = await found.chain.authenticate(Credentials(None, first))
        assert identity == Identity("passcode", frozenset({"traders"}), method="ticket")
        assert identity is not None
        assert identity.review is not None, "its session is reviewed, too"
        write(tmp_path / "users", "")
        assert found.chain.reload() is None
        with pytest.raises(LoginRefused) as error:
            await found.chain.authenticate(Credentials(None, second))
        refusal = error.value
        assert (refusal.method, refusal.why, refusal.user) == ("ticket", "user removed", "passcode")
        assert not refusal.is_guess

    async def test_while_a_passcode_is_verified(
        self, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = make("users")
        loop = trio.lowlevel.current_trio_token()

        def verify(hashed: str, passcode: str) -> bool:
            write(tmp_path / "users", "")
            trio.from_thread.run_sync(found.chain.reload, trio_token=loop)
            return True

        monkeypatch.setattr(passwords, "verify", verify)
        with pytest.raises(LoginRefused) as error:
            await found.chain.authenticate(Credentials("passcode", "right"))
        assert (error.value.method, error.value.why) == ("passcode", "user removed")


def test_reload_reads_all_files(make: Make, tmp_path: Path) -> None:
    found = make()
    assert found.chain.reload() is None
    assert make("custom").chain.reload() is None
    write(tmp_path / "keys", "short")
    (tmp_path / "users").unlink()
    sentence = found.chain.reload()
    assert sentence is not None
    assert sentence.startswith("users_file (GATEWAY_USERS_FILE) is wrong: ")
    assert "; jwt_keys (GATEWAY_JWT_KEYS) is wrong: " in sentence
