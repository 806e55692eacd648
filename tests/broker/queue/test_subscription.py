"""A subscription: its selector, its prefetch, and the headers that are its own on a MESSAGE."""

from __future__ import annotations

import pytest

from gateway.broker.model.message import OVERHEAD, Message
from gateway.broker.queue.subscription import ExtraHeaders
from gateway.codec import V11, V12, Head, Version

from ..client import WITH_NACK, Client, Scene
from ..conftest import Stage
from ..topic.logged import LOG, T, seqs
from ..topic.logged import fill as fill_log
from .helpers import QUEUE, fill

with_nack = pytest.mark.parametrize("version", WITH_NACK, ids=lambda version: version.name)
in_1_2 = pytest.mark.parametrize("version", [V12], ids=["1.2"])


class TestSelector:
    @pytest.mark.requirement("SUB-11")
    @pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
    def test_one_that_does_not_parse_is_refused_with_its_column(
        self, scene: Scene, version: Version, destination: str
    ) -> None:
        client = scene.connect(version)
        client.subscribe(destination, selector="a = ", receipt="r")
        error = client.error()
        assert error.headers["message"] == "selector does not parse"
        assert error.headers["receipt-id"] == "r"
        assert error.body.startswith(b"column 4: ")
        assert not scene.broker.destinations


