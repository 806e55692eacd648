"""Settings in force, what differs from the default first; and the drain, on a page of its own."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from tests.console.conftest import TOKEN, Front, Visit
from tests.console.traffic import Client


def test_settings_in_force(visit: Visit) -> None:
    page = visit.open("settings")
    table = page.get_by_role("region", name="Changed settings")
    row = table.get_by_role("row").filter(has=page.get_by_text("admin_token", exact=True))
    expect(row.get_by_text("GATEWAY_ADMIN_TOKEN")).to_be_visible()
    expect(page.get_by_text(TOKEN)).to_have_count(0)
    page.get_by_text("Traces", exact=True).click()
    expect(page.get_by_role("region", name="Traces").get_by_text("trace_ratio", exact=True)).to_be_visible()
    expect(page.get_by_role("main")).not_to_contain_text(".md)")  # a link of the docs is its words here
    page.get_by_label("Name or description contains").fill("trusted_prox")
    expect(table.get_by_role("row")).to_have_count(2)
    expect(page.get_by_role("region", name="Traces")).to_have_count(0)


def test_drain(visiting: Callable[..., Visit], starting: Callable[..., Front]) -> None:
    front = starting(close_linger=30, drain_timeout=60)  # whoever does not hang up is still there
    visit = visiting(front)
    page = visit.open("maintenance")
    with Client(front.gateway.tcp_port) as client:
        page.get_by_role("button", name="Drain").click()
        dialog = page.get_by_role("dialog", name="Drain the gateway and disconnect 1 session")
        dialog.get_by_role("button", name="Drain").click()
        expect(page.get_by_text("The gateway drains")).to_be_visible()
        assert "retry-after" in client.hear("ERROR")[0]
        expect(page.get_by_text("Not ready: the gateway is shutting down.")).to_be_visible()
        expect(page.get_by_text("0 sessions, 1 connection left")).to_be_visible()
        expect(page.get_by_role("button", name="Draining …")).to_be_disabled()
    expect(page.get_by_text("Drained: no client is connected. Stop or restart the process now.")).to_be_visible()
    expect(page.get_by_role("button", name="Drained")).to_be_disabled()
    assert visit.faults() == []
    assert '"drained"' in front.gateway.log
    expect(page.get_by_role("status").get_by_text("Not ready")).to_be_visible()
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_role("main").get_by_text("the gateway is shutting down")).to_be_visible()
