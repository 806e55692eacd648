"""Replay: a subscriber of a topic with a stream gets what it missed, then what comes; without gap, or told so."""

from __future__ import annotations

import pytest

from gateway.broker.core.work_limits import WorkLimits
from gateway.codec import V12, Frame, Head, Version

from ..client import ALL, Client, Scene, Step
from ..conftest import Stage, small
from .logged import BOTH, FIRST, LOG, LOGS, ME, T, bodies_and_gaps, fill, gaps, got, log_of, numbers, seqs, write

MODES = [(version, ack) for version in ALL for ack in ("auto", "client", "client-individual") if version is not ALL[0]]
MODES += [(ALL[0], "auto"), (ALL[0], "client")]
EACH_MODE = pytest.mark.parametrize(("version", "ack"), MODES, ids=[f"{version.name}-{ack}" for version, ack in MODES])
LEAVE = [Client.drop, Client.disconnect, Client.unsubscribe, lambda client: client.send("ACK", {"id": "none"})]


# Pages are small, and so is what a log in the store has in memory.
SHORT = {"replay_messages": 3, "tail_messages": 2}


def known(scene: Scene, count: int, name: str = T) -> list[int]:
    """Messages in a log, and their numbers."""
    client = scene.connect()
    client.subscribe(name)
    fill(scene, count, name)
    found = seqs(client.messages())
    client.disconnect()
    return found


def say(client: Client, command: str, body: bytes = b"", **headers: str) -> None:
    """A frame, without the turns behind it."""
    client.session.handle(Frame(Head.of(command, headers), body))


def come(scene: Scene, name: str = T, version: Version = V12, ack: str = "auto", **headers: str) -> Client:
    client = scene.connect(version)
    client.subscribe(name, ack=ack, **(headers or FIRST))
    return client


@small(**SHORT)
class TestFromSeq:
    @BOTH
    @EACH_MODE
    def test_from_there_and_over_to_live(self, stage: Stage, version: Version, ack: str, stored: bool) -> None:
        scene = stage(LOG, stored=stored)
        seen = known(scene, 10)
        client = come(scene, T, version, ack, **{"from-seq": str(seen[4])})
        found = got(client)
        fill(scene, 3, start=10)
        found += got(client)
        assert seqs(found) == list(range(seen[4], seen[-1] + 4))
        assert [int(each.body) for each in found] == list(range(4, 13))
        assert gaps(found) == [False] * 9
        assert len({each.message_id for each in found}) == 9
        found = got(come(scene, **{"x-stream-offset": f"offset={seen[8]}"}))  # as RabbitMQ says it
        assert [int(each.headers["x-stream-offset"]) for each in found] == list(range(seen[8], seen[-1] + 4))

    @BOTH
    @pytest.mark.parametrize(
        ("headers", "expected"),
        [
            ({"from-seq": "0"}, [0, 1, 2, 3, 4]),
            ({"from-seq": "-1"}, []),
            ({"x-stream-offset": "first"}, [0, 1, 2, 3, 4]),
            ({"x-stream-offset": "last"}, [4]),
            ({"x-stream-offset": "next"}, []),
            ({"activemq.retroactive": "true"}, [0, 1, 2, 3, 4]),
            ({"activemq.retroactive": "false"}, []),
            ({"x-stream-offset": "last", "from-seq": "0"}, [0, 1, 2, 3, 4]),  # the canonical one counts
        ],
    )
    def test_all_spellings(self, stage: Stage, stored: bool, headers: dict[str, str], expected: list[int]) -> None:
        scene = stage(LOG, stored=stored)
        fill(scene, 5)
        client = come(scene, **headers)
        fill(scene, 1, start=5)
        assert numbers(client) == [*expected, 5]

    @BOTH
    @pytest.mark.parametrize("name", [T, "/topic/*"])
    def test_by_time(self, stage: Stage, stored: bool, name: str) -> None:
        scene = stage(LOGS, stored=stored)
        fill(scene, 2)
        scene.wait(10.0)
        now = int(scene.broker.scheduler.epoch())
        fill(scene, 2, start=2)
        fill(scene, 1, "/topic/b", start=9)
        others = [9] if name != T else []
        for moment, expected in ((now, [2, 3, *others]), (now + 1, []), (now - 5, [2, 3, *others])):
            client = come(scene, name, **{"x-stream-offset": f"timestamp={moment}"})
            found = got(client)
            assert [int(each.body) for each in found if each.body] == expected


