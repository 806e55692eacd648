"""The books themselves: every kind of complaint, and none without a reason."""

from __future__ import annotations

from zlib import crc32

import pytest

from .audit import audit
from .books import Books, Letter, State, Unit
from .wire import Frame

_QUEUE = "/queue/a"
_BODY = b"body"


class Scene:
    """A producer, a consumer, and a gateway of which every word is invented."""

    def __init__(self) -> None:
        self.books = Books([_QUEUE])
        self.books.consumed.add(_QUEUE)

    def send(self, unit: Unit | None = None, *, state: State = State.SURE, durable: bool = True) -> Letter:
        """A letter is sent, alone or within a unit."""
        unit = unit or self.books.begin()
        number = self.books.number("p")
        letter = Letter(_QUEUE, "p", number, 4, durable, durable, crc32(_BODY), unit)
        self.books.add(letter)
        unit.state = state
        return letter

    def come(self, letter: Letter, *, marked: bool = False, name: str = "", body: bytes = _BODY) -> None:
        """It is delivered."""
        headers = {"destination": letter.queue, "producer": "p", "number": str(letter.number)}
        headers["message-id"] = name or f"id-{letter.number}"
        if marked:
            headers["redelivered"] = "true"
        self.books.delivered(Frame("MESSAGE", headers, body), "s")

    def die(self, letter: Letter, body: bytes = _BODY) -> None:
        """It is found among the dead letters."""
        headers = {"original-destination": letter.queue, "producer": "p", "number": str(letter.number)}
        self.books.dead_letter(Frame("MESSAGE", headers, body))

    def settle(self, *letters: Letter, state: State = State.SENT, rejecting: bool = False) -> Unit:
        """Letters are acknowledged."""
        unit = self.books.begin()
        self.books.settle(unit, letters, rejecting=rejecting)
        unit.state = state
        return unit

    def crash(self) -> None:
        """The next life begins."""
        self.books.end_of_life()

    def kinds(self) -> list[str]:
        """Of the complaints, at the end."""
        audit(self.books)
        return [complaint.kind for complaint in self.books.complaints]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_nothing_is_missing(scene: Scene) -> None:
    first, second, third = scene.send(), scene.send(), scene.send(state=State.SENT)
    scene.come(first)
    scene.come(second)
    scene.settle(first).confirm()
    scene.crash()
    scene.come(second, marked=True)
    assert scene.kinds() == []
    assert third.seen < 0


def test_lost(scene: Scene) -> None:
    scene.send()
    scene.crash()
    assert scene.kinds() == ["lost"]


def test_lost_although_it_was_there_after_a_crash(scene: Scene) -> None:
    letter = scene.send(state=State.SENT)
    scene.crash()
    scene.come(letter)
    scene.crash()
    assert scene.kinds() == ["lost"]


def test_who_acknowledges_with_a_receipt_knows_that_it_was_stored(scene: Scene) -> None:
    unit = scene.books.begin()
    letter, _ = scene.send(unit, state=State.SENT), scene.send(unit, state=State.SENT)
    scene.come(letter)
    scene.settle(letter).confirm()
    scene.crash()
    assert scene.kinds() == ["lost"]


def test_not_durable_is_gone(scene: Scene) -> None:
    letter = scene.send(durable=False)
    scene.come(letter)
    scene.crash()
    assert scene.kinds() == []
    scene.come(letter, marked=True)
    assert scene.kinds() == ["ghost"]


def test_doubled(scene: Scene) -> None:
    letter = scene.send()
    scene.come(letter)
    scene.settle(letter).confirm()
    scene.crash()
    scene.come(letter, marked=True)
    assert scene.kinds() == ["doubled"]


def test_doubled_while_its_consumer_has_it(scene: Scene) -> None:
    letter = scene.send()
    scene.come(letter)
    scene.settle(letter, state=State.OPEN)
    scene.come(letter, marked=True)
    assert scene.kinds() == ["doubled"]


def test_either_way_where_nobody_was_told(scene: Scene) -> None:
    here, gone = scene.send(), scene.send()
    for letter in (here, gone):
        scene.come(letter)
        scene.settle(letter)
    scene.crash()
    scene.come(here, marked=True)
    assert scene.kinds() == []


def test_unmarked(scene: Scene) -> None:
    letter = scene.send()
    scene.come(letter)
    scene.crash()
    scene.come(letter)
    assert scene.kinds() == ["unmarked", "order"], "it would be new"


