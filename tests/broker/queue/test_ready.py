"""A lane against its contract, and, in random use, against a list that is sorted each time somebody looks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from gateway.broker.model.message import Message
from gateway.broker.model.options import SendOptions
from gateway.broker.queue import ready as lane_module
from gateway.broker.queue.ready import ReadyList
from gateway.codec import Head

WANTED = {"wanted": "yes"}


def new(number: int, priority: int = 4, *, wanted: bool = True) -> Message:
    """A message that waits."""
    headers = {"number": str(number)} | (WANTED if wanted else {})
    message = Message(number, Head("SEND", headers), b"", SendOptions(priority=priority))
    message.waits = True
    return message


def filled(messages: Iterable[Message], ready_list: ReadyList | None = None) -> ReadyList:
    ready_list = ReadyList() if ready_list is None else ready_list
    for message in messages:
        ready_list.add(message)
    return ready_list


def take(ready_list: ReadyList) -> Message | None:
    """What a dispatching queue does: the first message, through as many turns as it takes."""
    message = ready_list.first()
    while message is None and ready_list.tired:
        message = ready_list.first()
    if message is not None:
        ready_list.pop()
        message.waits = False
    return message


def drain(ready_list: ReadyList) -> list[int]:
    """Take all; returns their numbers."""
    found = []
    while (message := take(ready_list)) is not None:
        found.append(message.number)
    return found


class Asked:
    """A selector that counts how often it is asked about each number."""

    def __init__(self) -> None:
        self.count: Counter[int] = Counter()

    def __call__(self, headers: Mapping[str, str]) -> bool:
        self.count[int(headers["number"])] += 1
        return "wanted" in headers


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def three_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn is over after three messages."""
    monkeypatch.setattr(lane_module, "READS_PER_TURN", 3)


class TestOrder:
    def test_an_empty_lane_has_no_first(self) -> None:
        ready_list = ReadyList()
        assert ready_list.first() is None
        assert not ready_list.tired
        assert (len(ready_list), ready_list.messages()) == (0, [])

    def test_by_place_where_a_newer_one_stands_for_an_older(self) -> None:
        """Conflation: the number is its own, the place is that of the one it replaced."""
        messages = [new(number) for number in range(4)]
        ready_list = filled(messages)
        messages[1].waits = False
        newer = new(9)
        newer.place = 1
        ready_list.add(newer)
        assert drain(ready_list) == [0, 9, 2, 3]

    @pytest.mark.parametrize("back", [0, 1])
    def test_pop_removes_what_first_gave(self, back: int) -> None:
        """From the end that it stood at, also where the same message stands at both."""
        messages = [new(number) for number in range(2)]
        ready_list = filled(messages)
        ready_list.add(messages[back])
        assert ready_list.first() is messages[0]
        ready_list.pop()
        messages[0].waits = False
        assert ready_list.first() is messages[1]


class TestGone:
    """Another lane's consumer took them."""

    def test_they_take_places_until_it_is_compacted(self) -> None:
        messages = [new(number, priority) for number in range(10) for priority in (4, 5)]
        ready_list = filled(messages)
        for message in messages[:15]:
            message.waits = False
        assert len(ready_list) == 20
        assert ready_list.messages() == sorted(messages[15:], key=lambda message: message.order)
        ready_list.compact()
        assert len(ready_list) == 5
        assert drain(ready_list) == [
            message.number for message in sorted(messages[15:], key=lambda message: message.order)
        ]

    def test_at_the_front_they_are_shed(self) -> None:
        messages = [new(number, priority) for number in range(4) for priority in (4, 5)]
        ready_list = filled(messages)
        for index in (0, 1, 2, 3, 6, 7):
            messages[index].waits = False
        ready_list.shed()
        assert len(ready_list) == 4
        assert drain(ready_list) == [2, 2]

    def test_what_comes_back_is_found_once(self) -> None:
        """It still stands at its old place, and waits again."""
        messages = [new(number) for number in range(3)]
        ready_list = filled(messages)
        for _ in range(3):
            messages[1].waits = False
            messages[1].waits = True
            ready_list.add(messages[1])
        assert ready_list.messages() == messages
        assert drain(ready_list) == [0, 1, 2]


