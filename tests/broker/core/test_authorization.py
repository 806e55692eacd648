"""Rules in the broker: which questions it asks for which frame, and what it does when the answer is no."""

from __future__ import annotations

import pytest

from gateway.broker.core.ports import INTERNAL
from gateway.broker.errors import AccessLost, AccessRefused
from gateway.broker.model.access import Action, Coverage
from gateway.broker.session.recheck import recheck, recheck_session

from ..client import Client, Scene
from ..conftest import Stage, small
from ..granted import Granted, client_of, refused
from ..routing.test_router_functions import Functions
from ..topic.logged import FIRST, LOGS

WHY = "; `gateway acl explain alice {action} {name}` says why"
DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def why(action: str, name: str) -> str:
    return WHY.format(action=action, name=name)


def functions(scene: Scene) -> Client:
    """The session in which the operator's functions run: no rule is for it."""
    scene.broker.context.application = Functions()
    function = scene.connect(transport=INTERNAL)
    for id in ("add", "subscribed"):
        function.subscribe(f"/handlers/{id}", id)
    return function


class TestSend:
    @pytest.mark.parametrize("name", ["/queue/x", "x", "/amq/queue/x", "/topic/x", "/user/bob/queue/x", "/app/x"])
    def test_refused(self, scene: Scene, name: str) -> None:
        function = functions(scene)
        ways: list[dict[str, str]] = [{}, {"persistent": "true"}, {"priority": "9"}, {"transaction": "t"}]
        for headers in ways:
            client = client_of(scene, Granted(send="/queue/a /app/add"))
            client.publish("/queue/a", b"1", receipt="r")
            client.publish("/app/add", b"1")
            assert client.receipts() == ["r"]
            assert function.bodies() == [b"1"]
            client.begin()
            client.publish(name, b"1", **headers)
            assert refused(client) == f"alice may not send to {name!r}{why('send', name)}"
            (error,) = client.failures
            assert isinstance(error, AccessRefused)
            rule = {"x": "/queue/x", "/amq/queue/x": "/queue/x"}.get(name, name)
            assert error.rule == f"send {rule}", "for the log"
        assert scene.broker.context.waiting == len(ways)
        assert scene.broker.counters.forbidden == {"send": len(ways), "subscribe": 0, "admin": 0, "presence": 0}
        assert scene.broker.counters.failures["access-refused"] == len(ways)

    def test_asked_once_by_the_canonical_name(self, scene: Scene) -> None:
        granted = Granted(send="/queue/a")
        client = client_of(scene, granted)
        for _ in range(3):
            client.publish("/amq/queue/a", b"1")
        assert granted.asked[0] == (Action.SEND, "/queue/a")
        assert granted.sendable == {"/amq/queue/a"}
        for _ in range(2):
            client.publish("/queue/a", b"1")
        assert len(granted.asked) == 4  # an alias is looked up each time: no destination is called so
        client.publish("a", b"1")
        assert not client.closed
        client.publish("a", b"1", **{"destination-type": "MULTICAST"})
        assert refused(client).startswith("alice may not send to 'a'; ")

    def test_temporary_destinations_are_free(self, scene: Scene) -> None:
        """Also those of others: a program that knows the name was told it."""
        client, other = client_of(scene, Granted()), client_of(scene, Granted(send="/queue/a"))
        client.subscribe("/temp-queue/mine")
        client.publish("/temp-queue/mine", b"1")
        other.publish("/queue/a", b"2", **{"reply-to": "/temp-queue/replies"})
        worker = client_of(scene, Granted(subscribe="/queue/a"), "bob")
        worker.subscribe("/queue/a")
        worker.publish(worker.message().headers["reply-to"], b"answer")
        assert (client.bodies(), other.bodies()) == ([b"1"], [b"answer"])

    @small(remembered_names=2)
    def test_what_is_remembered_is_bounded(self, scene: Scene) -> None:
        granted = Granted(send="/topic/#")
        client = client_of(scene, granted)
        sizes = []
        for name in ("/topic/a", "/topic/b", "/topic/c", "/topic/" + 200 * "d"):
            client.publish(name, b"1")
            sizes.append(len(granted.sendable))
        assert sizes == [1, 2, 1, 1]
        assert granted.sendable == {"/topic/c"}

    def test_all_parts_or_nothing(self, scene: Scene) -> None:
        client = client_of(scene, Granted(send="/queue/a /queue/b"))
        client.publish("/queue/a,/queue/b", b"1")
        assert scene.broker.context.waiting == 2
        client.begin()
        client.publish("/queue/a", b"1", transaction="t")
        client.publish("/queue/a,/queue/c,/queue/b", b"1", transaction="t")
        assert refused(client).startswith("alice may not send to '/queue/c'; ")
        assert scene.broker.context.waiting == 2


