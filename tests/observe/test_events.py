"""The events of the log: docs/logs.md has them all, with their fields, so that they cannot change unnoticed."""

from __future__ import annotations

import pytest

from docs.generate.logs import PAGE, Event, events, tables

# Lines that are about a client and not about a session: there is none yet, or it is not its doing.
_BEFORE = {
    *("TLS hello on a plain port", "connection refused", "handshake failed", "WebSocket refused"),
    *("a request that cannot be read", "admin", "ticket refused"),
}


def test_the_page_has_them_all() -> None:
    page = PAGE.read_text()
    found = page[page.index("\n### ") :].splitlines()
    assert found == list(tables()), "run `make docs`; programs search the log for these words"


@pytest.mark.parametrize("event", events().values(), ids=lambda event: event.text)
def test_what_is_about_a_client_names_its_session(event: Event) -> None:
    about_a_client = {"login", "peer"} & event.fields.keys()
    assert not about_a_client or "session" in event.fields or event.text in _BEFORE


def test_names_of_fields() -> None:
    """One spelling for all: snake_case, and what is reserved is nobody's."""
    for event in events().values():
        for name in event.fields:
            assert name == "..." or (name.isidentifier() and name == name.lower()), (event.text, name)
            assert name not in {"timestamp", "level", "logger", "event", "exception"}


def test_every_logger_is_ours() -> None:
    assert {event.logger.partition(".")[0] for event in events().values()} <= {"gateway"}
