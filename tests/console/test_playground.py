"""The playground: STOMP from the page to the gateway itself, as any client would."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.conftest import Front, Visit
from tests.console.traffic import Client


def region(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name)


@pytest.mark.parametrize("front", ["tls", "straight"], indirect=True)
def test_publish_and_subscribe(visit: Visit, front: Front) -> None:
    page = visit.open("playground?destination=/topic/played")
    scheme = "wss://" if front.token else "ws://"
    expect(region(page, "Connection").get_by_text(scheme)).to_be_visible()
    expect(region(page, "Send").get_by_role("button", name="Send")).to_be_disabled()
    page.get_by_role("button", name="Connect", exact=True).click()
    expect(page.get_by_role("status").get_by_text("Connected to stomp-gateway")).to_be_visible()
    region(page, "Subscribe").get_by_role("button", name="Subscribe", exact=True).click()
    expect(page.get_by_role("list", name="Subscriptions").get_by_text("/topic/played")).to_be_visible()
    send = region(page, "Send")
    send.get_by_label("Body").fill("Grüße <b>bold</b>")
    send.get_by_text("Headers").click()
    send.get_by_label("One per line").fill("kind: order")
    send.get_by_role("button", name="Send").click()
    log = page.get_by_role("log", name="Messages")
    expect(log.get_by_text("Grüße <b>bold</b>")).to_be_visible()
    log.get_by_text("Headers").click()
    expect(log.get_by_text("order", exact=True)).to_be_visible()
    expect(send.get_by_text("Accepted at")).to_be_visible()
    assert visit.faults() == []

    page.get_by_role("navigation").get_by_role("link", name="Sessions").click()
    page.get_by_role("navigation").get_by_role("link", name="Playground").click()
    expect(page.get_by_role("status").get_by_text("Connected to stomp-gateway")).to_be_visible()  # it went on meanwhile
    page.get_by_role("button", name="Unsubscribe from /topic/played").click()
    expect(page.get_by_role("list", name="Subscriptions").get_by_role("listitem")).to_have_count(0)
    page.get_by_role("button", name="Disconnect").click()
    expect(page.get_by_role("status").get_by_text("Not connected")).to_be_visible()


def test_what_the_gateway_refuses(visit: Visit) -> None:
    page = visit.open("playground")
    page.get_by_role("button", name="Connect", exact=True).click()
    expect(page.get_by_role("status").get_by_text("Connected to stomp-gateway")).to_be_visible()
    send = region(page, "Send")
    send.get_by_label("Destination").fill("/queue/")
    send.get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert").get_by_text("destination without a name").first).to_be_visible()
    expect(page.get_by_role("status").get_by_text("Connected to stomp-gateway")).to_be_visible()
    send.get_by_text("Headers").click()
    send.get_by_label("One per line").fill("no header")
    send.get_by_label("Destination").fill("/topic/hello")
    send.get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert").get_by_text("is not a header")).to_be_visible()


def test_a_queue_is_browsed_unless_a_person_confirms_the_number(visit: Visit, front: Front) -> None:
    with Client(front.gateway.tcp_port) as client:
        for number in range(3):
            client.send("/queue/watched", f"job {number}" + "\n" * 50)  # higher than it is shown
        page = visit.open("destination?name=/queue/watched")
        page.get_by_role("link", name="Publish").click()
        page.get_by_role("button", name="Connect", exact=True).click()
        subscribe, log = region(page, "Subscribe"), page.get_by_role("log", name="Messages")
        subscribe.get_by_role("button", name="Browse").click()
        expect(log.get_by_text("job 2")).to_be_visible()
        region(page, "Send").get_by_role("button", name="Send").click()
        expect(log.get_by_text("Hello, world")).to_be_visible()  # it follows
        page.get_by_role("button", name="Unsubscribe from").click()
        subscribe.get_by_label("Consume").check()
        assert visit.faults() == []
        subscribe.get_by_role("button", name="Consume").click()
        question = page.get_by_role("dialog", name="Consume 4 messages of /queue/watched?")
        expect(question.get_by_role("button", name="Cancel")).to_be_focused()
        question.get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("list", name="Subscriptions").get_by_role("listitem")).to_have_count(0)
        subscribe.get_by_role("button", name="Consume").click()
        question.get_by_role("button", name="Consume").click()
        expect(page.get_by_text("8 received")).to_be_visible()
        page.get_by_role("navigation").get_by_role("link", name="Sessions").click()
        expect(page.get_by_text("/queue/watched is not consumed any more")).to_be_visible()
        client.send("/queue/watched", "a job for a worker")
        client.subscribe("/queue/watched")
        assert client.hear("MESSAGE")[1] == "a job for a worker"