class TestReplyTo:
    GRANTED = "/queue/work /queue/answers"

    @pytest.mark.parametrize(
        ("reply_to", "sentence"),
        [
            ("/queue/secret", "reply-to: alice may not subscribe to '/queue/secret'"),
            ("/queue/answers, secret", "reply-to: alice may not subscribe to 'secret'"),
            ("/topic/prices", "reply-to: alice may not send to '/topic/prices'"),
            ("/user/bob/queue/x", "reply-to names another user's destination: alice may not subscribe to"),
            ("/user/alice/queue/secret", "reply-to: alice may not subscribe to '/user/alice/queue/secret'"),
            ("/app/x", "reply-to: alice may not subscribe to '/app/x'"),
        ],
    )
    def test_refused(self, scene: Scene, reply_to: str, sentence: str) -> None:
        """The program that answers, a function above all, would do what the client may not."""
        subscribe = "/queue/answers /topic/prices /user/bob/queue/x /user/alice/queue/a"
        for number, headers in enumerate([{}, {"priority": "9"}], 1):
            client = client_of(scene, Granted(send=self.GRANTED, subscribe=subscribe))
            client.publish("/queue/work", b"1")
            client.publish("/queue/work", b"2", **{"reply-to": reply_to}, **headers)
            assert refused(client).startswith(sentence)
            assert scene.broker.context.waiting == number

    @pytest.mark.parametrize(
        "reply_to",
        [
            "/queue/answers",
            "/temp-queue/mine",
            "/user/alice/queue/a",
            "/reply-queue/1234",
            "/elsewhere/x",
            "/queue/*",
            "",
        ],
    )
    def test_allowed(self, scene: Scene, reply_to: str) -> None:
        """Where it may do both; its own and temporary ones, and what is no destination of this server."""
        client = client_of(scene, Granted(send=self.GRANTED, subscribe="/queue/answers /user/alice/queue/a"))
        for _ in range(2):
            client.publish("/queue/work", b"1", **{"reply-to": reply_to})
        assert scene.broker.context.waiting == 2

    def test_asked_once_but_for_mail(self, scene: Scene) -> None:
        """All who have no name share what is remembered, and each has user destinations of its own."""
        granted = Granted(send=self.GRANTED, subscribe="/queue/answers /user/anonymous/queue/a")
        client, other = client_of(scene, granted, ""), client_of(scene, granted, "")
        mine = f"/user/{client.session.user}/queue/a"
        for _ in range(2):
            client.publish("/queue/work", b"1", **{"reply-to": "/queue/answers"})
            client.publish("/queue/work", b"1", **{"reply-to": mine})
        assert granted.answerable == {"/queue/answers"}
        asked = [name for _, name in granted.asked]
        assert (asked.count("/queue/answers"), asked.count("/user/anonymous/queue/a")) == (2, 2)
        other.publish("/queue/work", b"1", **{"reply-to": mine})
        assert refused(other).startswith("reply-to names another user's destination: ")

    def test_only_so_many_are_looked_at(self, scene: Scene) -> None:
        """A header line has room for 30,000 of them, which took a tenth of a second for each frame."""
        granted = Granted(send=self.GRANTED, subscribe="/queue/answers")
        client = client_of(scene, granted)
        client.publish("/queue/work", b"1", **{"reply-to": ",".join(["answers"] * 64)})
        assert scene.broker.context.waiting == 1
        asked = len(granted.asked)
        client.publish("/queue/work", b"1", **{"reply-to": ",".join(["answers"] * 65)})
        error = client.error()
        assert (error.headers["message"], error.body) == (
            "too many destinations in a SEND",
            b"the frame names 65; at most 64 are allowed, so send more frames",
        )
        assert len(granted.asked) == asked


LONG = "/queue/" + "a." * 63