@small(**SHORT)
class TestGaps:
    @BOTH
    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_the_first_says_so(self, stage: Stage, ack: str, stored: bool) -> None:
        scene = stage({T: {"log_messages": 3}}, stored=stored)
        seen = known(scene, 8)
        seen.append(seen[-1] + 1)  # the end of the log
        for start, has_gap in ((2, True), (4, True), (5, False), (6, False), (8, False)):
            found = got(come(scene, ack=ack, **{"from-seq": str(seen[start])}))
            assert seqs(found) == seen[max(start, 5) : -1]
            assert gaps(found) == [has_gap, *[False] * (len(found) - 1)][: len(found)]
            if has_gap:
                assert (found[0].headers["gap"], found[0].headers["first-seq"]) == ("true", str(seen[5]))
        found = got(come(scene, ack=ack, **{"from-seq": str(seen[-1] + 10**12)}))  # of something else
        assert (seqs(found), gaps(found)) == (seen[5:-1], [True, False, False])

    @BOTH
    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_an_empty_log(self, stage: Stage, ack: str, stored: bool) -> None:
        """An empty MESSAGE says so, which has no number of its own."""
        scene = stage({T: {"log_age": 1.0}}, stored=stored)
        seen = known(scene, 2)
        scene.wait(3.0)
        client = come(scene, ack=ack, **{"from-seq": str(seen[0])})
        (notice,) = got(client)
        told = [notice.headers.get(name) for name in ("gap", "first-seq", "destination", "seq")]
        assert (notice.body, told) == (b"", ["true", str(seen[1] + 1), T, None])
        fill(scene, 1)
        found = got(client)
        assert seqs(found) == [seen[1] + 1]
        assert gaps(found) == [False]
        if ack != "auto":
            client.ack(notice)
            client.ack(found[0])

    @BOTH
    def test_with_a_selector(self, stage: Stage, stored: bool) -> None:
        """The first message that it takes says so, or a notice, where it takes none."""
        scene = stage({T: {"log_messages": 2}}, stored=stored)
        seen = known(scene, 4)
        headers = {"from-seq": str(seen[0]), "selector": "n = 1"}
        client = come(scene, **headers)
        (notice,) = got(client)
        assert (notice.body, notice.headers["first-seq"]) == (b"", str(seen[2]))
        fill(scene, 1, start=4, n="1")
        assert gaps(got(client)) == [False]
        assert bodies_and_gaps(got(come(scene, **headers))) == [(4, True)]

    def test_what_is_damaged(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of what is to be read, some cannot be: the next one says so."""
        scene = stage(LOG, stored=True)
        seen = known(scene, 9)
        read, bad = scene.store.read, sorted(scene.store.rows)[3:5]
        monkeypatch.setattr(scene.store, "read", lambda rows: [each for each in read(rows) if each.row.row not in bad])
        for _ in range(2):  # it was not acknowledged
            client = come(scene, ack="client", resume="me", **FIRST)
            found = got(client)
            assert seqs(found) == seen[:3] + seen[5:]
            assert gaps(found) == [False] * 3 + [True] + [False] * 3
            client.drop()

    def test_in_a_pattern_each_log_tells_its_own(self, stage: Stage) -> None:
        scene = stage({"/topic/#": {"log_messages": 2}})
        for name, count in (("/topic/a", 3), ("/topic/b", 2), ("/topic/c", 4)):
            fill(scene, count, name)
        client = come(scene, "/topic/*", **{"x-stream-offset": "timestamp=1"})
        found = got(client)
        assert "".join(each.headers["destination"][-1] for each in found) == "aabbcc"
        assert gaps(found) == [True, False, False, False, True, False]


@small(**SHORT)
class TestPatterns:
    def test_in_a_pattern_that_of_forgotten_logs(self, stage: Stage) -> None:
        scene = stage({"/topic/#": {"log_age": 5.0}}, work_limits=WorkLimits(resting_streams=0, **SHORT))
        client = come(scene, "/topic/*", ack="client", resume="me")
        fill(scene, 1)
        client.drop()
        scene.wait(8.0)
        (notice,) = got(come(scene, "/topic/*", ack="client", resume="me"))
        told = [notice.headers.get(name) for name in ("destination", "gap", "first-seq")]
        assert told == ["/topic/*", "true", None]

    @BOTH
    @pytest.mark.parametrize("headers", [FIRST, {"x-stream-offset": "first"}, {"activemq.retroactive": "true"}])
    def test_as_one_log_in_the_order_of_arrival(self, stage: Stage, stored: bool, headers: dict[str, str]) -> None:
        scene = stage(LOGS, stored=stored)
        for number in range(12):
            fill(scene, 1, f"/topic/{'abca'[number % 4]}", start=number)
        client = come(scene, "/topic/*", **headers)
        fill(scene, 1, "/topic/new", start=12)
        assert numbers(client) == list(range(13))


@small(replay_looks=3)
class TestManyLogs:
    """They are looked at in turns, while more comes to them, and more of them come."""

    def begin(self, stage: Stage, name: str, headers: dict[str, str], *, stored: bool = False) -> tuple[Client, Client]:
        """A subscriber after its first turn, of ten logs with a message each; and a publisher."""
        scene = stage({"/topic/l.#": {"log_messages": 9}}, stored=stored)
        for number in range(10):
            fill(scene, 1, f"/topic/l.{number}", start=number)
        client, publisher = scene.connect(), scene.connect()
        say(client, "SUBSCRIBE", destination=name, id="0", **headers)
        return client, publisher

    @pytest.mark.parametrize("stored", [False, True])
    @pytest.mark.parametrize(
        "start", [FIRST, ME | FIRST, {"x-stream-offset": "timestamp=1"}], ids=["all", "name", "time"]
    )
    def test_new_messages_come_behind(self, stage: Stage, stored: bool, start: dict[str, str]) -> None:
        client, publisher = self.begin(stage, "/topic/l.*", start, stored=stored)
        number = 10
        while number < 20:
            for name in (number, number - 10):
                say(publisher, "SEND", b"%d" % number, destination=f"/topic/l.{name}")
                number += 1
            client.scene.broker.scheduler.proceed()
        client.scene.settle()
        publisher.publish("/topic/l.0", b"20")
        assert numbers(client) == list(range(21))

    def test_topics_without_a_log_come_live(self, stage: Stage) -> None:
        client, publisher = self.begin(stage, "/topic/#", FIRST | {"selector": "n IS NULL"})
        say(publisher, "SEND", b"100", destination="/topic/other")
        say(publisher, "SEND", b"101", destination="/topic/other", n="1")  # not wanted
        client.scene.settle()
        assert numbers(client) == [100, *range(10)]

    @pytest.mark.parametrize("leave", LEAVE[:3])
    def test_a_subscriber_that_leaves_between_the_turns(self, stage: Stage, leave: Step) -> None:
        client, _ = self.begin(stage, "/topic/#", FIRST)
        leave(client)
        assert numbers(client) == []


@small(**SHORT)
class TestStalled:
    @BOTH
    @pytest.mark.parametrize("ack", ["auto", "client"])
    @pytest.mark.parametrize("policy", ["block", "drop-oldest", "conflate", "disconnect"])
    def test_a_client_that_does_not_read_holds_up_no_other(
        self, stage: Stage, ack: str, stored: bool, policy: str
    ) -> None:
        """And replay drops nothing, whatever the policy says of slow consumers: that is for live messages."""
        slow = {"slow_consumer": policy, "slow_messages": 2, "conflate_by": "key"}
        scene = stage({T: {"log_messages": 1_000, **slow}}, stored=stored, max_outbound=8_000)
        sender = scene.connect()
        for number in range(40):
            sender.publish(T, b"%d" % number + b" " * 200)
        write(scene)
        client = scene.connect()
        client.stalled = True
        client.subscribe(T, ack=ack, **FIRST)
        write(scene)
        assert client.session.outbox.size < 2 * client.session.outbox.window
        for number in range(40, 60):
            sender.publish(T, b"%d" % number + b" " * 200)
        write(scene)
        assert client.session.outbox.size < 2 * client.session.outbox.window
        assert not scene.broker.context.slow_consumers.strained
        client.resume()
        assert numbers(client) == list(range(60))

    def test_what_waits_may_expire(self, stage: Stage) -> None:
        """The one that waits in the queue goes, and the next ones come as soon as there is room."""
        scene = stage({T: {"log_messages": 9}})
        fill(scene, 1)
        fill(scene, 1, start=1, ttl="5000")
        fill(scene, 2, start=2)
        client = come(scene, ack="client", **FIRST, **{"prefetch-count": "1"})
        first = client.message()
        scene.wait(6.0)
        client.ack(first)
        assert [int(each.body) for each in client.messages()] == [2]

    @pytest.mark.parametrize("leave", LEAVE)
    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_one_that_leaves_while_a_page_is_read(self, stage: Stage, leave: Step, ack: str) -> None:
        scene = stage(LOG, stored=True)
        fill(scene, 9)
        client = come(scene, ack=ack, **FIRST)
        assert client.messages() == []
        leave(client)
        client.received()
        write(scene)
        assert client.received() == []
        assert scene.broker.context.subscriptions == 0

    def test_when_the_store_fails_meanwhile(self, stage: Stage) -> None:
        scene = stage(LOG, stored=True)
        fill(scene, 5)
        scene.store.failure = "a bad block"
        client = come(scene)
        assert numbers(client) == []
        scene.store.failure = ""
        assert numbers(client) == [0, 1, 2, 3, 4]


class TestFilters:
    @BOTH
    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_selector(self, stage: Stage, ack: str, stored: bool) -> None:
        scene = stage(LOG, stored=stored)
        first = known(scene, 1)[0]
        for number in range(1, 6):
            fill(scene, 1, start=number, n=str(number % 2))
        client = come(scene, ack=ack, **FIRST, selector="n = 1")
        fill(scene, 1, start=6, n="1")
        fill(scene, 1, start=7, n="0")
        assert numbers(client) == [1, 3, 5, 6]
        assert numbers(come(scene, ack=ack, **FIRST, selector=f"seq > {first + 5}")) == [6, 7]

    @BOTH
    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_not_ones_own(self, stage: Stage, ack: str, stored: bool) -> None:
        # Where there is a store, they are read back.
        scene = stage(LOG, stored=stored, work_limits=WorkLimits(tail_messages=0))
        client = scene.connect()
        client.publish(T, b"0")
        fill(scene, 1, start=1)
        client.subscribe(T, ack=ack, **FIRST, **{"no-local": "true"})
        client.publish(T, b"2")
        fill(scene, 1, start=3)
        assert numbers(client) == [1, 3]

    @BOTH
    @pytest.mark.parametrize("ack", ["auto", "client"])
    @pytest.mark.parametrize("again", [False, True])
    def test_not_expired_messages(self, stage: Stage, stored: bool, ack: str, again: bool) -> None:
        scene = stage(LOG, stored=stored)
        fill(scene, 1)
        fill(scene, 1, start=1, ttl="5000")
        fill(scene, 1, start=2, ttl="50000")
        if stored and again:
            scene = scene.restart(away=3.0)
        assert len(log_of(scene)) == 3
        scene.wait(4.0 if stored and again else 6.0)
        found = got(come(scene, ack=ack, **FIRST))
        assert bodies_and_gaps(found) == [(0, False), (2, False)]
        assert "expires" in found[1].headers


class TestWhatComesBack:
    def test_a_notice_of_a_gap_that_becomes_a_dead_letter_in_a_log(self, stage: Stage) -> None:
        scene = stage({T: {"log_age": 1.0, "dead_letter": "/topic/dead"}, "/topic/dead": {"log_messages": 9}})
        seen = known(scene, 2)
        scene.wait(3.0)
        client, reader = come(scene, ack="client", **{"from-seq": str(seen[0])}), come(scene, "/topic/dead")
        client.nack(client.message(), requeue="false")
        headers = reader.message().headers
        assert (headers["dlq-source"], {"gap", "first-seq"} & headers.keys()) == (T, set())

    @small(tail_messages=0)
    def test_priorities_and_keys_come_back_with_them(self, stage: Stage) -> None:
        scene = stage(LOG, stored=True)
        fill(scene, 1, priority="9")
        fill(scene, 1, start=1, _AMQ_LVQ_NAME="k")
        fill(scene, 1, start=2, _AMQ_LVQ_NAME="k")
        assert numbers(come(scene, ack="client", **FIRST)) == [0, 1, 2]


@pytest.mark.parametrize("headers", [{"from-seq": "-1"}, {"x-stream-offset": "next"}, {"include-seq": "n"}])
def test_a_subscriber_that_is_replayed_nothing_gets_what_is_retained(stage: Stage, headers: dict[str, str]) -> None:
    scene = stage(LOG)
    fill(scene, 1, retain="set")
    fill(scene, 1, start=1)
    found = got(come(scene, **headers))
    assert [int(each.body) for each in found] == [0]
    assert found[0].headers["retained"] == "true"
    assert "seq" in found[0].headers


class TestRefused:
    @pytest.mark.parametrize(
        ("name", "ack", "headers", "message"),
        [
            ("/topic/b", "auto", {"from-seq": "1"}, "the topic keeps no stream"),
            ("/topic/b", "auto", {"include-seq": "n"}, "the topic keeps no stream"),
            ("/temp-topic/b", "auto", {"from-seq": "0"}, "a temporary topic keeps no stream"),
            ("/topic/*", "auto", {"from-seq": "1"}, "from-seq is for one topic"),
            (T, "auto", {"resume": "me"}, "resume needs acknowledgements"),
            (T, "auto", {"from-seq": "1", "durable": "true"}, "a durable subscription has a queue of its own"),
            (T, "client", {"resume": "me", "x-queue-name": "q"}, "a durable subscription has a queue of its own"),
            ("/queue/a", "auto", {"from-seq": "0"}, "replay is for topics"),
        ],
    )
    def test_says_why(self, stage: Stage, name: str, ack: str, headers: dict[str, str], message: str) -> None:
        scene = stage(LOG)
        client = come(scene, name, ack=ack, **headers)
        assert client.error().headers["message"] == message
        assert not scene.broker.destinations
        assert len(scene.broker.registry.streams) == 0

    @pytest.mark.parametrize("name", ["/topic/b", "/queue/a"])
    @pytest.mark.parametrize("headers", [{"x-stream-offset": "next"}, {"activemq.retroactive": "true"}])
    def test_what_asks_for_nothing_passes(self, stage: Stage, name: str, headers: dict[str, str]) -> None:
        scene = stage(LOG)
        client = come(scene, name, **headers)
        durable = come(scene, T, **headers, **{"x-queue-name": "q"})
        for each in (name, T):
            fill(scene, 2, each)
        assert numbers(client) == numbers(durable) == [0, 1]


@pytest.mark.parametrize(("page", "page_bytes", "count"), [(200, 10**6, 9), (200, 1_000, 1), (3, 10**6, 2)])
def test_a_page_is_read_back_and_counts(stage: Stage, page: int, page_bytes: int, count: int) -> None:
    limits = WorkLimits(tail_messages=0, replay_messages=page, replay_bytes=page_bytes)
    scene = stage(LOG, stored=True, work_limits=limits)
    fill(scene, 10)
    before = scene.broker.memory.used
    client = scene.connect()
    client.stalled = True
    client.session.outbox.window = 1
    client.subscribe(T, **FIRST)
    write(scene)
    size = log_of(scene).nbytes // 10
    assert (scene.broker.memory.used - before) // size == count  # the first is in the outbox
    client.resume()
    assert numbers(client) == list(range(10))
    assert scene.broker.memory.used == before
