"""The events of the log: docs/logs.md has them all, with their fields, so that they cannot change unnoticed."""

from __future__ import annotations

from docs.generate.logs import PAGE, events, lists

# Lines that are about a client and not about a session: there is none yet, or it is not its doing.
_BEFORE = {
    *("TLS hello on a plain port", "connection refused", "handshake failed", "WebSocket refused"),
    *("a request that cannot be read", "admin", "ticket refused"),
}


def test_the_page_has_them_all() -> None:
    page = PAGE.read_text()
    found = page[page.index("\n### ") :].splitlines()
    assert found == list(lists()), "run `make docs`; programs search the log for these words"


def test_what_is_about_a_client_names_its_session() -> None:
    about_clients = [event for event in events().values() if {"login", "peer"} & event.fields.keys()]
    assert about_clients
    assert {event.text for event in about_clients if "session" not in event.fields} <= _BEFORE