@pytest.mark.parametrize(
    ("command", "headers"),
    [
        ("SEND", {"destination": LONG}),
        ("SEND", {"destination": "/queue/a", "reply-to": LONG}),
        ("SUBSCRIBE", {"destination": LONG, "id": "0"}),
        ("SUBSCRIBE", {"destination": "/topic/a", "id": "0", "x-queue-name": LONG.removeprefix("/queue/")}),
    ],
)
def test_names_of_many_words_are_not_looked_for_in_the_rules(
    scene: Scene, command: str, headers: dict[str, str]
) -> None:
    """A search of rules would be slow."""
    granted = Granted(send="#", subscribe="#")
    client = client_of(scene, granted)
    client.send(command, headers)
    assert client.error().headers["message"] == "too many words in a destination"
    assert LONG not in [name for _, name in granted.asked]
    scene.connect().publish(LONG, b"1")
    assert scene.broker.context.waiting == 1, "without rules"


class TestArguments:
    def test_of_a_queue_need_admin_where_they_change_it(self, scene: Scene) -> None:
        granted = Granted(send="/queue/# /topic/a", subscribe="/queue/#", admin="/queue/a")
        client = client_of(scene, granted)
        client.publish("/queue/a", b"1", **{"x-max-length": "1"})
        client.publish("/queue/b", b"1", **{"auto-delete": "false"})
        client.publish("/topic/a", b"1", **{"x-max-length": "1"})
        client.subscribe("/temp-queue/a", **{"x-max-length": "1"})
        client.subscribe("/queue/b", "1", **{"auto-delete": "false"})
        assert client.bodies() == [b"1"]
        for command in ("SEND", "SUBSCRIBE"):
            client = client_of(scene, granted)
            client.send(command, {"destination": "/queue/c", "id": "0", "x-max-length": "1"})
            expected = "queue arguments change it for all users: alice may not administer '/queue/c'"
            assert refused(client) == expected + why("admin", "/queue/c")

    @pytest.mark.parametrize("name", ["/queue/a", "/topic/a", "/temp-queue/a"])
    @pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
    def test_dead_letters_go_where_the_client_may_send(self, scene: Scene, command: str, name: str) -> None:
        for more in ("", " /queue/dead"):
            client = client_of(scene, Granted("/queue/a /topic/a" + more, "/queue/a /topic/a", "/queue/a"))
            client.send(command, {"destination": name, "id": "0"} | DEAD)
            assert client.closed is not bool(more)
            if not more:
                assert refused(client) == f"alice may not send to '/queue/dead'{why('send', '/queue/dead')}"


class TestSubscribe:
    @pytest.mark.parametrize("name", ["/queue/x", "x", "/topic/x", "/topic/x.*", "/user/queue/x", "/app/x"])
    def test_refused(self, scene: Scene, name: str) -> None:
        client = client_of(scene, Granted(subscribe="/queue/a /topic/a"))
        client.subscribe(name)
        shown = "'/topic/x.*'" if "*" in name else name
        assert refused(client) == f"alice may not subscribe to {name!r}{why('subscribe', shown)}"
        assert not scene.broker.registry.count()
        assert scene.broker.counters.forbidden == {"send": 0, "subscribe": 1, "admin": 0, "presence": 0}

    @pytest.mark.parametrize(
        "headers", [{"browser": "true"}, FIRST, {"resume": "me", "ack": "client"}, {"durable": "true"}]
    )
    def test_refused_in_every_way(self, stage: Stage, headers: dict[str, str]) -> None:
        client = client_of(stage(LOGS), Granted(), client_id="me")
        client.subscribe("/queue/x" if "browser" in headers else "/topic/x", **headers)
        assert refused(client).startswith("alice may not subscribe to ")


@pytest.mark.parametrize("ack", ["auto", "client"])
@pytest.mark.parametrize("headers", [{}, {"durable": "true"}, {"x-queue-name": "q"}, {"from-seq": "0"}])
def test_a_pattern_of_which_the_rules_allow_a_part_is_refused(scene: Scene, ack: str, headers: dict[str, str]) -> None:
    granted = Granted(subscribe="/queue/q", some={"/topic/a.*": Coverage.SOME, "/topic/b.*": Coverage.ALL})
    client = client_of(scene, granted, client_id="me")
    client.subscribe("/topic/b.*", ack=ack)
    client.subscribe("/topic/a.*", "1", ack=ack, **headers)
    assert refused(client) == (
        "the rules allow a part of what this pattern matches, and it needs all: alice may not subscribe to all of "
        f"'/topic/a.*'{why('subscribe', chr(39) + '/topic/a.*' + chr(39))}"
    )
    end_all(scene)


def end_all(scene: Scene) -> None:
    """No durable subscription is left."""
    for name in list(scene.broker.registry.hidden):
        scene.broker.registry.durable_subscriptions.end(name)


