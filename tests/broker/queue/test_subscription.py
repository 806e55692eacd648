"""A subscription: its ack mode, its selector, its ledger, and the headers that are its own on a MESSAGE."""

from __future__ import annotations

import pytest

from gateway.broker.model.message import OVERHEAD, Message
from gateway.broker.queue.subscription import ExtraHeaders
from gateway.codec import V10, V11, V12, Head, Version

from ..client import WITH_NACK, Client, Scene
from ..conftest import Stage
from ..topic.logged import LOG, T, seqs
from ..topic.logged import fill as fill_log
from .helpers import QUEUE, fill

with_nack = pytest.mark.parametrize("version", WITH_NACK, ids=lambda version: version.name)
in_1_2 = pytest.mark.parametrize("version", [V12], ids=["1.2"])


def left_behind(scene: Scene, client: Client, destination: str = "/queue/a") -> list[bytes]:
    """What the next consumer gets when this one is gone."""
    client.drop()
    following = scene.connect(client.version)
    following.subscribe(destination)
    return following.bodies()


class TestSubscribe:
    @pytest.mark.requirement("SUB-03")
    @with_nack
    def test_the_id_is_required(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.send("SUBSCRIBE", {"destination": "/queue/a"})
        assert client.error().headers["message"] == "SUBSCRIBE needs the header id"

    @pytest.mark.requirement("SUB-04")
    def test_in_1_0_it_is_not(self, scene: Scene) -> None:
        client = scene.connect(V10)
        for destination in ("/queue/a", "/topic/a"):
            client.send("SUBSCRIBE", {"destination": destination})
            client.publish(destination)
        messages = client.messages()
        assert [each.headers["destination"] for each in messages] == ["/queue/a", "/topic/a"]
        assert not any("subscription" in each.headers for each in messages)

    @pytest.mark.requirement("SUB-06")
    def test_in_1_0_a_destination_without_id_is_subscribed_once(self, scene: Scene) -> None:
        client = scene.connect(V10)
        for _ in range(2):
            client.send("SUBSCRIBE", {"destination": "/queue/a"})
        error = client.error()
        assert error.headers["message"] == "subscription id in use"
        assert error.body == b"this connection has a subscription '/queue/a' already; choose another id"

    @pytest.mark.requirement("SUB-05", "SUB-12", "MSG-03")
    def test_subscriptions_of_one_connection_are_independent(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        for id, destination in (("a", "/topic/a"), ("b", "/topic/a"), ("c", "/topic/b"), ("ü d", "/queue/a")):
            client.subscribe(destination, id)
        client.publish("/topic/a")
        assert {each.subscription for each in client.messages()} == {"a", "b"}
        client.publish("/topic/b")
        client.publish("/queue/a")
        assert [each.subscription for each in client.messages()] == ["c", "ü d"]

    @pytest.mark.requirement("SUB-06")
    def test_an_id_in_use_is_refused(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe("/queue/a")
        client.subscribe("/queue/b", receipt="r")
        error = client.error()
        assert error.headers["message"] == "subscription id in use"
        assert error.headers["receipt-id"] == "r"

    @pytest.mark.requirement("SUB-09")
    @pytest.mark.parametrize("ack", ["auto", "client", "client-individual"])
    @pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
    def test_the_ack_modes(self, scene: Scene, version: Version, ack: str, destination: str) -> None:
        client = scene.connect(version)
        client.subscribe(destination, ack=ack, receipt="r")
        assert client.receipts() == ["r"]

    @pytest.mark.requirement("SUB-10")
    @pytest.mark.parametrize("ack", ["bogus", "", "AUTO", "client "])
    def test_no_other_ack_mode(self, scene: Scene, version: Version, ack: str) -> None:
        if version is V10 and ack == "client ":
            ack = "clients"  # 1.0 cuts spaces
        client = scene.connect(version)
        client.subscribe("/queue/a", ack=ack)
        error = client.error()
        assert error.headers["message"] == "unknown ack mode"
        assert b"auto, client, client-individual" in error.body
        assert not scene.broker.destinations

    @pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
    def test_none_is_auto_as_apollo_calls_it(self, scene: Scene, version: Version, destination: str) -> None:
        client = scene.connect(version)
        client.subscribe(destination, ack="none")
        client.publish(destination)
        client.message()
        assert client.session.outstanding == 0


class TestSelector:
    @pytest.mark.requirement("SUB-11")
    @pytest.mark.parametrize("ack", ["auto", "client"])
    @pytest.mark.parametrize("destination", ["/queue/a", "/topic/a", "/topic/*"])
    def test_only_what_it_takes(self, scene: Scene, version: Version, destination: str, ack: str) -> None:
        client = scene.connect(version)
        client.subscribe(destination, ack=ack, selector="n > 1 AND n <> 3")
        for number in range(5):
            client.publish(destination.replace("*", "a"), b"%d" % number, n=str(number))
        assert client.bodies() == [b"2", b"4"]

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


class TestLedger:
    @pytest.mark.requirement("ACK-01", "ACK-02", "ACK-03", "ACK-07")
    @pytest.mark.parametrize("mode", ["client", "client-individual"])
    def test_acknowledged_is_consumed(self, scene: Scene, version: Version, mode: str) -> None:
        client = scene.connect(version)
        client.subscribe("/queue/a", ack=mode)
        client.publish("/queue/a")
        client.ack(client.message())
        assert left_behind(scene, client) == []

    @pytest.mark.requirement("ACK-04")
    def test_in_mode_client_an_ack_covers_all_before_it(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe("/queue/a", ack="client")
        fill(client, 5)
        messages = client.messages()
        client.ack(messages[1])
        client.ack(messages[2])
        assert client.session.outstanding == 2
        assert left_behind(scene, client) == [b"4", b"5"]

    @pytest.mark.requirement("ACK-05")
    @with_nack
    def test_in_mode_client_individual_only_its_own(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe("/queue/a", ack="client-individual")
        fill(client, 5)
        messages = client.messages()
        client.ack(messages[3])
        client.ack(messages[1])
        assert left_behind(scene, client) == [b"1", b"3", b"5"]

    @pytest.mark.requirement("ACK-11")
    def test_cumulation_stays_in_the_subscription(self, scene: Scene, version: Version) -> None:
        client = scene.connect(version)
        client.subscribe("/queue/a", "0", ack="client")
        client.subscribe("/queue/b", "1", ack="client")
        client.publish("/queue/a", b"a")
        client.publish("/queue/b", b"b")
        client.ack(client.messages()[1])
        assert left_behind(scene, client) == [b"a"]

    @pytest.mark.requirement("NAK-02")
    @with_nack
    def test_in_mode_client_a_nack_covers_all_before_it(self, scene: Scene, version: Version) -> None:
        client, other = scene.connect(version), scene.connect(version)
        client.subscribe("/queue/a", ack="client")
        fill(client, 3)
        messages = client.messages()
        other.subscribe("/queue/a", ack="client")
        client.nack(messages[1])
        assert other.bodies() == [b"1", b"2"]
        assert client.session.outstanding == 1

    @pytest.mark.requirement("NAK-05")
    @with_nack
    def test_in_mode_client_individual_only_itself(self, scene: Scene, version: Version) -> None:
        client, other = scene.connect(version), scene.connect(version)
        client.subscribe("/queue/a", ack="client-individual")
        fill(client, 3)
        messages = client.messages()
        other.subscribe("/queue/a", ack="client")
        client.nack(messages[2])
        assert other.bodies() == [b"3"]
        client.drop()
        assert other.bodies() == [b"1", b"2"]


def large(producer: Client, count: int, nbytes: int) -> None:
    for _ in range(count):
        producer.publish(QUEUE, b" " * (nbytes - OVERHEAD))


class TestWindow:
    def test_so_many_are_sent_unacknowledged(self, stage: Stage) -> None:
        client = stage(max_unacknowledged=3).connect()
        client.subscribe(QUEUE, ack="client")
        fill(client, 8)
        messages = client.messages()
        assert [each.body for each in messages] == [b"1", b"2", b"3"]
        client.ack(messages[1])
        messages[:2] = []
        messages += client.messages()
        assert [each.body for each in messages] == [b"3", b"4", b"5"]
        client.ack(messages[-1])
        assert client.bodies() == [b"6", b"7", b"8"]

    @pytest.mark.requirement("TXN-03", "TXN-04")
    def test_an_ack_in_a_transaction_makes_room_when_it_commits(self, stage: Stage) -> None:
        client = stage(max_unacknowledged=1).connect()
        client.subscribe(QUEUE, ack="client")
        fill(client, 2)
        message = client.message()
        client.begin()
        client.ack(message, transaction="t")
        client.abort()
        client.begin()
        client.ack(message, transaction="t")
        assert not client.received()
        client.commit()
        assert client.bodies() == [b"2"]


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

    def test_one_that_is_larger_goes_alone(self, scene: Scene) -> None:
        client = scene.consumer(QUEUE, ack="client", **{"consumer-window-size": "1000"})
        large(client, 3, 50_000)
        for _ in range(3):
            client.ack(client.message())
        assert not client.received()

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

    def test_of_a_queue(self) -> None:
        assert ExtraHeaders(["a"], numbered=False).of(message(5, derived=77)) == b"a:5\n"

    @pytest.mark.parametrize("derived", [None, object(), "7"])
    def test_of_a_topic_without_a_log_there_is_none(self, derived: object) -> None:
        assert ExtraHeaders(["a"], numbered=True).of(message(5, derived)) == b""

    def test_a_sender_cannot_write_one_there(self, stage: Stage) -> None:
        client = stage().connect()
        client.subscribe("/topic/*", **{"include-seq": "n"})
        client.publish("/topic/b", b"m", n="5")
        assert client.message().headers["n"] == ""

    def test_a_name_once(self) -> None:
        assert ExtraHeaders(["a", "", "a"], numbered=True).of(message(5, derived=7)) == b"a:7\n"

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

    def test_under_the_name_of_rabbitmqs_streams_too(self, stage: Stage) -> None:
        scene = stage(LOG)
        fill_log(scene, 2)
        client = scene.consumer(T, **{"x-stream-offset": "first", "include-seq": "n"})
        fill_log(scene, 1, start=2)
        found = client.messages()
        assert [each.headers["x-stream-offset"] for each in found] == [each.headers["seq"] for each in found]
        assert [each.headers["n"] for each in found] == [each.headers["seq"] for each in found]

    def test_of_a_browser(self, scene: Scene) -> None:
        sender, browser = scene.connect(), scene.connect()
        for _ in range(2):
            sender.publish("/queue/a", b"x")
        browser.subscribe("/queue/a", browser="true", **{"include-seq": "n"})
        first, second, end = browser.messages()
        assert int(first.headers["n"]) < int(second.headers["n"])
        assert end.headers["browser"] == "end"
