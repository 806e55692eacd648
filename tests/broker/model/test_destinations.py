"""Names of one destination, their kinds, the names that are refused, and the privacy of user destinations."""

from __future__ import annotations

import pytest

from gateway.broker.errors import NotAllowed
from gateway.broker.headers.table import INDEX
from gateway.broker.model.destinations import (
    _HEADERS,
    canonical,
    canonical_for,
    is_temporary,
    is_topic,
    lacks_slash,
    meant,
    split,
)

from ..client import Client, Scene

LONG = "/".join("w" * 200)


def written(user: str) -> str:
    """A user's name as a SEND has it."""
    return user.replace("%", "%25").replace("/", "%2F").replace(",", "%2C")


def login(scene: Scene, name: str) -> Client:
    """A client of that name."""
    return scene.connect_by(f"CONNECT\nlogin:{name}\naccept-version:1.2\nhost:localhost\n\n\0".encode())


class TestCanonical:
    def test_every_name_has_one(self) -> None:
        for destination, name in [
            ("/queue/a", "/queue/a"),
            ("/topic/a", "/topic/a"),
            ("/queue//", "/queue//"),
            ("/topic/a/b", "/topic/a/b"),
            ("/topic/a.b", "/topic/a.b"),
            ("a", "/queue/a"),
            ("temp-queue", "/queue/temp-queue"),
            ("/queue/queue/a", "/queue/queue/a"),
            ("/amq/queue/a", "/queue/a"),
            ("/exchange/amq.topic/a.b", "/topic/a.b"),
            ("/exchange/amq.direct/a", "/exchange/amq.direct/a"),
            ("/exchange/amq.fanout", "/exchange/amq.fanout"),
            ("/exchange/amq.fanout/", "/exchange/amq.fanout"),
            ("/exchange/amq.fanout/a.b", "/exchange/amq.fanout"),
            ("/exchange/amq.fanout/#", "/exchange/amq.fanout"),
            ("/reply-queue/0", "/reply-queue/0"),
            ("/reply-topic/0", "/reply-topic/0"),
            ("/app/a", "/app/a"),
            ("/queue/dlq.a", "/queue/dlq.a"),
            ("/queue/a*", "/queue/a*"),
            ("/exchange/amq.direct/c#", "/exchange/amq.direct/c#"),
            ("/queue/a?b=1", "/queue/a?b=1"),
            ("/topic/a?", "/topic/a?"),
            ("/topic/#general", "/topic/#general"),
            ("/topic/c++.c#", "/topic/c++.c#"),
            ("/topic/a>b", "/topic/a>b"),
        ]:
            assert canonical(destination) == name
            assert canonical(name) == name
            topics = ("/topic/", "/exchange/", "/reply-topic/")
            assert is_topic(name) is destination.startswith(topics)
            assert not is_temporary(destination)
            assert split(destination) == [destination]

    def test_a_name_must_not_be_empty(self) -> None:
        for destination in [
            "",
            *("/queue/", "/topic/", "/amq/queue/", "/exchange/amq.topic/", "/exchange/amq.direct/"),
            *("/reply-queue/", "/reply-topic/", "/app/"),
        ]:
            with pytest.raises(NotAllowed, match="destination without a name"):
                canonical(destination)

    def test_other_kinds_and_slips_of_the_pen_are_refused(self) -> None:
        for destination in [
            *(
                "/exchange/a/b",
                "/exchange/amq.fanouts/a",
                "/exchange/amq.headersx",
                "/exchange/amq.topic",
                "/amq/a",
                "/dsub/a",
            ),
            *("/temp-queue", "/remote-temp-queue/a", "/user", "/handlers/a", "/temporary/a"),
            *("/a", "/", "/queue", "/topic", "/Topic/a", "/queues/a", "//queue/a", " /queue/a"),
        ]:
            for find in (canonical, lambda destination: canonical_for("ada", destination)):
                with pytest.raises(NotAllowed, match="unsupported kind") as caught:
                    find(destination)
                assert repr(destination) in caught.value.detail
                assert f"; did you mean '{meant(destination)[0]}'" in caught.value.detail

    def test_names_that_may_be_meant(self) -> None:
        for destination, name in [
            *(
                ("/quue/x", "/queue/x"),
                ("/Topic/A", "/topic/A"),
                ("//queue/a/b", "/queue/a/b"),
                ("queue:x", "/queue/x"),
            ),
            *(("topic.a.b", "/topic/a.b"), ("/queue", "/queue/NAME"), ("/amq/x", "/queue/x")),
            *(("/exchange/mine/x", "/exchange/amq.topic/x"), ("/tmp-queue/x", "/temp-queue/x")),
        ]:
            assert meant(destination) == [name]
        assert meant("/orders/new") == ["/queue/orders/new", "/topic/orders/new"]
        assert meant("") == ["/queue/NAME", "/topic/NAME"]

    def test_nothing_is_routed_by_headers(self) -> None:
        for key in ["", "/", "/a", "/a/#"]:
            for exchange in ["amq.headers", "amq.match"]:
                for find in (canonical, lambda destination: canonical_for("ada", destination)):
                    with pytest.raises(NotAllowed, match="no exchange routes by headers") as caught:
                        find(f"/exchange/{exchange}{key}")
                    assert repr(f"/exchange/{exchange}{key}") in caught.value.detail
                    assert "/topic/NAME" in caught.value.detail
                    assert "selector" in caught.value.detail

    def test_the_key_of_a_fanout_counts_for_nothing(self) -> None:
        for key in ["", "/", "/a", "/a.*", "/#", "/a*", f"/{LONG}", "/" + "*/" * 7]:
            assert canonical_for("ada", f"/exchange/amq.fanout{key}") == "/exchange/amq.fanout"
            assert canonical(f"/exchange/amq.fanout{key}") == "/exchange/amq.fanout"
            with pytest.raises(NotAllowed, match="another type"):
                canonical(f"/exchange/amq.fanout{key}", multicast=False)

    def test_what_is_for_one_command(self) -> None:
        with pytest.raises(NotAllowed, match="unsupported kind") as caught:
            canonical("/temp-queue/a")
        assert caught.value.detail == "'/temp-queue/a' is for its own session only"
        with pytest.raises(NotAllowed, match="unsupported kind") as caught:
            canonical("/session/events")
        assert caught.value.detail.startswith("'/session/events' is only for SUBSCRIBE: the server sends the events")
        with pytest.raises(NotAllowed, match="unsupported kind") as caught:
            canonical_for("ada", "/session/renew")
        assert caught.value.detail.startswith("'/session/renew' is only for SEND: a client sends a new token")

    def test_a_forgotten_slash(self) -> None:
        for name, lacks in [
            *(("queue/a", True), ("topic/a.b", True), ("user/queue/a", True), ("temp-topic/a", True), ("app/a", True)),
            *(("exchange/amq.topic/a", True), ("session/events", True)),
            *(("topic", False), ("topic.a", False), ("topics/a", False), ("/topic/a", False), ("a/topic/b", False)),
        ]:
            assert lacks_slash(name) is lacks

    def test_a_forgotten_slash_is_refused_unless_a_type_is_given(self) -> None:
        for find in (canonical, lambda name, type=None: canonical_for("ada", name, type)):
            with pytest.raises(NotAllowed, match="unsupported kind") as caught:
                find("topic/a.b")
            assert caught.value.detail.endswith("did you mean '/topic/a.b'? The queue is '/queue/topic/a.b'")
            assert find("topic/a.b", False) == "/queue/topic/a.b"

    def test_a_send_goes_to_no_pattern(self) -> None:
        for kind in ["/topic/", "/queue/", "", "/user/ada/queue/", "/exchange/amq.topic/", "/app/"]:
            for name in ["*", "a.*", "*/a", "#", "a/#", ">", "a.>", "**", "a/**", "a.#.b"]:
                with pytest.raises(NotAllowed, match="wildcard"):
                    canonical(kind + name)

    def test_only_topics_have_patterns(self) -> None:
        for kind in ["/queue/", "", "/amq/queue/", "/exchange/amq.direct/", "/app/"]:
            for name in ["*", "a.*", "a/#", ">", "**", "a.#.b"]:
                with pytest.raises(NotAllowed, match="wildcards are for topics"):
                    canonical_for("ada", kind + name)

    def test_a_wildcard_inside_of_a_word_is_a_slip(self) -> None:
        """Whoever subscribed would wait for ever; and nothing is sent there, so that both hear of it."""
        for kind in ["/topic/", "/exchange/amq.topic/", "/user/queue/"]:
            for name, word in [("a*", "a*"), ("a.b*/c", "b*"), ("*.a*.#", "a*"), ("***", "***")]:
                with pytest.raises(NotAllowed, match="a wildcard inside of a word") as caught:
                    canonical_for("ada", kind + name)
                assert f"'{kind}{name}' has one in '{word}'" in caught.value.detail
                with pytest.raises(NotAllowed, match="wildcard in"):
                    canonical(kind.replace("/user/", "/user/ada/") + name)

    def test_the_type_decides_of_a_bare_name(self) -> None:
        for destination, multicast, name in [
            ("a", True, "/topic/a"),
            ("a", False, "/queue/a"),
            ("/topic/a", True, "/topic/a"),
            ("/queue/a", False, "/queue/a"),
            ("/amq/queue/a", False, "/queue/a"),
            ("/exchange/amq.direct/a", True, "/exchange/amq.direct/a"),
        ]:
            assert canonical(destination, multicast) == canonical_for("ada", destination, multicast) == name

    def test_a_prefix_and_another_type_contradict_each_other(self) -> None:
        for destination, multicast, kind in [("/topic/a", False, "topic"), ("/queue/a", True, "queue")]:
            with pytest.raises(NotAllowed, match="another type") as caught:
                canonical(destination, multicast)
            assert caught.value.detail.endswith(f"is a {kind}")

    def test_a_topic_has_only_so_many_words(self) -> None:
        """They are the edges of trees; a queue's name is only looked up."""
        for destination in (f"/topic/{LONG}", f"/exchange/amq.topic/{LONG}", f"/user/ada/queue/{LONG}"):
            with pytest.raises(NotAllowed, match="too many words"):
                canonical(destination)
        for destination in (f"/topic/{LONG}", f"/topic/{LONG}/#", f"/user/queue/{LONG}"):
            with pytest.raises(NotAllowed, match="too many words"):
                canonical_for("ada", destination)
        assert canonical(f"/queue/{LONG}") == f"/queue/{LONG}"

    def test_nothing_comes_to_the_queues_of_activemqs_virtual_topics(self) -> None:
        with pytest.raises(NotAllowed, match="virtual topics") as caught:
            canonical_for("ada", "/queue/Consumer.A.VirtualTopic.B")
        assert "destination:/queue/a,/queue/b" in caught.value.detail
        assert canonical_for("ada", "/queue/Consumer.A") == "/queue/Consumer.A"

    def test_there_are_no_advisories(self) -> None:
        for name in ["Queue", "Consumer.Queue.a", ">"]:
            for kind in ["/topic/", "/exchange/amq.topic/"]:
                with pytest.raises(NotAllowed, match="advisories") as caught:
                    canonical_for("ada", f"{kind}ActiveMQ.Advisory.{name}")
                assert "/api/v1/sessions" in caught.value.detail
                assert canonical_for("ada", "/topic/ActiveMQ.Advisory") == "/topic/ActiveMQ.Advisory"

    def test_nobody_reads_options_behind_a_name(self) -> None:
        for kind in ["/queue/a", "/topic/a", "a"]:
            for options, instead in [
                ("consumer.prefetchSize=1", "as headers of the SUBSCRIBE: prefetch-count:1"),
                (
                    "consumer.exclusive=true&consumer.dispatchAsync=false&consumer.priority=10",
                    "SUBSCRIBE: exclusive:true, x-priority:10",
                ),
                ("consumer.noLocal=true&consumer.selector=a=1", "SUBSCRIBE: no-local:true, selector:a=1"),
                ("consumer.retroactive=true", "leave them out"),
                ("producer.windowSize=1", "leave them out"),
            ]:
                for find in (canonical, lambda destination: canonical_for("ada", destination)):
                    with pytest.raises(NotAllowed, match="options in a destination") as caught:
                        find(f"{kind}?{options}")
                    assert caught.value.detail.endswith(instead)

        assert set(_HEADERS.values()) <= INDEX["SUBSCRIBE"].keys()

    def test_a_subscribe_names_one_destination(self) -> None:
        for destination in ("/queue/a,/queue/b", "/topic/a,/topic/b", "a,b"):
            with pytest.raises(NotAllowed, match="comma"):
                canonical_for("ada", destination)

    def test_a_send_names_several(self) -> None:
        for destination, parts in [
            ("a,b", ["a", "b"]),
            ("/queue/a , /topic/b.c,c", ["/queue/a", "/topic/b.c", "c"]),
            ("a,", ["a", ""]),
            (",", ["", ""]),
            ("a\t,b", ["a\t", "b"]),
            (" a", [" a"]),
        ]:
            assert split(destination) == parts

    def test_what_was_written_is_named_and_not_what_it_stands_for(self) -> None:
        for name in (LONG, "a*", "*/" * 7):
            with pytest.raises(NotAllowed) as caught:
                canonical_for("ada", f"/user/queue/{name}")
            assert f"/user/queue/{name}"[:80] in caught.value.detail
            assert "ada" not in caught.value.detail