class TestHeaders:
    @pytest.mark.requirement("MSG-03", "MSG-04", "MSG-05")
    @pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
    @pytest.mark.parametrize("mode", ["auto", "client", "client-individual"])
    def test_subscription_and_ack(self, scene: Scene, version: Version, destination: str, mode: str) -> None:
        client = scene.connect(version)
        client.subscribe(destination, "a b", ack=mode)
        client.publish(destination)
        message = client.message()
        assert message.subscription == "a b"
        assert ("ack" in message.headers) is (version is V12 and mode != "auto")
        assert "redelivered" not in message.headers
        assert "delivery-count" not in message.headers

    @pytest.mark.requirement("MSG-07")
    @in_1_2
    def test_each_delivery_has_an_ack_of_its_own(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        for id in ("0", "1", "2"):
            client.subscribe("/topic/a", id, ack="client")
        client.subscribe("/queue/a", "3", ack="client")
        fill(client, 3, destination="/topic/a")
        fill(client, 3)
        acks = [each.headers["ack"] for each in client.messages()]
        assert len(set(acks)) == 12
        assert not set("".join(acks)) & set(":\\ \n")

    @with_nack
    def test_a_redelivery_is_marked_and_counted(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe("/queue/a", ack="client")
        client.publish("/queue/a", b"m")
        ids, acks = [], []
        for count in range(1, 5):
            message = client.message()
            assert message.headers.get("delivery-count", "1") == str(count)
            assert message.redelivered is (count > 1)
            ids.append(message.message_id)
            acks.append(client.named(message))
            client.nack(message)
        assert len(set(ids)) == 1
        assert version is V11 or len({each["id"] for each in acks}) == 4


def large(producer: Client, count: int, nbytes: int) -> None:
    for _ in range(count):
        producer.publish(QUEUE, b" " * (nbytes - OVERHEAD))


class TestPrefetch:
    @pytest.mark.parametrize("name", ["prefetch-count", "activemq.prefetchSize", "x-prefetch", "credit"])
    @pytest.mark.parametrize("destination", [QUEUE, "/topic/a"])
    def test_so_many_messages(self, scene: Scene, name: str, destination: str) -> None:
        client = scene.consumer(destination, ack="client", **{name: "3"})
        bodies = fill(client, 8, destination=destination)
        messages = client.messages()
        assert [message.body for message in messages] == bodies[:3]
        client.ack(messages[1])
        assert client.bodies() == bodies[3:5]

    @pytest.mark.parametrize("destination", [QUEUE, "/topic/a"])
    def test_0_sets_no_limit(self, stage: Stage, destination: str) -> None:
        client = stage(max_unacknowledged=2).connect()
        client.subscribe(destination, ack="client", **{"prefetch-count": "0"})
        fill(client, 500, destination=destination)
        assert len(client.messages()) == 500

    def test_room_comes_back_with_each_way_of_settling(self, stage: Stage) -> None:
        client = stage({QUEUE: {"max_attempts": 2, "dead_letter": ""}}).connect()
        client.subscribe(QUEUE, ack="client-individual", **{"prefetch-count": "1"})
        fill(client, 6)
        client.ack(client.message())
        client.nack(client.message(), requeue="false")
        client.nack(client.message())
        client.nack(client.message())
        client.begin()
        client.ack(client.message(), transaction="t")
        assert not client.received()
        client.commit()
        client.begin()
        client.nack(client.message(), transaction="t", requeue="false")
        client.commit()
        assert client.bodies() == [b"6"]


class TestBytes:
    @pytest.mark.parametrize("destination", [QUEUE, "/topic/a"])
    @pytest.mark.parametrize("headers", [{"consumer-window-size": "3000"}, {"credit": "100,3000"}])
    def test_a_ceiling_in_octets(self, scene: Scene, headers: dict[str, str], destination: str) -> None:
        client = scene.consumer(destination, ack="client", **headers)
        for _ in range(8):
            client.publish(destination, b" " * (1_000 - OVERHEAD))
        messages = client.messages()
        assert len(messages) == 3
        client.ack(messages[0])
        assert len(client.messages()) == 1
        assert client.session.outstanding == 3

    def test_0_is_one_message_at_a_time_as_at_artemis(self, scene: Scene) -> None:
        client = scene.consumer(QUEUE, ack="client", **{"consumer-window-size": "0"})
        fill(client, 3)
        for number in (1, 2, 3):
            message = client.message()
            assert message.body == b"%d" % number
            client.ack(message)

    def test_minus_1_sets_no_limit_as_at_artemis(self, stage: Stage) -> None:
        client = stage(max_unacknowledged=2, max_unacknowledged_bytes=1_000).connect()
        client.subscribe(QUEUE, ack="client", **{"consumer-window-size": "-1"})
        large(client, 10, 2_000)
        assert len(client.messages()) == 10


def message(number: int, derived: object = None) -> Message:
    head = Head.of("SEND", {"destination": T})
    head.derived = derived
    return Message(number, head, b"")


class TestLines:
    def test_the_number_of_a_log(self) -> None:
        notes = ExtraHeaders(["a", "b"], numbered=True)
        assert notes.of(message(5, derived=77)) == b"a:77\nb:77\n"
        assert ExtraHeaders(["a", "", "a"], numbered=False).of(message(5, derived=77)) == b"a:5\n", "of a queue"

    @pytest.mark.parametrize("derived", [None, object(), "7"])
    def test_of_a_topic_without_a_log_there_is_none(self, derived: object) -> None:
        assert ExtraHeaders(["a"], numbered=True).of(message(5, derived)) == b""

    def test_a_sender_cannot_write_one_there(self, stage: Stage) -> None:
        client = stage().connect()
        client.subscribe("/topic/*", **{"include-seq": "n"})
        client.publish("/topic/b", b"m", n="5")
        assert client.message().headers["n"] == ""

    def test_a_gap_is_told_once_and_with_its_message(self) -> None:
        notes = ExtraHeaders(["a"], numbered=True)
        notes.tell_gap(message(5), 70)
        assert notes.of(message(4, derived=69)) == b"a:69\n"
        assert notes.of(message(5, derived=70)) == b"gap:true\nfirst-seq:70\na:70\n"
        assert notes.of(message(5, derived=70)) == b"a:70\n"

    def test_whether_there_will_be_any(self) -> None:
        assert not ExtraHeaders([], numbered=True)
        assert not ExtraHeaders([""], numbered=True)
        assert ExtraHeaders(["a"], numbered=True)
        notes = ExtraHeaders([], numbered=True)
        notes.tell_gap(message(5), 70)
        assert notes
        notes.of(message(5))
        assert not notes


class TestIncludeSeq:
    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_of_a_topic(self, stage: Stage, ack: str) -> None:
        scene = stage(LOG)
        client = scene.consumer(T, ack=ack, **{"include-seq": "my-number"})
        fill_log(scene, 3)
        found = client.messages()
        assert [int(each.headers["my-number"]) for each in found] == seqs(found)
        assert [int(each.headers["seq"]) for each in found] == list(range(seqs(found)[0], seqs(found)[0] + 3))

    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_of_a_pattern_what_has_one(self, stage: Stage, ack: str) -> None:
        scene = stage(LOG)
        client = scene.consumer("/topic/*", ack=ack, **{"include-seq": "n"})
        fill_log(scene, 1)
        fill_log(scene, 1, "/topic/b")
        first, second = client.messages()
        assert first.headers["n"] == first.headers["seq"]
        assert "n" not in second.headers
        assert "seq" not in second.headers

    def test_of_a_browser(self, scene: Scene) -> None:
        sender, browser = scene.connect(), scene.connect()
        for _ in range(2):
            sender.publish("/queue/a", b"x")
        browser.subscribe("/queue/a", browser="true", **{"include-seq": "n"})
        first, second, end = browser.messages()
        assert int(first.headers["n"]) < int(second.headers["n"])
        assert end.headers["browser"] == "end"
