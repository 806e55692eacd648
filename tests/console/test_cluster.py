"""The cluster's page, a handover by it, and the console of a standby; with two gateways and a real NATS server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.cluster.gateways import Pair, two_gateways
from tests.console.conftest import Front, Visit, cell, rows
from tests.console.test_pages import TOO_WIDE


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_gateways(tmp_path_factory.mktemp("pair")) as found:
        yield found


def front_of(pair: Pair, name: str) -> Front:
    return Front(pair.nodes[name], pair.nodes[name].http_url)


def fits(page: Page) -> None:
    page.wait_for_function(f"() => !{TOO_WIDE}.length", timeout=15_000)


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1440, "light"),
        (390, "dark"),
        pytest.param(1440, "dark", marks=pytest.mark.long),
        pytest.param(390, "light", marks=pytest.mark.long),
    ],
)
def test_the_page_and_the_banner(visiting: Callable[..., Visit], pair: Pair, scheme: str, width: int) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        visit = visiting(front_of(pair, name), scheme=scheme, width=width, height=900)
        page = visit.open("cluster")
        nodes = rows(page)
        expect(nodes).to_have_count(2)
        expect(cell(nodes.nth(0), "Role")).to_have_text("primary")
        expect(cell(nodes.nth(1), "Role")).to_have_text("standby")
        expect(page.get_by_text(f"shop, seen by its node {name}")).to_be_visible()
        expect(nodes.nth(0 if other == "a" else 1).get_by_role("link")).to_have_attribute(
            "href", f"{pair.nodes[other].http_url}/console/#/cluster"
        )
        expect(page.get_by_label("Changes of the primary").get_by_role("listitem").last).to_contain_text("epoch 1")
        expect(page.get_by_role("region", name="Standby of a cluster")).to_be_visible(visible=name == "b")
        assert visit.faults() == []
        fits(page)


def test_a_standby_says_so_on_every_page(visiting: Callable[..., Visit], pair: Pair) -> None:
    primary = pair.nodes["a"]
    visit = visiting(front_of(pair, "b"))
    for place in ("overview", "destinations", "destination?name=/queue/a", "sessions", "playground"):
        page = visit.open(place)
        expect(page.get_by_text("Nothing to show on a standby")).to_be_visible()
        banner = page.get_by_role("region", name="Standby of a cluster")
        expect(banner).to_contain_text("b is a standby")
        expect(banner).to_contain_text(f"127.0.0.1:{primary.tcp_port}")
        expect(banner.get_by_role("link", name="a")).to_have_attribute("href", f"{primary.http_url}/console/#/{place}")
        expect(page.get_by_role("status").get_by_text("Standby")).to_be_visible()
        expect(page.get_by_text("memory only")).to_be_hidden()
        assert visit.faults() == []
    store = next(each for each in pair.ask("b", "api/v1/settings")[1]["settings"] if each["name"] == "store")
    assert store["value"].endswith("b/store.db"), "what is set, not what a standby opens of it"
    for place in ("settings", "cluster"):
        page = visit.open(place)
        expect(page.get_by_text("Nothing to show on a standby")).to_have_count(0)
        expect(page.get_by_role("region", name="Standby of a cluster")).to_be_visible()


def test_there_is_no_page_without_a_cluster(visiting: Callable[..., Visit], straight: Front) -> None:
    page = visiting(straight).open("cluster")
    expect(page.get_by_text("This gateway is alone")).to_be_visible()
    expect(page.get_by_role("navigation").get_by_role("link", name="Cluster")).to_have_count(0)


def test_a_handover(visiting: Callable[..., Visit], pair: Pair) -> None:
    visit, other = visiting(front_of(pair, "a")), visiting(front_of(pair, "b"))
    # While a node changes its part, its port of HTTP stays open.
    shown = other.open("overview")
    expect(shown.get_by_text("Nothing to show on a standby")).to_be_visible()
    page = visit.open("cluster")
    expect(page.get_by_role("navigation").get_by_role("link", name="Cluster")).to_be_visible()
    page.get_by_role("button", name="Hand over to b").click()
    dialog = page.get_by_role("dialog", name="Hand over to b")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    assert visit.faults() == []
    dialog.get_by_role("button", name="Hand over").click()
    expect(page.get_by_text("a hands over to b")).to_be_visible()
    expect(cell(rows(page).nth(1), "Role")).to_have_text("primary")
    expect(cell(rows(page).nth(0), "Role")).to_have_text("standby")
    change = page.get_by_label("Changes of the primary").get_by_role("listitem").first
    expect(change).to_have_text(re.compile(r"b\s+epoch 2\s+a handover"))
    expect(page.get_by_role("region", name="Standby of a cluster")).to_contain_text("a is a standby")
    expect(shown.get_by_role("heading", name="Messages per second")).to_be_visible()
    expect(shown.get_by_role("region", name="Standby of a cluster")).to_be_hidden()


def test_a_drain(visiting: Callable[..., Visit], pair: Pair) -> None:
    """After the handover `b` is primary."""
    visit, other = visiting(front_of(pair, "b")), visiting(front_of(pair, "a"))
    page = visit.open("maintenance")
    page.get_by_role("button", name="Drain").click()
    dialog = page.get_by_role("dialog", name="Drain b")
    expect(dialog).to_contain_text("A standby takes over")
    dialog.get_by_role("button", name="Drain").click()
    expect(page.get_by_text("b drains")).to_be_visible()
    expect(page.get_by_text("Drained: no client is connected")).to_be_visible()
    expect(page.get_by_role("region", name="Standby of a cluster")).to_contain_text("b is a standby")
    assert visit.faults() == []
    pair.sees("a", a="primary", b="drained")
    page = other.open("maintenance")
    page.get_by_role("button", name="Drain").click()
    expect(page.get_by_role("dialog", name="Drain a")).to_contain_text("There is no standby that could take over")
    visit.page.goto("about:blank")
    pair.nodes["b"].restart()
    pair.sees("a", a="primary", b="standby")


def test_the_servers_do_not_answer(visiting: Callable[..., Visit], pair: Pair) -> None:
    """After the drain `b` is the standby."""
    visit = visiting(front_of(pair, "b"), scheme="dark", width=390)
    page = visit.open("cluster")
    expect(rows(page)).to_have_count(2)
    pair.server.kill()
    problems = page.get_by_role("region", name="Present problems")
    expect(problems.get_by_text("The cluster's log is away")).to_be_visible()
    expect(page.get_by_role("button", name="Hand over to b")).to_have_count(0)
    expect(page.get_by_role("columnheader", name="Handover")).to_have_count(0)
    expect(page.get_by_role("status").get_by_text("Standby, 1 problem")).to_be_visible()
    expect(page.get_by_text(re.compile(r"not known now, .*: n0 leads log and lease"))).to_be_visible()
    assert visit.faults() == []
    fits(page)
    pair.server.start()
    expect(problems).to_have_count(0)
    for name in pair.nodes:
        pair.until(lambda name=name: pair.cluster(name)["primary"])


def test_a_primary_that_died(visiting: Callable[..., Visit], pair: Pair) -> None:
    """It stays in the list for a while, with the role that it had; the page does not show two primaries."""
    dead = str(pair.cluster("a")["primary"])
    heir = "b" if dead == "a" else "a"
    pair.until(lambda: {each["role"] for each in pair.cluster(heir)["nodes"]} == {"primary", "standby"})
    pair.nodes[dead].kill()
    pair.until(lambda: pair.cluster(heir)["primary"] == heir)
    answer = pair.cluster(heir)
    answer["nodes"] = [{**answer["nodes"][0], "node": name, "role": "primary"} for name in ("a", "b")]
    visit = visiting(front_of(pair, heir))
    visit.page.route("**/api/v1/cluster", lambda route: route.fulfill(json=answer))
    page = visit.open("cluster")
    roles = page.get_by_role("row").locator(".badge")
    expect(roles).to_have_text(["primary", "was primary"] if heir == "a" else ["was primary", "primary"])
    assert visit.faults() == []
