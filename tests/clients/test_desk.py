"""examples/desk in Chromium: two pages and a service, while the gateway is killed and started again."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.clients.driver import ROOT, tool
from tests.gateway_process import HOST, GatewayProcess, free_ports
from tests.logged_command import eventually

pytestmark = [pytest.mark.slow, pytest.mark.long]

DESK = ROOT / "examples" / "desk"
PATIENCE = 60_000
"""Milliseconds; a page pauses for some seconds between its attempts, and the gateway settles for ten."""
KILLS = 3


@pytest.fixture
def origin() -> str:
    return f"http://{HOST}:{free_ports(1)[0]}"


@pytest.fixture
def gateway(tmp_path: Path, origin: str) -> Iterator[GatewayProcess]:
    settings = (DESK / "gateway.toml").read_text().replace("http://127.0.0.1:8080", origin)
    (tmp_path / "gateway.toml").write_text(settings)
    (tmp_path / "desk.key").write_text(f"{secrets.token_hex(32)}\n")
    with GatewayProcess(tmp_path, {}).running() as process:
        yield process


@pytest.fixture
def service(tmp_path: Path, origin: str, gateway: GatewayProcess) -> Iterator[str]:
    """The origin of the running service."""
    addresses = {"DESK_GATEWAY": f"stomp://{HOST}:{gateway.tcp_port}", "DESK_PAGES": gateway.ws_url}
    log = tmp_path / "service.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "hypercorn", "desk:app", "--bind", origin.removeprefix("http://")],
            cwd=tmp_path,
            env={**os.environ, **addresses, "PYTHONPATH": f"{DESK}{os.pathsep}{ROOT}"},
            stdout=file,
            stderr=file,
        )
    try:
        eventually(lambda: _answers(origin), lambda: log.read_text())
        yield origin
    finally:
        process.terminate()
        try:
            process.wait(30)
        finally:
            process.kill()
            process.wait()
    assert "Traceback" not in log.read_text(), log.read_text()


def _answers(origin: str) -> bool:
    try:
        with urlopen(origin, timeout=5):
            return True
    except URLError:
        return False


@pytest.fixture
def browser() -> Iterator[Browser]:
    arguments = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=tool("chromium"), args=arguments)
        yield opened
        opened.close()


@pytest.fixture
def enter(browser: Browser, service: str) -> Iterator[Callable[[str], Page]]:
    """Opens the page for a user; at the end no page may have asked for anything elsewhere, or thrown an error."""
    faults: list[str] = []

    def enter(name: str) -> Page:
        page = browser.new_context().new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith(service) else faults.append(request.url))
        page.goto(service)
        page.get_by_label("Your name").fill(name)
        page.get_by_role("button", name="Enter").click()
        return page

    yield enter
    assert faults == []


def figure(page: Page, name: str) -> str:
    return page.locator("#dashboard dt", has_text=name).locator("xpath=following-sibling::dd[1]").inner_text()


def wait_for_prices(page: Page, more: int) -> None:
    """Wait until the service has published so many more."""
    script = """([name, least]) => [...document.querySelectorAll("#dashboard dt")].some(
        (each) => each.textContent === name && Number(each.nextElementSibling.textContent) >= least)"""
    page.wait_for_function(script, arg=["prices", 1], timeout=PATIENCE)
    page.wait_for_function(script, arg=["prices", int(figure(page, "prices")) + more], timeout=PATIENCE)


def wait_for_state(page: Page, state: str) -> None:
    shown = page.locator("#dashboard dt", has_text="state").locator("xpath=following-sibling::dd[1]")
    expect(shown).to_have_text(state, timeout=PATIENCE)


def say(page: Page, text: str) -> None:
    page.get_by_label("Line").fill(text)
    page.get_by_role("button", name="Say").click()


def test_the_gateway_is_killed_and_nothing_is_missed(gateway: GatewayProcess, enter: Callable[[str], Page]) -> None:
    ada, bob = enter("ada"), enter("bob")
    pages, said = [ada, bob], []
    expect(ada.locator("#users")).to_have_text("ada, bob", timeout=PATIENCE)
    for number in range(KILLS):
        for page, name in ((ada, "ada"), (bob, "bob")):
            say(page, f"line {number}")
            said.append(f"{name}: line {number}")
            for each in pages:
                expect(each.locator("#lines li")).to_have_text(said, timeout=PATIENCE)
        ada.get_by_label("Count").fill(str(number + 1))
        ada.get_by_role("button", name="Quote").click()
        expect(ada.locator("#quote output")).to_have_text(re.compile(r"\d+(\.\d+)?"), timeout=PATIENCE)
        wait_for_prices(ada, 5)
        gateway.kill()
        for page in pages:
            wait_for_state(page, "not connected")
        say(bob, f"amid {number}")  # the page keeps it until the gateway has confirmed it
        said.append(f"bob: amid {number}")
        gateway.start()
        for page in pages:
            wait_for_state(page, "connected")
            wait_for_prices(page, 10)
            expect(page.locator("#lines li")).to_have_text(said, timeout=PATIENCE)
    enter("carol")
    for page in pages:
        expect(page.locator("#users")).to_have_text("ada, bob, carol", timeout=PATIENCE)
        assert {name: figure(page, name) for name in ("missed", "doubled", "left")} == {
            "missed": "0",
            "doubled": "0",
            "left": "0",
        }
