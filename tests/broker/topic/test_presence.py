"""Presence: who joins and leaves, who is told, and what a lost connection or a restart does not do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.broker.core.ports import INTERNAL
from gateway.broker.model.access import Action
from gateway.broker.session.recheck import recheck_session

from ..client import Client, Scene
from ..conftest import Stage, small
from ..granted import Granted, refused
from ..wire import Received

ROOM = "/topic/room.7"
WATCHED = f"/presence{ROOM}"
GRACE = 10.0


@pytest.fixture
def scene(stage: Stage) -> Scene:
    """A broker that has been used for long enough to have settled."""
    scene = stage({"/topic/room.*": {"presence": True, "presence_grace": GRACE}})
    scene.consumer("/topic/room.first").disconnect()
    scene.wait(GRACE + 1)
    return scene


def user(scene: Scene, login: str = "", *, client_id: str = "", destination: str = ROOM, **headers: str) -> Client:
    """A client that is subscribed to the room."""
    client = connect(scene, login, client_id=client_id)
    if destination:
        client.subscribe(destination, **{name.replace("_", "-"): value for name, value in headers.items()})
    return client


def connect(scene: Scene, login: str = "", *, client_id: str = "") -> Client:
    named = f"login:{login}\n" if login else ""
    known = f"client-id:{client_id}\n" if client_id else ""
    return scene.connect_by(f"CONNECT\naccept-version:1.2\nhost:localhost\n{named}{known}\n\0".encode())


def told(client: Client) -> list[tuple[str, Any]]:
    """The events since this was asked last, and of whom."""
    return [event_of(message) for message in client.messages()]


def event_of(message: Received) -> tuple[str, Any]:
    assert message.headers["destination"] == WATCHED
    assert message.headers["content-type"] == "application/json"
    event, body = message.headers["event"], json.loads(message.body)
    if event == "list":
        return event, [each["id"] for each in body["users"]]
    return event, body["id"]


class TestUsers:
    def test_a_list_comes_first_and_then_who_joins_and_leaves(self, scene: Scene) -> None:
        user(scene, "alice", presence_info="Alice A.")
        watcher = connect(scene, "watcher")
        watcher.subscribe(WATCHED, receipt="r")
        receipt, message = watcher.received()
        assert (receipt.command, message.headers["event"]) == ("RECEIPT", "list")
        since = int(scene.epoch + scene.now)
        alice = {"id": "user:alice", "user": "alice", "info": "Alice A.", "sessions": 1, "since": since}
        assert json.loads(message.body) == {"users": [alice], "count": 1, "more": False, "settling": False}
        bob = user(scene, "bob")
        (message,) = watcher.messages()
        row = {"id": "user:bob", "user": "bob", "info": None, "sessions": 1, "since": since}
        assert (message.headers["event"], json.loads(message.body)) == ("join", row | {"count": 2})
        bob.disconnect()
        (message,) = watcher.messages()
        assert (message.headers["event"], json.loads(message.body)) == ("leave", row | {"sessions": 0, "count": 1})

    def test_a_user_with_two_tabs_joins_and_leaves_once(self, scene: Scene) -> None:
        watcher = user(scene, destination=WATCHED)
        one, two = user(scene, "alice"), user(scene, "alice")
        one.subscribe(ROOM, "again")
        assert told(watcher) == [("list", []), ("join", "user:alice")]
        one.unsubscribe()
        two.disconnect()
        assert told(watcher) == []
        one.unsubscribe("again")
        assert told(watcher) == [("leave", "user:alice")]

    def test_guests_are_one_by_client_id_and_else_by_session(self, scene: Scene) -> None:
        watcher = user(scene, destination=WATCHED)
        named, again = user(scene, client_id="tablet"), user(scene, client_id="phone")
        nameless, other = user(scene), user(scene)
        (_, *joins) = told(watcher)
        assert joins[:2] == [("join", "guest:tablet"), ("join", "guest:phone")]
        ids = [each for _, each in joins[2:]]
        assert len(set(ids)) == 2
        assert all(each.startswith("guest:") and nameless.session.id not in each for each in ids)
        # Who comes next in its place is another guest, so there is nothing to wait for.
        nameless.drop()
        assert told(watcher) == [("leave", ids[0])]
        # But this one may be back soon.
        named.drop()
        assert told(watcher) == []
        scene.wait(GRACE)
        assert told(watcher) == [("leave", "guest:tablet")]
        assert (again.closed, other.closed) == (False, False)

    def test_info_may_change(self, scene: Scene) -> None:
        watcher = user(scene, destination=WATCHED)
        alice = user(scene, "alice", presence_info="here")
        alice.subscribe(ROOM, "2", **{"presence-info": "away"})
        alice.subscribe(ROOM, "3", **{"presence-info": "away"})
        alice.subscribe(ROOM, "4")
        bodies = [json.loads(message.body) for message in watcher.messages()[1:]]
        assert [(each["info"], each["count"]) for each in bodies] == [("here", 1), ("away", 1)]

    def test_patterns_and_the_servers_own_sessions_are_not_present(self, scene: Scene) -> None:
        watcher = user(scene, destination=WATCHED)
        user(scene, "alice", destination="/topic/room.*")
        own = connect(scene, "server")
        own.session.transport = INTERNAL
        own.subscribe(ROOM)
        assert told(watcher) == [("list", [])]

    def test_other_topics_and_queues_tell_nothing(self, scene: Scene) -> None:
        for destination in ("/topic/other", "/queue/room.7", "/exchange/amq.direct/room", "/user/queue/room"):
            user(scene, "alice", destination=destination, **{"presence-info": "x"})
        assert not scene.broker.router.presence._present

    def test_a_durable_subscription_is_present_while_it_has_a_client(self, scene: Scene) -> None:
        watcher = user(scene, destination=WATCHED)
        durable = {"durable": "true", "id": "d"}
        alice = connect(scene, "alice", client_id="c")
        alice.subscribe(ROOM, **durable)
        assert told(watcher)[1:] == [("join", "user:alice")]
        alice.disconnect()
        assert told(watcher) == [("leave", "user:alice")]
        alice = connect(scene, "alice", client_id="c")
        alice.subscribe(ROOM, **durable)
        alice.send("UNSUBSCRIBE", durable)


class TestGrace:
    def test_who_comes_back_in_time_was_never_away(self, scene: Scene) -> None:
        watcher = user(scene, destination=WATCHED)
        alice = user(scene, "alice")
        alice.drop()
        scene.wait(GRACE - 1)
        alice = user(scene, "alice")
        scene.wait(GRACE)
        assert told(watcher) == [("list", []), ("join", "user:alice")]
        alice.drop()
        scene.wait(GRACE)
        assert told(watcher) == [("leave", "user:alice")]

    def test_a_lost_user_is_still_in_the_list(self, scene: Scene) -> None:
        user(scene, "alice").drop()
        watcher = user(scene, destination=WATCHED)
        (message,) = watcher.messages()
        assert [(each["id"], each["sessions"]) for each in json.loads(message.body)["users"]] == [("user:alice", 0)]

    def test_the_goodbye_of_one_tab_does_not_end_the_wait_for_the_other(self, scene: Scene) -> None:
        watcher = user(scene, destination=WATCHED)
        lost, staying = user(scene, "alice"), user(scene, "alice")
        lost.drop()
        scene.wait(1.0)
        staying.disconnect()
        assert told(watcher)[2:] == []
        back = user(scene, "alice")
        # All of them are back now: from now on a goodbye is a leave.
        back.disconnect()
        assert told(watcher) == [("leave", "user:alice")]

    def test_none_by_policy(self, stage: Stage) -> None:
        scene = stage({ROOM: {"presence": True, "presence_grace": 0.0}})
        watcher = user(scene, destination=WATCHED)
        user(scene, "alice").drop()
        assert told(watcher) == [("list", []), ("join", "user:alice"), ("leave", "user:alice")]

    @small(presence_away=1)
    def test_very_many_are_not_awaited(self, scene: Scene) -> None:
        watcher = user(scene, destination=WATCHED)
        alice, bob = user(scene, "alice"), user(scene, "bob")
        alice.drop()
        bob.drop()
        assert told(watcher)[3:] == [("leave", "user:bob")]


class TestSettling:
    """The first use of presence may be behind a restart."""

    @pytest.fixture
    def scene(self, stage: Stage) -> Scene:
        return stage({"/topic/room.*": {"presence": True, "presence_grace": GRACE}})

    def test_one_list_in_place_of_many_joins(self, scene: Scene) -> None:
        user(scene, "alice")
        watcher = user(scene, destination=WATCHED)
        user(scene, "bob")
        user(scene, "carol").disconnect()
        (message,) = watcher.messages()
        body = json.loads(message.body)
        assert (body["settling"], [each["id"] for each in body["users"]]) == (True, ["user:alice"])
        scene.wait(GRACE)
        (message,) = watcher.messages()
        body = json.loads(message.body)
        assert (body["settling"], [each["id"] for each in body["users"]]) == (False, ["user:alice", "user:bob"])
        user(scene, "dave")
        assert told(watcher) == [("join", "user:dave")]

    def test_an_empty_topic_settles_too(self, scene: Scene) -> None:
        watcher = user(scene, destination=WATCHED)
        presence = scene.broker.router.presence
        assert presence.is_settling(ROOM)
        scene.wait(GRACE)
        assert told(watcher) == [("list", []), ("list", [])]
        assert (presence.is_settling(ROOM), presence._rooms) == (False, {})

    def test_without_watchers_the_end_is_silent(self, scene: Scene) -> None:
        alice = user(scene, "alice")
        scene.wait(GRACE)
        assert (alice.received(), scene.broker.counters.published) == ([], 0)


class TestLists:
    @small(presence_users=2)
    def test_at_most_so_many_users(self, scene: Scene) -> None:
        for name in ("alice", "bob", "carol"):
            user(scene, name)
        body = json.loads(user(scene, destination=WATCHED).message().body)
        assert (len(body["users"]), body["count"], body["more"]) == (2, 3, True)

    @small(presence_bytes=400)
    def test_at_most_so_many_bytes(self, scene: Scene) -> None:
        user(scene, "alice", presence_info="x" * 300)
        user(scene, "bob")
        body = json.loads(user(scene, destination=WATCHED).message().body)
        assert (len(body["users"]), body["count"], body["more"]) == (1, 2, True)

    def test_for_operators(self, scene: Scene) -> None:
        user(scene, "alice")
        presence = scene.broker.router.presence
        assert [each.row()["user"] for each in presence.users(ROOM)] == ["alice"]
        assert (presence.count(ROOM), presence.count("/topic/room.8")) == (1, 0)
        assert list(presence.users("/topic/room.8")) == []
        assert [presence.tells(name) for name in (ROOM, "/topic/other", "/queue/a")] == [True, False, False]


class TestWatching:
    def test_the_list_waits_for_the_receipt_and_may_be_acknowledged(self, scene: Scene) -> None:
        watcher = connect(scene)
        watcher.subscribe(WATCHED, ack="client", receipt="r")
        receipt, message = watcher.received()
        assert (receipt.command, event_of(message)) == ("RECEIPT", ("list", []))
        watcher.ack(message)
        user(scene, "alice")
        assert told(watcher) == [("join", "user:alice")]

    def test_a_page_may_watch_its_own_room(self, scene: Scene) -> None:
        page = user(scene, "alice", destination=WATCHED)
        page.subscribe(ROOM, "1")
        assert told(page) == [("list", []), ("join", "user:alice")]
        page.unsubscribe("1")
        assert told(page) == [("leave", "user:alice")]
        page.drop()
        assert scene.broker.registry.find(WATCHED) is None

    def test_an_alias_is_the_same(self, scene: Scene) -> None:
        watcher = user(scene, destination="/presence/exchange/amq.topic/room.7")
        user(scene, "alice", destination="/exchange/amq.topic/room.7")
        assert told(watcher) == [("list", []), ("join", "user:alice")]

    def test_a_subscription_may_go_before_its_list(self, scene: Scene) -> None:
        watcher = connect(scene)
        watcher.send("SUBSCRIBE", {"destination": WATCHED, "id": "0", "receipt": "r"})
        presence, registry = scene.broker.router.presence, scene.broker.registry
        subscription = watcher.session.subscriptions["0"]
        subscription.pause()
        presence.show(registry.topic(WATCHED), subscription)
        assert list(watcher.session.outbox.starved) == [subscription.reader]
        watcher.unsubscribe()
        assert not watcher.session.outbox.starved

    @pytest.mark.parametrize(
        ("destination", "headers", "sentence"),
        [
            ("/presence/topic/other", {}, "does not say presence = true"),
            ("/presence/topic/room.*", {}, "without wildcards"),
            ("/presence/queue/a", {}, "subscribe to /presence/topic/NAME"),
            (WATCHED, {"destination-type": "ANYCAST"}, "is a topic"),
            (WATCHED, {"durable": "true"}, "the users that are there now"),
            (WATCHED, {"browser": "true"}, "the users that are there now"),
            (WATCHED, {"from-seq": "0"}, "the users that are there now"),
            (WATCHED, {"include-seq": "n"}, "the users that are there now"),
            (WATCHED, {"x-queue-name": "shared"}, "the users that are there now"),
        ],
    )
    def test_what_is_refused(self, scene: Scene, destination: str, headers: dict[str, str], sentence: str) -> None:
        client = connect(scene)
        client.subscribe(destination, **headers)
        assert sentence in client.error().body.decode()

    def test_no_client_sends_there(self, scene: Scene) -> None:
        client = connect(scene)
        client.publish(WATCHED, b"[]")
        assert "only for SUBSCRIBE" in client.error().body.decode()


class TestRules:
    def test_an_action_of_its_own(self, scene: Scene) -> None:
        watcher = connect(scene, "alice")
        watcher.session.access = Granted(presence=ROOM)
        watcher.subscribe(WATCHED)
        assert told(watcher) == [("list", [])]
        assert recheck_session(watcher.session)
        watcher.session.access = granted = Granted(subscribe="/topic/#")
        assert not recheck_session(watcher.session)
        scene.settle()
        assert refused(watcher) == (
            f"the rules or groups have changed: alice may no longer see the presence of {ROOM!r} as it did; "
            f"`gateway acl explain alice presence {ROOM}` says why"
        )
        assert granted.asked == [(Action.PRESENCE, ROOM)]

    def test_a_right_to_subscribe_is_none(self, scene: Scene) -> None:
        watcher = connect(scene, "alice")
        watcher.session.access = Granted(subscribe="/topic/#")
        watcher.subscribe(WATCHED)
        assert refused(watcher) == (
            f"alice may not see the presence of {ROOM!r}; `gateway acl explain alice presence {ROOM}` says why"
        )

    def test_dead_letters_need_the_right_to_send(self, scene: Scene) -> None:
        watcher = connect(scene, "alice")
        watcher.session.access = Granted(presence=ROOM)
        watcher.subscribe(WATCHED, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "loot"})
        assert "may not send to" in refused(watcher)
