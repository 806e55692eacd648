"""A lane against its contract, and, in random use, against a list that is sorted each time somebody looks."""

from __future__ import annotations

import random
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

from gateway.broker.core.work_limits import WORK_LIMITS, WorkLimits
from gateway.broker.model.message import Message
from gateway.broker.model.options import SendOptions
from gateway.broker.queue.consumers import ConsumerSet
from gateway.broker.queue.dispatch import Dispatcher
from gateway.broker.queue.paging import PagedMessages
from gateway.broker.queue.queue import Queue
from gateway.broker.queue.ready import ReadyList
from gateway.codec import V12, Head

from ..client import Client, Scene
from ..conftest import Stage
from ..durable import fill
from ..wire import build
from .helpers import QUEUE, queue_of

WANTED = {"wanted": "yes"}


def new(number: int, priority: int = 4, *, wanted: bool = True) -> Message:
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


class TestCopy:
    def test_each_goes_its_own_way(self) -> None:
        messages = [new(number) for number in range(4)]
        ready_list = filled(messages[:3])
        copy = ready_list.copy()
        ready_list.add(messages[3])
        copy.pop()
        assert ready_list.messages() == messages
        assert copy.messages() == messages[1:3]


class TestTurns:
    @pytest.mark.parametrize("order", [1, -1], ids=["in order", "urgent ones last"])
    @pytest.mark.parametrize("unwanted", [3, 4, 20])
    def test_a_long_run_of_unwanted_ones_is_cut(self, asked: Asked, unwanted: int, order: int) -> None:
        messages = [new(number, wanted=number == unwanted) for number in range(unwanted + 1)]
        ready_list = filled(messages[::order], ReadyList(asked, most_reads=3))
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
        ready_list = filled([*messages, new(8)], ReadyList(asked, most_reads=3))
        for left in (6, 3):
            assert ready_list.first() is None
            assert (ready_list.tired, len(ready_list)) == (True, left)
        assert drain(ready_list) == [8]
        assert asked.count == {0: 3, 8: 1}


class Model(RuleBasedStateMachine):
    """A lane, with a selector or without, whose messages other lanes take and give back as they like.

    Its turns are short: runs of 2,000 unwanted ones would never come about.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked = Asked()
        self.ready_list = ReadyList()
        self.known: list[Message] = []
        self.added: Counter[int] = Counter()

    @initialize(selective=st.booleans())
    def start(self, selective: bool) -> None:
        self.ready_list = ReadyList(self.asked if selective else None, most_reads=2)

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


def test_a_lane_is_a_sorted_list() -> None:
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


def unwanted(count: int, size: int) -> list[Message]:
    """Messages with a header of that many bytes that the selector does not want."""
    found = [new(number, wanted=False) for number in range(count)]
    for message in found:
        message.head = Head.of("SEND", message.head.headers | {"filler": "x" * size})
    return found


@pytest.mark.parametrize("order", [1, -1], ids=["in order", "urgent ones last"])
@pytest.mark.parametrize("weight", [4_096, 500, 10])
@pytest.mark.parametrize("size", [60_000, 5_000])
def test_what_it_reads_in_a_turn_is_bounded(asked: Asked, size: int, weight: int, order: int) -> None:
    messages = unwanted(100, size)[::order]
    ready_list = filled([*messages, new(100)], ReadyList(asked, weight))
    heaviest = messages[0].head.cost * weight
    most = WORK_LIMITS.selector_reads * 8_192 + heaviest  # 8 KiB, times a character, cost about as much as a read
    before = turns = 0
    while ready_list.first() is None:
        assert ready_list.tired
        assert 1 <= asked.count.total() - before <= most // heaviest
        before, turns = asked.count.total(), turns + 1
    assert turns >= 100 * heaviest // most
    assert drain(ready_list) == [100]
    assert set(asked.count.values()) == {1}


def test_the_copy_of_a_deep_lane_is_its_first_turn(asked: Asked) -> None:
    messages = [new(number, wanted=False) for number in range(25 * 100)]  # 25 are copied in the time of one read
    copy = filled(messages, ReadyList(most_reads=100)).copy(asked)
    assert copy.first() is None
    assert (copy.tired, asked.count.total()) == (True, 0)
    assert copy.first() is None
    assert (copy.tired, asked.count.total()) == (True, 100)


@pytest.mark.parametrize("size", [10, 60_000])
def test_a_subscriber_of_a_queue_reads_it_in_turns(scene: Scene, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Whatever it costs, others have their turns between them."""
    turns = []

    def catch_up(dispatcher: Dispatcher, consumer_set: ConsumerSet) -> None:
        turns.append(consumer_set)
        original(dispatcher, consumer_set)

    original = Dispatcher._catch_up
    monkeypatch.setattr(Dispatcher, "_catch_up", catch_up)
    producer, client = scene.connect(), scene.connect()
    for _ in range(20):
        producer.publish("/queue/a", filler="x" * size)
    producer.publish("/queue/a", b"wanted", color="red")
    client.subscribe("/queue/a", selector=" OR ".join(["color = 'red'"] * 20))
    assert client.bodies() == [b"wanted"]
    assert len(turns) == (0 if size == 10 else 10)


