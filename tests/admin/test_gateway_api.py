"""Settings, a reload as the HTTP side shows it, and the drain; `test_site` has health, metrics and jobs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.app.asgi import Answer
from tests.transports.peers import until

from .running import BEARER, Running, running


class TestAsyncApi:
    async def test_functions_and_schemas(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", sys.path.copy())
        monkeypatch.setattr(sys, "modules", sys.modules.copy())
        (tmp_path / "greetings.py").write_text(
            "from gateway.handlers import Handlers, Request\nfunctions = Handlers()\n"
            '@functions.send("/app/greet")\nasync def greet(request: Request, name: str) -> None: ...\n'
        )
        (tmp_path / "order.json").write_text('{"type": "object"}')
        (tmp_path / "gateway.toml").write_text(
            'handlers = "greetings:functions"\n[[policy]]\nmatch = "/queue/orders"\nschema = "order.json"\n'
        )
        async with running() as here:
            answer = await here.ask("GET", "/asyncapi.json")
            document = answer.json
            settings = await here.get("settings")
        assert list(document["channels"]) == ["send-app-greet", "policy-queue-orders"]
        assert document["servers"]["tcp"]["protocol"] == "stomp"
        assert document["servers"]["websocket"]["pathname"] == "/ws"
        assert settings["policies"][0]["values"]["schema"].endswith("order.json")


class TestOfTheGateway:
    async def test_settings(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "gateway.toml").write_text(
            'server_name = "gw"\nadmin_token = "planted-token"\nmetrics_token = "planted-metrics"\ntables = "t"\n'
            '[[policy]]\nmatch = "/queue/a.*"\nmax_messages = 5\nwhen_full = "drop-oldest"\n'
            '[[rule]]\ndestination = "**"\nusers = ["alice"]\nallow = ["send"]\n'
        )
        async with running() as here:
            here.headers = BEARER
            answer = await here.get("settings")
        settings = {each["name"]: each for each in answer["settings"]}
        assert (settings["server_name"]["value"], settings["server_name"]["source"]) == ("gw", "file")
        assert settings["server_name"]["group"] == "Sessions"
        assert settings["server_name"]["default"] == "stomp-gateway"
        assert settings["admin_token"]["value"] == settings["metrics_token"]["value"] == "(hidden)"
        assert settings["tables"]["value"] == str(tmp_path / "t")
        assert (settings["journal_sync"]["value"], settings["journal_sync"]["source"]) == ("none", "default")
        assert answer["policies"] == [
            {"match": ["/queue/a.*"], "values": {"max_messages": 5, "when_full": "drop-oldest"}}
        ]
        (rule,) = answer["rules"]
        assert (rule["destination"], rule["users"], rule["allow"]) == ("**", ["alice"], ["send"])
        assert "planted" not in repr(answer)

    async def test_drain_leaves_http_up(self, here: Running) -> None:
        here.headers = BEARER
        assert await here.get("openapi.json") == here.document
        peer = await here.peer()
        with capture_logs() as logs:
            answer = await here.post("drain", status=202)
            assert (answer["draining"], answer["sessions"]) == (True, 1)
            assert answer["next"].startswith("restart the process")
            error = await peer.frame("ERROR")
            assert (error["message"], error["retry-after"]) == ("server is shutting down", "2000")
            await peer.aclose()
            answer = await here.ask("GET", "/readyz")
            assert (answer.status, answer.error) == (503, "the gateway is shutting down")
            with pytest.raises(OSError):
                await here.peer()
            assert (await here.post("drain", status=202))["sessions"] == 0
            await until(lambda: here.gateway.drained)
            assert (await here.post("drain", status=202))["sessions"] == 0
        assert (await here.get("overview"))["drain"] == "drained"
        events = [each["event"] for each in logs]
        assert [events.count(each) for each in ("draining", "drained", "admin")] == [1, 1, 3]


PAGE = "https://app.new.example"
RULES = [{"destination": "#", "allow": ["send"]}]


async def ask(site: Running, token: str, path: str = "overview") -> Answer:
    return await site.ask("GET", path, headers={"authorization": f"Bearer {token}"})


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
