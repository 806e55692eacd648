"""Getting in and out: by token, by login and passcode; and what a change needs besides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.console.conftest import TOKEN, Front, Visit


def dialog(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Log in to the console")


def test_the_token(visit: Visit) -> None:
    visit.tolerated = ("401",)
    page = visit.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{visit.front.url}/console/")
    expect(dialog(page).get_by_label("Admin token")).to_be_focused()
    expect(page.get_by_text("Not logged in")).to_be_visible()
    assert visit.faults() == []
    dialog(page).get_by_label("Admin token").fill("wrong")
    page.keyboard.press("Enter")
    expect(dialog(page).get_by_role("alert").locator("p")).to_be_visible()
    dialog(page).get_by_label("Admin token").fill(TOKEN)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    cookie = page.context.cookies()[0]
    assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (True, True, "Strict")
    page.reload()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(dialog(page)).to_be_visible()
    assert not [url for url in asked if TOKEN in url or "token=" in url]


def test_login_and_passcode(
    visiting: Callable[..., Visit], starting_behind_nginx: Callable[..., Front], admins: tuple[Path, str]
) -> None:
    users, group = admins
    visit = visiting(starting_behind_nginx(users_file=users, admin_groups=group))
    visit.tolerated = ("401",)
    page = visit.page
    page.goto(f"{visit.front.url}/console/")
    dialog(page).get_by_label("Login").fill("ada")
    dialog(page).get_by_label("Passcode").fill("engine")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.get_by_text("ada", exact=True)).to_be_visible()