class TestSelector:
    @pytest.mark.parametrize("order", [1, -1], ids=["in order", "urgent ones last"])
    def test_it_is_asked_once_about_each(self, asked: Asked, order: int) -> None:
        messages = [new(number, wanted=number % 2 == 0) for number in range(40)][::order]
        ready_list = filled(messages, ReadyList(asked))
        for _ in range(20):
            assert ready_list.first() is ready_list.first()
            take(ready_list)
        assert ready_list.first() is None
        assert set(asked.count.values()) == {1}

    def test_also_where_urgent_ones_go_first(self, asked: Asked) -> None:
        """The one behind them was looked at before."""
        ready_list = filled([new(9)], ReadyList(asked))
        for number in range(5):
            assert ready_list.first() is not None
            ready_list.add(new(number))
            assert take(ready_list) is not None
        assert take(ready_list) is not None
        assert set(asked.count.values()) == {1}

    @pytest.mark.parametrize("order", [1, -1], ids=["in order", "urgent ones last"])
    def test_neighbours_that_share_their_head_are_one_question(self, asked: Asked, order: int) -> None:
        messages = [new(number, wanted=number >= 9) for number in range(12)]
        for first in (0, 5, 9):
            for message in messages[first : first + 4]:
                message.head = messages[first].head
        ready_list = filled(messages[::order], ReadyList(asked))
        assert drain(ready_list) == [9, 10, 11]
        # What is wanted is asked about one by one, and so is what stands out of order.
        assert asked.count == ({0: 1, 4: 1, 5: 1, 9: 3} if order == 1 else {0: 4, 4: 1, 5: 4, 9: 3})

    def test_nobody_asks_about_what_has_gone(self, asked: Asked) -> None:
        messages = [new(number, number % 3) for number in range(9)]
        ready_list = filled(messages, ReadyList(asked))
        for message in messages:
            message.waits = False
        assert ready_list.first() is None
        assert not asked.count


class TestCopy:
    def test_each_goes_its_own_way(self) -> None:
        messages = [new(number) for number in range(4)]
        ready_list = filled(messages[:3])
        copy = ready_list.copy()
        ready_list.add(messages[3])
        copy.pop()
        assert ready_list.messages() == messages
        assert copy.messages() == messages[1:3]

    def test_for_a_selector_without_reading_it(self, asked: Asked) -> None:
        ready_list = filled(new(number, number % 3, wanted=number % 2 == 0) for number in range(1_000))
        copy = ready_list.copy(asked)
        assert not asked.count
        assert sorted(drain(copy)) == [*range(0, 1_000, 2)]
        assert set(asked.count.values()) == {1}


@pytest.mark.usefixtures("three_reads")
class TestTurns:
    @pytest.mark.parametrize("order", [1, -1], ids=["in order", "urgent ones last"])
    @pytest.mark.parametrize("unwanted", [3, 4, 5, 6, 7, 20])
    def test_a_long_run_of_unwanted_ones_is_cut(self, asked: Asked, unwanted: int, order: int) -> None:
        messages = [new(number, wanted=number == unwanted) for number in range(unwanted + 1)]
        ready_list = filled(messages[::order], ReadyList(asked))
        found, turns = ready_list.first(), 1
        while found is None:
            assert ready_list.tired
            assert asked.count.total() <= 3 * turns
            found, turns = ready_list.first(), turns + 1
        assert not ready_list.tired
        assert asked.count.total() <= 3 * turns
        assert found.number == unwanted
        assert asked.count.total() == unwanted + 1

    def test_also_where_all_share_their_head(self, asked: Asked) -> None:
        messages = [new(number, wanted=False) for number in range(8)]
        for message in messages:
            message.head = messages[0].head
        ready_list = filled([*messages, new(8)], ReadyList(asked))
        for left in (6, 3):
            assert ready_list.first() is None
            assert (ready_list.tired, len(ready_list)) == (True, left)
        assert drain(ready_list) == [8]
        assert asked.count == {0: 3, 8: 1}

    def test_nor_do_they_behind_the_last_read_of_a_turn(self, asked: Asked) -> None:
        messages = [new(number, wanted=False) for number in range(6)]
        ready_list = filled(messages, ReadyList(asked))
        for message in messages[3:]:
            message.waits = False
        assert ready_list.first() is None
        assert (ready_list.tired, len(ready_list), asked.count.total()) == (False, 0, 3)


