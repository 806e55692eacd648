"""The books of topics with logs: every kind of complaint.  That there is none without a reason, the rounds show."""

from __future__ import annotations

from zlib import crc32

import pytest

from .books import Books, Letter, State
from .logs import Logs, Reading
from .plan import TOPICS, Topic
from .wire import Frame

_ALL, _SHORT, _MEMORY = TOPICS
_BODY = b"body"


class Scene:
    """A log, and a gateway of which every word is invented."""

    def __init__(self) -> None:
        self.books = Books()
        self.logs = Logs(self.books)

    def send(self, topic: Topic = _ALL, *, state: State = State.SURE) -> Letter:
        unit, number = self.books.begin(), self.books.number("p")
        letter = Letter(topic.name, "p", number, 4, topic.durable, topic.durable and topic.keeps, crc32(_BODY), unit)
        self.books.add(letter)
        unit.state = state
        return letter

    def subscribe(self, reading: Reading) -> None:
        unit = self.books.begin()
        reading.begin(unit)
        unit.state = State.SURE

    def come(self, reading: Reading, letter: Letter, number: int = 0, *, gap: int = 0, **headers: str) -> int:
        """It comes, with that number; 0: its own.  A gap is told before that one; 0: none is."""
        if gap:
            headers |= {"gap": "true", "first-seq": str(gap)}
        headers = {"destination": letter.queue, "producer": "p", "number": str(letter.number), **headers}
        headers |= {"message-id": f"id-{letter.number}", "seq": str(number or letter.number)}
        return reading.take(Frame("MESSAGE", headers, _BODY))

    def read(self, topic: Topic, *letters: Letter, name: str = "") -> Reading:
        reading = self.logs.reading(topic, name)
        self.subscribe(reading)
        for letter in letters:
            self.come(reading, letter)
        return reading

    def told(self, count: int, topic: Topic = _ALL) -> list[Letter]:
        """So many messages are sent, and somebody gets them all, so that their numbers are known."""
        letters = [self.send(topic) for _ in range(count)]
        self.read(topic, *letters)
        return letters

    def kinds(self) -> list[str]:
        self.logs.audit()
        return [complaint.kind for complaint in self.books.complaints]


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture(params=["", "name"])
def name(request: pytest.FixtureRequest) -> str:
    """Who keeps the number, and who keeps nothing."""
    return str(request.param)


@pytest.mark.parametrize("topic", TOPICS)
def test_one_in_between_was_missed(topic: Topic, scene: Scene, name: str) -> None:
    letters = scene.told(3, topic)
    scene.read(topic, letters[0], letters[2], name=name)
    assert scene.kinds() == ["missed"]


def test_what_was_not_acknowledged_was_missed(scene: Scene) -> None:
    letters = [scene.send() for _ in range(3)]
    reading = scene.read(_ALL, *letters, name="name")
    reading.parts[0].done = {2}
    scene.subscribe(reading)
    scene.come(reading, letters[2])
    assert scene.kinds() == ["missed"]


def test_a_gap_that_is_none(scene: Scene, name: str) -> None:
    first, second = scene.send(), scene.send()
    scene.read(_ALL, first, second)
    scene.books.end_of_life()
    reading = scene.logs.reading(_ALL, name)
    scene.subscribe(reading)
    scene.come(reading, first)
    scene.come(reading, second, gap=2)
    assert scene.kinds() == ["gap"]


def test_acknowledged_and_here_again(scene: Scene) -> None:
    first, second = scene.send(), scene.send()
    reading = scene.read(_ALL, first, second, name="name")
    reading.parts[0].done = {1, 2}
    reading.left()
    scene.subscribe(reading)
    scene.come(reading, second)
    assert scene.kinds() == ["doubled"]


def test_a_number_stands_for_one_message_and_a_message_has_one() -> None:
    for numbers in ((1, 1), (1, 2)):
        scene = Scene()
        first = scene.send()
        second = scene.send() if numbers == (1, 1) else first
        for letter, number in zip((first, second), numbers, strict=True):
            scene.come(scene.read(_ALL), letter, number)
        assert "number" in scene.kinds()
    scene = Scene()
    scene.read(_ALL).take(Frame("MESSAGE", {"destination": _ALL.name}, b""))
    assert scene.kinds() == ["number"]


def test_the_order_of_what_came_and_of_its_numbers() -> None:
    scene = Scene()
    first, second = scene.send(), scene.send()
    reading = scene.read(_ALL, second, first)
    assert scene.kinds() == ["order"]
    scene.come(reading, first, redelivered="true")
    assert scene.kinds() == ["order"]
    scene = Scene()
    first, second = scene.send(), scene.send()
    reading = scene.read(_ALL)
    scene.come(reading, second, 1)
    scene.come(reading, first, 2)
    assert scene.kinds() == ["order"]


def test_as_many_are_left_as_the_topic_keeps() -> None:
    scene = Scene()
    first, second = scene.send(_SHORT), scene.send(_SHORT)
    scene.read(_SHORT, first, second)
    scene.books.end_of_life()
    scene.read(_SHORT, second)
    assert scene.kinds() == ["lost"]
    scene = Scene()
    scene.read(_SHORT, *[scene.send(_SHORT) for _ in range(_SHORT.most + 1)])
    assert scene.kinds() == ["doubled"]
