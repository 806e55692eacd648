"""The console of a gateway with 5,000 sessions and 10,000 queues: it keeps up, it finds things, and it costs little.

What it costs exactly, `python -m benchmarks.console` measures on a machine that does nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

import pytest
from playwright.sync_api import Locator, Page, expect

from benchmarks.console import PLACES, gaps, load, wait_for_updates, watch
from benchmarks.crowd import crowd, growing
from tests.console.conftest import TOKEN, Front, Visit, cell, fronted, rows

pytestmark = pytest.mark.long

UPDATES = 6
APART = 1.25
"""Seconds between two updates, in the median: one, and what a machine adds that others work on, too."""
DEAREST = 5.0
"""Percent of a core, and what it must never be; alone on a machine it is far less."""


@pytest.fixture(scope="module")
def crowded() -> Iterator[Front]:
    with fronted(admin_token=TOKEN) as front, crowd(front.gateway.tcp_port):
        yield front


@pytest.fixture
def visit(visiting: Callable[..., Visit], crowded: Front) -> Visit:
    return visiting(crowded)


def count(page: Page) -> Locator:
    return page.locator(".paging .count")


@pytest.mark.parametrize("place", PLACES, ids=[place.partition("?")[0] for place in PLACES])
def test_it_is_as_it_was_a_second_ago(visit: Visit, crowded: Front, place: str) -> None:
    with growing(crowded.gateway.tcp_port, "/queue/growing"):
        page = visit.open(place)
        watch(page)
        wait_for_updates(page, UPDATES)
        assert median(gaps(page)) < APART


def test_the_overview_costs_little(visit: Visit, crowded: Front) -> None:
    pid = crowded.gateway.pid
    visit.page.goto("about:blank")
    alone = load(pid, 5)
    watch(visit.open())
    wait_for_updates(visit.page, 3)  # what is asked for once has been answered
    shown = load(pid, 5)
    print(f"of a core: {shown:.2f} % with the overview open, {alone:.2f} % without")
    assert shown - alone < DEAREST


def test_destinations(visit: Visit) -> None:
    page = visit.open("destinations?q=crowd&sort=name")
    expect(count(page)).to_have_text("1–100 of 10,000 destinations")
    page.get_by_role("columnheader", name="Waiting").get_by_role("button").click()
    expect(cell(rows(page).first, "Waiting")).to_have_text("7")
    page.get_by_label("Rows").select_option("1000")
    expect(rows(page)).to_have_count(1000)
    page.get_by_label("State").select_option("No consumer")
    expect(count(page)).to_have_text("1–1,000 of 5,000 destinations")
    page.get_by_label("Name contains").fill("crowd.0999")
    expect(count(page)).to_have_text("1–10 of 10 destinations")