SELECTORS = 16
DEEP = 1_030


def subscribe(client: Client, number: int) -> None:
    """A consumer with a selector of its own, which takes one message at a time."""
    headers = {"selector": f"n <> {number}", "prefetch-count": "1"}
    client.subscribe(QUEUE, str(number), "client", **headers)


def send(client: Client, count: int) -> None:
    """So many messages that all of them want."""
    client.receive(count * build("SEND", {"destination": QUEUE, "n": "100"}, version=V12))


@pytest.fixture
def client(scene: Scene) -> Client:
    """Sixteen selective consumers, none of whom has room; 1,030 messages wait."""
    client = scene.connect()
    for number in range(SELECTORS):
        subscribe(client, number)
    send(client, SELECTORS)
    assert len(client.messages()) == SELECTORS
    send(client, DEEP)
    return client


def test_they_count_as_memory_until_their_consumers_or_messages_have_gone(scene: Scene, client: Client) -> None:
    queue = queue_of(scene)
    lists = queue.in_memory
    before = lists.ready_bytes
    assert 8 * 1_024 * SELECTORS <= before <= 8 * (DEEP + SELECTORS) * SELECTORS
    held = sum(one.held_bytes for one in client.session.subscriptions.values())
    assert scene.broker.memory.used == queue.nbytes + held + before
    subscribe(client, 50)
    subscribed = lists.ready_bytes
    assert subscribed >= before + 8 * DEEP
    equal = {"x-priority": "3", "selector": "n <> 1", "prefetch-count": "1"}
    scene.consumer(QUEUE, "1", "client", **equal).drop()
    assert lists.ready_bytes <= subscribed, "it reads the lane of another one"
    client.unsubscribe("50")
    assert lists.ready_bytes < subscribed
    other = scene.connect(client.version)
    other.subscribe(QUEUE)
    assert len(other.messages()) == DEEP
    assert (lists.ready_bytes, len(lists.ready_lists)) == (0, SELECTORS + 1)
    send(client, DEEP)
    other.drop()
    client.drop()
    assert (queue_of(scene).in_memory.ready_bytes, len(queue_of(scene).in_memory.ready_lists)) == (0, 1)
    assert scene.broker.memory.used == queue_of(scene).nbytes


def test_they_hold_back_publishers_like_messages(stage: Stage) -> None:
    scene = stage(memory_limit=1_000_000)
    client = scene.connect()
    subscribe(client, 0)
    send(client, DEEP)
    assert not scene.broker.memory.pressed
    for number in range(1, 60):
        subscribe(client, number)
    assert scene.broker.memory.pressed
    client.drop()
    assert not scene.broker.memory.pressed


@pytest.fixture
def paged(stage: Stage) -> Scene:
    """Two or three messages are in memory, and the others in the store alone."""
    scene = stage(stored=True, work_limits=WorkLimits(in_memory_bytes=1_000, page_messages=2))
    fill(scene, 10)
    fill(scene, 3, priority="1")
    return scene