class TestOfUsers:
    def test_what_is_sent_to_a_user_is_what_the_user_subscribes(self) -> None:
        for kind in ["queue/a", "topic/a.b", "exchange/amq.topic/a", "queue/queue/a", "queue//"]:
            assert canonical(f"/user/ada/{kind}") == canonical_for("ada", f"/user/{kind}") == f"/user/ada/{kind}"
            assert is_topic(f"/user/ada/{kind}")

    NAMES = (
        *("a/b", "a.b", "*", "#", ">", "**", "50%", "%", "%25", "queue", "topic", "a b", "ünï", "a:b", "'", "a\\b"),
        *("..", ".", "a.*", "queue/x", "%2a", "%2e", "%2F", "a%2Fb", "a%2Cb", "a,b", "%252F", "%2525", "25"),
    )

    def test_different_users_have_different_names(self) -> None:
        users = {*self.NAMES, "a%2Eb", "%2A", "%23"}
        names = {canonical_for(user, "/user/queue/x") for user in users}
        assert len(names) == len(users)
        for user in users:
            sent = canonical(f"/user/{written(user)}/queue/x")
            assert sent == canonical_for(user, "/user/queue/x")
            assert len(sent.split("/")) == 5
        # A percent sign that begins none of the three escapes stands for itself.
        for user in ["50%", "%", "%2a", "%2E", "a%b", "%2"]:
            assert canonical(f"/user/{user}/queue/x") == canonical_for(user, "/user/queue/x")

    def test_a_send_needs_user_and_name(self) -> None:
        for destination in [
            *("/user/", "/user/ada", "/user/ada/", "/user/ada/queue", "/user/ada/queue/", "/user/ada/topic/"),
            *("/user//queue/a", "/user/ada/a", "/user/ada/app/a", "/user/ada/temp-queue/a", "/user/queue/a"),
            *("/user/ada//queue/a", "/user/ada/user/bob/queue/a"),
        ]:
            with pytest.raises(NotAllowed, match="unknown user destination"):
                canonical(destination)

    def test_a_subscribe_names_no_user_not_even_oneself(self) -> None:
        for destination in [
            *("/user/", "/user/queue", "/user/queue/", "/user/topic/", "/user/a", "/user/app/a", "/user//queue/a"),
            *("/user/bob/queue/a", "/user/ada/queue/a", "/user/../bob/queue/a", "/user/*/queue/a", "/user/#"),
            *("/user/./queue/a", "/user/%2A/queue/a"),
        ]:
            with pytest.raises(NotAllowed, match="unknown user destination"):
                canonical_for("ada", destination)

    def test_nobody_subscribes_to_temporary_destinations_by_the_name_that_others_know(self) -> None:
        for destination in ["/reply-queue/0123", "/reply-topic/0123", "/reply-topic/#"]:
            with pytest.raises(NotAllowed, match="temporary destination of another session"):
                canonical_for("ada", destination)


