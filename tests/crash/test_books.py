"""The books themselves: every kind of complaint.  That there is none without a reason, the rounds show."""

from __future__ import annotations

from zlib import crc32

import pytest

from .books import Books, Letter, State, Unit, audit
from .wire import Frame

_QUEUE = "/queue/a"
_BODY = b"body"


class Scene:
    """A producer, a consumer, and a gateway of which every word is invented."""

    def __init__(self) -> None:
        self.books = Books([_QUEUE])
        self.books.consumed.add(_QUEUE)

    def send(
        self,
        unit: Unit | None = None,
        *,
        state: State = State.SURE,
        durable: bool = True,
        queue: str = _QUEUE,
        group: str = "",
    ) -> Letter:
        unit = unit or self.books.begin()
        number = self.books.number("p")
        letter = Letter(queue, "p", number, 4, durable, durable, crc32(_BODY), unit, group)
        self.books.add(letter)
        unit.state = state
        return letter

    def come(self, letter: Letter, *, marked: bool = False, name: str = "", body: bytes = _BODY) -> None:
        headers = {"destination": letter.queue, "producer": "p", "number": str(letter.number)}
        headers["message-id"] = name or f"id-{letter.number}"
        if marked:
            headers["redelivered"] = "true"
        self.books.delivered(Frame("MESSAGE", headers, body), "s")

    def come_late(self, letter: Letter, life: int) -> None:
        headers = {"destination": letter.queue, "producer": "p", "number": str(letter.number)}
        self.books.delivered_late(Frame("MESSAGE", headers, _BODY), life)

    def die(self, letter: Letter, body: bytes = _BODY) -> None:
        headers = {"original-destination": letter.queue, "producer": "p", "number": str(letter.number)}
        self.books.dead_letter(Frame("MESSAGE", headers, body))

    def settle(self, *letters: Letter, state: State = State.SENT, rejecting: bool = False) -> Unit:
        unit = self.books.begin()
        self.books.settle(unit, letters, rejecting=rejecting)
        unit.state = state
        return unit

    def crash(self) -> None:
        self.books.end_of_life()

    def kinds(self) -> list[str]:
        audit(self.books)
        return [complaint.kind for complaint in self.books.complaints]


def play(scene: Scene, steps: str) -> None:
    """Carry out steps like `send a; come a; ack a known; crash; come a marked`.

    `send` and `ack` may say what is known of their unit: `sent`, `open`, `never` or `known`; by default a SEND has its
    receipt, and an ACK is sent.  What says `unit` belongs to the one transaction of the case.  `move a b` settles the
    first and sends the second.
    """
    letters: dict[str, Letter] = {}
    unit = scene.books.begin()
    states = {"sent": State.SENT, "open": State.OPEN, "never": State.NEVER}
    for step in steps.split("; "):
        verb, *words = step.split()
        name = words[0] if words else ""
        state = next((states[word] for word in words if word in states), None)
        if verb == "send":
            own = [unit] if "unit" in words else []
            letters[name] = scene.send(*own, durable="memory" not in words, **({"state": state} if state else {}))
        elif verb == "stranger":
            letters[name] = Letter(_QUEUE, "p", 7, 4, True, True, 0, Unit(0))
        elif verb == "come":
            body = {"body": b"other"} if "body" in words else {}
            called = next(({"name": word[1:]} for word in words if word.startswith("@")), {})
            scene.come(letters[name], marked="marked" in words, **body, **called)
        elif verb == "die":
            scene.die(letters[name], *([b"other"] if "body" in words else []))
        elif verb in ("ack", "nack"):
            settled = scene.settle(letters[name], state=state or State.SENT, rejecting=verb == "nack")
            if "known" in words:
                settled.confirm()
        elif verb == "move":
            moved = scene.settle(letters[name])
            letters[words[1]] = scene.send(moved, state=State.SENT)
            letters[words[1]].origin = letters[name]
            if "known" in words:
                moved.confirm()
        elif verb == "loose":
            unit.loose = True
        elif verb == "drain":
            scene.books.draining = True
        else:
            assert verb == "crash"
            scene.crash()


