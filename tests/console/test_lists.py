"""Tables: pages, order and filters by the gateway, all of them in the address; and rows that stay where they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Front, Visit, cell, rows
from tests.console.traffic import Client


@pytest.fixture(scope="module")
def many(behind_nginx: Front) -> Iterator[Client]:
    with Client(behind_nginx.gateway.tcp_port) as client:
        for number in range(120):
            for _ in range(number % 7 or 1):
                client.send(f"/queue/many.{number:03}")
        yield client


def test_pages(visit: Visit, many: Client) -> None:
    page = visit.open("destinations?q=many&sort=name")
    expect(page.get_by_text("1–100 of 120 destinations")).to_be_visible()
    expect(page.get_by_role("button", name="Previous")).to_be_disabled()
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".paging").get_by_text("101–120 of 120 destinations")).to_be_visible()
    expect(rows(page)).to_have_count(20)
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    assert "offset=100" in page.url
    page.get_by_label("Rows").select_option("50")
    expect(page.locator(".paging").get_by_text("1–50 of 120 destinations")).to_be_visible()


def test_order(visit: Visit, many: Client) -> None:
    page = visit.open("destinations?q=many")
    header = page.get_by_role("columnheader", name="Waiting")
    expect(header).to_have_attribute("aria-sort", "none")
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "descending")
    expect(cell(rows(page).first, "Waiting")).to_have_text("6")
    expect(header.get_by_role("button")).to_be_focused()
    header.get_by_role("button").press("Enter")
    expect(header).to_have_attribute("aria-sort", "ascending")
    expect(cell(rows(page).first, "Waiting")).to_have_text("1")
    page.go_back()
    expect(header).to_have_attribute("aria-sort", "descending")
    page = visit.open("destinations?q=many&sort=-oldest_age")
    expect(page.get_by_role("columnheader", name="Oldest")).to_have_attribute("aria-sort", "descending")
    expect(cell(rows(page).first, "Oldest")).to_have_text(re.compile(r"^\d+ (s|min)"))
    page = visit.open("destination?name=%2Fqueue%2Fmany.006")
    expect(page.locator("dl").filter(has_text="Oldest")).to_contain_text(re.compile(r"Oldest\s*\d+ (s|min)"))


def test_filters(visit: Visit, many: Client) -> None:
    page = visit.open("destinations")
    page.get_by_label("Name contains").type("many.01")
    expect(page.locator(".paging").get_by_text("1–10 of 10 destinations")).to_be_visible()
    expect(page.get_by_role("status").get_by_text("1–10 of 10 destinations")).to_have_count(1)
    expect(page.get_by_label("Name contains")).to_be_focused()
    page.get_by_label("Kind").select_option("Topics")
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    page.get_by_role("button", name="Show all").click()
    expect(page.get_by_text("of", exact=False).locator("visible=true").first).to_be_visible()
    expect(page.get_by_label("Name contains")).to_have_value("")
    expect(page.get_by_label("Kind")).to_have_value("")


def test_rows_stay_where_they_are_and_one_that_moves_keeps_the_focus(visit: Visit, many: Client) -> None:
    page = visit.open("destinations?q=many&sort=name")
    row = rows(page).nth(3).element_handle()
    waiting = cell(rows(page).nth(3), "Waiting")
    expect(waiting).to_have_text("3")
    page.evaluate("scrollTo(0, 60)")
    many.send("/queue/many.003")
    expect(waiting).to_have_text("4")
    assert row is not None
    assert row.evaluate("(row) => row.isConnected")
    assert page.evaluate("scrollY") == 60
    many.send("/queue/moving.a")
    many.send("/queue/moving.b")
    page = visit.open("destinations?q=moving&sort=-waiting")
    link = page.get_by_role("link", name="/queue/moving.a")
    link.focus()
    for more, overtaking in enumerate("abab", start=1):
        for _ in range(more):
            many.send(f"/queue/moving.{overtaking}")
        expect(rows(page).first).to_contain_text(f"/queue/moving.{overtaking}")
        expect(link).to_be_focused()


def test_sessions_and_subscriptions(visit: Visit, front: Front, many: Client) -> None:
    with Client(front.gateway.tcp_port) as client:
        client.subscribe("/topic/listed", selector="kind = 'order'")
        page = visit.open("subscriptions?destination=/topic/listed")
        expect(rows(page)).to_have_count(1)
        expect(rows(page).get_by_text("kind = 'order'")).to_be_visible()
        rows(page).get_by_role("link", name="anonymous").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("anonymous")
        expect(page.get_by_text(client.session)).to_be_visible()
        visit.open(f"sessions?q={client.session}&transport=tcp")
        expect(rows(page)).to_have_count(1)


def test_names_as_people_gave_them(visit: Visit, front: Front) -> None:
    """A durable subscription, and the topic that fills it: by login and pattern, never by a name of the broker."""
    with Client(front.gateway.tcp_port, "ledger") as client, Client(front.gateway.tcp_port, "board") as board:
        client.subscribe("/topic/named.#", durable="true")
        board.subscribe("/topic/named.eu")
        page = visit.open("destinations?q=/topic/named")
        expect(rows(page)).to_have_count(3)
        expect(cell(rows(page).filter(has_text="/topic/named.eu"), "Waiting")).to_have_text("–")
        page.get_by_role("link", name="ledger: /topic/named.#").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("ledger: /topic/named.#")
        expect(page.get_by_role("link", name="Publish")).to_have_count(0)  # no client can send to it
        visit.open("destination?name=/topic/named.eu")
        subscribers = page.get_by_role("region", name="Subscribers").first
        expect(subscribers.get_by_role("link", name="board", exact=True)).to_be_visible()
        expect(subscribers.get_by_role("link", name="ledger: /topic/named.#")).to_be_visible()
        expect(page.get_by_text("Waiting", exact=True)).to_have_count(1)  # of the durable subscription
        assert visit.faults() == []
        visit.tolerated += ("404",)  # the topic goes with its subscribers


def test_the_users_of_a_topic(starting: Callable[..., Front], visiting: Callable[..., Visit], tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text('[[policy]]\nmatch = "/topic/room.*"\npresence = true\n')
    front = starting(config=tmp_path / "gateway.toml")
    visit = visiting(front)
    port = front.gateway.tcp_port
    with Client(port, "ada") as tab, Client(port, "ada") as second, Client(port, "bob") as other, Client(port) as guest:
        tab.subscribe("/topic/room.7", **{"presence-info": "Countess of Lovelace"})
        page = visit.open("destination?name=/topic/room.7")
        present = page.get_by_role("region", name="Table of users")
        expect(present.locator("tbody tr")).to_have_count(1)
        expect(present.get_by_text("Countess of Lovelace")).to_be_visible()
        expect(page.get_by_text("users may still come back")).to_be_visible()
        for each in (second, other, guest):
            each.subscribe("/topic/room.7")
        guest.subscribe("/presence/topic/room.7")
        expect(present.locator("tbody tr")).to_have_count(3)
        expect(present.locator("tbody tr").filter(has_text="ada").locator("td").first).to_have_text("2")
        expect(present.get_by_text("guest ")).to_be_visible()
        assert visit.faults() == []
        visit.open("destination?name=/presence/topic/room.7")
        expect(page.get_by_role("heading", level=1)).to_have_text("/presence/topic/room.7")
        expect(page.get_by_role("link", name="Publish")).to_have_count(0)  # no client can send to it
        visit.tolerated += ("404",)