class TestMail:
    """User destinations through the broker."""

    def test_all_sessions_of_a_user_and_nobody_else(self, scene: Scene) -> None:
        first, second, bob, nameless = (login(scene, name) for name in ("ada", "ada", "bob", ""))
        bob.publish("/user/ada/queue/x", b"lost", receipt="r")
        assert bob.receipts() == ["r"]
        assert scene.broker.counters.unroutable == 1, "nothing is kept for a user that is not there"
        for each in (first, second, bob, nameless):
            each.subscribe("/user/queue/x", ack="client" if each is second else "auto")
        bob.publish("/user/ada/queue/x", b"m")
        for each in (first, second):
            message = each.message()
            assert (message.body, message.headers["destination"]) == (b"m", "/user/ada/queue/x")
        assert (first.session.outstanding, second.session.outstanding) == (0, 1)
        bob.publish(f"/user/{nameless.session.id}/queue/x", b"for a session")
        bob.publish("/user/anonymous/queue/x", b"for no session")
        assert nameless.bodies() == [b"for a session"]
        assert not bob.received()

    def test_no_pattern_reaches_somebody_elses(self, scene: Scene) -> None:
        mallory, ada, sender = login(scene, "mallory"), login(scene, "a.d/a"), scene.connect()
        patterns = [
            *("/topic/#", "/topic/**", "/topic/>", "/topic/*", "/topic/../user/#", "/exchange/amq.topic/#"),
            *("/user/queue/#", "/user/queue/**", "/user/queue/*", "/user/queue/../#", "/user/topic/#"),
        ]
        for id, pattern in enumerate(patterns):
            mallory.subscribe(pattern, str(id))
        ada.subscribe("/user/queue/*.x")
        for name in ("queue/a.x", "queue/b/x", "queue/a.y", "topic/a.x"):
            sender.publish(f"/user/a.d%2Fa/{name}", name.encode())
        sender.publish("/user/#mallory/queue/x", b"secret")
        assert ada.bodies() == [b"queue/a.x", b"queue/b/x"]
        assert not mallory.received()


