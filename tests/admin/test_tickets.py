"""Tickets over HTTP: the ways to get one, and the pages that may ask."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from starlette.applications import Starlette
from starlette.types import ASGIApp
from structlog.testing import capture_logs

from gateway import auth
from gateway.admin import site
from gateway.admin.access import AccessControl
from gateway.admin.audit import MAX_LINES
from gateway.admin.endpoint import ApiError
from gateway.admin.routes import routes_of
from gateway.admin.tickets import TicketApi
from gateway.auth import passwords
from gateway.auth.authenticator import ServerAuthenticator
from gateway.broker.model.identity import Credentials, Identity, Upgrade
from gateway.config.settings import Settings, load
from gateway.runtime.gateway import Gateway
from gateway.runtime.reload import InForce
from gateway.transports import Server, identify
from gateway.transports.wire.forwarded import Trusted
from tests.app.asgi import LOCAL, Answer, request
from tests.auth.issuer import SECRET, token
from tests.auth.test_cookies import KEY, flask

PATH = "/api/v1/tickets"
PAGE = "https://app.example"
HASH = passwords.hash_passcode("right")


class Office:
    """The endpoint with an authenticator; to the endpoint it is the open gateway."""

    def __init__(self, settings: Settings) -> None:
        self.entrance: ServerAuthenticator = auth.for_settings(settings)
        self.server = Server(self.entrance)
        self.broker = self.server.broker
        self.trusted = Trusted(settings.trusted_proxies)
        self.draining = False
        self.in_force = InForce(settings)
        access = AccessControl(cast("Gateway", self), settings)
        office = TicketApi(cast("Gateway", self), settings, self.entrance.tickets, access)
        self.app: ASGIApp = Starlette(
            routes=routes_of(office.endpoints(), access), exception_handlers={ApiError: site.api_error}
        )

    async def identify(self, credentials: Credentials) -> Identity:
        return await identify(self.server, credentials)

    # the client's side

    async def ask(self, method: str = "POST", client: tuple[str, int] | None = LOCAL, **headers: str) -> Answer:
        fields = {"host": "gateway.example", **{name.replace("_", "-"): value for name, value in headers.items()}}
        return await request(self.app, PATH, method=method, headers=fields, client=client)

    async def use(self, ticket: str) -> Identity | None:
        shown = Credentials(transport="websocket", upgrade=Upgrade(ticket=ticket))
        return await self.entrance.authenticate(shown)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Office]:
    (tmp_path / "users").write_text(f"alice:{HASH}:ops\n")
    (tmp_path / "keys").write_text(SECRET)
    (tmp_path / "secrets").write_text(KEY)

    def make(**changes: object) -> Office:
        values: dict[str, object] = {
            "users_file": tmp_path / "users",
            "jwt_keys": tmp_path / "keys",
            "cookie_keys": tmp_path / "secrets",
            "allowed_origins": [PAGE],
            "login_delay": 0,
            **changes,
        }
        return Office(load(**values))

    return make


BASIC = "Basic " + base64.b64encode(b"alice:right").decode()
WRONG = "Basic " + base64.b64encode(b"alice:planted-secret").decode()


class TestTickets:
    @pytest.mark.parametrize(
        ("headers", "method"),
        [
            ({"authorization": BASIC}, "passcode"),
            ({"authorization": "Bearer TOKEN"}, "token"),
            ({"cookie": "session=COOKIE", "origin": PAGE}, "cookie"),
        ],
    )
    async def test_each_way_to_log_in(self, make: Callable[..., Office], headers: dict[str, str], method: str) -> None:
        office = make()
        shown = {
            name: value.replace("TOKEN", token("HS256", SECRET, exp=2_000_000_000)).replace(
                "COOKIE", flask({"user": "alice", "groups": ["web"]})
            )
            for name, value in headers.items()
        }
        answer = await office.ask("POST", LOCAL, **shown)
        assert (answer.status, answer.json["expires_in"]) == (200, 30)
        assert answer.headers["cache-control"] == "no-store"
        found = await office.use(answer.json["ticket"])
        assert found is not None
        assert (found.user, found.method) == ("alice", "ticket")
        assert found.groups == {"passcode": {"ops"}, "token": set(), "cookie": {"web"}}[method]
        if method == "token":
            assert found.expires == 2_000_000_010, "as long as the token is good"

    async def test_good_once(self, make: Callable[..., Office]) -> None:
        office = make(ticket_lifetime=2.5)
        answer = await office.ask(authorization=BASIC)
        assert answer.json["expires_in"] == 2.5
        assert await office.use(answer.json["ticket"]) is not None
        with pytest.raises(auth.LoginRefused):
            await office.use(answer.json["ticket"])

    async def test_none_while_the_gateway_drains(self, make: Callable[..., Office]) -> None:
        """It could open no session; a page can read that."""
        office = make()
        office.draining = True
        answer = await office.ask(authorization=BASIC, origin=PAGE)
        assert (answer.status, answer.headers["retry-after"]) == (503, "2")
        assert answer.error.startswith("the gateway is shutting down and takes no logins: ask again when")
        assert answer.headers["access-control-allow-origin"] == PAGE
        assert office.entrance.tickets is not None
        assert len(office.entrance.tickets) == 0

    async def test_no_ticket_for_a_ticket_beyond_max_tickets_and_without_logins(
        self, make: Callable[..., Office]
    ) -> None:
        office = make(max_tickets=1)
        ticket = (await office.ask(authorization=BASIC)).json["ticket"]
        answer = await office.ask(authorization=BASIC)
        assert (answer.status, "max_tickets" in answer.error) == (503, True)
        answer = await office.ask(authorization=f"Bearer {ticket}")
        assert answer.status == 403
        assert answer.error.startswith("a ticket opens a session and gets no other ticket")
        assert (await office.ask("GET")).status == 405
        answer = await make(users_file=None, jwt_keys=None, cookie_keys=None).ask(host="localhost")
        assert answer.status == 404
        assert answer.error == "no login is needed here, so there are no tickets: connect without one"


class TestRefused:
    async def test_wrong_or_no_credentials(self, make: Callable[..., Office]) -> None:
        office = make()
        with capture_logs() as lines:
            answer = await office.ask(authorization=WRONG)
        assert answer.status == 401
        assert answer.error.startswith("login refused: login and passcode do not belong to a user of this server")
        assert answer.headers["www-authenticate"] == 'Bearer realm="gateway"', "Basic would open a window"
        assert office.broker.counters.failed_logins["passcode"] == 1
        assert "planted-secret" not in str(lines)
        (line,) = [each for each in lines if each["event"] == "ticket refused"]
        assert (line["peer"], line["reason"], line["login"]) == ("127.0.0.1", "login refused", "alice")
        for headers in ({}, {"cookie": f"session={flask({'user': 'alice'})}"}):  # a cookie counts for pages only
            answer = await office.ask(**headers)
            assert answer.status == 401
            assert "the client sent no credentials that this server knows" in answer.error

    async def test_too_often(self, make: Callable[..., Office]) -> None:
        office = make(login_attempts=2)
        for _ in range(2):
            assert (await office.ask(authorization=WRONG)).status == 401
        with capture_logs() as lines:
            for _ in range(50):
                answer = await office.ask(authorization=BASIC)
                assert (answer.status, answer.headers["retry-after"]) == (429, "60")
        told = [each["reason"] for each in lines if each["event"] == "ticket refused"]
        assert told == ["too many failed logins"] * (MAX_LINES - 2), "and two for the wrong ones"
        assert "login_attempts" in answer.error
        assert (await office.ask(authorization=BASIC, client=("192.0.2.1", 5))).status == 200


class TestPages:
    async def test_a_listed_one_may_ask_and_read(self, make: Callable[..., Office]) -> None:
        office = make()
        before = await office.ask("OPTIONS", origin=PAGE, access_control_request_method="POST")
        assert before.status == 204
        assert before.headers["access-control-allow-methods"] == "POST"
        assert before.headers["access-control-allow-headers"] == "authorization, content-type"
        answer, refusal = [await office.ask(origin=PAGE, authorization=each) for each in (BASIC, WRONG)]
        for each in (before, answer, refusal):
            assert each.headers["access-control-allow-origin"] == PAGE
            assert each.headers["access-control-allow-credentials"] == "true"
            assert each.headers["vary"] == "Origin"
        assert (answer.status, refusal.status) == (200, 401)
        ours = "https://gateway.example:8443"  # the gateway's own host on another port
        answer = await office.ask(origin=ours, authorization=BASIC)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, ours)

    @pytest.mark.parametrize("origin", ["https://evil.example", "null", "https://app.example.evil.example"])
    @pytest.mark.parametrize("method", ["POST", "OPTIONS"])
    async def test_other_pages_get_none(self, make: Callable[..., Office], origin: str, method: str) -> None:
        office = make()
        cookie = f"session={flask({'user': 'alice'})}"
        answer = await office.ask(method, origin=origin, cookie=cookie, authorization=BASIC)
        assert answer.status == 403
        assert "allowed_origins" in answer.error
        assert "access-control-allow-origin" not in answer.headers
        assert office.entrance.tickets is not None
        assert len(office.entrance.tickets) == 0

    async def test_behind_a_trusted_proxy_the_host_is_the_forwarded_one(self, make: Callable[..., Office]) -> None:
        """A proxy names itself, often localhost; that does not make a page of the user's machine ours."""
        office = make(trusted_proxies=["127.0.0.1"])
        asked = {
            "host": "localhost:8080",
            "x_forwarded_host": "shop.example",
            "x_forwarded_proto": "https",
            "x_forwarded_for": "192.0.2.7",
            "authorization": BASIC,
        }
        assert (await office.ask(origin="https://shop.example", **asked)).status == 200
        for origin in ("http://localhost:3000", "http://shop.example"):
            assert (await office.ask(origin=origin, **asked)).status == 403
        stranger = await office.ask(origin="https://shop.example", client=("192.0.2.1", 5), **asked)
        assert stranger.status == 403, "that address is no trusted proxy"

    async def test_any_origin(self, make: Callable[..., Office]) -> None:
        office = make(cookie_keys=None, allowed_origins=["*"])
        answer = await office.ask(origin="https://any.example", authorization=BASIC)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, "*")
        assert "access-control-allow-credentials" not in answer.headers
