"""What the store keeps of a message beside headers and body, there and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.broker.core.metadata import Metadata
from gateway.broker.model.changes import Payload, Stored, StoredRow
from gateway.broker.model.message import History, Message
from gateway.broker.model.options import PERSISTENT, PLAIN, SendOptions
from gateway.codec import Head

NUMBER = 7
# The clocks of a process, and of the next one, a minute later.
NOW, THEN = 1_000.0, 5.0
OURS = Metadata(lambda: NOW, lambda: 1_700_000_000.0)
THEIRS = Metadata(lambda: THEN, lambda: 1_700_000_060.0)


def message(options: SendOptions = PLAIN, change: Callable[[Message], None] = lambda _: None) -> Message:
    made = Message(NUMBER, Head.of("SEND", {"destination": "/queue/a", "x": "ß"}), b"body", options)
    made.row = NUMBER
    change(made)
    return made


def there_and_back(sent: Message) -> Message:
    row = StoredRow(NUMBER, 1, sent.number, sent.rank, sent.size, facts=OURS.of(sent, NUMBER))
    return THEIRS.message(Stored(row, Payload(sent.head.headers, sent.body)))


@pytest.mark.parametrize("options", [PLAIN, PERSISTENT, SendOptions(persistent=True), SendOptions(priority=9)])
def test_of_most_there_is_nothing_to_tell(options: SendOptions) -> None:
    sent = message(options)
    assert OURS.of(sent, NUMBER) is None
    found = there_and_back(sent)
    assert (found.number, found.row, found.place, found.rank) == (NUMBER, NUMBER, NUMBER, sent.rank)
    assert (found.head.headers, found.body, found.size) == (sent.head.headers, b"body", sent.size)
    assert (found.attempts, found.expires, found.history, found.waits) == (0, 0.0, None, False)
    assert (found.options is PLAIN) == (options.priority == 4)
    assert found.options.priority == options.priority


@pytest.mark.parametrize(
    ("field", "value", "told", "found"),
    [
        ("attempts", 3, {"attempts": 3}, 3),
        ("place", 3, {"place": 3}, 3),
        ("expires", NOW + 90.0, {"expires": 1_700_000_090_000}, THEN + 30.0),
        ("expires", NOW + 60.5, {"expires": 1_700_000_060_500}, THEN + 0.5),
        # A process that has just started has a clock near 0, and 0 would mean never.
        ("expires", NOW - 5.0, {"expires": 1_699_999_995_000}, 1e-9),
        ("expires", NOW + 57.0, {"expires": 1_700_000_057_000}, 2.0),
    ],
)
def test_a_field_that_has_changed(field: str, value: float, told: dict[str, Any], found: float) -> None:
    sent = message(PERSISTENT, lambda made: setattr(made, field, value))
    assert json.loads(OURS.of(sent, NUMBER) or "") == told
    again = there_and_back(sent)
    assert getattr(again, field) == pytest.approx(found)
    assert again.row == NUMBER


def test_what_happened_to_it() -> None:
    sent = message()
    reason = "no \ud83d such order".encode("utf-8", "replace").decode()
    sent.history = History(1_650_000_000.25, failures=2, reason=reason, avoid=5, lost=True)
    found = there_and_back(sent).history
    assert found is not None
    assert (found.failures, found.reason, found.first_at) == (2, reason, 1_650_000_000.25)
    assert (found.avoid, found.lost) == (0, False)  # of one process alone


@pytest.mark.parametrize(
    "options",
    [
        SendOptions(group="g"),
        SendOptions(group="g\n\"'\\ü", closes_group=True, priority=0),
        SendOptions(conflation_key="k"),
        SendOptions(group="", conflation_key=""),
        SendOptions(group="g", conflation_key="k", priority=9, persistent=True),
    ],
)
def test_what_the_headers_do_not_tell_any_more(options: SendOptions) -> None:
    found = there_and_back(message(options)).options
    for field in ("group", "closes_group", "conflation_key", "priority"):
        assert getattr(found, field) == getattr(options, field)
