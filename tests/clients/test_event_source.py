"""EventSource in Chromium, over kills of the gateway: it connects by itself, and goes on behind the last event."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import sync_playwright

from tests.clients.driver import tool
from tests.gateway_process import GatewayProcess
from tests.logged_command import eventually

pytestmark = [pytest.mark.slow, pytest.mark.long]

STREAM = '[[policy]]\nmatch = "/topic/prices"\nlog_messages = 1000\ndurable = true\n'
LISTEN = """() => {
    window.seen = [];
    window.events = new EventSource("/sse?destination=/topic/prices");
    events.onmessage = ({ data }) => seen.push(data);
    events.addEventListener("gap", () => seen.push("gap"));
    return new Promise((resolve) => (events.onopen = resolve));
}"""


def publish(gateway: GatewayProcess, *bodies: str) -> None:
    messages = [{"destination": "/topic/prices", "body": body} for body in bodies]
    data = json.dumps({"messages": messages}).encode()
    with urlopen(Request(f"{gateway.http_url}/api/v1/messages", data, {"content-type": "application/json"})) as answer:
        assert answer.status == 200


def test_it_goes_on_behind_a_kill(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text(STREAM)
    arguments = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    with (
        GatewayProcess(tmp_path, {"store": "sqlite:store.db"}).running() as gateway,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=tool("chromium"), args=arguments) as browser,
    ):
        page = browser.new_page()
        page.goto(f"{gateway.http_url}/client.js")
        page.evaluate(LISTEN)
        expected: list[str] = []

        def has_seen_all() -> bool:
            return bool(page.evaluate("seen") == expected)

        def shown() -> str:
            return str(page.evaluate("seen"))

        for number in range(3):
            some = [f"{number}a", f"{number}b"]
            publish(gateway, *some)
            expected += some
            eventually(has_seen_all, shown)
            gateway.kill()
            gateway.start()
            publish(gateway, f"{number}c")  # before the page is back
            expected.append(f"{number}c")
        eventually(has_seen_all, shown)
