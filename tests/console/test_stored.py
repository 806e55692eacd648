"""What comes later, what topics retain, and offsets: seen, and taken away, from the click to the broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import TOKEN, Front, Visit, fronted, rows
from tests.console.traffic import Client

HOUR = {"x_delay": "3600000"}


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    file = tmp_path_factory.mktemp("kept") / "gateway.toml"
    file.write_text('[[policy]]\nmatch = "/topic/log.#"\nlog_messages = 100\n')
    with fronted(admin_token=TOKEN, config=file) as front:
        yield front


@pytest.fixture
def visit(visiting: Callable[..., Visit], keeping: Front) -> Visit:
    return visiting(keeping)


@pytest.fixture
def client(keeping: Front) -> Iterator[Client]:
    with Client(keeping.gateway.tcp_port) as connected:
        yield connected


def delete(page: Page, button: str, yes: str) -> None:
    page.get_by_role("dialog").get_by_role("button", name=button).click()
    page.get_by_role("dialog").get_by_role("button", name=yes, exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).to_be_focused()


def test_a_scheduled_message(visit: Visit, client: Client) -> None:
    client.send("/queue/later", "one that comes", **HOUR, kind="order")
    client.send("/queue/later", "another", **HOUR)
    page = visit.open("destinations")
    page.get_by_role("link", name="Scheduled").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Scheduled")
    expect(page.get_by_role("link", name="Scheduled")).to_have_attribute("aria-current", "page")
    expect(page.get_by_role("link", name="Destinations")).to_have_attribute("aria-current", "page")
    expect(rows(page)).to_have_count(2)
    expect(rows(page).first).to_contain_text("59 min")
    rows(page).first.get_by_role("button").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("one that comes")).to_be_visible()
    expect(dialog.get_by_text("order", exact=True)).to_be_visible()
    assert visit.faults() == []
    delete(page, "Delete …", "Delete")
    expect(page.get_by_text("The scheduled message is deleted")).to_be_visible()
    expect(rows(page)).to_have_count(1)


def test_a_cancelled_message_does_not_come(visit: Visit, client: Client) -> None:
    client.send("/queue/soon", "never", x_delay="20000")
    client.subscribe("/queue/soon")
    page = visit.open("scheduled?q=soon")
    page.route("**/api/v1/scheduled/*", lambda route: route.fulfill(status=404, json={"error": "it was sent"}))
    visit.tolerated += ("404",)
    rows(page).first.get_by_role("button").click()
    expect(page.get_by_role("alert").get_by_text("it was sent")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.unroute("**/api/v1/scheduled/*")
    rows(page).first.get_by_role("button").click()
    delete(page, "Delete …", "Delete")
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    client.send("/queue/soon", "at once")
    assert client.hear("MESSAGE")[1] == "at once"


def test_a_retained_value(visit: Visit, client: Client) -> None:
    client.send("/topic/price", "<b>42</b>", retain="set")
    page = visit.open("retained?q=price")
    expect(rows(page)).to_have_count(1)
    rows(page).first.get_by_role("button", name="/topic/price").click()
    expect(page.get_by_role("dialog").get_by_text("<b>42</b>")).to_be_visible()
    assert visit.faults() == []
    delete(page, "Delete …", "Delete")
    expect(page.get_by_text("The retained message is deleted")).to_be_visible()
    expect(page.get_by_text("Nothing matches")).to_be_visible()


def test_an_offset(visit: Visit, keeping: Front, client: Client) -> None:
    with Client(keeping.gateway.tcp_port) as reader:
        reader.subscribe("/topic/log.a", resume="mine", ack="client")
    for _ in range(3):
        client.send("/topic/log.a")
    page = visit.open("destination?name=/topic/log.a")
    expect(page.get_by_text("1–3 of 3 messages")).to_be_visible()
    page = visit.open("cursors")
    expect(rows(page)).to_have_count(1)
    expect(rows(page).first.locator("td.number")).to_have_text("3")
    expect(rows(page).first).to_contain_text("none")
    rows(page).first.get_by_role("button", name="mine").click()
    assert visit.faults() == []
    delete(page, "Delete …", "Delete")
    expect(page.get_by_text("No offsets")).to_be_visible()
