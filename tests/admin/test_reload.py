"""A reload as the HTTP side shows it: logins, pages that may ask, and the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.app.asgi import Answer

from .running import Running, running

PAGE = "https://app.new.example"
RULES = [{"destination": "#", "allow": ["send"]}]


async def ask(site: Running, token: str, path: str = "overview") -> Answer:
    return await site.ask("GET", path, headers={"authorization": f"Bearer {token}"})


async def test_tokens() -> None:
    async with running(admin_token="old", metrics_token="old-scrape") as site:
        entered = await site.ask("POST", "login", {"token": "old"})
        cookie = {"cookie": entered.headers["set-cookie"].partition(";")[0]}
        assert (await site.ask("GET", "overview", headers=cookie)).status == 200
        site.values |= {"admin_token": "new", "metrics_token": "new-scrape"}
        site.gateway.reload()
        assert [(await ask(site, token)).status for token in ("old", "new")] == [401, 200]
        assert [(await ask(site, token, "/metrics")).status for token in ("old-scrape", "new-scrape")] == [401, 200]
        assert (await site.ask("GET", "overview", headers=cookie)).status == 401
        answers = [await site.ask("POST", "login", {"token": token}) for token in ("old", "new")]
        assert [each.status for each in answers] == [401, 200]


async def test_pages(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a-secret-of-thirty-two-octets-or-more")
    async with running(jwt_keys=tmp_path / "secret") as site:

        async def status() -> int:
            return (await site.ask("OPTIONS", "tickets", headers={"origin": PAGE, "host": "gateway.example"})).status

        assert await status() == 403
        site.values["allowed_origins"] = "https://*.NEW.example:443"
        site.gateway.reload()
        assert await status() == 204


async def test_the_settings_that_are_shown_are_those_in_force() -> None:
    async with running(rule=RULES) as site:
        before = await shown(site)
        site.values |= {"allowed_origins": [PAGE], "max_body": 1024, "rule": [*RULES, *RULES]}
        site.gateway.reload()
        after = await shown(site)
    assert after == before | {"allowed_origins": [PAGE], "rules": 2}, "max_body needs a restart"


async def shown(site: Running) -> dict[str, Any]:
    answer = await site.get("settings")
    return {each["name"]: each["value"] for each in answer["settings"]} | {"rules": len(answer["rules"])}