class Model(RuleBasedStateMachine):
    """A lane, with a selector or without, whose messages other lanes take and give back as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = Asked()
        self.ready_list = ReadyList()
        self.known: list[Message] = []
        self.added: Counter[int] = Counter()

    @initialize(selective=st.booleans())
    def start(self, selective: bool) -> None:
        self.ready_list = ReadyList(self.asked if selective else None)

    @property
    def due(self) -> list[Message]:
        wanted = [each for each in self.known if self.ready_list.selector is None or "wanted" in each.head.headers]
        return sorted((each for each in wanted if each.waits), key=lambda each: (-each.options.priority, each.number))

    def _add(self, message: Message) -> None:
        message.waits = True
        self.added[message.number] += 1
        self.ready_list.add(message)

    @rule(priority=st.integers(0, 9), usual=st.booleans(), wanted=st.booleans())
    def send(self, priority: int, usual: bool, wanted: bool) -> None:
        message = new(len(self.known), 4 if usual else priority, wanted=wanted)
        self.known.append(message)
        self._add(message)

    @precondition(lambda self: self.due)
    @rule()
    def take(self) -> None:
        expected = self.due[0]
        assert take(self.ready_list) is expected

    @precondition(lambda self: any(message.waits for message in self.known))
    @rule(data=st.data())
    def taken_by_others(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from([message for message in self.known if message.waits])).waits = False

    @precondition(lambda self: not all(message.waits for message in self.known))
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        self._add(data.draw(st.sampled_from([message for message in self.known if not message.waits])))

    @rule()
    def look(self) -> None:
        found = self.ready_list.first()
        assert found is (self.due[0] if self.due else None) or self.ready_list.tired

    @rule()
    def shed(self) -> None:
        self.ready_list.shed()

    @rule()
    def compact(self) -> None:
        self.ready_list.compact()
        self.asked.count.clear()  # the selector may be asked again about the first
        assert len(self.ready_list) <= sum(self.added[message.number] for message in self.known if message.waits)

    @invariant()
    def holds_what_waits(self) -> None:
        held = self.ready_list.messages()
        assert held == sorted(set(held), key=lambda message: message.order)
        assert set(self.due) <= set(held)
        assert all(message.waits for message in held)
        # Twice where something came to stand before a message that was looked at already.
        assert self.asked.count.total() <= 2 * self.added.total()

    def teardown(self) -> None:
        rest = [message.number for message in self.due]
        assert drain(self.ready_list) == rest


def test_a_lane_is_a_sorted_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """With short turns: runs of 2,000 unwanted ones would never come about."""
    monkeypatch.setattr(lane_module, "READS_PER_TURN", 2)
    run_state_machine_as_test(
        Model,
        settings=settings(
            max_examples=150,
            stateful_step_count=40,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


class TestOldest:
    def test_of_nothing(self) -> None:
        assert ReadyList().oldest() is None
        (gone,) = messages = [new(1)]
        ready_list = filled(messages)
        gone.waits = False
        assert ready_list.oldest() is None

    def test_of_one_priority(self) -> None:
        messages = [new(number) for number in range(2, 6)]
        ready_list = filled(messages)
        assert ready_list.oldest() is messages[0]
        ready_list.add(back := new(1))
        assert ready_list.oldest() is back
        assert ready_list._late is None

    def test_of_several_it_is_not_the_first_that_is_due(self) -> None:
        messages = [new(1, 1), new(2, 9), new(3, 1), new(4, 4)]
        ready_list = filled(messages)
        assert (ready_list.first(), ready_list.oldest()) == (messages[1], messages[0])

    @pytest.mark.parametrize("priority", [1, 4, 9])
    def test_one_that_came_back_among_several(self, priority: int) -> None:
        ready_list = filled(
            [new(number, 4) for number in range(10, 400)] + [new(number, 6) for number in range(400, 600)]
        )
        back = new(3, priority)
        back.attempts = 1
        ready_list.add(back)
        assert ready_list.oldest() is back
        ready_list.compact()
        assert ready_list.oldest() is back
        back.waits = False
        assert ready_list.oldest() is not back

    def test_what_is_remembered_is_bounded(self) -> None:
        ready_list = filled([new(10, 4)])
        back = new(1, 1)
        back.attempts = 1
        for _ in range(100):
            back.waits = False
            ready_list.add(back)
            back.waits = True
            if len(ready_list) > 20:
                ready_list.compact()
        assert ready_list._late is not None
        assert len(ready_list._late.heap) < 60
        assert ready_list.oldest() is back
