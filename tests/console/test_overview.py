"""The overview: it moves under load, and it outlives the gateway."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from benchmarks.crowd import growing
from tests.console.conftest import TOKEN, Front, Visit, cell, rows
from tests.console.traffic import Client

PICTURE = "canvas => canvas.toDataURL()"


def chart(page: Page, title: str) -> Locator:
    return page.locator("figure").filter(has=page.get_by_role("heading", name=title))


@pytest.mark.parametrize("front", ["tls", "straight"], indirect=True)
def test_charts_move_under_load(visit: Visit, front: Front) -> None:
    page = visit.open()
    rates = chart(page, "Messages per second")
    line = rates.get_by_role("listitem").filter(has_text="published")
    expect(line).to_contain_text(" 0/s")
    before = rates.locator("canvas").evaluate(PICTURE)
    with growing(front.gateway.tcp_port, "/topic/load"):
        expect(line).not_to_contain_text(" 0/s")
        expect(chart(page, "Clients").get_by_role("listitem").filter(has_text="sessions")).to_contain_text("1")
    assert rates.locator("canvas").evaluate(PICTURE) != before
    image = chart(page, "Memory of the process").get_by_role("img")
    expect(image).to_have_attribute("aria-label", re.compile("from .* to .*: in use .* at the end, .* at most"))


def test_edges_and_where_a_session_is(visiting: Callable[..., Visit], starting: Callable[..., Front]) -> None:
    front = starting(edges=2)
    with Client(front.gateway.tcp_port):
        visit = visiting(front)
        page = visit.open()
        expect(rows(page)).to_have_count(2)
        expect(cell(rows(page).first, "State")).to_have_text("serves")
        page = visit.open("sessions")
        rows(page).get_by_role("link").first.click()
        expect(page.get_by_text("Edge", exact=True)).to_be_visible()


def test_losses_are_seen_and_the_charts_are_zoomed(
    visiting: Callable[..., Visit], starting: Callable[..., Front], tmp_path: Path
) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text('[[policy]]\nmatch = "/queue/full"\nmax_messages = 1\nwhen_full = "drop-oldest"\n')
    front = starting(config=file)
    with Client(front.gateway.tcp_port) as client:
        for _ in range(3):
            client.send("/queue/full")
    page = visiting(front).open()
    expect(page.get_by_text("a restart or a crash would lose 1 now")).to_be_visible()
    expect(page.get_by_text(f'Write store = "sqlite:store.db" into {file} and restart')).to_be_visible()
    page.get_by_role("button", name="Close until this tab ends").click()
    expect(page.get_by_text("a restart or a crash")).to_be_hidden()
    page.get_by_role("button", name="1 h", exact=True).click()
    expect(page).to_have_url(re.compile("range=1h"))
    plot = chart(page, "Messages per second").locator(".u-over")
    page.wait_for_function("document.querySelector('.charts canvas') && !document.querySelector('.charts').hidden")
    plot.drag_to(plot, source_position={"x": 100, "y": 50}, target_position={"x": 300, "y": 50})
    page.get_by_role("button", name="Reset zoom").click()
    expect(page.get_by_role("button", name="Reset zoom")).to_have_count(0)
    problems = page.get_by_role("region", name="Present problems")
    problems.get_by_role("listitem").filter(has_text="/queue/full").get_by_role("link").click()
    expect(page.get_by_text("This destination loses messages:")).to_be_visible()
    page.goto(f"{front.url}/console/#/destinations?state=lost")
    expect(rows(page)).to_have_count(1)
    expect(cell(rows(page).first, "Lost")).to_contain_text("2 in all")
    expect(rows(page).get_by_text("loses messages")).to_be_visible()


@pytest.mark.long
def test_a_lost_connection_is_shown_and_heals(
    visiting: Callable[..., Visit], starting_behind_nginx: Callable[..., Front]
) -> None:
    front = starting_behind_nginx(admin_token=TOKEN)
    visit = visiting(front)
    page = visit.open()
    expect(page.get_by_role("status").get_by_text("Ready", exact=True)).to_be_visible()
    visit.tolerated += ("502", "401")  # nginx's own answer meanwhile; a visit ends with the gateway
    front.gateway.kill()
    expect(page.get_by_role("alert").get_by_text("Trying again")).to_be_visible()
    expect(page.get_by_role("alert").get_by_text("All figures are from")).to_be_visible()
    expect(page.get_by_role("main")).to_have_css("filter", "grayscale(1)")
    expect(page.locator("#state")).to_be_hidden()
    assert visit.faults() == []
    front.gateway.start()
    expect(page.get_by_role("alert").get_by_text("Trying again")).to_be_hidden()
    page.get_by_label("Admin token").fill(TOKEN)
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").get_by_text("Ready", exact=True)).to_be_visible()


def test_a_tab_in_the_background_asks_rarely(visit: Visit) -> None:
    visit.page.clock.install()
    page = visit.open()
    asked: list[str] = []
    page.on("requestfinished", lambda request: asked.append(request.url))

    def twenty_seconds() -> int:
        asked.clear()
        for _ in range(20):
            page.clock.run_for(1000)
            page.evaluate("fetch('../healthz')")  # what was asked for before has come by then
        return len([url for url in asked if "overview" in url])

    assert twenty_seconds() > 5
    page.evaluate("Object.defineProperty(document, 'hidden', { value: true })")
    assert twenty_seconds() <= 2
