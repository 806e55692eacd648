"""What a COMMIT sends, and what a policy says of durable messages: no client sees them before the store has them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gateway.broker.core.work_limits import WorkLimits
from gateway.broker.model.options import PLAIN
from gateway.broker.model.policy import Visible, WhenFull
from gateway.codec import Head

from ..client import Scene
from ..conftest import Stage
from ..durable import P, fill

_AHEAD = 300_000  # bytes of a message; a reader of a stream goes on when less than that waits for its client


@pytest.fixture
def scene(stage: Stage) -> Scene:
    return stage({"/queue/dead": {"dead_letter_expired": True}}, stored=True)


class Mover:
    """A client that acknowledges durable messages, and sends in the same transaction."""

    def __init__(self, scene: Scene) -> None:
        fill(scene, 3, "/queue/in")
        self.client = scene.consumer("/queue/in", ack="client-individual")
        self.inputs = self.client.messages()

    def move(self, *destinations: str, body: bytes = b"out", **headers: str) -> None:
        client = self.client
        client.begin()
        client.ack(self.inputs.pop(0), transaction="t")
        for each in destinations:
            client.publish(each, body, transaction="t", **headers)
        client.send("COMMIT", {"transaction": "t", "receipt": "r"})


@pytest.fixture
def mover(scene: Scene) -> Mover:
    return Mover(scene)


@pytest.mark.parametrize("headers", [{}, P], ids=["transient", "durable"])
@pytest.mark.parametrize(
    ("source", "wish", "target", "wishes"),
    [
        ("/queue/out", {}, "/queue/out", {}),
        ("/queue/out", {"selector": "TRUE"}, "/queue/out", {}),
        ("/queue/out", {}, "/queue/out", {"JMSXGroupID": "g"}),
        ("/queue/out", {"browser": "true", "browser-end": "false"}, "/queue/out", {}),
        ("/topic/out", {}, "/topic/out", {}),
        ("/topic/out", {"ack": "client"}, "/topic/out", {}),
        ("/topic/*", {"no-local": "true"}, "/topic/out", {}),
        ("/topic/*", {"from-seq": "0", "ack": "client", "prefetch-count": "10"}, "/topic/out", {}),
        ("/topic/out", {"durable": "true"}, "/topic/out", {}),
        ("/topic/out", {"x-queue-name": "shared"}, "/topic/out", {}),
    ],
)
def test_a_commit_is_seen_when_it_is_stored_and_nothing_overtakes_it(
    scene: Scene,
    mover: Mover,
    source: str,
    wish: dict[str, str],
    target: str,
    wishes: dict[str, str],
    headers: dict[str, str],
) -> None:
    consumer = scene.connect()
    consumer.send("SUBSCRIBE", {"destination": source, "id": "0", "ack": "auto"} | wish)
    scene.commit()
    mover.move(target, **headers, **wishes)
    scene.connect().publish(target, b"behind", **wishes)
    assert not consumer.messages()
    assert not mover.client.receipts()
    scene.commit()
    assert consumer.bodies() == [b"out", b"behind"]
    assert mover.client.receipts() == ["r"]
    consumer.send("UNSUBSCRIBE", {"id": "0"} | wish)


@pytest.mark.parametrize("destination", ["/queue/out", "/topic/out"])
def test_a_commit_that_stores_nothing_is_seen_at_once_unless_it_stands_behind_another(
    scene: Scene, mover: Mover, destination: str
) -> None:
    client, consumer = scene.connect(), scene.consumer(destination)
    for body in (b"1", b"2"):
        client.begin()
        client.publish(destination, body, transaction="t")
        client.commit()
        if body == b"1":
            assert consumer.bodies() == [b"1"]
            mover.move(destination)
    assert not consumer.messages()
    scene.commit()
    assert consumer.bodies() == [b"out", b"2"]


@pytest.mark.parametrize("headers", [P, {"dedup-id": "1", **P}, {"x-delay": "1", **P}])
def test_a_durable_message_alone_is_stored_too(scene: Scene, headers: dict[str, str]) -> None:
    client, consumer = scene.connect(), scene.consumer("/queue/out")
    client.begin()
    client.publish("/queue/out", b"out", transaction="t", **headers)
    client.commit()
    scene.wait(1.0)
    assert not consumer.messages()
    scene.commit()
    scene.wait(1.0)
    assert consumer.bodies() == [b"out"]


def test_each_commit_waits_for_its_own_batch(scene: Scene, mover: Mover) -> None:
    queue_consumer, topic_consumer = scene.consumer("/queue/out"), scene.consumer("/topic/out")
    mover.move("/queue/out", "/topic/out", body=b"1")
    batch = scene.vault.take()
    mover.move("/queue/out", "/topic/out", body=b"2")
    scene.vault.write(batch)
    assert (queue_consumer.bodies(), topic_consumer.bodies()) == ([b"1"], [b"1"])
    scene.commit()
    assert (queue_consumer.bodies(), topic_consumer.bodies()) == ([b"2"], [b"2"])


def test_while_the_store_fails_nothing_of_it_is_seen(scene: Scene, mover: Mover) -> None:
    consumer = scene.consumer("/queue/out")
    scene.store.failure = "the disk is full"
    mover.move("/queue/out")
    scene.commit()
    assert not consumer.messages()
    scene.store.failure = ""
    scene.commit()
    assert consumer.bodies() == [b"out"]
    assert mover.client.receipts() == ["r"]


def test_what_a_kill_undoes_was_not_seen(scene: Scene, mover: Mover) -> None:
    consumer = scene.consumer("/queue/out")
    mover.move("/queue/out", **P)
    seen, again = consumer.bodies(), scene.crash()
    inputs, outputs = again.consumer("/queue/in"), again.consumer("/queue/out")
    again.commit()
    assert (len(inputs.messages()), [*seen, *outputs.bodies()]) == (3, [])


def test_older_messages_go_on(scene: Scene, mover: Mover) -> None:
    """A message that comes back, and one that is less urgent, and waits."""
    fill(scene, 2, "/queue/out", priority="0")
    consumer = scene.consumer("/queue/out", ack="client-individual", **{"prefetch-count": "1"})
    first = consumer.message()
    mover.move("/queue/out", priority="9")
    consumer.nack(first)
    assert consumer.bodies() == [b"0"]
    scene.commit()
    consumer.disconnect()
    last = scene.consumer("/queue/out")
    scene.commit()
    assert last.bodies() == [b"out", b"0", b"1"]


def test_an_urgent_message_of_a_group_does_not_go_out_with_an_older_one(scene: Scene, mover: Mover) -> None:
    consumer = scene.consumer("/queue/out", ack="client-individual", **{"prefetch-count": "1"})
    client = scene.connect()
    client.publish("/queue/out", b"1", JMSXGroupID="g")
    first = consumer.message()
    client.publish("/queue/out", b"2", priority="0")
    mover.move("/queue/out", JMSXGroupID="g", priority="9")
    consumer.ack(first)
    assert consumer.bodies() == [b"2"]


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_dead_letters_and_moved_messages_are_unseen_as_well(scene: Scene, mover: Mover, persistent: str) -> None:
    consumer = scene.consumer("/queue/dlq.in")
    client = mover.client
    client.begin()
    client.nack(mover.inputs.pop(), transaction="t", requeue="false")
    client.commit()
    dead = scene.consumer("/queue/dlq.dead")
    mover.move("/queue/dead", persistent=persistent, ttl="1000")
    moved = scene.consumer("/queue/elsewhere")
    mover.move("/queue/out", persistent=persistent)
    scene.message_admin.move("/queue/out", "/queue/elsewhere", None, "", None, lambda outcome: None)
    scene.settle()
    scene.wait(1.1)
    assert not [*consumer.messages(), *dead.messages(), *moved.messages()]
    scene.commit()
    assert (len(consumer.messages()), dead.bodies(), moved.bodies()) == (1, [b"out"], [b"out"])


@pytest.mark.parametrize("seconds", [0.5, 5.0])
def test_a_scheduled_message_arrives_when_its_commit_is_stored(scene: Scene, mover: Mover, seconds: float) -> None:
    consumer = scene.consumer("/queue/out")
    mover.move("/queue/out", **{"x-delay": "1000"})
    scene.wait(seconds)
    assert not consumer.messages()
    scene.commit()
    scene.wait(1.1)
    assert consumer.bodies() == [b"out"]


def test_a_scheduled_message_is_called_off_before_its_commit_is_stored(scene: Scene, mover: Mover) -> None:
    mover.move("/queue/out", **{"x-delay": "1000"})
    delayed = scene.broker.router.delayed
    (waiting,) = delayed.every()
    assert delayed.call_off(waiting)
    assert not delayed.call_off(waiting)
    scene.commit()
    scene.wait(2.0)
    assert "/queue/out" not in scene.broker.destinations


@pytest.mark.parametrize(("end", "seen"), [("false", [b"old", b"out"]), ("true", [b"old", b""])])
def test_a_browser_that_comes_meanwhile(scene: Scene, mover: Mover, end: str, seen: list[bytes]) -> None:
    scene.connect().publish("/queue/out", b"old")
    mover.move("/queue/out")
    browser = scene.consumer("/queue/out", browser="true", **{"browser-end": end})
    assert browser.bodies() == seen[: 1 if end == "false" else 2]
    scene.commit()
    assert browser.bodies() == seen[1 if end == "false" else 2 :]


@pytest.mark.parametrize("before", [False, True])
def test_what_a_topic_retains(scene: Scene, mover: Mover, before: bool) -> None:
    """Subscribers that come meanwhile get it once: live, if the topic had subscribers, else as what is retained."""
    first = [scene.consumer("/topic/out") for _ in range(before)]
    mover.move("/topic/out", retain="set")
    consumer = scene.consumer("/topic/out")
    assert not consumer.messages()
    scene.commit()
    message = consumer.message()
    assert ("retained" in message.headers) is not before
    assert [each.bodies() for each in first] == [[b"out"]] * before


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("name", ["/topic/out", "/topic/*"])
@pytest.mark.parametrize("wish", [{"from-seq": "0"}, {"resume": "me", "ack": "client", "from-seq": "0"}])
def test_readers_of_a_stream(stage: Stage, name: str, wish: dict[str, str], early: bool) -> None:
    """One has not read all when the message comes; the other comes when it is there already."""
    scene = stage({each: {"log_messages": 100} for each in ("/topic/out", "/topic/other")}, stored=True)
    mover, client = Mover(scene), scene.connect()
    for topic in ("/topic/out", "/topic/other", "/topic/out"):
        client.publish(topic, b"old" + b" " * _AHEAD)
    scene.commit()
    late, new = scene.connect(), scene.connect()
    late.stalled = True
    late.subscribe(name, "0", **wish)
    mover.move("/topic/out", "/topic/plain")
    new.subscribe(name, "1", **wish)
    client.publish("/topic/other", b"behind")
    if early:
        late.resume()
        scene.settle()
        assert {body[:3] for body in [*late.bodies(), *new.bodies()]} == {b"old"}
    scene.commit()
    late.resume()
    scene.commit()
    found = (
        [body for body in late.bodies() if body[:3] != b"old"],
        [body for body in new.bodies() if body[:3] != b"old"],
    )
    expected = [b"out"] if name == "/topic/out" else [b"behind", b"out", b"out"]
    assert [sorted(each) for each in found] == [expected, expected]


def test_the_last_subscriber_leaves_meanwhile(scene: Scene, mover: Mover) -> None:
    consumer = scene.consumer("/topic/out")
    mover.move("/topic/out")
    consumer.drop()
    scene.commit()
    assert "/topic/out" not in scene.broker.destinations


class TestPolicy:
    @pytest.fixture
    def scene(self, stage: Stage) -> Scene:
        rule = {"visible": Visible.STORED}
        return stage({"/queue/#": rule, "/topic/#": rule}, stored=True)

    @pytest.mark.parametrize(
        ("destination", "wish"),
        [("/queue/a", {}), ("/queue/a", {"ack": "client", "selector": "TRUE"}), ("/topic/a", {"durable": "true"})],
    )
    def test_a_durable_message_is_seen_when_it_is_stored(
        self, scene: Scene, destination: str, wish: dict[str, str]
    ) -> None:
        consumer, client = scene.connect(), scene.connect()
        consumer.send("SUBSCRIBE", {"destination": destination, "id": "0", "ack": "auto"} | wish)
        scene.commit()
        client.publish(destination, b"1", persistent="false")
        assert consumer.bodies() == [b"1"]
        client.publish(destination, b"2", **P)
        client.publish(destination, b"3", persistent="false")
        assert not consumer.messages()
        scene.commit()
        assert consumer.bodies() == [b"2", b"3"]
        consumer.send("UNSUBSCRIBE", {"id": "0"} | wish)

    @pytest.mark.parametrize("name", ["/topic/a.b", "/topic/*.b"])
    @pytest.mark.parametrize(
        ("keeper", "keys", "headers"),
        [
            (None, {}, {"retain": "set"} | P),
            (None, {"log_messages": 9}, {}),
            ("/topic/a.b", {}, {}),
            ("/topic/a.*", {}, {}),
        ],
    )
    def test_that_of_the_destination_is_for_all_its_subscribers(
        self, stage: Stage, name: str, keeper: str | None, keys: dict[str, int], headers: dict[str, str]
    ) -> None:
        """Whatever stores the message, a stream or one of them; and whatever the policy of a pattern says."""
        scene = stage({"/topic/a.b": {"visible": Visible.STORED} | keys}, stored=True)
        durable, live, client = scene.connect(), scene.consumer(name), scene.connect()
        durable.subscribe(keeper or "/topic/elsewhere", durable="true")
        scene.commit()
        client.publish("/topic/a.b", b"m", **headers)
        client.publish("/topic/a.b", b"behind", persistent="false")
        assert not [*live.messages(), *durable.messages()]
        scene.commit()
        every = [b"m", b"behind"]
        assert (live.bodies(), durable.bodies()) == (every, every if keeper else [])
        durable.send("UNSUBSCRIBE", {"id": "0", "durable": "true"})

    def test_and_for_those_that_come_later_and_get_what_is_retained(self, scene: Scene) -> None:
        scene.connect().publish("/topic/a", b"m", retain="set", **P)
        late = scene.consumer("/topic/a")
        assert not late.messages()
        scene.commit()
        assert late.bodies() == [b"m"]

    def test_that_of_a_pattern_is_for_the_subscribers_of_the_pattern(self, stage: Stage) -> None:
        rules = {"/topic/#": {"visible": Visible.STORED}, "/topic/a": {"visible": Visible.AT_ONCE}}
        scene = stage(rules, stored=True)
        by_pattern, by_name = scene.consumer("/topic/#"), scene.consumer("/topic/a")
        scene.connect().publish("/topic/a", b"m", retain="set", **P)
        assert (by_pattern.bodies(), by_name.bodies()) == ([], [b"m"])
        scene.commit()
        assert by_pattern.bodies() == [b"m"]

    def test_without_a_store_it_has_no_effect(self, stage: Stage) -> None:
        scene = stage({"#": {"visible": Visible.STORED}})
        consumer = scene.connect()
        for id, name in enumerate(("/queue/a", "/topic/a")):
            consumer.subscribe(name, str(id))
            scene.connect().publish(name, name.encode(), **P)
        assert consumer.bodies() == [b"/queue/a", b"/topic/a"]


class TestWhatIsHeldBack:
    """It is dealt with as if it came when it is shown."""

    @pytest.mark.parametrize("over", ["drop-oldest", "drop-newest", "dead-letter"])
    @pytest.mark.parametrize("count", [1, 10], ids=["one and others behind it", "all of it"])
    def test_what_an_idle_consumer_takes_meets_no_limit(self, stage: Stage, over: str, count: int) -> None:
        scene = stage({"/queue/few": {"max_messages": 5, "when_full": WhenFull(over)}}, stored=True)
        consumer, publisher = scene.consumer("/queue/few"), scene.connect()
        publisher.begin()
        for number in range(count):
            publisher.publish("/queue/few", b"%d" % number, transaction="t", **P)
        publisher.commit()
        for number in range(count, 11):
            publisher.publish("/queue/few", b"%d" % number)
        scene.commit()
        assert consumer.bodies() == [b"%d" % number for number in range(11)]

    @pytest.mark.parametrize(("over", "left"), [("drop-oldest", [b"2", b"3"]), ("drop-newest", [b"0", b"1"])])
    def test_what_waits_then_meets_it(self, stage: Stage, over: str, left: list[bytes]) -> None:
        scene = stage({"/queue/few": {"max_messages": 2, "when_full": WhenFull(over)}}, stored=True)
        publisher, batch = scene.connect(), None
        for number in range(4):
            if number == 2:
                batch = scene.vault.take()
            publisher.begin()
            publisher.publish("/queue/few", b"%d" % number, transaction="t", **P)
            publisher.commit()
        scene.vault.write(batch)
        scene.commit()
        assert scene.consumer("/queue/few").bodies() == left

    @pytest.mark.parametrize("over", ["drop-oldest", "drop-newest", "dead-letter"])
    def test_while_the_store_fails_publishers_wait_as_soon_as_there_are_as_many_as_may_wait(
        self, stage: Stage, over: str
    ) -> None:
        scene = stage({"/queue/few": {"max_messages": 3, "when_full": WhenFull(over)}}, stored=True)
        consumer, mover = scene.consumer("/queue/few"), Mover(scene)
        scene.store.failure = "the disk is full"
        mover.move("/queue/few")
        scene.commit()
        publisher, full = scene.connect(), []
        for _ in range(3):
            publisher.publish("/queue/few", b"behind")
            full += scene.broker.context.take_full()
        assert [each.name for each in full] == ["/queue/few"]
        scene.store.failure, rooms = "", scene.rooms
        scene.commit()
        assert (scene.rooms, scene.broker.context.take_full()) == (rooms + 1, set())
        assert consumer.bodies() == [b"out"] + 3 * [b"behind"]

    def written(self, scene: Scene, name: str) -> list[bytes]:
        """The store has what a transaction sends, and the first slice is shown; returns all of it."""
        publisher, bodies = scene.connect(), [b"%d" % number for number in range(10)]
        publisher.begin()
        for body in bodies:
            publisher.publish(name, body, transaction="t")
        publisher.publish("/queue/log", b"", transaction="t", **P)
        publisher.commit()
        batch = scene.vault.take()
        assert batch is not None
        scene.store.write(batch)
        scene.vault.storage.written()
        return bodies

    @pytest.mark.parametrize("name", ["/queue/out", "/topic/out"])
    def test_it_is_shown_in_slices_and_what_comes_meanwhile_stands_behind(self, stage: Stage, name: str) -> None:
        scene = stage(stored=True, work_limits=WorkLimits(shown_per_turn=4))
        consumer, counters = scene.consumer(name), scene.broker.counters
        bodies, delivered = self.written(scene, name), [0]
        scene.broker.deposit(name, Head.of("SEND", {"destination": name}), b"behind", PLAIN, unseen=True)
        assert scene.vault.take() is None  # what hides that one comes to nothing, meanwhile
        while delivered.append(counters.delivered) or scene.broker.scheduler.proceed():  # type: ignore[func-returns-value]
            pass
        assert max(after - before for before, after in pairwise([*delivered, counters.delivered])) <= 5
        scene.settle()
        assert consumer.bodies() == [*bodies, b"behind"]

    def test_a_browser_between_two_slices_misses_nothing(self, stage: Stage) -> None:
        scene = stage(stored=True, work_limits=WorkLimits(shown_per_turn=4))
        browser = scene.connect()
        bodies = self.written(scene, "/queue/out")
        browser.subscribe("/queue/out", browser="true")
        assert browser.bodies() == [*bodies, b""]

    def test_a_topic_holds_publishers_back_and_ends_no_subscriber_that_reads(self, stage: Stage) -> None:
        scene = stage(stored=True, max_outbound=64 * 1024)
        fast, publisher = scene.consumer("/topic/out"), scene.connect()
        publisher.begin()
        publisher.publish("/topic/out", b"x", transaction="t")
        publisher.publish("/queue/log", b"x", transaction="t", **P)
        publisher.commit()
        full = []
        while not full:
            publisher.publish("/topic/out", b"y" * 10_000)
            full = [each.name for each in scene.broker.context.take_full()]
        rooms = scene.rooms
        assert full == ["/topic/out"]
        scene.commit()
        assert scene.rooms == rooms + 1
        assert fast.bodies()[0] == b"x"
        assert not fast.closed

    def test_the_next_publisher_waits_for_a_slow_subscriber(self, stage: Stage) -> None:
        scene = stage(stored=True, max_outbound=64 * 1024)
        slow, publisher = scene.consumer("/topic/out"), scene.connect()
        slow.stalled = True
        strained = scene.broker.context.slow_consumers
        waits = []
        while not slow.closed and not any(waits):
            publisher.begin()
            publisher.publish("/topic/out", b"y" * 5_000, transaction="t")
            publisher.publish("/queue/log", b"e", transaction="t", **P)
            publisher.commit()
            waits.append(strained.take_strained())
            scene.commit()
            assert not strained.take_strained()  # no publisher caused what was shown then
        assert not slow.closed
        slow.resume()
        publisher.begin()
        publisher.publish("/topic/out", b"y", transaction="t")
        publisher.publish("/queue/log", b"e", transaction="t", **P)
        publisher.commit()
        assert not strained.take_strained()  # it has read

    def test_a_position_under_a_new_name_is_before_it(self, stage: Stage) -> None:
        scene = stage({"/topic/kept": {"log_messages": 100}}, stored=True)
        publisher = scene.connect()
        scene.consumer("/topic/kept")
        publisher.begin()
        publisher.publish("/topic/kept", b"m", transaction="t", **P)
        publisher.commit()
        for _ in range(2):  # it is not acknowledged, and comes again
            reader = scene.connect()
            reader.subscribe("/topic/kept", ack="client", resume="me")
            scene.commit()
            assert reader.bodies() == [b"m"]
            reader.drop()

    def test_a_browser_is_not_slow_for_it(self, stage: Stage) -> None:
        scene = stage(stored=True, max_outbound=64 * 1024)
        publisher, browser = scene.connect(), scene.connect()
        browser.subscribe("/queue/out", browser="true", **{"browser-end": "false"})
        publisher.begin()
        publisher.publish("/queue/out", b"x", transaction="t", **P)
        publisher.commit()
        for _ in range(10):
            publisher.publish("/queue/out", b"y" * 10_000)
        scene.commit()
        assert not browser.closed
        assert browser.bodies()[0] == b"x"