def backlog_of(scene: Scene) -> PagedMessages:
    found = queue_of(scene).storage
    assert found is not None
    assert found.paged is not None
    return found.paged


def test_of_what_the_store_alone_has(paged: Scene) -> None:
    queue, paging = queue_of(paged), backlog_of(paged)
    last = paged.broker.router.number
    assert queue.oldest() == last - 12
    in_memory = queue.waiting_messages()
    for message in in_memory:
        queue.take_out(message)
        queue.let_go(message)
    queue.close_gaps()
    left = list(range(last - 12 + len(in_memory), last + 1))
    assert paging.first_rows() == [left[0], last - 2]
    for place in (1, 1, 0, -1):  # somebody takes them out of turn
        _take(paged, left.pop(place))
        assert paging.first_rows() == [left[0], last - 2]
    while left:
        assert queue.oldest() == left[0]
        _take(paged, left.pop(0))
    assert queue.oldest() is None
    paged.broker.forget_if_idle(queue)


def _take(scene: Scene, row: int) -> None:
    """A message leaves the backlog, for good."""
    backlog_of(scene).claim(row)
    found = queue_of(scene).storage
    assert found is not None
    found.leave_row(row)


def test_of_what_is_being_read(paged: Scene) -> None:
    paged.consumer(QUEUE, ack="client", **{"prefetch-count": "1"})
    reading = list(backlog_of(paged)._reading)
    assert len(reading) == 2
    assert backlog_of(paged).first_rows() == [reading[0], reading[1] + 1, paged.broker.router.number - 2]


@pytest.mark.parametrize("selectors", [False, True])
@pytest.mark.parametrize("groups", ["", "abc"])
@pytest.mark.parametrize("seed", range(8))
def test_of_one_priority_it_is_exact(stage: Stage, seed: int, groups: str, selectors: bool) -> None:
    """At each step of a sender, and of consumers that come, give back and leave."""
    drawn, seen = random.Random(seed), 0
    scene = stage({QUEUE: {"max_attempts": 0, "backoff": 0.1}})
    sender, consumers = scene.connect(), list[Client]()
    for _ in range(150):
        (what,) = drawn.choices(["send", "come", "ack", "nack", "leave", "wait"], [8, 2, 6, 2, 1, 1])
        if what == "send":
            group = {"JMSXGroupID": drawn.choice(groups)} if groups and drawn.random() < 0.7 else {}
            for _ in range(drawn.randint(1, 5)):
                sender.publish(QUEUE, x=drawn.choice("12"), **group)
        elif what == "come" and len(consumers) < 4:
            wanted = {"selector": f"x = '{drawn.choice('12')}'"} if selectors and drawn.random() < 0.7 else {}
            prefetch = {"prefetch-count": str(drawn.randint(1, 3))}
            consumers.append(scene.consumer(QUEUE, ack="client-individual", **prefetch, **wanted))
        elif what == "wait":
            scene.wait(0.2)
        elif what == "leave" and consumers:
            consumers.pop(drawn.randrange(len(consumers))).drop()
        elif what in ("ack", "nack") and consumers:
            consumer = drawn.choice(consumers)
            (subscription,) = consumer.session.subscriptions.values()
            if subscription.ledger:
                consumer.send(what.upper(), {"id": drawn.choice(list(subscription.ledger))})
        queue = scene.broker.destinations.get(QUEUE)
        if isinstance(queue, Queue):
            assert queue.oldest() == min((message.number for message in queue.waiting_messages()), default=None)
            seen += queue.waiting > 1
    assert seen > 20


class TestOrder:
    def test_all_places_can_be_looked_at(self) -> None:
        assert sorted(message.number for message in filled([new(1), new(3), new(2), new(0, 9)])) == [0, 1, 2, 3]

    def test_by_place_where_a_newer_one_stands_for_an_older(self) -> None:
        """Conflation: the number is its own, the place is that of the one it replaced."""
        messages = [new(number) for number in range(4)]
        ready_list = filled(messages)
        messages[1].waits = False
        newer = new(9)
        newer.place = 1
        ready_list.add(newer)
        assert drain(ready_list) == [0, 9, 2, 3]
