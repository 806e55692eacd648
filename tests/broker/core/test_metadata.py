"""What the store keeps of a message beside headers and body, there and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.broker.core.metadata import Metadata
from gateway.broker.model.changes import Payload, Stored, StoredRow
from gateway.broker.model.message import History, Message
from gateway.broker.model.options import PERSISTENT, PLAIN, SendOptions
from gateway.codec import Head

NUMBER = 7


class Clocks:
    """The two clocks of a process."""

    def __init__(self, clock: float, epoch: float) -> None:
        self.now = clock
        self.facts = Metadata(lambda: self.now, lambda: epoch)


@pytest.fixture
def ours() -> Clocks:
    return Clocks(1_000.0, 1_700_000_000.0)


@pytest.fixture
def theirs() -> Clocks:
    """The next process, a minute later."""
    return Clocks(5.0, 1_700_000_060.0)


def message(options: SendOptions = PLAIN) -> Message:
    head = Head.of("SEND", {"destination": "/queue/a", "x": "ß"})
    made = Message(NUMBER, head, b"body", options)
    made.row = NUMBER
    return made


def there_and_back(ours: Clocks, theirs: Clocks, sent: Message) -> Message:
    text = ours.facts.of(sent, NUMBER)
    row = StoredRow(NUMBER, 1, sent.number, sent.rank, sent.size, facts=text)
    return theirs.facts.message(Stored(row, Payload(sent.head.headers, sent.body)))


def told(ours: Clocks, sent: Message) -> dict[str, Any] | None:
    text = ours.facts.of(sent, NUMBER)
    found: dict[str, Any] | None = None if text is None else json.loads(text)
    return found


@pytest.mark.parametrize("options", [PLAIN, PERSISTENT, SendOptions(persistent=True), SendOptions(priority=9)])
def test_of_most_there_is_nothing_to_tell(ours: Clocks, theirs: Clocks, options: SendOptions) -> None:
    sent = message(options)
    assert told(ours, sent) is None
    found = there_and_back(ours, theirs, sent)
    assert (found.number, found.row, found.place, found.rank) == (NUMBER, NUMBER, NUMBER, sent.rank)
    assert (found.head.headers, found.body) == (sent.head.headers, b"body")
    assert (found.attempts, found.expires, found.history, found.waits) == (0, 0.0, None, False)
    assert (found.options is PLAIN) == (options.priority == 4)
    assert found.options.priority == options.priority


def test_the_size_is_the_same(ours: Clocks, theirs: Clocks) -> None:
    sent = message()
    assert there_and_back(ours, theirs, sent).size == sent.size


def test_attempts(ours: Clocks, theirs: Clocks) -> None:
    sent = message(PERSISTENT)
    sent.attempts = 3
    assert told(ours, sent) == {"attempts": 3}
    assert there_and_back(ours, theirs, sent).attempts == 3


def test_the_place_of_one_that_it_replaced(ours: Clocks, theirs: Clocks) -> None:
    sent = message(PERSISTENT)
    sent.place = 3
    assert told(ours, sent) == {"place": 3}
    found = there_and_back(ours, theirs, sent)
    assert (found.place, found.row) == (3, NUMBER)


def test_what_happened_to_it(ours: Clocks, theirs: Clocks) -> None:
    sent = message()
    sent.history = History(1_650_000_000.25)
    sent.history.failures, sent.history.reason = (2, "no \ud83d such order".encode("utf-8", "replace").decode())
    sent.history.avoid, sent.history.lost = 5, True  # of this process alone
    found = there_and_back(ours, theirs, sent).history
    assert found is not None
    assert (found.failures, found.reason, found.first_at) == (2, sent.history.reason, 1_650_000_000.25)
    assert (found.avoid, found.lost) == (0, False)


@pytest.mark.parametrize(("seconds", "left"), [(90.0, 30.0), (60.5, 0.5)])
def test_when_it_expires_by_the_clock_of_another_process(
    ours: Clocks, theirs: Clocks, seconds: float, left: float
) -> None:
    sent = message()
    sent.expires = ours.now + seconds
    assert told(ours, sent) == {"expires": round((1_700_000_000 + seconds) * 1000)}
    assert there_and_back(ours, theirs, sent).expires == pytest.approx(theirs.now + left)


@pytest.mark.parametrize("seconds", [-5.0, 10.0, 50.0])
def test_it_has_expired_meanwhile(ours: Clocks, theirs: Clocks, seconds: float) -> None:
    """A process that has just started has a clock near 0, and 0 would mean never."""
    sent = message()
    sent.expires = ours.now + seconds
    assert 0 < there_and_back(ours, theirs, sent).expires <= theirs.now


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
def test_what_the_headers_do_not_tell_any_more(ours: Clocks, theirs: Clocks, options: SendOptions) -> None:
    found = there_and_back(ours, theirs, message(options)).options
    assert (found.group, found.closes_group, found.conflation_key, found.priority) == (
        options.group,
        options.closes_group,
        options.conflation_key,
        options.priority,
    )


def test_all_at_once(ours: Clocks, theirs: Clocks) -> None:
    sent = message(SendOptions(group="g", conflation_key="k"))
    sent.attempts, sent.expires, sent.place = 1, ours.now + 90, 2
    sent.history = History(1.5)
    found = there_and_back(ours, theirs, sent)
    again = Metadata(lambda: theirs.now, lambda: 1_700_000_060.0).of(found, NUMBER)
    assert again == ours.facts.of(sent, NUMBER)
