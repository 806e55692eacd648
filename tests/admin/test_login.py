"""The console's login: the cookie, and how its session ends."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import jwt
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from gateway.auth.passwords import hash_passcode
from gateway.broker.model.identity import Credentials, Identity
from gateway.runtime.gateway import Gateway
from tests.app.asgi import Answer

from .running import STRANGER, Running, running

KEY = "a-key-of-the-issuer-of-tokens-for-tests"
HASH = hash_passcode("right")
OTHER = hash_passcode("other")


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "users").write_text(f"alice:{HASH}:ops\nbob:{HASH}:sales\n")
    (tmp_path / "keys").write_text(KEY)
    async with running(
        admin_token="sesame",
        admin_groups=["ops", "root"],
        users_file=tmp_path / "users",
        jwt_keys=tmp_path / "keys",
        trusted_proxies=["127.0.0.1"],
        login_attempts=3,
    ) as site:
        yield site


async def log_in(site: Running, **more: Any) -> Answer:
    body = more.pop("body", {"token": "sesame"})
    return await site.ask("POST", "login", body, client=more.pop("client", STRANGER), **more)


def cookie_of(answer: Answer) -> Any:
    cookies = SimpleCookie(answer.headers["set-cookie"])
    assert [*cookies] == ["gateway_console"]
    return cookies["gateway_console"]


class TestLogin:
    async def test_by_token_or_passcode(self, site: Running) -> None:
        answer = await log_in(site)
        assert (answer.status, answer.json["user"], answer.headers["cache-control"]) == (200, "admin", "no-store")
        cookie = cookie_of(answer)
        shown = [cookie[name] for name in ("httponly", "samesite", "path", "max-age", "secure", "domain")]
        assert shown == [True, "strict", "/", "43200", "", ""]
        answer = await log_in(site, body={"login": "alice", "passcode": "right"})
        assert (answer.status, answer.json["user"]) == (200, "alice")
        headers = {"cookie": f"gateway_console={cookie_of(answer).value}"}
        me = await site.ask("GET", "me", headers=headers, client=STRANGER)
        assert me.json == {"user": "alice", "via": "cookie", "csrf": answer.json["csrf"]}

    async def test_a_cookie_lasts_no_longer_than_the_login_behind_it(self, site: Running) -> None:
        token = jwt.encode({"sub": "carol", "groups": ["root"], "exp": time.time() + 600}, KEY, "HS256")
        answer = await log_in(site, body={"login": "", "passcode": token})
        assert answer.json["user"] == "carol"
        assert 590 < int(cookie_of(answer)["max-age"]) <= 611  # and the leeway

    async def test_under_tls_the_cookie_is_for_tls_only(self, site: Running) -> None:
        forwarded = {"x-forwarded-proto": "https", "x-forwarded-for": "192.0.2.1"}
        for scheme, headers in (("https", {}), ("http", forwarded)):
            answer = await log_in(site, scheme=scheme, headers=headers, client=("127.0.0.1", 1))
            assert cookie_of(answer)["secure"]

    async def test_bodies_that_are_no_login(self, site: Running) -> None:
        for body in (
            *({}, {"login": "alice"}, {"passcode": "right"}, {"user": "alice"}, {"token": 1}, [], "sesame"),
            {"token": "sesame", "passcode": "right"},
            {"token": "sesame", "login": "alice", "passcode": "right"},
        ):
            answer = await log_in(site, body=body)
            assert (answer.status, "sesame" in answer.error, "right" in answer.error) == (400, False, False), body

    async def test_a_user_in_none_of_the_groups_and_a_ticket(self, site: Running) -> None:
        answer = await log_in(site, body={"login": "bob", "passcode": "right"})
        assert (answer.status, "admin_groups" in answer.error) == (403, True)
        basic = {"authorization": "Basic YWxpY2U6cmlnaHQ="}
        ticket = (await site.ask("POST", "tickets", headers=basic, client=STRANGER)).json["ticket"]
        answer = await log_in(site, body={"login": "alice", "passcode": ticket})
        assert answer.status == 403
        assert answer.error.startswith("a ticket opens a session, not the console")

    async def test_the_authenticator_does_not_answer(
        self, site: Running, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def identify(self: Gateway, credentials: Credentials) -> Identity:
            await trio.sleep_forever()
            raise AssertionError

        monkeypatch.setattr(Gateway, "identify", identify)
        answer = await log_in(site, body={"login": "alice", "passcode": "right"})
        assert (answer.status, answer.error) == (
            503,
            "the login was not checked within 10 s (connect_timeout): try again",
        )


class TestMe:
    async def test_by_token_or_with_the_ways_to_log_in(self, site: Running) -> None:
        answer = await site.ask("GET", "me", client=STRANGER)
        assert (answer.status, answer.json["methods"]) == (401, ["token", "passcode"])
        answer = await site.ask("GET", "me", headers={"authorization": "Bearer sesame"}, client=STRANGER)
        assert answer.json == {"user": "admin", "via": "token", "csrf": None}
        answer = await site.ask("POST", "logout", headers={"authorization": "Bearer sesame"}, client=STRANGER)
        assert answer.status == 204

    async def test_on_this_machine(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        async with running() as site:
            assert await site.get("me") == {"user": "local", "via": "local", "csrf": None}
            assert (await site.ask("GET", "me", client=STRANGER)).status == 403
            assert (await log_in(site, client=("127.0.0.1", 1))).status == 409
            assert (await log_in(site)).status == 403

    async def test_a_way_that_is_none_here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "users").write_text(f"alice:{HASH}:ops\n")
        values: dict[str, Any]
        for values, body, setting in (
            ({"admin_token": "sesame"}, {"login": "alice", "passcode": "right"}, "admin_groups"),
            ({"admin_groups": ["ops"]}, {"token": ""}, "admin_token"),
        ):
            async with running(users_file=tmp_path / "users", **values) as site:
                answer = await log_in(site, body=body)
                assert (answer.status, setting in answer.error) == (401, True)


async def test_the_session_ends_with_a_logout_and_with_a_new_login(site: Running) -> None:
    answer = await log_in(site)
    headers = {"cookie": f"gateway_console={cookie_of(answer).value}", "x-csrf-token": answer.json["csrf"]}
    answer = await log_in(site, headers={"cookie": headers["cookie"]})
    assert (await site.ask("GET", "me", headers=headers, client=STRANGER)).status == 401
    headers = {"cookie": f"gateway_console={cookie_of(answer).value}", "x-csrf-token": answer.json["csrf"]}
    answer = await site.ask("POST", "logout", headers=headers, client=STRANGER)
    assert (answer.status, cookie_of(answer)["max-age"]) == (204, "0")
    assert (await site.ask("GET", "me", headers=headers, client=STRANGER)).status == 401


@pytest.mark.parametrize(
    ("users", "why"),
    [
        ("", "user removed"),
        (f"alice:{OTHER}:ops\n", "passcode changed"),
        (f"alice:{HASH}:sales\n", "in none of admin_groups"),
    ],
)
async def test_a_user_that_could_not_log_in_any_more_is_out(
    site: Running, tmp_path: Path, users: str, why: str
) -> None:
    async def is_in(answer: Answer) -> bool:
        headers = {"cookie": f"gateway_console={cookie_of(answer).value}"}
        return (await site.ask("GET", "me", headers=headers, client=STRANGER)).status == 200

    alice, admin = await log_in(site, body={"login": "alice", "passcode": "right"}), await log_in(site)
    (tmp_path / "users").write_text(users)
    assert await is_in(alice)
    with capture_logs() as logs:
        site.gateway.reload()
    (line,) = [each for each in logs if each["event"] == "console login revoked"]
    assert (line["user"], line["reason"]) == ("alice", why)
    assert [await is_in(each) for each in (alice, admin)] == [False, True]


@pytest.mark.parametrize(
    ("body", "outcome", "user", "via"),
    [
        ({"token": "sesame"}, "done", "admin", "token"),
        ({"token": "wrong-planted"}, "refused", "", "token"),
        ({"login": "alice", "passcode": "right"}, "done", "alice", "passcode"),
        ({"login": "alice", "passcode": "wrong-planted"}, "refused", "alice", "passcode"),
        ({"login": "wrong-planted", "passcode": "alice"}, "refused", "", "passcode"),
        ({"login": "bob", "passcode": "right"}, "refused", "bob", "passcode"),
    ],
)
async def test_logins_in_the_audit_log(site: Running, body: dict[str, str], outcome: str, user: str, via: str) -> None:
    with capture_logs() as logs:
        answer = await log_in(site, body=body)
    assert ("set-cookie" in answer.headers) is (outcome == "done")
    (line,) = [each for each in logs if each["event"] == "admin"]
    assert (line["action"], line["outcome"], line["user"], line["via"]) == ("log in", outcome, user, via)
    assert line["peer"] == "192.0.2.1"
    assert not any(secret in repr(logs) for secret in ("sesame", "planted", "'right'"))
