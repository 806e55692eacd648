"""The books of topics with logs: which number stands for which message, and what each reader got.

A reader comes again and again: with the number behind the last one it has, or with a name, under which it acknowledges.
Each time it gets a part of the log.  Between its first message and its last nothing may be missing, nor before its
first one, from where it was; or the first message behind what is missing says so.

What should be there is known only in the end.  Messages that came live, in the batch that a kill has taken, are there
no longer, and nobody was promised that they are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from .books import Books, Letter, State, Unit
from .plan import TOPICS, Topic
from .wire import Frame


@dataclass(eq=False, slots=True)
class Part:
    """What came by one SUBSCRIBE.

    A message that told of a gap and did nothing else has the first number behind the gap, negative.
    """

    life: int  # of the gateway
    unit: Unit  # the SUBSCRIBE
    start: int  # the number that was asked for; 0: the first that is there, or, with a name, from where it is
    before: set[int]  # numbers that were acknowledged under the name before
    after: int  # with a name: the gateway knows that all is acknowledged up to there; 0: perhaps
    numbers: set[int] = field(default_factory=set)  # what came
    newest: int = 0
    tellers: set[int] = field(default_factory=set)  # messages that told of a gap
    done: set[int] = field(default_factory=set)  # what it acknowledged
    returned: bool = False  # some message came back by NACK, and is put off

    @property
    def gaps(self) -> set[int]:
        """Messages before those numbers are gone, it was told."""
        return {abs(number) for number in self.tellers}

    def gone(self) -> list[tuple[int, int]]:
        """Between which numbers all is gone, as it was told, and has acknowledged: it is not told again."""
        known = [abs(number) for number in self.tellers & self.done]
        return [(max((number for number in self.numbers if number < gap), default=0), gap) for gap in known]


class Reading:
    """What one reader got of a topic."""

    def __init__(self, topic: Topic, logs: Logs, name: str = "") -> None:
        self.topic = topic
        self.name = name  # to resume by; empty: it keeps the number itself
        self.next = 0  # the number behind the last one; 0: nothing came so far
        self.parts: list[Part] = []  # one for each SUBSCRIBE
        self._logs = logs
        self._books = logs.books
        self._after = 0, 0  # a life, and up to where the gateway knows there that all is acknowledged

    def begin(self, unit: Unit) -> None:
        before: set[int] = set().union(*[part.done for part in self.parts])
        life, after = self._after
        start = 0 if self.name else self.next
        self.parts.append(Part(self._books.life, unit, start, before, after if life == self._books.life else 0))

    def take(self, frame: Frame) -> int:
        """A message came: its number; if it has none, that before which it tells of a gap, negative."""
        part, headers = self.parts[-1], frame.headers
        if headers.get("gap") == "true":
            self.next = int(headers["first-seq"])
            part.tellers.add(self.next if "seq" in headers else -self.next)
        if "seq" not in headers:
            if "gap" not in headers:
                self._books.complain("number", f"no number: {headers}")
            return -self.next
        number = int(headers["seq"])
        if not headers.get("last") and not self._logs.enter(frame, number):
            return 0
        if number <= part.newest and headers.get("redelivered") != "true":
            self._books.complain("order", f"{self} got number {number} behind {part.newest}")
        part.numbers.add(number)
        part.newest = max(part.newest, number)
        self.next = part.newest + 1
        return number

    def left(self) -> None:
        """The reader has left in order: the gateway knows what it has acknowledged."""
        part = self.parts[-1]
        # Who has not acknowledged that something is gone is told again, from there on.
        if part.numbers and part.tellers <= part.done and not part.returned:
            self._after = part.life, min(part.numbers - part.done, default=part.newest + 1) - 1

    def first_of(self, part: Part) -> int:
        """From there on, what is there should have come, but for what was acknowledged before."""
        if part.start:
            return part.start
        if self.topic.keeps and self.topic.durable:
            return 0
        known = [each for each in self.parts if each.numbers and each.unit.state is State.SURE] if self.name else []
        return min(known[0].numbers if known and known[0].life <= part.life else part.numbers)

    def __str__(self) -> str:
        return f"{self.name or 'who keeps the number'} of {self.topic.name}"


class Logs:
    """All topics of a round."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.readings: list[Reading] = []
        self._letters: dict[str, dict[int, Letter]] = {topic.name: {} for topic in TOPICS}
        self._numbers: dict[Letter, int] = {}

    def reading(self, topic: Topic, name: str = "") -> Reading:
        self.readings.append(Reading(topic, self, name))
        return self.readings[-1]

    def enter(self, frame: Frame, number: int) -> bool:
        """A message came with that number; False: nobody sent it."""
        letter = self.books.find(frame)
        if letter is None:
            return False
        other = self._letters[letter.queue].setdefault(number, letter)
        if other is not letter:
            self.books.complain("number", f"{letter} has the number {number} of {other}")
        before = self._numbers.setdefault(letter, number)
        if before != number:
            self.books.complain("number", f"{letter} has the number {number}, and had {before}")
        letter.seen = self.books.life
        return True

    def left_of(self, topic: Topic) -> int:
        """How many of its messages came in this life."""
        return sum(letter.seen == self.books.life for letter in self._letters[topic.name].values())

    # the end

    def audit(self) -> None:
        """Complain of what is missing.  All that is left of each log has come in the last life."""
        for topic in TOPICS:
            self._look_at(topic)
        for reading in self.readings:
            letters = self._letters[reading.topic.name]
            there = sorted(number for number, letter in letters.items() if letter.is_certain)
            for part in reading.parts:
                self._look_at_part(reading, part, there)

    def _look_at(self, topic: Topic) -> None:
        newest: dict[str, int] = {}
        for number, letter in sorted(self._letters[topic.name].items()):
            if letter.number < newest.get(letter.producer, 0):
                self.books.complain("order", f"{letter} has the number {number}, behind {newest[letter.producer]}")
            newest[letter.producer] = letter.number
        if not topic.most:
            return  # the audit of letters looks at it
        letters = [letter for letter in self.books.letters.values() if letter.queue == topic.name]
        left = self.left_of(topic)
        lost = [letter for letter in letters if letter.is_certain and letter.seen != self.books.life]
        if left > topic.most:
            self.books.complain("doubled", f"{left} messages are left in {topic.name}")
        if left + 1 < topic.most and lost:  # the last message is there, too
            self.books.complain("lost", f"only {left} messages are left, and not {', '.join(map(str, lost))}")

    def _look_at_part(self, reading: Reading, part: Part, there: list[int]) -> None:
        """What of those that are, or were, there should have come."""
        if not part.numbers:
            return
        came = sorted(part.numbers)
        told = f"{reading}, asked for {part.start or 'more'} in life {part.life}, got {came[0]} to {came[-1]}"
        if came[0] <= part.after:
            self.books.complain("doubled", f"{told}, and had acknowledged all up to {part.after} when it left")
        gone = [each for other in reading.parts[: reading.parts.index(part)] for each in other.gone()]
        due = there[bisect_left(there, reading.first_of(part)) : bisect_right(there, came[-1])]
        for number in due:
            if number in part.numbers or number in part.before or any(low < number < high for low, high in gone):
                continue
            if came[bisect_right(came, number)] not in part.gaps:
                self.books.complain("missed", f"{told}, not {number}: {self._letters[reading.topic.name][number]}")
        if reading.topic.keeps and any(self._was_there(reading.topic, part, gap) for gap in part.gaps):
            self.books.complain("gap", f"{told}, and was told of gaps before {part.gaps}")

    def _was_there(self, topic: Topic, part: Part, gap: int) -> bool:
        """Whether the store had some of the log before that number when that life began, and nothing is ever gone."""
        letters = self._letters[topic.name].items()
        return topic.durable and any(
            number < gap and letter.is_certain and letter.unit.life < part.life for number, letter in letters
        )
