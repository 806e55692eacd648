"""Every page, as it comes: in light and dark, on a phone, for a screen reader, and without a word from the browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import TimeoutError as TooLate
from playwright.sync_api import expect

from tests.console.conftest import Front, Visit
from tests.console.traffic import Client, kill_letters

PAGES = {
    "overview": "Overview",
    "destinations": "Destinations",
    "scheduled": "Scheduled",
    "retained": "Retained",
    "cursors": "Offsets",
    "destination?name=/queue/pages": "/queue/pages",
    "destination?name=/queue/dlq.pages": "/queue/dlq.pages",
    "destination?name=/topic/pages": "/topic/pages",
    "sessions": "Sessions",
    "session?id=SESSION": "invoices.of.customers.with.contracts@accounting.example.com",
    "subscriptions": "Subscriptions",
    "playground": "Playground",
    "pipeline": "Pipeline",
    "settings": "Settings",
    "maintenance": "Maintenance",
    "playgruond": "No such page",
}

TOO_WIDE = "[...document.querySelectorAll('html, .scroll')].filter((each) => each.scrollWidth > each.clientWidth)"
"""The page itself, and tables: of one that scrolls to the side, the last figures are not seen."""


@pytest.fixture(scope="module")
def a_client(behind_nginx: Front) -> Iterator[Client]:
    port = behind_nginx.gateway.tcp_port
    kill_letters(port, "pages", 2)
    with Client(port, "invoices.of.customers.with.contracts@accounting.example.com") as client:
        client.send("/queue/pages", "one that waits", kind="order")
        client.send("/queue/pages", "one that comes", x_delay="3600000")
        client.send("/topic/pages", "one that stays", retain="set")
        client.subscribe("/topic/pages", selector="kind = 'order'")
        yield client


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_every_page(visiting: Callable[..., Visit], behind_nginx: Front, a_client: Client, scheme: str) -> None:
    visit = visiting(behind_nginx, scheme=scheme)
    faults = {place: _faults(visit, place, a_client) for place in PAGES}
    assert {place: found for place, found in faults.items() if found} == {}


def _faults(visit: Visit, place: str, client: Client) -> list[str]:
    visit.page.set_viewport_size({"width": 1280, "height": 800})
    page = visit.open(place.replace("SESSION", client.session))
    expect(page.get_by_role("heading", level=1)).to_have_text(PAGES[place])
    expect(page.get_by_text("Loading …")).to_have_count(0)
    found = visit.faults()
    page.set_viewport_size({"width": 360, "height": 740})
    try:  # charts follow the width one frame later
        page.wait_for_function(f"() => !{TOO_WIDE}.length", timeout=15_000)
    except TooLate:
        found.append(f"too wide for a phone of 360 px: {page.evaluate(f'{TOO_WIDE}.map((each) => each.outerHTML)')}")
    return found + visit.faults()


def test_by_keyboard_alone(visit: Visit) -> None:
    page = visit.open()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    page.get_by_role("link", name="Maintenance").focus()
    page.keyboard.press("Enter")
    drain = page.get_by_role("button", name="Drain")
    drain.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(drain).to_be_focused()


def test_the_menu_of_a_phone(visiting: Callable[..., Visit], front: Front) -> None:
    page = visiting(front, width=360, height=740).open()
    menu = page.get_by_role("button", name="Menu")
    expect(menu).to_have_attribute("aria-expanded", "false")
    expect(page.get_by_role("navigation")).to_be_hidden()
    expect(page.get_by_role("heading", name="Messages per second")).to_be_visible()
    page.evaluate("scrollTo(0, 600)")
    menu.click()
    sessions = page.get_by_role("navigation").get_by_role("link", name="Sessions")
    expect(sessions).to_be_in_viewport()
    sessions.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sessions")
    expect(menu).to_have_attribute("aria-expanded", "false")


def test_without_its_libraries(visit: Visit) -> None:
    visit.tolerated = ("",)
    visit.page.on("pageerror", lambda error: visit.complaints.remove(str(error)))
    visit.page.route("**/vendor/**", lambda route: route.fulfill(status=404))
    visit.page.goto(f"{visit.front.url}/console/")
    expect(visit.page.get_by_role("alert").get_by_text("make static")).to_be_visible()
    assert visit.faults() == []


def test_a_refusal_of_the_gateway_and_of_the_proxy(
    visiting: Callable[..., Visit], starting_behind_nginx: Callable[..., Front], visit: Visit
) -> None:
    stranger = visiting(starting_behind_nginx())
    stranger.tolerated = visit.tolerated = ("403",)
    stranger.open()
    expect(stranger.page.get_by_text("This client may not use the console")).to_have_count(2)  # the page, and the head
    expect(stranger.page.get_by_text("admin_token")).to_be_visible()
    visit.page.route("**/api/**", lambda route: route.fulfill(status=403, body="<h1>403 Forbidden</h1>"))
    visit.page.goto(f"{visit.front.url}/console/")
    expect(visit.page.get_by_text("A server in front of the gateway, probably its proxy, refused")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_the_demo_page(visiting: Callable[..., Visit], behind_nginx: Front, scheme: str) -> None:
    visit = visiting(behind_nginx, scheme=scheme)
    page = visit.page
    page.goto(f"{behind_nginx.url}/")
    expect(page.get_by_role("status").first).to_contain_text("Connected to")
    expect(page.get_by_role("list", name="Prices").get_by_role("listitem").first).to_be_visible()
    assert page.locator(".code pre").evaluate("(each) => each.scrollWidth <= each.clientWidth"), "a line is cut"
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("log").get_by_text("Hello, other tab")).to_be_visible()
    expect(page.get_by_role("log").get_by_role("time")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
    expect(page.get_by_text(re.compile(r"^Accepted at \d\d:\d\d:\d\d$"))).to_be_visible()
    assert visit.faults() == []
    page.get_by_role("button", name="Disconnect").click()
    expect(page.get_by_role("status").get_by_text("Not connected: no prices come.")).to_be_visible()
    visit.tolerated = ("401",)
    page.get_by_role("link", name="Console").click()
    expect(page.get_by_role("dialog", name="Log in to the console")).to_be_visible()


def test_a_laptop_shows_all_columns(visiting: Callable[..., Visit], front: Front) -> None:
    kill_letters(front.gateway.tcp_port, "laptop", 1)
    letters = "/queue/dlq.laptop"
    with Client(front.gateway.tcp_port):
        visit = visiting(front, width=1280, height=800)
        for place in ("sessions", "destinations", f"destination?name={letters}"):
            page = visit.open(place)
            expect(page.get_by_role("heading", level=1)).to_have_text(PAGES.get(place, letters))
            expect(page.locator("tbody tr").first).to_be_visible()
            page.wait_for_function(
                "[...document.querySelectorAll('.scroll')].every((each) => each.scrollWidth <= each.clientWidth)"
            )
