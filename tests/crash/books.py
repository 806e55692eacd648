"""The books of a round: what clients sent, what the gateway promised, what came.

A SEND to one queue is a `Letter`; one to several is a letter in each.  What must happen together is a `Unit`: a SEND,
an ACK, a transaction, with the letters that it brings and those that it settles.

    OPEN  ->  SENT     the frame that decides is on its way: the SEND, the ACK, the COMMIT
          ->  NEVER    aborted, or the client died first
    SENT  ->  SURE     a RECEIPT came; or another receipt says the same

What is still SENT when the gateway dies has happened as a whole or not at all: `audit` looks at that.  What contradicts
a promise the moment it is seen becomes a complaint here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple
from zlib import crc32

from .wire import Frame

NEVER_SEEN = -1
KINDS = (
    "lost", "missed", "doubled", "twice", "unmarked", "marked", "ghost", "half", "order", "id", "number", "gap", "body",
    "error", "noticed", "stalled", "two", "fenced", "replica"
)  # fmt: skip
"""Of complaints.  `half`: only a part of a transaction; `ghost`: what should not exist, or was seen and then undone;
`twice`: what one message was moved to is seen twice; `marked`: as redelivered, and nobody ever consumed its queue;
`missed`: a reader of a topic did not get it, though it was there, or nobody told him that it is gone; `number`: two
messages of a topic have it; `gap`: it was told, and nothing is gone.  Of edges: `noticed`: a client lost its connection
though its edge was not lost; `stalled`: its messages did not go on.  Of a cluster: `two` primaries are at work;
`fenced`: a primary wrote to the log behind the next one; `replica`: the copies of the nodes differ."""


class State(Enum):
    """Of a unit."""

    OPEN = "open"
    SENT = "sent"
    SURE = "sure"
    NEVER = "never"


class Complaint(NamedTuple):
    """A promise that was broken.

    Attributes:
        kind: one of `KINDS`.
    """

    kind: str
    text: str


@dataclass(eq=False, slots=True)
class Letter:
    """A message in one queue, or in the log of one topic.

    Attributes:
        number: increases with its producer.
        unit: what brought it.
        group: of its queue's messages; empty: none.
        kept: it outlives the process, and goes only when it is settled, by somebody who says so.
        seen: the last life in which it was delivered.
        settling: the unit that settles it, as far as anybody knows.
        rejecting: by NACK with requeue:false: it becomes a dead letter.
        touched: the last life in which somebody tried to settle it.
        done: a receipt said that it is settled.
        dead: it was found among the dead letters.
        origin: the message that was moved, which became this one; None: it comes from a producer.
    """

    queue: str
    producer: str
    number: int
    priority: int
    durable: bool
    kept: bool
    check: int
    unit: Unit
    group: str = ""
    id: str = ""
    seen: int = NEVER_SEEN
    settling: Unit | None = None
    rejecting: bool = False
    touched: int = NEVER_SEEN
    done: bool = False
    dead: bool = False
    origin: Letter | None = None

    def __str__(self) -> str:
        return f"{self.queue} {self.producer} {self.number} ({self.id or 'never seen'})"

    @property
    def is_certain(self) -> bool:
        """It was there: somebody was told, or it came in a later life than that of its SEND."""
        return self.unit.state is State.SURE or (self.unit.state is State.SENT and self.seen > self.unit.life)

    @property
    def line(self) -> tuple[str, str, int, str]:
        """Within it, the order counts."""
        return self.queue, self.producer, self.priority, self.group


@dataclass(eq=False, slots=True)
class Unit:
    """What happens together.

    Attributes:
        life: in which it was begun.
        loose: its client died before it could know; the gateway lived on.
    """

    life: int
    letters: list[Letter] = field(default_factory=list)
    settled: list[Letter] = field(default_factory=list)
    state: State = State.OPEN
    loose: bool = False

    def undo(self) -> None:
        self.state = State.NEVER
        for letter in self.settled:
            if letter.settling is self:
                letter.settling = None
                letter.rejecting = False

    def confirm(self) -> None:
        self.state = State.SURE
        for letter in self.settled:
            if letter.settling is self:
                letter.done = True
            if letter.durable and letter.unit.state is State.SENT:
                letter.unit.confirm()  # it cannot be settled and not have come


class Books:
    """All that is known of a round.

    Attributes:
        life: of the gateway; 0 for the first.
        counts: messages, deliveries and the like.
        draining: the last life, in which one consumer of each queue gets all that there is.
        consumed: queues that ever had a consumer.
        on_first: called with the first delivery of each life.

    Args:
        single: queues that have one consumer at a time, so that the order in which they give out is seen, as that of
            a group is.
    """

    def __init__(self, single: Iterable[str] = ()) -> None:
        self.life = 0
        self.letters: dict[tuple[str, str, int], Letter] = {}
        self.units: list[Unit] = []
        self.complaints: list[Complaint] = []
        self.counts: Counter[str] = Counter()
        self.draining = False
        self.consumed: set[str] = set()
        self.on_first: Callable[[], None] = lambda: None
        self._single = frozenset(single)
        self._ids: dict[str, Letter] = {}
        self._numbers: Counter[str] = Counter()
        self._newest: dict[tuple[object, ...], int] = {}
        self._moved: dict[Letter, Letter] = {}  # what was moved, and as what it was seen first
        self._delivering = NEVER_SEEN  # the last life in which anything was delivered
        self._doubtful: list[tuple[Unit, str]] = []  # complaints, unless the client of the unit has ended

    def complain(self, kind: str, text: str) -> None:
        self.complaints.append(Complaint(kind, f"life {self.life}: {text}"))

    # clients

    def begin(self) -> Unit:
        unit = Unit(self.life)
        self.units.append(unit)
        return unit

    def number(self, producer: str) -> int:
        self._numbers[producer] += 1
        return self._numbers[producer]

    def add(self, letter: Letter) -> None:
        self.counts["messages"] += 1
        letter.unit.letters.append(letter)
        self.letters[letter.queue, letter.producer, letter.number] = letter

    def settle(self, unit: Unit, letters: Iterable[Letter], *, rejecting: bool = False) -> None:
        for letter in letters:
            letter.settling, letter.rejecting, letter.touched = unit, rejecting, self.life
            unit.settled.append(letter)

    def confirm(self, unit: Unit) -> None:
        """A receipt came, which may be that of an earlier life: the primary of that one was only stopped."""
        again = [letter for letter in unit.settled if letter.kept and letter.seen > unit.life]
        if unit.state is State.SENT and unit.life < self.life:
            for letter in again:
                self.complain("doubled", f"{letter} came again, and then life {unit.life} told that it is settled")
        unit.confirm()

    def complain_of_doubtful(self) -> None:
        """At the end of a life it is known which clients have ended before."""
        for unit, text in self._doubtful:
            if not unit.loose:
                self.complain("doubled", text)
        self._doubtful.clear()

    def end_of_life(self) -> None:
        """The gateway has died: what nobody asked it to do has not happened."""
        self.complain_of_doubtful()
        self._look_at_passed()
        for unit in self.units:
            if unit.state is State.OPEN:
                unit.undo()
        self.life += 1

    def _look_at_passed(self) -> None:
        """Of what does not outlive the gateway, nothing may be missing before what was seen."""
        for unit in self.units:
            if unit.life == self.life and unit.state is State.SURE:
                for letter in unit.letters:
                    is_due = not letter.durable and letter.queue in self._single and letter.seen == NEVER_SEEN
                    if is_due and letter.number < self._newest.get(letter.line, 0):
                        self.complain("lost", f"{letter} never came, and what was sent behind it did")

    # what comes

    def delivered(self, frame: Frame, subscription: object) -> Letter | None:
        """A message came; None: it cannot be.

        Args:
            subscription: stands for it, for as long as it lasts.
        """
        letter = self.find(frame)
        if letter is None:
            return None
        self._check_settled(letter)
        marked = frame.headers.get("redelivered") == "true"
        if letter.seen != NEVER_SEEN and not marked:
            self.complain("unmarked", f"{letter} was delivered in life {letter.seen}, and is not marked")
        if marked and letter.queue not in self.consumed and letter.unit.life == self.life:
            self.complain("marked", f"{letter} is marked, and its queue never had a consumer")
        self._check_order(letter, subscription, marked=marked)
        if letter.seen not in (NEVER_SEEN, self.life):
            self.counts["came back"] += 1
        letter.seen = self.life
        if letter.origin is not None:
            self._check_move(letter.origin, letter)
        return letter

    @property
    def has_begun(self) -> bool:
        """True if anything was delivered in this life."""
        return self._delivering == self.life

    def delivered_late(self, frame: Frame, life: int) -> None:
        """A message came from the primary of an earlier life, to a client that is still connected to it.

        Only of a queue the next primary may give it to somebody else: readers of a topic get a copy each.
        """
        headers = frame.headers
        letter = self.letters.get((headers["destination"], headers.get("producer", ""), int(headers.get("number", 0))))
        is_shared = headers["destination"].startswith("/queue/")
        if letter is not None and letter.durable and is_shared and self.has_begun:
            self.complain("two", f"{letter} came from the primary of life {life}, and the next one is at work")

    def find(self, frame: Frame) -> Letter | None:
        """What came, if it may come; None: nobody sent it."""
        headers = frame.headers
        self.counts["deliveries"] += 1
        if not self.has_begun:
            self._delivering = self.life
            self.on_first()
        letter = self.letters.get((headers["destination"], headers.get("producer", ""), int(headers.get("number", 0))))
        if letter is None:
            self.complain("ghost", f"nobody sent {headers}")
            return None
        self._check_identity(letter, headers["message-id"], frame.body)
        if letter.unit.state in (State.OPEN, State.NEVER):
            self.complain("ghost", f"{letter} came, and its transaction is {letter.unit.state.value}")
        elif letter.unit.life != self.life and not letter.durable:
            self.complain("ghost", f"{letter} is not durable, and was sent in life {letter.unit.life}")
        return letter

    def _check_identity(self, letter: Letter, name: str, body: bytes) -> None:
        if letter.id not in ("", name):
            self.complain("id", f"{letter} is called {name} now")
        other = self._ids.setdefault(name, letter)
        if other is not letter:
            self.complain("id", f"{letter} has the message-id {name} of {other}")
        letter.id = name
        if crc32(body) != letter.check:
            self.complain("body", f"{letter} has another body, of {len(body)} octets")

    def _check_settled(self, letter: Letter) -> None:
        settling = letter.settling
        if letter.done or letter.dead:
            self.complain("doubled", f"{letter} came, and was settled in life {letter.touched}, with a receipt")
        elif settling is not None and settling.life == self.life and not settling.loose:
            # An ERROR that ended its consumer may be read later than what another one gets for it.
            self._doubtful.append((settling, f"{letter} came, and its consumer is still about to settle it"))
        letter.settling, letter.rejecting = None, False

    def _check_move(self, origin: Letter, letter: Letter) -> None:
        self.counts["moved"] += origin not in self._moved
        first = self._moved.setdefault(origin, letter)
        if first is not letter:
            self.complain("twice", f"{origin} was moved twice, and came as {first}, and as {letter}")

    def _check_order(self, letter: Letter, subscription: object, *, marked: bool) -> None:
        if not marked:
            self._next(letter, (subscription, *letter.line), "in its subscription")
        if (letter.group or letter.queue in self._single) and letter.seen == NEVER_SEEN:
            self._next(letter, letter.line, "of all that was new")
        if self.draining:
            self._next(letter, ("at the end", *letter.line), "at the end")

    def _next(self, letter: Letter, key: tuple[object, ...], where: str) -> None:
        newest = self._newest.get(key, 0)
        if letter.number <= newest:
            self.complain("order", f"{letter} came behind number {newest} {where}")
        self._newest[key] = max(newest, letter.number)

    def dead_letter(self, frame: Frame) -> None:
        """A dead letter came, at the end."""
        headers = frame.headers
        name = headers.get("original-destination", ""), headers.get("producer", ""), int(headers.get("number", 0))
        letter = self.letters.get(name)
        if letter is None:
            self.complain("ghost", f"nobody sent the dead letter {headers}")
            return
        if letter.dead:
            self.complain("doubled", f"{letter} is a dead letter twice")
        letter.dead = True
        if crc32(frame.body) != letter.check:
            self.complain("body", f"the dead letter of {letter} has another body")


# the end of a round


def audit(books: Books) -> None:
    """Complain at the end of a round of what is missing, or there twice, or half.

    Of each letter that must outlive a process exactly one holds: it came, it is a dead letter, or it is settled.  Only
    where nothing was told may it be either way; and then all of its unit must have gone the same way.
    """
    books.complain_of_doubtful()
    for letter in books.letters.values():
        if letter.kept:
            _look_at(books, letter)
        if letter.origin is not None:
            _look_at_move(books, letter, letter.origin)
    for unit in books.units:
        if unit.state is State.SENT:
            _look_at_unit(books, unit)


def _look_at(books: Books, letter: Letter) -> None:
    here, dead = letter.seen == books.life, letter.dead
    exists = letter.is_certain
    if here and dead:
        books.complain("doubled", f"{letter} is a dead letter, and in its queue, too")
    elif letter.settling is None:
        if dead:
            books.complain("ghost", f"{letter} is a dead letter, and nobody rejected it")
        elif exists and not here:
            books.complain("lost", f"{letter}, last seen in life {letter.seen}")
    elif letter.rejecting:
        if not here and not dead and (exists or letter.done):
            books.complain("lost", f"{letter} was rejected in life {letter.touched}, and is no dead letter")
    elif dead:
        books.complain("ghost", f"{letter} is a dead letter, and was acknowledged")


def _look_at_move(books: Books, letter: Letter, origin: Letter) -> None:
    """Whoever saw it relies on it: it is there after a kill, and what it came of is not."""
    unit = letter.unit
    if unit.state is State.SENT and letter.seen == unit.life and origin.seen > unit.life:
        books.complain("ghost", f"{letter} was seen in life {unit.life}, and undone: {origin} came again")


def _look_at_unit(books: Books, unit: Unit) -> None:
    signs = {letter: _came(letter) for letter in unit.letters if letter.kept and letter.touched != unit.life}
    # What a client that was lost has not settled may have come to another one in the same life.
    for letter in [] if unit.loose else unit.settled:
        if letter.kept and letter.unit is not unit and _existed(letter, unit.life):
            signs[letter] = letter.seen <= unit.life
    if len(set(signs.values())) > 1:
        done = ", ".join(str(letter) for letter, sign in signs.items() if sign)
        undone = ", ".join(str(letter) for letter, sign in signs.items() if not sign)
        books.complain("half", f"of a unit of life {unit.life} are done: {done}; not done: {undone}")


def _came(letter: Letter) -> bool:
    return letter.seen > letter.unit.life or letter.dead


def _existed(letter: Letter, life: int) -> bool:
    """Whether it was certainly in the store when that life ended."""
    return letter.unit.state is State.SURE or letter.unit.life < life