class TestDurable:
    WAYS = ({"durable": "true"}, {"durable-subscription-name": "d"}, {"x-queue-name": "q"})

    @pytest.mark.parametrize("headers", WAYS)
    def test_to_come_back_one_must_be_allowed_still(self, scene: Scene, headers: dict[str, str]) -> None:
        granted = Granted(subscribe="/topic/a /queue/q")
        client = client_of(scene, granted, client_id="me")
        client.subscribe("/topic/a", **headers)
        client.disconnect()
        client = client_of(scene, Granted(subscribe="/queue/q"), client_id="me")
        client.subscribe("/topic/a", **headers)
        assert refused(client).startswith("alice may not subscribe to '/topic/a'; ")
        end_all(scene)

    def test_a_shared_one_is_a_queue_to_the_rules(self, scene: Scene) -> None:
        """Else whoever may read the topic could take away what others are to get."""
        granted = Granted(subscribe="/topic/a /queue/mine")
        client = client_of(scene, granted)
        client.subscribe("/topic/a", **{"x-queue-name": "mine"})
        client.subscribe("/topic/a", "1", **{"x-queue-name": "yours"})
        expected = "x-queue-name: alice may not subscribe to '/queue/yours'"
        assert refused(client) == expected + why("subscribe", "/queue/yours")


class TestRecheck:
    """The rules have changed while sessions are open."""

    @pytest.mark.parametrize(
        ("name", "headers"),
        [
            ("/queue/a", {}),
            ("/topic/a", {}),
            ("/topic/a", {"ack": "client"}),
            ("/topic/a", {"x-queue-name": "q"}),
            ("/topic/a.*", {}),
            ("/user/queue/a", {}),
        ],
    )
    def test_what_is_allowed_no_more_ends(self, scene: Scene, name: str, headers: dict[str, str]) -> None:
        granted = Granted(subscribe="#", some={"/topic/a.*": Coverage.ALL})
        client, other = client_of(scene, granted), client_of(scene, granted)
        client.subscribe("/temp-queue/t", "t")
        client.subscribe("/queue/other", "o")
        client.subscribe(name, **headers)
        other.subscribe("/queue/other")
        recheck(scene.broker.sessions.values(), scene.broker.context)
        scene.settle()
        assert not client.closed
        granted.allowed = Granted(subscribe="/queue/other").allowed
        granted.some = {"/topic/a.*": Coverage.SOME}
        recheck(scene.broker.sessions.values(), scene.broker.context)
        scene.settle()
        shown = f"'{name}'" if "*" in name else name
        assert refused(client) == (
            f"the rules or groups have changed: alice may no longer subscribe to {name!r} as it did"
            f"{why('subscribe', shown)}"
        )
        (lost,) = client.failures
        assert isinstance(lost, AccessLost)
        named = headers.get("x-queue-name")
        assert lost.rule == f"subscribe {f'/queue/{named}' if named else name.replace('/user/', '/user/alice/')}"
        assert not other.closed

    def test_a_durable_one_and_a_pattern_stay_where_all_is_allowed(self, scene: Scene) -> None:
        granted = Granted(subscribe="/topic/a", some={"/topic/a.*": Coverage.ALL})
        client = client_of(scene, granted)
        client.subscribe("/topic/a", durable="true")
        assert recheck_session(client.session)
        client.send("UNSUBSCRIBE", {"id": "0", "durable": "true"})
        client.subscribe("/topic/a.*")
        free = scene.connect()
        free.subscribe("/queue/a")
        recheck(scene.broker.sessions.values(), scene.broker.context)
        scene.settle()
        assert not client.closed
        assert not free.closed, "without rules"
        granted.some["/topic/a.*"] = Coverage.SOME
        assert not recheck_session(client.session)

    @small(recheck_looks=4)
    def test_in_turns(self, scene: Scene) -> None:
        """Subscriptions count, too: a session may have thousands."""
        granted = Granted(subscribe="/queue/a")
        clients = [client_of(scene, granted) for _ in range(5)]
        for client in clients:
            client.subscribe("/queue/a")
        clients[2].subscribe("/queue/a", "another")
        granted.allowed[Action.SUBSCRIBE] = []
        recheck(scene.broker.sessions.values(), scene.broker.context)
        turns = [sum(client.is_ending for client in clients)]
        while scene.broker.scheduler.proceed():
            turns.append(sum(client.is_ending for client in clients))
        assert turns == [2, 4]
        scene.settle()
        assert all(client.closed for client in clients)
