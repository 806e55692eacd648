"""A session's page: its client, its end, and its frames, live."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Front, Visit
from tests.console.traffic import Client


def test_kick(visit: Visit, front: Front) -> None:
    with Client(front.gateway.tcp_port) as client:
        page = visit.open(f"session?id={client.session}")
        visit.tolerated += ("404",)  # then it is gone
        page.get_by_role("button", name="Disconnect").click()
        page.get_by_role("dialog").get_by_label("Reason").fill("maintenance of the shelf")
        page.get_by_role("dialog").get_by_role("button", name="Disconnect").click()
        headers, body = client.hear("ERROR")
        assert "maintenance of the shelf" in headers["message"] + body
        expect(page.get_by_text("This session has ended")).to_be_visible()
        expect(page.get_by_role("button", name="Disconnect")).to_have_count(0)
        page.reload()
        expect(page.get_by_text("No session has this id")).to_be_visible()  # and no last known state is promised


@pytest.mark.parametrize("front", ["tls", "straight"], indirect=True)
def test_tap(visit: Visit, front: Front) -> None:
    with Client(front.gateway.tcp_port) as client:
        page = visit.open(f"session?id={client.session}")
        page.get_by_role("button", name="Watch frames").click()
        expect(page.get_by_text("Waiting for frames")).to_be_visible()
        feed = page.get_by_role("list", name="Frames")

        def seen() -> bool:
            client.send("/queue/tapped", "<b>a body</b>", passcode="never shown", kind="order")
            return feed.count() > 0

        while not seen():
            page.wait_for_timeout(100)
        expect(feed.get_by_role("listitem").filter(has_text="RECEIPT").first).to_be_visible()
        frame = feed.get_by_role("listitem").filter(has_text="SEND").first
        # The frames of earlier SENDs may still come, and draw the list anew at the moment of the click.
        while not frame.get_by_text("<b>a body</b>").is_visible():
            frame.locator("summary").click()
            page.wait_for_timeout(100)
        expect(frame.get_by_text("never shown")).to_have_count(0)
        assert visit.faults() == []
        count = feed.get_by_role("listitem").count()
        client.send("/queue/tapped")
        expect(page.get_by_text(f"{count} shown of {count + 2}")).to_be_visible()  # one reads, so nothing moves
        page.get_by_label("Show frames that contain").fill("receipt-id")
        expect(feed.get_by_role("listitem").filter(has_text="SEND")).to_have_count(0)
        visit.tolerated += ("404",)
        client.close()
        expect(page.get_by_text("The tap ended")).to_have_count(2)  # shown, and said