@pytest.mark.parametrize(
    ("steps", "kinds"),
    [
        ("send a; crash", "lost"),
        ("send a sent; crash; come a; crash", "lost"),  # it was there after a crash
        ("send a unit sent; send b unit sent; come a; ack a known; crash", "lost"),  # it was stored
        ("send a memory; come a; crash; come a marked", "ghost"),
        ("send a; come a; ack a known; crash; come a marked", "doubled"),
        ("send a; come a; ack a open; come a marked", "doubled"),  # its consumer has it
        ("send a; come a; crash; come a", "unmarked order"),  # it would be new
        ("send a open; come a", "ghost"),
        ("send a never; come a", "ghost"),
        ("send a; send b open; come a; ack a open; crash; come a marked; come b", "ghost"),
        ("send a unit sent; send b unit sent; crash; come b", "half"),
        ("send a unit sent; send b unit sent; loose; crash; come b", "half"),
        ("send a memory; send b memory; come b; crash", "lost"),  # the gateway lived when b came
        ("send a; send b; come b; come a", "order order"),  # in its subscription, and of all that was new
        ("send a; send b; come a; come b; crash; drain; come b marked; come a marked", "order"),
        ("send a; come a; come a marked @other", "id"),
        ("send a; send b; come a; come b @id-1", "id"),
        ("send a; send b; come a body; nack b known; die b body", "body body"),
        ("stranger a; come a; die a", "ghost ghost"),
        ("send a; come a; nack a; crash", "lost"),
        ("send a; come a; nack a; crash; come a marked; die a", "doubled"),
        ("send a; come a; nack a known; crash; die a; die a", "doubled"),
        ("send a; come a; ack a; crash; die a", "ghost"),
        ("send a; come a; crash; die a", "ghost"),
        ("send a; come a; move a b; come b; crash; come a marked", "ghost"),  # a client has seen b
        ("send a; come a; move a b; come b; crash; come a marked; move a c known; come c", "twice ghost"),
    ],
)
def test_what_the_books_complain_of(steps: str, kinds: str) -> None:
    scene = Scene()
    play(scene, steps)
    assert scene.kinds() == kinds.split()


def test_a_mark_without_a_reason() -> None:
    scene = Scene()
    scene.books.consumed.clear()
    scene.come(scene.send(), marked=True)
    assert scene.kinds() == ["marked"]


def test_half_of_a_transaction_that_acknowledges() -> None:
    scene = Scene()
    old = scene.send()
    scene.come(old)
    new = scene.send(scene.settle(old), state=State.SENT)
    scene.crash()
    scene.come(old, marked=True)
    scene.come(new)
    assert scene.kinds() == ["half"]


@pytest.mark.parametrize(
    ("durable", "begun", "kinds"), [(True, True, ["two"]), (True, False, []), (False, True, [])], ids=str
)
def test_an_old_primary_delivers_while_the_next_one_does(durable: bool, begun: bool, kinds: list[str]) -> None:
    scene = Scene()
    old, kept = scene.send(durable=durable), scene.send()
    scene.crash()
    if begun:
        scene.come(kept)
    scene.come_late(old, 0)
    assert [complaint.kind for complaint in scene.books.complaints] == kinds


def test_readers_of_a_topic_may_be_at_work_under_two_primaries() -> None:
    scene = Scene()
    logged = scene.send(queue="/topic/log")
    scene.crash()
    scene.come(scene.send())
    scene.come_late(logged, 0)
    assert not scene.books.complaints


def test_an_old_primary_confirms_what_the_next_one_has_not() -> None:
    scene = Scene()
    acknowledged, sent = scene.send(), scene.send(state=State.SENT)
    scene.come(acknowledged)
    unit = scene.settle(acknowledged)
    scene.crash()
    scene.come(acknowledged, marked=True)
    scene.books.confirm(unit)
    scene.books.confirm(sent.unit)
    scene.crash()
    scene.come(acknowledged, marked=True)
    # The receipts came after the first delivery of the next primary, and before that of the third.
    assert scene.kinds() == ["doubled", "lost"]


def test_a_consumer_whose_end_is_known_late_settles_nothing_any_more() -> None:
    scene = Scene()
    letter = scene.send()
    scene.come(letter)
    unit = scene.settle(letter)
    scene.come(letter, marked=True)
    unit.loose = True
    scene.crash()
    assert not scene.books.complaints


def test_the_order_of_a_group_is_that_of_all_its_consumers() -> None:
    scene = Scene()
    red, blue, red_too = (scene.send(queue="/queue/groups", group=group) for group in ("red", "blue", "red"))
    scene.come(blue)
    scene.come(red_too)
    scene.come(red, marked=True)  # another consumer had it, and did not read it
    assert [complaint.text for complaint in scene.books.complaints if complaint.kind == "order"] == [
        f"life 0: {red} came behind number {red_too.number} of all that was new"
    ]
