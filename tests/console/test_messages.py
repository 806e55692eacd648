"""The message browser, and what an operator does with it: over the running gateway, from the click to the consumer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.console.conftest import Front, Visit, cell
from tests.console.traffic import Client, kill_letters


@pytest.fixture
def client(front: Front) -> Iterator[Client]:
    with Client(front.gateway.tcp_port) as connected:
        yield connected


def table(page: Page) -> Locator:
    return page.get_by_role("region", name="Table of messages")


def rows(page: Page) -> Locator:
    return table(page).locator("tbody tr")


def confirm(page: Page, yes: str) -> None:
    page.get_by_role("dialog").get_by_role("button", name=yes, exact=True).click()


@pytest.mark.parametrize("front", ["tls", "straight"], indirect=True)
def test_redrive_end_to_end(visit: Visit, front: Front) -> None:
    kill_letters(front.gateway.tcp_port, "redrive", 3)
    page = visit.open("destinations?state=dead-letters&q=redrive")
    page.get_by_role("link", name="/queue/dlq.redrive").click()
    expect(rows(page)).to_have_count(3)
    expect(rows(page).first.get_by_text("Rejected by a consumer")).to_be_visible()
    with Client(front.gateway.tcp_port) as consumer:
        consumer.subscribe("/queue/redrive")
        visit.tolerated += ("404",)  # an empty queue is none
        page.get_by_role("button", name="Requeue dead letters").click()
        expect(page.get_by_role("dialog").get_by_role("row", name="3 → /queue/redrive")).to_be_visible()
        confirm(page, "Requeue")
        expect(page.get_by_text("3 messages requeued")).to_be_visible()
        came = [consumer.hear("MESSAGE") for _ in range(3)]
        assert [(headers["number"], body) for headers, body in came] == [(str(n), f"letter {n}") for n in range(3)]
        assert not [name for headers, _ in came for name in headers if name.startswith("dlq-")]
    expect(page.get_by_text("This destination does not exist now")).to_be_visible()


def test_the_policy_in_words(visit: Visit, client: Client) -> None:
    client.send("/queue/policy")
    client.subscribe("/topic/policy")
    page = visit.open("destination?name=/queue/policy")
    policy = page.get_by_role("region", name="Policy in force")
    for words, count in (("/queue/dlq.policy", 1), ("no limit but memory", 2), ("never expires", 1), ("no stream", 0)):
        expect(policy.get_by_text(words)).to_have_count(count)
    visit.open("destination?name=/topic/policy")
    for words, count in (("nowhere", 1), ("no stream", 3), ("max_messages", 0)):
        expect(policy.get_by_text(words)).to_have_count(count)


def test_one_dead_letter_of_many(visit: Visit, front: Front) -> None:
    kill_letters(front.gateway.tcp_port, "one", 3)
    page = visit.open("destination?name=/queue/dlq.one")
    heads = ["", "Reason", "Age", "Came from", "Attempts", "Size", "Body"]
    expect(table(page).get_by_role("columnheader")).to_have_text(heads)
    expect(cell(rows(page).first, "Came from")).to_have_text("/queue/one")
    expect(cell(rows(page).first, "Age")).to_have_text(re.compile(r"\d+ s"))
    rows(page).nth(1).get_by_role("checkbox").check()
    expect(page.get_by_text("1 selected")).to_have_count(2)  # shown, and said
    page.get_by_role("group", name="Selected messages").get_by_role("button", name="Requeue").click()
    confirm(page, "Requeue")
    expect(rows(page)).to_have_count(2)
    expect(page.get_by_role("heading", name="Dead letters")).to_be_focused()
    with Client(front.gateway.tcp_port) as consumer:
        consumer.subscribe("/queue/one")
        assert consumer.hear("MESSAGE")[1] == "letter 1"


def test_a_message_is_text_and_never_markup(visit: Visit, front: Front, client: Client) -> None:
    body = "<img src=x onerror=alert(1)> Grüße"
    client.send("/queue/markup", body, evil="<b>bold</b>", authorization="Bearer secret")
    page = visit.open("destination?name=/queue/markup")
    rows(page).first.get_by_role("button").click()
    sheet = page.get_by_role("dialog")
    expect(sheet.get_by_text(body)).to_be_visible()
    expect(sheet.get_by_text("<b>bold</b>")).to_be_visible()
    expect(sheet.get_by_text("Bearer secret")).to_have_count(0)
    sheet.get_by_role("button", name="Hex").click()
    expect(sheet.get_by_label("Body", exact=True)).to_contain_text("000000  3c 69 6d 67 20 73 72 63  3d 78")
    sheet.get_by_role("button", name="Copy the body").click()
    expect(page.get_by_text("Copied the body")).to_have_count(1)
    assert visit.faults() == []
    sheet.get_by_role("button", name="Close").click()
    expect(sheet).to_have_count(0)
    expect(rows(page).first.get_by_role("button")).to_be_focused()


def test_the_bytes_of_a_long_body(visit: Visit, client: Client) -> None:
    body = "0123456789abcdef" * 640
    client.send("/queue/long-body", body)
    page = visit.open("destination?name=/queue/long-body")
    rows(page).first.get_by_role("button").click()
    sheet = page.get_by_role("dialog")
    expect(sheet.get_by_text("First 8 KiB of 10 KiB.")).to_have_count(0)
    sheet.get_by_role("button", name="Hex").click()
    expect(sheet.get_by_text("First 8 KiB of 10 KiB.")).to_be_visible()
    with page.expect_download() as download:
        sheet.get_by_role("button", name="Download the body").click()
    assert download.value.path().read_text() == body


def test_what_failed_waits_in_its_queue(
    visiting: Callable[..., Visit], starting: Callable[..., Front], tmp_path: Path
) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text('[[policy]]\nmatch = "/queue/#"\nbackoff = 3600\nbackoff_max = 3600\n')
    front = starting(config=file)
    with Client(front.gateway.tcp_port) as client:
        client.send("/queue/again")
        client.send("/queue/again", "to come", x_delay="3600000")
        client.subscribe("/queue/again", ack="client-individual")
        client.ask("NACK", {"id": client.hear("MESSAGE")[0]["ack"]})
        page = visiting(front).open("destinations?q=again")
        expect(page.get_by_text("1 in back-off")).to_be_visible()
        page.get_by_role("link", name="/queue/again").click()
        expect(page.get_by_text("In back-off", exact=True)).to_be_visible()
        expect(rows(page)).to_have_count(1)
        expect(rows(page).get_by_text("in back-off", exact=True)).to_be_visible()
        page.get_by_role("link", name="1 scheduled").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Scheduled")
        expect(page.get_by_role("region", name="Table of").locator("tbody tr")).to_have_count(1)


def test_back_closes_what_is_open(visit: Visit, client: Client) -> None:
    """A message's sheet, and the question on it; the new page's name gets the focus."""
    client.send("/queue/left", "a body")
    page = visit.open("destinations?q=left")
    page.get_by_role("link", name="/queue/left").click()
    rows(page).first.get_by_role("button").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog")).to_have_count(2)
    page.go_back()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).to_have_text("Destinations")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    page.go_forward()
    expect(rows(page)).to_have_count(1)  # to leave a question is to say no
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_message_of_a_page_that_was_left(visit: Visit, client: Client) -> None:
    """The gateway is slow, and the operator has gone back before it answers."""
    client.send("/queue/slow", "x" * 5_000)
    page = visit.open("destinations?q=slow")
    page.get_by_role("link", name="/queue/slow").click()
    expect(rows(page)).to_have_count(1)
    held: list[Route] = []
    page.route("**/api/v1/message?*", lambda route: held.append(route))
    with page.expect_request("**/api/v1/message?*"):
        rows(page).first.get_by_role("button").click()
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Destinations")
    with page.expect_response("**/api/v1/message?*") as answer:
        held[0].continue_()
    answer.value.finished()
    page.evaluate("fetch('../healthz')")  # what came before it has been read by then
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_move_and_purge(visit: Visit, client: Client) -> None:
    for number in range(4):
        client.send("/queue/from", f"body {number}", half=str(number % 2))
    page = visit.open("destination?name=/queue/from")
    page.get_by_role("button", name="Move all").click()
    page.get_by_role("dialog").get_by_label("To the destination").fill("/queue/to")
    page.get_by_role("dialog").get_by_label("selector").fill("half = '0'")
    confirm(page, "Move them")
    expect(page.get_by_text("2 messages moved")).to_be_visible()
    expect(rows(page)).to_have_count(2)
    visit.tolerated += ("404",)  # an empty queue is none
    page.get_by_role("button", name="Purge").click()
    confirm(page, "Delete them")
    expect(page.get_by_text("2 messages deleted")).to_be_visible()
    expect(page.get_by_text("This destination does not exist now")).to_be_visible()
    visit.open("destination?name=/queue/to")
    expect(rows(page)).to_have_count(2)


def test_selectors(visit: Visit, client: Client) -> None:
    client.send("/queue/unlike", "urgent", priority="9")
    client.send("/queue/unlike", "a body")  # without a priority, which JMSPriority has nevertheless
    page = visit.open("destination?name=/queue/unlike")
    none = "No message that waits in /queue/unlike matches the selector JMSPriority < 4"
    for button, yes in (("Move all", "Move them"), ("Purge", "Delete them")):
        page.get_by_role("button", name=button).click()
        if button == "Move all":
            page.get_by_role("dialog").get_by_label("To the destination").fill("/queue/like")
        page.get_by_role("dialog").get_by_label("selector").fill("JMSPriority < 4")
        confirm(page, yes)
        expect(page.get_by_role("status").get_by_text(none)).to_be_visible()
        page.get_by_role("button", name="Dismiss").click()
    expect(rows(page)).to_have_count(2)
    field = page.get_by_role("search", name="Filter messages").get_by_label("Selector")
    expect(field).to_have_attribute("placeholder", re.compile("^JMSPriority > 4"))
    field.fill("JMSPriority < 4")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No waiting message matches the selector")).to_be_visible()
    field.fill("JMSPriority > 4")
    page.keyboard.press("Enter")
    expect(rows(page)).to_have_count(1)
    expect(page.get_by_text("1–1 of 1 message")).to_be_visible()
    page.get_by_role("button", name="Purge").click()
    asked = page.get_by_role("dialog").get_by_label("selector")
    expect(asked).to_have_value("JMSPriority > 4")  # what is seen is what would go
    asked.press("Enter")
    expect(page.get_by_role("dialog").get_by_text("2 messages wait")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    visit.tolerated += ("400",)
    field.fill("number = = 2")
    client.send("/queue/unlike", "more", priority="8")
    expect(rows(page)).to_have_count(2)
    expect(field).to_have_value("number = = 2")  # what one writes outlives what comes meanwhile
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").get_by_text("The messages cannot be shown")).to_be_visible()
