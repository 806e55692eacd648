"""Who may use the admin API: every rule of `gateway/admin/access.py`, one row each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from starlette.requests import Request
from trio.testing import MockClock

from gateway.admin.access import ADMIN, AccessControl, Caller
from gateway.admin.console_sessions import COOKIE
from gateway.admin.endpoint import ApiError
from gateway.broker import Broker
from gateway.broker.model.identity import Identity
from gateway.config.settings import load
from gateway.runtime.gateway import Gateway
from gateway.transports.wire.forwarded import Trusted
from tests.app.asgi import LOCAL, scope_of

TOKEN = "sesame"


def access_of(**values: object) -> AccessControl:
    settings = load(**{"login_delay": 0.0, **values})
    opened = SimpleNamespace(trusted=Trusted(settings.trusted_proxies), broker=Broker())
    return AccessControl(cast("Gateway", opened), settings)


def asking(
    headers: dict[str, str], method: str = "GET", client: tuple[str, int] | None = LOCAL, path: str = "/metrics"
) -> Request:
    return Request(scope_of(method, path, headers, client))


async def refused(
    headers: dict[str, str], *, token: str = "", method: str = "GET", client: tuple[str, int] | None = LOCAL
) -> int | None:
    """The status of the refusal, or None when the request passes."""
    try:
        await access_of(admin_token=token).admit(asking(headers, method, client))
    except ApiError as reason:
        return reason.status
    return None


class TestWithoutToken:
    @pytest.mark.parametrize("peer", ["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"])
    async def test_loopback_passes(self, peer: str) -> None:
        assert await refused({"host": "localhost"}, client=(peer, 1)) is None

    @pytest.mark.parametrize("peer", ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "fe80::1", "", "nonsense"])
    async def test_other_peers_do_not(self, peer: str) -> None:
        assert await refused({"host": "localhost"}, client=(peer, 1)) == 403

    async def test_a_unix_socket_is_loopback(self) -> None:
        assert await refused({"host": "localhost"}, client=None) is None

    @pytest.mark.parametrize(
        "header", ["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "X-Real-IP", "Via"]
    )
    async def test_behind_a_proxy_loopback_does_not_count(self, header: str) -> None:
        assert await refused({"host": "localhost", header: "127.0.0.1"}) == 403
        assert await refused({"host": "localhost", header: "127.0.0.1"}, client=None) == 403

    @pytest.mark.parametrize(
        "host", ["localhost", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000", "[::1]", "gateway.localhost:1", ""]
    )
    async def test_host_names_this_machine(self, host: str) -> None:
        assert await refused({"host": host}) is None

    async def test_no_host_at_all(self) -> None:
        assert await refused({}) is None

    @pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "[::2]"])
    async def test_a_rebound_name_does_not(self, host: str) -> None:
        assert await refused({"host": host}) == 403

    async def test_a_token_is_of_no_use_where_none_is_set(self) -> None:
        assert await refused({"host": "localhost", "authorization": "Bearer "}, client=("192.0.2.1", 1)) == 403


class TestWithToken:
    @pytest.mark.parametrize("shown", ["Bearer sesame", "bearer sesame", "BEARER  sesame "])
    @pytest.mark.parametrize("client", [LOCAL, ("192.0.2.1", 1), None])
    async def test_who_shows_it_passes(self, shown: str, client: tuple[str, int] | None) -> None:
        headers = {"host": "gateway.example", "x-forwarded-for": "192.0.2.7", "authorization": shown}
        assert await refused(headers, token=TOKEN, client=client) is None

    @pytest.mark.parametrize(
        "shown",
        ["", "Bearer", "Bearer ", "Bearer sesam", "Bearer sesame!", "Bearer s\xe9same", "Basic sesame", "sesame"],
    )
    async def test_who_does_not_is_refused(self, shown: str) -> None:
        assert await refused({"host": "localhost", "authorization": shown}, token=TOKEN) == 401

    async def test_loopback_alone_is_not_enough(self) -> None:
        assert await refused({"host": "localhost"}, token=TOKEN) == 401


class TestOtherSites:
    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"sec-fetch-site": "same-origin", "origin": "http://localhost:8000"},
            {"sec-fetch-site": "none"},
            {"origin": "http://localhost:8000"},
            {"origin": "http://LOCALHOST:8000"},
            {"host": "localhost:443", "origin": "https://localhost"},
        ],
    )
    async def test_our_own_page_and_programs_may_change_something(self, headers: dict[str, str]) -> None:
        assert await refused({"host": "localhost:8000"} | headers, method="DELETE") is None

    @pytest.mark.parametrize(
        "headers",
        [
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
            {"origin": "https://evil.example"},
            {"origin": "http://localhost:9000"},
            {"origin": "null"},
        ],
    )
    async def test_other_sites_may_not(self, headers: dict[str, str]) -> None:
        assert await refused({"host": "localhost:8000"} | headers, method="DELETE") == 403
        with_token = {"host": "localhost:8000", "authorization": f"Bearer {TOKEN}"} | headers
        assert await refused(with_token, method="DELETE", token=TOKEN) == 403

    async def test_reading_is_for_the_browser_to_forbid(self) -> None:
        assert await refused({"host": "localhost:8000", "sec-fetch-site": "cross-site"}) is None


class TestWrongTokens:
    """They are answered late, counted, and after too many the address is refused unheard."""

    async def attempt(
        self, access: AccessControl, token: str, peer: str = "192.0.2.1", **more: Any
    ) -> Caller | ApiError:
        try:
            return await access.admit(asking({"authorization": f"Bearer {token}"}, client=(peer, 1)), **more)
        except ApiError as reason:
            return reason

    async def test_late(self, autojump_clock: MockClock) -> None:
        access = access_of(admin_token=TOKEN, login_delay=1.0)
        started = trio.current_time()
        await self.attempt(access, "wrong")
        assert trio.current_time() - started == 1.0
        await self.attempt(access, TOKEN)
        assert trio.current_time() - started == 1.0

    async def test_too_many(self, autojump_clock: MockClock) -> None:
        access = access_of(admin_token=TOKEN, login_attempts=2)
        for _ in range(2):
            reason = await self.attempt(access, "wrong")
            assert isinstance(reason, ApiError)
            assert (reason.status, str(reason)) == (401, "the token is wrong")
        reason = await self.attempt(access, TOKEN)
        assert isinstance(reason, ApiError)
        assert (reason.status, reason.headers) == (429, {"retry-after": "60"})
        assert isinstance(await self.attempt(access, TOKEN, "192.0.2.2"), Caller), "another address is heard"
        await trio.sleep(61)
        assert isinstance(await self.attempt(access, TOKEN), Caller)

    async def test_a_thousand_at_once_are_told_no_more(self, autojump_clock: MockClock) -> None:
        access = access_of(admin_token=TOKEN, login_attempts=3, login_delay=1.0)
        found: list[int] = []

        async def guess(token: str) -> None:
            reason = await self.attempt(access, token)
            assert isinstance(reason, ApiError)
            found.append(reason.status)

        async with trio.open_nursery() as nursery:
            for number in range(1_000):
                nursery.start_soon(guess, f"guess-{number}")
        assert (found.count(401), found.count(429)) == (3, 997)

    async def test_they_are_counted_by_client_behind_a_proxy(self) -> None:
        access = access_of(admin_token=TOKEN, login_attempts=1, trusted_proxies=["10.0.0.1"])

        async def attempt(token: str, client: str) -> int:
            headers = {"authorization": f"Bearer {token}", "x-forwarded-for": client}
            try:
                await access.admit(asking(headers, client=("10.0.0.1", 1)))
            except ApiError as reason:
                return reason.status
            return 200

        assert [await attempt("wrong", "192.0.2.1"), await attempt(TOKEN, "192.0.2.1")] == [401, 429]
        assert await attempt(TOKEN, "192.0.2.2") == 200

    async def test_a_proxy_that_contradicts_itself(self) -> None:
        access = access_of(admin_token=TOKEN, trusted_proxies=["10.0.0.1"])
        headers = {"authorization": "Bearer x", "x-forwarded-for": "192.0.2.1", "forwarded": "for=192.0.2.2"}
        request = asking(headers, client=("10.0.0.1", 1))
        with pytest.raises(ApiError) as refusal:
            await access.admit(request)
        assert refusal.value.status == 400
        assert access.address_of(request) == "10.0.0.1"

    async def test_they_are_failed_logins_of_the_metrics(self) -> None:
        access = access_of(admin_token=TOKEN)
        await self.attempt(access, "wrong")
        assert access._gateway.broker.counters.failed_logins["admin"] == 1


class TestAnotherToken:
    """The settings change while the gateway runs."""

    @staticmethod
    def changed(access: AccessControl, **values: object) -> None:
        access.take(load(login_delay=0.0, **values))

    async def status(self, access: AccessControl, token: str, **more: Any) -> int:
        try:
            await access.admit(asking({"authorization": f"Bearer {token}"}, client=("192.0.2.1", 1)), **more)
        except ApiError as reason:
            return reason.status
        return 200

    async def test_the_old_one_is_worth_nothing(self) -> None:
        access = access_of(admin_token="old", metrics_token="old-scrape")
        self.changed(access, admin_token="new", metrics_token="new-scrape")
        assert [await self.status(access, token) for token in ("old", "new")] == [401, 200]
        assert [await self.status(access, token, scraper=True) for token in ("old-scrape", "new-scrape")] == [401, 200]
        assert access.admin_token == "new"

    async def test_the_first_one_ends_the_freedom_of_this_machine(self) -> None:
        access = access_of()
        request = asking({"host": "localhost"})
        caller = await access.admit(request)
        self.changed(access, admin_token="new")
        with pytest.raises(ApiError):
            await access.admit(request)
        assert caller.ends_with is not None
        assert caller.ends_with.ended.is_set()

    async def test_whoever_came_by_the_old_one_is_out(self, autojump_clock: MockClock) -> None:
        access = access_of(admin_token="old", admin_groups=["ops"], users_file="users.txt")
        by_cookie, alice = access.sessions.begin(ADMIN), access.sessions.begin("alice", identity=Identity("alice"))
        streaming = await access.admit(asking({"authorization": "Bearer old"}))
        self.changed(access, admin_token="new", admin_groups=["ops"], users_file="users.txt")
        assert access.sessions.find(access.sessions.cookie_of(by_cookie)) is None
        assert access.sessions.find(access.sessions.cookie_of(alice)) is alice
        assert streaming.ends_with is not None
        assert await streaming.ends_with.over() == "this login has ended, log in again"

    async def test_a_user_of_that_name_did_not_come_by_it(self) -> None:
        access = access_of(admin_token="old", admin_groups=["ops"], users_file="users.txt")
        namesake = access.sessions.begin(ADMIN, identity=Identity(ADMIN))
        self.changed(access, admin_token="new", admin_groups=["ops"], users_file="users.txt")
        assert access.sessions.find(access.sessions.cookie_of(namesake)) is namesake

    async def test_other_settings_end_nothing(self) -> None:
        access = access_of(admin_token="same")
        by_cookie = access.sessions.begin(ADMIN)
        streaming = await access.admit(asking({"authorization": "Bearer same"}))
        self.changed(access, admin_token="same", metrics_token="scrape")
        assert access.sessions.find(access.sessions.cookie_of(by_cookie)) is by_cookie
        assert streaming.ends_with is not None
        assert not streaming.ends_with.ended.is_set()
        assert (await access.admit(asking({"authorization": "Bearer same"}))).ends_with is streaming.ends_with


class TestMetricsToken:
    async def ask(self, token: str, *, scraper: bool, client: str = "192.0.2.1", **values: object) -> int | str:
        headers = {"host": "localhost"} | ({"authorization": f"Bearer {token}"} if token else {})
        try:
            await access_of(metrics_token="scrape", **values).admit(
                asking(headers, client=(client, 1)), scraper=scraper
            )
        except ApiError as reason:
            return str(reason)
        return 200

    async def test_it_is_good_for_metrics_only(self) -> None:
        assert await self.ask("scrape", scraper=True) == 200
        assert await self.ask("scrape", scraper=False) != 200
        assert await self.ask("scrape", scraper=False, admin_token=TOKEN) == "the token is wrong"
        assert await self.ask(TOKEN, scraper=True, admin_token=TOKEN) == 200
        assert await self.ask("other", scraper=True, admin_token=TOKEN) == "the token is wrong"

    async def test_what_is_asked_for(self) -> None:
        assert await self.ask("", scraper=True) == (
            "this needs the header Authorization: Bearer with the metrics token"
        )
        both = await self.ask("", scraper=True, admin_token=TOKEN)
        assert both == (
            "this needs the header Authorization: Bearer with the admin token, or with the metrics token, or a login "
            "at the console (POST /api/v1/login)"
        )

    async def test_programs_on_this_machine_need_none(self) -> None:
        assert await self.ask("", scraper=True, client="127.0.0.1") == 200


class TestCookie:
    """With the console's cookie a change needs the word that only its page knows."""

    async def attempt(
        self, access: AccessControl, cookie: str, method: str = "GET", csrf: str | None = None, **headers: str
    ) -> Caller | ApiError:
        fields = {"cookie": f"{COOKIE}={cookie}", **headers} | ({} if csrf is None else {"x-csrf-token": csrf})
        try:
            return await access.admit(asking(fields, method, ("192.0.2.1", 1)))
        except ApiError as reason:
            return reason

    async def test_reading_needs_the_cookie_alone(self) -> None:
        access = access_of(admin_token=TOKEN)
        visit = access.sessions.begin("alice")
        assert await self.attempt(access, access.sessions.cookie_of(visit)) == Caller("alice", "cookie", visit)

    @pytest.mark.parametrize("csrf", [None, "", "wrong", "w\xf6rt"])
    @pytest.mark.parametrize("method", ["POST", "DELETE"])
    async def test_a_change_without_the_word(self, csrf: str | None, method: str) -> None:
        access = access_of(admin_token=TOKEN)
        visit = access.sessions.begin("alice")
        reason = await self.attempt(access, access.sessions.cookie_of(visit), method, csrf)
        assert isinstance(reason, ApiError)
        assert (reason.status, "X-CSRF-Token" in str(reason)) == (403, True)
        found = await self.attempt(access, access.sessions.cookie_of(visit), method, visit.csrf)
        assert isinstance(found, Caller)

    async def test_the_word_of_another_visit(self) -> None:
        access = access_of(admin_token=TOKEN)
        visit, other = access.sessions.begin("alice"), access.sessions.begin("alice")
        assert isinstance(await self.attempt(access, access.sessions.cookie_of(visit), "POST", other.csrf), ApiError)

    async def test_another_site_with_the_right_word(self) -> None:
        access = access_of(admin_token=TOKEN)
        visit = access.sessions.begin("alice")
        cookie = access.sessions.cookie_of(visit)
        reason = await self.attempt(access, cookie, "POST", visit.csrf, host="gw", origin="https://evil.example")
        assert isinstance(reason, ApiError)
        assert reason.status == 403

    @pytest.mark.parametrize("change", ["", "x", "{}x", "x{}", "{}.x", "\xe9"])
    async def test_what_is_no_cookie_of_ours(self, change: str) -> None:
        access, other = access_of(admin_token=TOKEN), access_of(admin_token=TOKEN)
        cookie = access.sessions.cookie_of(access.sessions.begin("alice"))
        reason = await self.attempt(access, change.format(cookie))
        assert isinstance(reason, ApiError)
        assert reason.status == 401
        assert isinstance(await self.attempt(other, cookie), ApiError), "another process has another key"

    async def test_it_ends(self, autojump_clock: MockClock) -> None:
        access = access_of(admin_token=TOKEN)
        day, short = access.sessions.begin("alice", 10**9), access.sessions.begin("bob", 60)
        await trio.sleep(61)
        assert access.sessions.find(access.sessions.cookie_of(short)) is None
        await trio.sleep(12 * 3600 - 62)
        assert access.sessions.find(access.sessions.cookie_of(day)) == day
        await trio.sleep(1)
        assert access.sessions.find(access.sessions.cookie_of(day)) is None

    async def test_the_oldest_of_too_many_goes(self) -> None:
        access = access_of(admin_token=TOKEN)
        visits = [access.sessions.begin("alice") for _ in range(1_001)]
        assert access.sessions.find(access.sessions.cookie_of(visits[0])) is None
        assert access.sessions.find(access.sessions.cookie_of(visits[1])) == visits[1]


class TestGroups:
    async def test_with_groups_this_machine_is_not_enough(self) -> None:
        access = access_of(admin_groups=["ops"], jwt_keys="keys")
        with pytest.raises(ApiError) as refusal:
            await access.admit(asking({"host": "localhost"}))
        assert refusal.value.status == 401
        assert str(refusal.value) == "this needs a login at the console (POST /api/v1/login)"
        assert access.methods == ["passcode"]
