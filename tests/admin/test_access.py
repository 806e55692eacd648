"""Access to the admin API: every rule of `gateway/admin/access.py`, one row each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from starlette.requests import Request
from trio.testing import MockClock

from gateway.admin.access import ADMIN, COOKIE, AccessControl, Caller
from gateway.admin.endpoint import ApiError
from gateway.broker import Broker
from gateway.broker.model.identity import Identity
from gateway.config.settings import load
from gateway.runtime.gateway import Gateway
from gateway.transports.wire.forwarded import Trusted
from tests.app.asgi import LOCAL, scope_of

TOKEN = "sesame"
ELSEWHERE = ("192.0.2.1", 1)
BEARER = {"authorization": f"Bearer {TOKEN}"}


def access_of(**values: object) -> AccessControl:
    settings = load(**{"login_delay": 0.0, **values})
    opened = SimpleNamespace(trusted=Trusted(settings.trusted_proxies), broker=Broker())
    return AccessControl(cast("Gateway", opened), settings)


def asking(headers: dict[str, str], method: str = "GET", client: tuple[str, int] | None = LOCAL) -> Request:
    return Request(scope_of(method, "/metrics", headers, client))


async def attempt(access: AccessControl, request: Request, **more: Any) -> Caller | ApiError:
    try:
        return await access.admit(request, **more)
    except ApiError as reason:
        return reason


async def status(access: AccessControl, request: Request, **more: Any) -> int:
    found = await attempt(access, request, **more)
    return found.status if isinstance(found, ApiError) else 200


async def shown(access: AccessControl, token: str, address: str = "192.0.2.1", **more: Any) -> int:
    return await status(access, asking({"authorization": f"Bearer {token}"}, client=(address, 1)), **more)


LOOPBACK = ("127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1")
OTHERS = ("192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "", "nonsense")
OF_PROXIES = ("X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "X-Real-IP", "Via")
THIS_MACHINE = ("localhost", "LOCALHOST:80", "127.0.0.1:80", "[::1]:80", "gateway.localhost:1", "")
REBOUND = ("evil.example:8000", "127.0.0.1.evil.example", "[::2]")


@pytest.mark.parametrize(
    ("expected", "headers", "client"),
    [
        *[(200, {"host": "localhost"}, (peer, 1)) for peer in LOOPBACK],
        *[(403, {"host": "localhost"}, (peer, 1)) for peer in OTHERS],
        (200, {"host": "localhost"}, None),  # a unix socket is loopback
        *[(403, {"host": "localhost", header: "127.0.0.1"}, LOCAL) for header in OF_PROXIES],
        (403, {"host": "localhost", "via": "127.0.0.1"}, None),
        *[(200, {"host": host}, LOCAL) for host in THIS_MACHINE],
        *[(403, {"host": host}, LOCAL) for host in REBOUND],
        (200, {}, LOCAL),
        (403, {"host": "localhost", "authorization": "Bearer "}, ELSEWHERE),  # no token is set, so none is right
    ],
)
async def test_without_a_token(expected: int, headers: dict[str, str], client: tuple[str, int] | None) -> None:
    assert await status(access_of(), asking(headers, client=client)) == expected


async def test_with_a_token() -> None:
    access = access_of(admin_token=TOKEN, login_attempts=100)
    for authorization in ("Bearer sesame", "bearer sesame", "BEARER  sesame "):
        for client in (LOCAL, ELSEWHERE, None):
            headers = {"host": "gateway.example", "x-forwarded-for": "192.0.2.7", "authorization": authorization}
            assert await status(access, asking(headers, client=client)) == 200
    wrong = ("Bearer sesam", "Bearer sesame!", "Bearer s\xe9same", "Basic sesame", "sesame")
    for authorization in ("", "Bearer", "Bearer ", *wrong):
        assert await status(access, asking({"host": "localhost", "authorization": authorization})) == 401
    assert await status(access, asking({"host": "localhost"})) == 401, "loopback alone is not enough"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 200),
        ({"sec-fetch-site": "same-origin", "origin": "http://localhost:8000"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"origin": "http://LOCALHOST:8000"}, 200),
        ({"host": "localhost:443", "origin": "https://localhost"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://localhost:9000"}, 403),
        ({"origin": "null"}, 403),
    ],
)
async def test_pages_of_other_sites_change_nothing(headers: dict[str, str], expected: int) -> None:
    fields = {"host": "localhost:8000"} | headers
    assert await status(access_of(), asking(fields, "DELETE")) == expected
    assert await status(access_of(admin_token=TOKEN), asking(fields | BEARER, "DELETE")) == expected
    assert await status(access_of(), asking(fields)) == 200, "reading is for the browser to forbid"


class TestWrongTokens:
    async def test_each_is_late_and_so_many_are_refused(self, autojump_clock: MockClock) -> None:
        access = access_of(admin_token=TOKEN, login_attempts=2, login_delay=1.0)
        started = trio.current_time()
        assert [await shown(access, "wrong"), await shown(access, "wrong")] == [401, 401]
        assert trio.current_time() - started == 2.0
        assert access._gateway.broker.counters.failed_logins["admin"] == 2
        reason = await attempt(access, asking(BEARER, client=ELSEWHERE))
        assert isinstance(reason, ApiError)
        assert (reason.status, reason.headers) == (429, {"retry-after": "60"})
        assert await shown(access, TOKEN, "192.0.2.2") == 200, "another address is not refused"
        assert trio.current_time() - started == 2.0, "the right one is not late"
        await trio.sleep(61)
        assert await shown(access, TOKEN) == 200

    async def test_a_thousand_at_once_learn_no_more(self, autojump_clock: MockClock) -> None:
        access = access_of(admin_token=TOKEN, login_attempts=3, login_delay=1.0)
        found: list[int] = []

        async def guess(number: int) -> None:
            found.append(await shown(access, f"guess-{number}"))

        async with trio.open_nursery() as nursery:
            for number in range(1_000):
                nursery.start_soon(guess, number)
        assert (found.count(401), found.count(429)) == (3, 997)

    async def test_they_are_counted_by_client_behind_a_proxy(self) -> None:
        access = access_of(admin_token=TOKEN, login_attempts=1, trusted_proxies=["10.0.0.1"])

        async def through(token: str, client: str, **more: str) -> int:
            headers = {"authorization": f"Bearer {token}", "x-forwarded-for": client, **more}
            return await status(access, asking(headers, client=("10.0.0.1", 1)))

        assert [await through("wrong", "192.0.2.1"), await through(TOKEN, "192.0.2.1")] == [401, 429]
        assert await through(TOKEN, "192.0.2.2") == 200
        assert await through(TOKEN, "192.0.2.2", forwarded="for=192.0.2.3") == 400, "the proxy contradicts itself"


class TestAnotherToken:
    async def test_the_first_one_ends_the_freedom_of_this_machine(self) -> None:
        access, request = access_of(), asking({"host": "localhost"})
        caller = await access.admit(request)
        access.take(load(login_delay=0.0, admin_token="new"))
        assert await status(access, request) == 401
        assert caller.ends_with is not None
        assert caller.ends_with.ended.is_set()

    async def test_logins_by_the_old_one_end_and_no_others(self, autojump_clock: MockClock) -> None:
        values = {"admin_groups": ["ops"], "users_file": "users.txt", "login_delay": 0.0}
        access = access_of(admin_token="old", **values)
        sessions, old = access.sessions, asking({"authorization": "Bearer old"})
        by_token, alice = sessions.begin(ADMIN), sessions.begin("alice", identity=Identity("alice"))
        namesake = sessions.begin(ADMIN, identity=Identity(ADMIN))  # a user of that name has not shown the token
        streaming = (await access.admit(old)).ends_with
        assert streaming is not None
        access.take(load(**values, admin_token="old", metrics_token="scrape"))
        assert sessions.find(sessions.cookie_of(by_token)) is by_token
        assert (streaming.ended.is_set(), (await access.admit(old)).ends_with is streaming) == (False, True)
        access.take(load(**values, admin_token="new"))
        found = [sessions.find(sessions.cookie_of(each)) for each in (by_token, alice, namesake)]
        assert found == [None, alice, namesake]
        assert await streaming.over() == "this login has ended, log in again"


class TestMetricsToken:
    NEEDS_METRICS = "this needs the header Authorization: Bearer with the metrics token"
    NEEDS_EITHER = "this needs the header Authorization: Bearer with the admin token, or with the metrics token, or a "

    @pytest.mark.parametrize(
        ("token", "scraper", "admin_token", "said"),
        [
            ("scrape", True, "", ""),
            ("scrape", True, TOKEN, ""),
            (TOKEN, True, TOKEN, ""),
            ("scrape", False, TOKEN, "the token is wrong"),
            ("other", True, TOKEN, "the token is wrong"),
            ("scrape", False, "", "programs on this machine alone may use this"),
            ("", True, "", NEEDS_METRICS),
            ("", True, TOKEN, NEEDS_EITHER),
        ],
    )
    async def test_it_is_good_for_metrics_only(self, token: str, scraper: bool, admin_token: str, said: str) -> None:
        headers = {"host": "localhost"} | ({"authorization": f"Bearer {token}"} if token else {})
        access = access_of(metrics_token="scrape", admin_token=admin_token)
        found = await attempt(access, asking(headers, client=ELSEWHERE), scraper=scraper)
        assert str(found).startswith(said) if said else isinstance(found, Caller), found
        if not admin_token:
            assert await status(access, asking({"host": "localhost"}), scraper=scraper) == 200, (
                "this machine needs none"
            )


class TestCookie:
    async def attempt(
        self, access: AccessControl, cookie: str, method: str = "GET", csrf: str | None = None, **headers: str
    ) -> Caller | ApiError:
        fields = {"cookie": f"{COOKIE}={cookie}", **headers} | ({} if csrf is None else {"x-csrf-token": csrf})
        return await attempt(access, asking(fields, method, ELSEWHERE))

    @pytest.mark.parametrize("method", ["POST", "DELETE"])
    async def test_the_word(self, method: str) -> None:
        access = access_of(admin_token=TOKEN)
        session, other = access.sessions.begin("alice"), access.sessions.begin("alice")
        cookie = access.sessions.cookie_of(session)
        assert await self.attempt(access, cookie) == Caller("alice", "cookie", session), "reading needs no word"
        for csrf in (None, "", "wrong", "w\xf6rt", other.csrf):
            reason = await self.attempt(access, cookie, method, csrf)
            assert isinstance(reason, ApiError)
            assert (reason.status, "X-CSRF-Token" in str(reason)) == (403, True)
        assert isinstance(await self.attempt(access, cookie, method, session.csrf), Caller)
        reason = await self.attempt(access, cookie, method, session.csrf, host="gw", origin="https://evil.example")
        assert isinstance(reason, ApiError)

    async def test_cookies_that_are_not_ours(self) -> None:
        access, other = access_of(admin_token=TOKEN), access_of(admin_token=TOKEN)
        cookie = access.sessions.cookie_of(access.sessions.begin("alice"))
        for change in ("", "x", "{}x", "x{}", "{}.x", "\xe9"):
            reason = await self.attempt(access, change.format(cookie))
            assert isinstance(reason, ApiError)
            assert reason.status == 401
        assert isinstance(await self.attempt(other, cookie), ApiError), "another process has another key"

    async def test_it_ends(self, autojump_clock: MockClock) -> None:
        sessions = access_of(admin_token=TOKEN).sessions
        day, short = sessions.begin("alice", 10**9), sessions.begin("bob", 60)
        await trio.sleep(61)
        assert sessions.find(sessions.cookie_of(short)) is None
        await trio.sleep(12 * 3600 - 62)
        assert sessions.find(sessions.cookie_of(day)) == day
        await trio.sleep(1)
        assert sessions.find(sessions.cookie_of(day)) is None
        begun = [sessions.begin("alice") for _ in range(1_001)]  # the oldest of too many
        assert [sessions.find(sessions.cookie_of(each)) for each in begun[:2]] == [None, begun[1]]


async def test_with_groups_this_machine_is_not_enough() -> None:
    access = access_of(admin_groups=["ops"], jwt_keys="keys")
    reason = await attempt(access, asking({"host": "localhost"}))
    assert isinstance(reason, ApiError)
    assert (reason.status, str(reason)) == (401, "this needs a login at the console (POST /api/v1/login)")
    assert access.methods == ["passcode"]