def test_marked_for_no_reason(scene: Scene) -> None:
    scene.books.consumed.clear()
    scene.come(scene.send(), marked=True)
    assert scene.kinds() == ["marked"]


@pytest.mark.parametrize("state", [State.OPEN, State.NEVER])
def test_a_transaction_that_was_not_committed(scene: Scene, state: State) -> None:
    scene.come(scene.send(state=state))
    assert scene.kinds() == ["ghost"]


def test_what_was_open_at_the_crash_has_not_happened(scene: Scene) -> None:
    kept, letter = scene.send(), scene.send(state=State.OPEN)
    scene.come(kept)
    scene.settle(kept, state=State.OPEN)
    scene.crash()
    scene.come(kept, marked=True)
    assert scene.kinds() == []
    scene.come(letter)
    assert scene.kinds() == ["ghost"]


def test_half_of_a_transaction(scene: Scene) -> None:
    unit = scene.books.begin()
    scene.send(unit, state=State.SENT)
    second = scene.send(unit, state=State.SENT)
    scene.crash()
    scene.come(second)
    assert scene.kinds() == ["half"]


def test_half_of_a_transaction_that_acknowledges(scene: Scene) -> None:
    old = scene.send()
    scene.come(old)
    unit = scene.settle(old)
    new = scene.send(unit, state=State.SENT)
    scene.crash()
    scene.come(old, marked=True)
    scene.come(new)
    assert scene.kinds() == ["half"]


def test_order(scene: Scene) -> None:
    first, second = scene.send(), scene.send()
    scene.come(second)
    scene.come(first)
    assert scene.kinds() == ["order", "order"], "in its subscription, and of all that was new"


def test_order_at_the_end(scene: Scene) -> None:
    first, second = scene.send(), scene.send()
    scene.come(first)
    scene.come(second)
    scene.crash()
    scene.books.draining = True
    scene.come(second, marked=True)
    scene.come(first, marked=True)
    assert scene.kinds() == ["order"]


def test_another_message_id(scene: Scene) -> None:
    letter = scene.send()
    scene.come(letter)
    scene.come(letter, marked=True, name="other")
    assert scene.kinds() == ["id"]


def test_a_message_id_of_another(scene: Scene) -> None:
    first, second = scene.send(), scene.send()
    scene.come(first)
    scene.come(second, name="id-1")
    assert scene.kinds() == ["id"]


def test_another_body(scene: Scene) -> None:
    letter, dead = scene.send(), scene.send()
    scene.come(letter, body=b"other")
    scene.settle(dead, rejecting=True).confirm()
    scene.die(dead, body=b"other")
    assert scene.kinds() == ["body", "body"]


def test_nobody_sent_it(scene: Scene) -> None:
    letter = Letter(_QUEUE, "p", 7, 4, True, True, 0, Unit(0))
    scene.come(letter)
    scene.die(letter)
    assert scene.kinds() == ["ghost", "ghost"]


class TestDeadLetters:
    def test_rejected(self, scene: Scene) -> None:
        letter = scene.send()
        scene.come(letter)
        scene.settle(letter, rejecting=True).confirm()
        scene.crash()
        scene.die(letter)
        assert scene.kinds() == []

    def test_lost(self, scene: Scene) -> None:
        letter = scene.send()
        scene.come(letter)
        scene.settle(letter, rejecting=True)
        scene.crash()
        assert scene.kinds() == ["lost"]

    def test_in_both_places(self, scene: Scene) -> None:
        letter = scene.send()
        scene.come(letter)
        scene.settle(letter, rejecting=True)
        scene.crash()
        scene.come(letter, marked=True)
        scene.die(letter)
        assert scene.kinds() == ["doubled"]

    def test_twice(self, scene: Scene) -> None:
        letter = scene.send()
        scene.come(letter)
        scene.settle(letter, rejecting=True).confirm()
        scene.crash()
        scene.die(letter)
        scene.die(letter)
        assert scene.kinds() == ["doubled"]

    @pytest.mark.parametrize("acknowledged", [True, False])
    def test_of_what_nobody_rejected(self, scene: Scene, acknowledged: bool) -> None:
        letter = scene.send()
        scene.come(letter)
        if acknowledged:
            scene.settle(letter)
        scene.crash()
        scene.die(letter)
        assert scene.kinds() == ["ghost"]
