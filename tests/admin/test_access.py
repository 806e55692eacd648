"""Who may use the admin API: every rule of `gateway/admin/access.py`, one row each."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from gateway.admin import access
from tests.app.asgi import LOCAL, scope_of

TOKEN = "sesame"


def refused(
    headers: dict[str, str], *, token: str = "", method: str = "GET", client: tuple[str, int] | None = LOCAL
) -> int | None:
    """The status of the refusal, or None when the request passes."""
    try:
        access.check(Request(scope_of(method, "/metrics", headers, client)), token)
    except access.Refused as reason:
        return reason.status
    return None


class TestWithoutToken:
    @pytest.mark.parametrize("peer", ["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"])
    def test_loopback_passes(self, peer: str) -> None:
        assert refused({"host": "localhost"}, client=(peer, 1)) is None

    @pytest.mark.parametrize("peer", ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "fe80::1", "", "nonsense"])
    def test_other_peers_do_not(self, peer: str) -> None:
        assert refused({"host": "localhost"}, client=(peer, 1)) == 403

    def test_a_unix_socket_is_loopback(self) -> None:
        assert refused({"host": "localhost"}, client=None) is None

    @pytest.mark.parametrize(
        "header", ["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "X-Real-IP", "Via"]
    )
    def test_behind_a_proxy_loopback_does_not_count(self, header: str) -> None:
        assert refused({"host": "localhost", header: "127.0.0.1"}) == 403
        assert refused({"host": "localhost", header: "127.0.0.1"}, client=None) == 403

    @pytest.mark.parametrize(
        "host", ["localhost", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000", "[::1]", "gateway.localhost:1", ""]
    )
    def test_host_names_this_machine(self, host: str) -> None:
        assert refused({"host": host}) is None

    def test_no_host_at_all(self) -> None:
        assert refused({}) is None

    @pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "[::2]"])
    def test_a_rebound_name_does_not(self, host: str) -> None:
        assert refused({"host": host}) == 403

    def test_a_token_is_of_no_use_where_none_is_set(self) -> None:
        assert refused({"host": "localhost", "authorization": "Bearer "}, client=("192.0.2.1", 1)) == 403


class TestWithToken:
    @pytest.mark.parametrize("shown", ["Bearer sesame", "bearer sesame", "BEARER  sesame "])
    @pytest.mark.parametrize("client", [LOCAL, ("192.0.2.1", 1), None])
    def test_who_shows_it_passes(self, shown: str, client: tuple[str, int] | None) -> None:
        headers = {"host": "gateway.example", "x-forwarded-for": "192.0.2.7", "authorization": shown}
        assert refused(headers, token=TOKEN, client=client) is None

    @pytest.mark.parametrize(
        "shown",
        ["", "Bearer", "Bearer ", "Bearer sesam", "Bearer sesame!", "Bearer s\xe9same", "Basic sesame", "sesame"],
    )
    def test_who_does_not_is_refused(self, shown: str) -> None:
        assert refused({"host": "localhost", "authorization": shown}, token=TOKEN) == 401

    def test_loopback_alone_is_not_enough(self) -> None:
        assert refused({"host": "localhost"}, token=TOKEN) == 401


class TestOtherSites:
    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"sec-fetch-site": "same-origin", "origin": "http://localhost:8000"},
            {"sec-fetch-site": "none"},
            {"origin": "http://localhost:8000"},
        ],
    )
    def test_our_own_page_and_programs_may_change_something(self, headers: dict[str, str]) -> None:
        assert refused({"host": "localhost:8000"} | headers, method="DELETE") is None

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
    def test_other_sites_may_not(self, headers: dict[str, str]) -> None:
        assert refused({"host": "localhost:8000"} | headers, method="DELETE") == 403
        with_token = {"host": "localhost:8000", "authorization": f"Bearer {TOKEN}"} | headers
        assert refused(with_token, method="DELETE", token=TOKEN) == 403

    def test_reading_is_for_the_browser_to_forbid(self) -> None:
        assert refused({"host": "localhost:8000", "sec-fetch-site": "cross-site"}) is None