def test_the_direct_exchange_is_apart_and_the_fanout_exchange_is_one_topic(scene: Scene) -> None:
    names = ("/exchange/amq.fanout", "/exchange/amq.fanout/", "/exchange/amq.fanout/a.b")
    producer, consumer = scene.connect(), scene.connect()
    for id, name in enumerate((*names, "/exchange/amq.fanout/#")):
        consumer.subscribe(name, str(id), "client" if id == 1 else "auto")
    consumer.subscribe("/exchange/amq.direct/a", "direct")
    consumer.subscribe("/topic/#", "other")
    for name in names:
        producer.publish(name, b"m")
    producer.publish("/exchange/amq.direct/a", b"m")
    found = [(each.headers["destination"], each.subscription) for each in consumer.messages()]
    assert sorted(found[:-1]) == sorted((name, id) for name in names for id in "0123")
    assert found[-1] == ("/exchange/amq.direct/a", "direct")
    assert "/exchange/amq.fanout" in scene.broker.destinations


@pytest.mark.parametrize("header", ["destination-type", "subscription-type"])
def test_the_type_of_a_subscribe(scene: Scene, header: str) -> None:
    one, two, producer = (scene.connect() for _ in range(3))
    for each in (one, two):
        each.subscribe("a", **{header: "MULTICAST"})
    producer.publish("a", b"m", **{"destination-type": "MULTICAST"})
    assert one.bodies() == two.bodies() == [b"m"]
    one.subscribe("a", "1", **{header: "ANYCAST"})
    producer.publish("a", b"n")
    assert one.bodies() == [b"n"]
    two.subscribe("/topic/b", "1", **{header: "ANYCAST"})
    assert two.error().headers["message"] == "destination of another type"
