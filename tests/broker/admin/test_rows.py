"""Sessions, subscriptions, destinations and messages, in queues and elsewhere, as the admin API lists them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from itertools import chain
from urllib.parse import unquote

import pytest

from gateway.broker import Broker
from gateway.broker.admin import rows, stored_rows
from gateway.broker.admin.message_rows import HIDDEN, SECRETS
from gateway.broker.model.destinations import DURABLE
from gateway.broker.model.message import Message
from gateway.broker.model.policy import Kept, SlowConsumerAction, WhenFull
from gateway.broker.queue.subscription import Subscription
from gateway.broker.topic.offsets import Offsets

from ..client import ALL, EPOCH, Client, Scene
from ..conftest import Stage
from ..durable import P
from ..recorder import recorded
from ..topic.logged import BOTH, LOG, ME, T, fill, got, write
from .operators import Operator


def destinations(scene: Scene) -> list[dict[str, object]]:
    return [rows.of_destination(target) for target in rows.every_destination(scene.broker)]


def destination(scene: Scene, name: str) -> dict[str, object]:
    (row,) = [row for row in destinations(scene) if row["name"] == name]
    return row


def every_subscription(broker: Broker) -> Iterator[Subscription]:
    return chain.from_iterable(session.subscriptions.values() for session in broker.sessions.values())


def test_a_session(scene: Scene) -> None:
    client = scene.connect(transport="websocket")
    client.stalled = True
    client.subscribe("/queue/a", "0", ack="client")
    client.subscribe("/topic/a", "1")
    client.publish("/queue/a")
    client.begin()
    client.session.heart_beat = (1000, 500)
    assert rows.of_session(client.session) == {
        "id": client.session.id,
        "login": "anonymous",
        "client_id": "",
        "version": "1.2",
        "transport": "websocket",
        "peer": "127.0.0.1:50000",
        "connected_at": EPOCH,
        "subscriptions": 2,
        "unacknowledged": 1,
        "oldest_unacknowledged_age": 0.0,
        "transactions": 1,
        "pending_octets": len(b"".join(client.session.outbox.parts)),
        "frames_in": 4,
        "delivered": 0,
        "heart_beat": [1000, 500],
    }


class TestSubscriptions:
    def test_of_a_queue(self, scene: Scene) -> None:
        client = scene.connect_by(b"CONNECT\naccept-version:1.2\nhost:x\nlogin:ann\n\n\0")
        client.subscribe("a", "7", ack="client", selector="x = 1", **{"prefetch-count": "5"})
        client.publish("a", x="1")
        (subscription,) = every_subscription(scene.broker)
        assert rows.of_subscription(subscription) == {
            "session": client.session.id,
            "login": "ann",
            "client_id": "",
            "id": "7",
            "destination": "a",
            "target": "/queue/a",
            "ack": "client",
            "selector": "x = 1",
            "prefetch": 5,
            "unacknowledged": 1,
            "oldest_unacknowledged_age": 0.0,
            "waiting": 0,
            "stored": 0,
            "delivered": 1,
            "stalled": False,
            "durable": None,
            "browser": False,
        }

    def test_of_other_kinds(self, scene: Scene) -> None:
        client = scene.connect()
        client.publish("a")
        client.subscribe("/topic/a.*", "topic")
        client.publish("/topic/a.b")
        client.subscribe("a", "browser", browser="true", **{"browser-end": "false"})
        client.subscribe("/topic/a", "durable", durable="true")
        scene.connect(ALL[0]).send("SUBSCRIBE", {"destination": "b"})
        every = list(every_subscription(scene.broker))
        (name,) = scene.broker.registry.durable_subscriptions._found
        found = [rows.of_subscription(each) for each in every]
        assert [(row["id"], row["target"], row["delivered"], row["browser"], row["durable"]) for row in found] == [
            ("topic", "/topic/a.*", None, False, None),
            ("browser", "/queue/a", None, True, None),
            ("durable", name, 0, False, name),
            (None, "/queue/b", 0, False, None),
        ]
        assert found[2]["destination"] == "/topic/a"
        assert rows.subscriptions_of(scene.broker.destinations["/queue/a"]) == [every[1]]
        assert (rows.SUBSCRIPTION_KEYS["id"](every[3]), rows.SUBSCRIPTION_KEYS["prefetch"](every[3])) == ("", 0)
        client.send("UNSUBSCRIBE", {"id": "durable", "durable": "true"})


class TestDestinations:
    def test_queues_and_topics(self, stage: Stage) -> None:
        scene = stage({"/queue/b": {"backoff": 1.0}})
        client, other = scene.connect(), scene.connect()
        client.subscribe("/topic/a", "0")
        other.subscribe("/topic/a", "0")
        for _ in range(3):
            client.publish("b", b"x")
        other.subscribe("b", "1", ack="client-individual")
        other.nack(other.messages()[0])
        for _ in range(2):
            client.publish("c", b"x")
        nbytes = scene.broker.memory.used // 5 * 2
        names = ["name", "kind", "subscriptions", "waiting", "oldest_age", "oldest_age_is_least"]
        names += ["delayed", "unacknowledged", "octets"]
        expected = [
            ("/topic/a", "topic", 2, 0, None, False, 0, 0, 0),
            ("/queue/b", "queue", 1, 0, None, False, 1, 2, 0),
            ("/queue/c", "queue", 0, 2, 0.0, True, 0, 0, nbytes),
        ]
        plain = {"stored": 0, "full": False, "durable": False, "dead_letters": False, "log": None}
        counted = {"published": (0, 3, 2), "delivered": (0, 3, 0)}
        found = destinations(scene)
        assert [{key: row[key] for key in (*names, *plain)} for row in found] == [
            dict(zip(names, row, strict=True)) | plain for row in expected
        ]
        assert {key: tuple(row[key] for row in found) for key in counted} == counted
        queue, topic = scene.broker.destinations["/queue/b"], scene.broker.destinations["/topic/a"]
        assert (rows.groups_of(queue), rows.groups_of(topic)) == (0, None)
        for group in "ggh":
            client.publish("b", b"", JMSXGroupID=group)
        assert rows.groups_of(queue) == 2

    def test_those_in_use_and_then_patterns_and_then_hidden_ones(self, scene: Scene) -> None:
        client = scene.connect()
        for id, name in enumerate(("/topic/b.*", "/user/queue/x", "/queue/c", "/topic/a")):
            client.subscribe(name, str(id))
        client.publish("d")
        found = destinations(scene)
        mail = f"/user/{client.session.id}/queue/x"
        assert [row["name"] for row in found] == ["/queue/c", "/topic/a", "/queue/d", "/topic/b.*", mail]
        assert [row["kind"] for row in found] == ["queue", "topic", "queue", "pattern", "topic"]

    def test_what_outlives_the_process(self) -> None:
        rules = {"/queue/d": {"durable": True}, "/topic/l": {"log_messages": 5}}
        scene = Scene(rules | {"/topic/s": {"subscriptions_keep": Kept.AS_SENT}}, stored=True)
        client = scene.connect()
        for id, name in enumerate(("/topic/t", "/topic/s")):
            client.subscribe(name, str(id), durable="true")
            client.unsubscribe(str(id))
            client.publish(name, b"x")
        client.publish("/topic/l", b"x", persistent="true")
        stream = scene.broker.registry.streams.matching("/topic/l")[0]
        log = {"first": stream.next - 1, "next": stream.next, "messages": 1, "octets": stream.nbytes}
        assert destination(scene, "/topic/l")["log"] == log
        for name in ("d", "e"):
            client.publish(name, b"x", persistent="true")
            client.publish(name, b"x")
        every = {unquote(str(row["name"])): (row["durable"], row["stored"]) for row in destinations(scene)}
        assert {name.removeprefix("/dsub/anonymous//"): found for name, found in every.items()} == {
            "/topic/l": (True, 0),
            "/queue/d": (True, 2),
            "/queue/e": (False, 1),
            "0//topic/t": (True, 1),
            "1//topic/s": (False, 0),
            "/topic/t": (False, 0),
            "/topic/s": (False, 0),
        }

    def test_names_for_people_and_the_subscribers_behind_a_topic(self) -> None:
        scene = Scene()  # durable subscriptions are left
        ann = scene.connect_by(b"CONNECT\naccept-version:1.2\nhost:x\nlogin:ann\nclient-id:desk\n\n\0")
        ann.subscribe("/topic/a.*", "led", durable="true")
        ann.subscribe("/topic/a.b", "1", **{"activemq.subscriptionName": "stock"})
        ann.subscribe("/topic/a.b", "2", **{"x-queue-name": "shared"})
        scene.connect().subscribe("/topic/a.b", "of anonymous", durable="true")
        ann.subscribe("/topic/a.#", "3")
        ann.subscribe("/queue/a", "4")
        registry = scene.broker.registry
        every = {rows.title_of(registry, target): target for target in rows.every_destination(scene.broker)}
        durable = ["ann: /topic/a.*", "stock: /topic/a.b", "shared: /topic/a.b", "of anonymous: /topic/a.b"]
        assert set(every) == {"/queue/a", "/topic/a.b", "/topic/a.*", "/topic/a.#", *durable}
        found = [rows.durable_of(registry, every[name]) for name in ["/queue/a", *durable]]
        led = {"topic": "/topic/a.*", "login": "ann", "client_id": "", "name": "led", "shared": False}
        stock = {"topic": "/topic/a.b", "login": "ann", "client_id": "desk", "name": "stock", "shared": False}
        shared = {"topic": "/topic/a.b", "login": "", "client_id": "", "name": "shared", "shared": True}
        assert found[:4] == [None, led, stock, shared]
        topic = every["/topic/a.b"]
        patterns = rows.patterns_of(registry, topic)
        assert [(each.name, each.count) for each in patterns] == [("/topic/a.*", 0), ("/topic/a.#", 1)]
        assert len(list(rows.durable_subscriptions_of(topic, patterns))) == rows.durable_count(topic, patterns) == 4
        assert [rows.consumers_of(registry, each) for each in (topic, every["/queue/a"])] == [5, 1]
        assert list(rows.durable_subscriptions_of(every["/queue/a"], [])) == []
        assert [rows.patterns_of(registry, every[name]) for name in ("/queue/a", "/topic/a.#")] == [[], []]

    def test_states(self, stage: Stage) -> None:
        policies: dict[str, dict[str, object]] = {
            "/queue/full": {"max_messages": 1, "dead_letter": "/queue/grave"},
            "/queue/later": {"backoff": 5.0, "dead_letter": ""},
        }
        scene = stage(policies)
        client = scene.connect()
        client.subscribe("empty", "0")
        client.subscribe("/topic/dlq.x", "1")
        for name in ("full", "dlq.x", "grave"):
            client.publish(name)
        reader = scene.connect()
        reader.subscribe("later", "0", ack="client-individual")
        reader.publish("later")
        reader.nack(reader.message())
        row = destination(scene, "/queue/full")
        assert (row["full"], row["dead_letters"], destination(scene, "/queue/grave")["dead_letters"]) == (
            True,
            False,
            True,
        )
        found = {
            state: {target.name for target in rows.every_destination(scene.broker) if test(target)}
            for state, test in rows.DESTINATION_STATES.items()
        }
        assert found == {
            "waiting": {"/queue/full", "/queue/later", "/queue/dlq.x", "/queue/grave"},
            "full": {"/queue/full"},
            "no-consumer": {"/queue/full", "/queue/dlq.x", "/queue/grave"},
            "dead-letters": {"/queue/dlq.x", "/queue/grave"},
            "losing": set(),
            "lost": set(),
            "conflated": set(),
        }

    def test_what_was_lost(self, stage: Stage) -> None:
        scene = stage({"/queue/a": {"max_messages": 1, "when_full": WhenFull.DROP_OLDEST}})
        client = scene.connect()
        client.publish("a")
        client.publish("a")
        queue = scene.broker.destinations["/queue/a"]
        found = destination(scene, "/queue/a")
        assert (found["dropped"], found["lost"], found["losing"], found["lost_age"]) == (1, 1, False, None)
        queue.tally.look(scene.now + 5)
        queue.tally.look(scene.now + 12.04)
        found = destination(scene, "/queue/a")
        assert (found["lost_rate"], found["losing"], found["lost_age"]) == (0.0, True, 7.0)
        assert found["present_losses"] == {"dropped": 1}
        assert rows.drops_of(queue) == {"queue-full": 1}
        for state in ("losing", "lost"):
            assert rows.DESTINATION_STATES[state](queue)

    def test_the_policy_in_force(self, stage: Stage) -> None:
        scene = stage({"/queue/a": {"max_messages": 7, "slow_consumer": SlowConsumerAction.CONFLATE}})
        client = scene.connect()
        client.publish("a", b"", **{"x-max-length": "3"})
        policy = rows.policy_of(scene.broker.destinations["/queue/a"])
        assert (policy["max_messages"], policy["when_full"]) == (3, WhenFull.BLOCK.value)
        assert (policy["slow_consumer"], policy["durable"]) == ("conflate", None)
        client.subscribe("/topic/a", "0")
        client.subscribe("/queue/b", "1")
        of_clients = {name: rows.policy_of_clients(target) for name, target in scene.broker.destinations.items()}
        assert of_clients == {"/queue/a": ["max_messages"], "/topic/a": [], "/queue/b": []}


@pytest.mark.parametrize("kind", ["session", "subscription", "destination"])
def test_sorting_needs_no_rows(scene: Scene, kind: str) -> None:
    """A key says what the row says, but for what is null there; so a page can be found without any."""
    client = scene.connect()
    for id, name in enumerate(("/topic/a", "/topic/a.*", "a")):
        client.subscribe(name, str(id), ack="client")
    client.publish("b")
    every = {
        "session": (rows.every_session, rows.SESSION_KEYS, rows.of_session),
        "subscription": (every_subscription, rows.SUBSCRIPTION_KEYS, rows.of_subscription),
        "destination": (rows.every_destination, rows.DESTINATION_KEYS, rows.of_destination),
    }
    each, keys, row_of = every[kind]
    found = list(each(scene.broker))
    assert found
    for one in found:
        row = row_of(one)  # type: ignore[operator]
        for name, key in keys.items():  # type: ignore[attr-defined]
            assert row[name] == key(one) or (row[name] is None and key(one) in ("", 0)), name


class TestAges:
    @pytest.fixture
    def client(self, scene: Scene) -> Client:
        """A message has waited for a minute and another one for 20 s, with notes in between."""
        client = scene.connect()
        scene.broker.dates.note(scene.broker.router.number)
        for seconds in (40, 20):
            client.publish("a")
            scene.broker.dates.note(scene.broker.router.number)
            scene.wait(seconds)
        return client

    def test_of_what_waits(self, scene: Scene, client: Client) -> None:
        row = destination(scene, "/queue/a")
        assert (row["oldest_age"], row["oldest_age_is_least"]) == (60.0, False)
        client.subscribe("a", ack="client", **{"prefetch-count": "1"})
        assert destination(scene, "/queue/a")["oldest_age"] == 20.0

    def test_of_messages_without_an_ack(self, scene: Scene, client: Client) -> None:
        client.subscribe("/queue/b", "b", ack="client")
        client.subscribe("/topic/c", "c")
        key = rows.SESSION_KEYS["oldest_unacknowledged_age"]
        assert (rows.of_session(client.session)["oldest_unacknowledged_age"], key(client.session)) == (None, 0)
        client.subscribe("a", "a", ack="client-individual")
        found = {
            row["id"]: row["oldest_unacknowledged_age"]
            for row in map(rows.of_subscription, every_subscription(scene.broker))
        }
        assert found == {"a": 60.0, "b": None, "c": None}
        assert (rows.of_session(client.session)["oldest_unacknowledged_age"], key(client.session)) == (60.0, 60.0)
        client.ack(client.messages()[0])
        assert key(client.session) == 20.0

    @pytest.mark.parametrize("name", ["a", "/topic/a"])
    def test_of_what_the_store_kept_from_the_last_process(self, name: str) -> None:
        scene = Scene(stored=True)
        client = scene.connect_by(b"CONNECT\naccept-version:1.2\nhost:x\nlogin:ann\nclient-id:c\n\n\0")
        if name == "/topic/a":
            client.subscribe(name, "d", durable="true", ack="client")
        client.drop()
        scene.connect().publish(name, b"", persistent="true")
        scene.commit()
        scene = scene.restart()
        scene.broker.dates.note(scene.broker.router.number)
        scene.wait(7)
        (row,) = [row for row in destinations(scene) if row["waiting"]]
        assert (row["oldest_age"], row["oldest_age_is_least"]) == (7.0, True)


def message_row(scene: Scene, name: str = "a") -> dict[str, object]:
    (found,) = Operator(scene).browse(name).messages
    return found


def dead(scene: Scene, **headers: str) -> Client:
    """A dead letter of /queue/a."""
    client = scene.connect()
    client.publish("a", b"x", **headers)
    client.subscribe("a", ack="client-individual")
    client.nack(client.message(), requeue="false", reason="bad")
    client.unsubscribe()
    return client


def test_a_message(scene: Scene) -> None:
    client = scene.connect()
    client.publish("a", "grüß".encode(), priority="7", color="red")
    assert message_row(scene) == {
        "id": f"{_run(scene)}-1",
        "position": 0,
        "destination": "a",
        "size": 6,
        "priority": 7,
        "expires": None,
        "sent": None,
        "deliveries": 0,
        "redelivered": False,
        "delayed": False,
        "headers": {"destination": "a", "priority": "7", "color": "red"},
        "dead_letter": None,
        "body": "grüß",
        "body_encoding": "utf-8",
        "truncated": False,
    }


def test_headers_that_would_fill_a_page(scene: Scene) -> None:
    """A list has rows by the thousand, and a client may write headers of 256 KiB in each message."""
    scene.connect().publish("a", b"x", first="x" * 3_000, large="x" * 5_000, second="x" * 3_000, last="1")
    found = message_row(scene)
    assert found["headers"] == {"destination": "a", "first": "x" * 3_000, "last": "1"}
    assert (found["truncated"], found["body"]) == (True, "x")
    whole = Operator(scene).find("a", str(found["id"]), 1024 * 1024)
    assert whole is not None
    assert (len(whole["headers"]), whole["truncated"]) == (5, False)  # type: ignore[arg-type]


def _run(scene: Scene) -> str:
    queue = scene.broker.destinations["/queue/a"]
    return str(Operator(scene).ids(queue.name)[0]).partition("-")[0]


def test_one_that_a_consumer_gave_back(stage: Stage) -> None:
    scene = stage({"/queue/a": {"backoff": 10.0}})
    recorded(scene)
    client = scene.connect()
    client.subscribe("a", ack="client-individual")
    client.publish("a", b"x", ttl="5000")
    client.nack(client.message())
    found = message_row(scene)
    assert (found["deliveries"], found["redelivered"], found["delayed"]) == (1, True, True)
    assert found["expires"] == EPOCH + scene.now + 5.0
    sent = found["sent"]
    assert isinstance(sent, float), "the recorder knows it"
    assert scene.now - 1 < sent - EPOCH <= scene.now


def test_a_dead_letter(stage: Stage) -> None:
    scene = stage(stored=True)
    dead(scene, persistent="true")
    letter = {"destination": "a", "source": "/queue/a", "reason": "rejected", "failures": 1}
    letter["first_at"] = EPOCH + scene.now
    headers = {"dlq-reason": "x", "dlq-source": "/queue/b", "dlq-attempts": "many", "dlq-first-at": "never"}
    scene.connect().publish("a", b"x", **headers)
    assert message_row(scene)["dead_letter"] is None, "a client made it look like one"
    assert message_row(scene, "dlq.a")["dead_letter"] == letter
    scene.commit()
    assert message_row(scene.crash(), "dlq.a")["dead_letter"] == letter


def test_secrets_are_hidden(scene: Scene) -> None:
    names = [*SECRETS, "Authorization", "PassCode"]
    scene.connect().publish("a", b"x", other="shown", **dict.fromkeys(names, "top secret"))
    expected = {"destination": "a", "other": "shown", **dict.fromkeys(names, HIDDEN)}
    assert message_row(scene)["headers"] == expected


@pytest.mark.parametrize(
    ("body", "most", "shown", "encoding"),
    [
        (b"abcd", 3, b"abc", "utf-8"),
        ("aä".encode(), 2, b"a", "utf-8"),
        ("a€".encode(), 3, b"a", "utf-8"),
        ("€".encode(), 3, "€".encode(), "utf-8"),
        (b"a\xe2", 2, b"a\xe2", "base64"),
        (b"a\xffbc", 2, b"a\xff", "base64"),
        (b"", 3, b"", "utf-8"),
    ],
)
def test_bodies(scene: Scene, body: bytes, most: int, shown: bytes, encoding: str) -> None:
    before = b"-" * 20  # so many characters the headers need, too
    body, most, shown = before + body, len(before) + most, before + shown
    client = scene.connect()
    client.publish("a", body)
    operator = Operator(scene)
    found = operator.find("a", operator.ids("a")[0], most)
    assert found is not None
    text = str(found["body"])
    assert (b64decode(text) if encoding == "base64" else text.encode()) == shown
    assert (found["body_encoding"], found["truncated"], found["size"]) == (encoding, len(body) > most, len(body))


class TestScheduled:
    @BOTH
    def test_a_row(self, stage: Stage, stored: bool) -> None:
        scene = stage(stored=stored)
        client = scene.connect()
        client.publish("a", b"body", priority="7", ttl="90000", **P, **{"x-delay": "60000"})
        write(scene)
        scene.wait(10.0)
        (waiting,) = scene.broker.router.delayed.every()
        assert stored_rows.of_scheduled(scene.broker, waiting) == {
            "id": f"{Message.run.decode()}-{waiting.number}",
            "schedule": None,
            "destination": "/queue/a",
            "due": pytest.approx(EPOCH + scene.now + 50.0),
            "size": 4,
            "priority": 7,
            "session": client.session.id,
            "stored": stored,
            "expires": pytest.approx(EPOCH + scene.now + 80.0),
        }

    def test_whole(self, scene: Scene) -> None:
        scene.connect().publish("a", b"x" * 100, color="red", token="secret", **{"x-delay": "60000"})
        (waiting,) = scene.broker.router.delayed.every()
        row = stored_rows.whole_scheduled(scene.broker, waiting, 1_000)
        headers = row["headers"]
        assert isinstance(headers, dict)
        assert (headers["destination"], headers["color"], headers["token"]) == ("a", "red", HIDDEN)
        assert (row["body"], row["body_encoding"], row["truncated"]) == ("x" * 100, "utf-8", False)
        row = stored_rows.whole_scheduled(scene.broker, waiting, 50)
        assert (row["body"], row["truncated"]) == ("x" * 50, True)


@pytest.mark.parametrize(
    ("text", "meant"), [("a", {"a", "/queue/a"}), ("/topic/a", {"/topic/a"}), ("/nowhere/a", {"/nowhere/a"})]
)
def test_names(text: str, meant: set[str]) -> None:
    assert stored_rows.names_of(text) == meant


class TestRetained:
    @BOTH
    def test_a_row(self, stage: Stage, stored: bool) -> None:
        scene = stage(stored=stored)
        scene.broker.dates.note(scene.broker.router.number)
        scene.connect().publish(T, b"value", retain="set", **P)
        write(scene)
        scene.broker.dates.note(scene.broker.router.number)
        scene.wait(10.0)
        (kept,) = scene.broker.router.retained.every()
        assert scene.broker.router.retained.find(T) is kept
        assert stored_rows.of_retained(scene.broker, kept) == {
            "topic": T,
            "id": kept.message.id.decode(),
            "size": 5,
            "age": 10.0,
            "age_is_least": False,
            "stored": stored,
            "expires": None,
        }

    def test_of_an_earlier_process(self, stage: Stage) -> None:
        scene = stage(stored=True)
        scene.connect().publish(T, b"value", retain="set", ttl="60000", **P)
        scene.commit()
        scene = scene.crash()
        scene.broker.dates.note(scene.broker.router.number)
        (kept,) = scene.broker.router.retained.every()
        row = stored_rows.of_retained(scene.broker, kept)
        assert (row["age_is_least"], row["stored"]) == (True, True)
        assert row["expires"] == pytest.approx(EPOCH + 1_060.0)

    def test_whole(self, scene: Scene) -> None:
        scene.connect().publish(T, b"\xff", retain="set", color="red")
        row = stored_rows.whole_retained(scene.broker, scene.broker.router.retained.every()[0], 1_000)
        headers = row["headers"]
        assert isinstance(headers, dict)
        assert (headers["color"], headers["retained"]) == ("red", "true")
        assert (row["body"], row["body_encoding"]) == ("/w==", "base64")


def offsets(scene: Scene) -> Offsets:
    return scene.broker.router.replay.offsets


class TestOffsets:
    @BOTH
    def test_who_is_away(self, stage: Stage, stored: bool) -> None:
        scene = stage(LOG, stored=stored)
        client = scene.connect_by(b"CONNECT\naccept-version:1.2\nhost:x\nlogin:a/b\nclient-id:desk\n\n\0")
        client.subscribe(T, **ME)
        fill(scene, 5)
        found = got(client)
        (offset,) = offsets(scene).every()
        row = stored_rows.of_offset(scene.broker, offset)
        assert (row["session"], row["behind"]) == (client.session.id, 5)
        client.ack(found[2])
        client.drop()
        assert stored_rows.of_offset(scene.broker, offset) == {
            "name": DURABLE + "a%2Fb/desk/me",
            "login": "a/b",
            "client_id": "desk",
            "resume": "me",
            "topic": T,
            "position": offset.position,
            "behind": 2,
            "session": "",
        }
        assert offsets(scene).get(DURABLE + "a%2Fb/desk/me") is offset
        scene.connect().subscribe("/topic/*", **ME)
        row = stored_rows.of_offset(scene.broker, offsets(scene).every()[-1])
        assert (row["topic"], row["behind"]) == ("/topic/*", None)

    @BOTH
    @pytest.mark.parametrize("is_held", [False, True])
    def test_forgotten(self, stage: Stage, stored: bool, is_held: bool) -> None:
        scene = stage(LOG, stored=stored)
        client = scene.connect()
        client.subscribe(T, **ME)
        if not is_held:
            client.drop()
        write(scene)
        offsets(scene).forget(offsets(scene).every()[0])
        write(scene)
        assert not len(offsets(scene))
        fill(scene, 1)
        if is_held:
            assert len(got(client)) == 1  # a client that reads goes on
            client.drop()
        if stored:
            assert not len(offsets(scene.crash()))
