"""Tickets over HTTP: the ways to get one, and the pages that may ask."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.admin.audit import MAX_LINES
from gateway.auth import passwords
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Credentials, Identity, Upgrade
from tests.app.asgi import Answer
from tests.auth.issuer import SECRET, token
from tests.auth.test_cookies import KEY, flask

from .running import STRANGER, Running, running

PAGE = "https://app.example"
HASH = passwords.hash_passcode("right")
BASIC = "Basic " + base64.b64encode(b"alice:right").decode()
WRONG = "Basic " + base64.b64encode(b"alice:planted-secret").decode()

Make = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    (tmp_path / "users").write_text(f"alice:{HASH}:ops\n")
    (tmp_path / "keys").write_text(SECRET)
    (tmp_path / "secrets").write_text(KEY)

    @asynccontextmanager
    async def make(**changes: object) -> AsyncIterator[Running]:
        files = {"users_file": tmp_path / "users", "jwt_keys": tmp_path / "keys", "cookie_keys": tmp_path / "secrets"}
        async with running(**{**files, "allowed_origins": [PAGE], **changes}) as site:
            yield site

    return make


@pytest.fixture
async def site(make: Make) -> AsyncIterator[Running]:
    async with make() as found:
        yield found


async def ask(site: Running, method: str = "POST", client: tuple[str, int] = ("127.0.0.1", 1), **more: str) -> Answer:
    headers = {"host": "gateway.example", **{name.replace("_", "-"): value for name, value in more.items()}}
    return await site.ask(method, "tickets", headers=headers, client=client)


async def use(site: Running, ticket: str) -> Identity:
    return await site.gateway.identify(Credentials(transport="websocket", upgrade=Upgrade(ticket=ticket)))


class TestTickets:
    async def test_one_for_each_way_to_log_in(self, site: Running) -> None:
        cookie = f"session={flask({'user': 'alice', 'groups': ['web']})}"
        bearer = f"Bearer {token('HS256', SECRET, exp=2_000_000_000)}"
        for headers, groups, expires in (
            ({"authorization": BASIC}, {"ops"}, float("inf")),
            ({"authorization": bearer}, set(), 2_000_000_010),  # as long as the token is good
            ({"cookie": cookie, "origin": PAGE}, {"web"}, None),
        ):
            answer = await ask(site, **headers)
            assert (answer.status, answer.json["expires_in"]) == (200, 30)
            assert answer.headers["cache-control"] == "no-store"
            found = await use(site, answer.json["ticket"])
            assert (found.user, found.groups, found.method) == ("alice", groups, "ticket")
            assert expires is None or found.expires == expires
            with pytest.raises(LoginRefused):
                await use(site, answer.json["ticket"])

    async def test_none_while_the_gateway_drains(self, site: Running) -> None:
        """It could open no session; a page can read that."""
        await site.gateway.drain()
        answer = await ask(site, authorization=BASIC, origin=PAGE)
        assert (answer.status, answer.headers["retry-after"]) == (503, "2")
        assert answer.error.startswith("the gateway is shutting down and takes no logins: ask again when")
        assert answer.headers["access-control-allow-origin"] == PAGE

    async def test_no_ticket_for_a_ticket_beyond_max_tickets_and_without_logins(self, make: Make) -> None:
        async with make(max_tickets=1, ticket_lifetime=2.5) as site:
            answer = await ask(site, authorization=BASIC)
            ticket = answer.json["ticket"]
            assert answer.json["expires_in"] == 2.5
            answer = await ask(site, authorization=BASIC)
            assert (answer.status, "max_tickets" in answer.error) == (503, True)
            answer = await ask(site, authorization=f"Bearer {ticket}")
            assert (answer.status, answer.error.partition(":")[0]) == (
                403,
                "a ticket opens a session and gets no other ticket",
            )
        async with make(users_file=None, jwt_keys=None, cookie_keys=None) as site:
            answer = await ask(site, host="localhost")
            assert answer.status == 404
            assert answer.error == "no login is needed here, so there are no tickets: connect without one"


async def test_wrong_or_no_credentials(make: Make) -> None:
    async with make(login_attempts=2) as site:
        with capture_logs() as lines:
            answer = await ask(site, authorization=WRONG)
        assert answer.status == 401
        assert answer.error.startswith("login refused: login and passcode do not belong to a user of this server")
        assert answer.headers["www-authenticate"] == 'Bearer realm="gateway"', "Basic would open a window"
        assert site.gateway.broker.counters.failed_logins["passcode"] == 1
        assert "planted-secret" not in str(lines)
        (line,) = [each for each in lines if each["event"] == "ticket refused"]
        assert (line["peer"], line["reason"], line["login"]) == ("127.0.0.1", "login refused", "alice")
        for headers in ({}, {"cookie": f"session={flask({'user': 'alice'})}"}):  # a cookie counts for pages only
            answer = await ask(site, client=STRANGER, **headers)
            assert answer.status == 401
            assert "the client sent no credentials that this server knows" in answer.error
        with capture_logs() as lines:
            assert (await ask(site, authorization=WRONG)).status == 401
            for _ in range(50):
                answer = await ask(site, authorization=BASIC)
                assert (answer.status, answer.headers["retry-after"]) == (429, "60")
        told = [each["reason"] for each in lines if each["event"] == "ticket refused"]
        assert told == ["login refused"] + ["too many failed logins"] * (MAX_LINES - 2)
        assert (await ask(site, authorization=BASIC, client=STRANGER)).status == 200


class TestPages:
    async def test_a_listed_one_may_ask_and_read(self, site: Running) -> None:
        before = await ask(site, "OPTIONS", origin=PAGE, access_control_request_method="POST")
        assert before.status == 204
        assert before.headers["access-control-allow-methods"] == "POST"
        assert before.headers["access-control-allow-headers"] == "authorization, content-type"
        answer, refusal = [await ask(site, origin=PAGE, authorization=each) for each in (BASIC, WRONG)]
        for each in (before, answer, refusal):
            assert each.headers["access-control-allow-origin"] == PAGE
            assert each.headers["access-control-allow-credentials"] == "true"
            assert each.headers["vary"] == "Origin"
        assert (answer.status, refusal.status) == (200, 401)
        ours = "https://gateway.example:8443"  # the gateway's own host on another port
        answer = await ask(site, origin=ours, authorization=BASIC)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, ours)

    async def test_other_pages_get_none(self, site: Running) -> None:
        cookie = f"session={flask({'user': 'alice'})}"
        for origin in ("https://evil.example", "null", "https://app.example.evil.example"):
            for method in ("POST", "OPTIONS"):
                answer = await ask(site, method, origin=origin, cookie=cookie, authorization=BASIC)
                assert (answer.status, "allowed_origins" in answer.error) == (403, True)
                assert "access-control-allow-origin" not in answer.headers

    async def test_behind_a_trusted_proxy_the_host_is_the_forwarded_one(self, make: Make) -> None:
        """A proxy names itself, often localhost; that does not make a page of the user's machine ours."""
        asked = {
            "host": "localhost:8080",
            "x_forwarded_host": "shop.example",
            "x_forwarded_proto": "https",
            "x_forwarded_for": "192.0.2.7",
            "authorization": BASIC,
        }
        async with make(trusted_proxies=["127.0.0.1"]) as site:
            assert (await ask(site, origin="https://shop.example", **asked)).status == 200
            for origin in ("http://localhost:3000", "http://shop.example"):
                assert (await ask(site, origin=origin, **asked)).status == 403
            stranger = await ask(site, origin="https://shop.example", client=STRANGER, **asked)
            assert stranger.status == 403, "that address is no trusted proxy"

    async def test_any_origin(self, make: Make) -> None:
        async with make(cookie_keys=None, allowed_origins=["*"]) as site:
            answer = await ask(site, origin="https://any.example", authorization=BASIC)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, "*")
        assert "access-control-allow-credentials" not in answer.headers
