"""Header lines of one subscription: numbers under names of its own, and gaps."""

from __future__ import annotations

import pytest

from gateway.broker.model.message import Message
from gateway.broker.queue.subscription import ExtraHeaders
from gateway.codec import Head

from ..client import Scene
from ..conftest import Stage
from ..topic.logged import LOG, LOGS, T, fill, seqs


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
        fill(scene, 3)
        found = client.messages()
        assert [int(each.headers["my-number"]) for each in found] == seqs(found)
        assert [int(each.headers["seq"]) for each in found] == list(range(seqs(found)[0], seqs(found)[0] + 3))

    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_of_a_pattern_what_has_one(self, stage: Stage, ack: str) -> None:
        scene = stage(LOG)
        client = scene.consumer("/topic/*", ack=ack, **{"include-seq": "n"})
        fill(scene, 1)
        fill(scene, 1, "/topic/b")
        first, second = client.messages()
        assert first.headers["n"] == first.headers["seq"]
        assert "n" not in second.headers
        assert "seq" not in second.headers

    @pytest.mark.parametrize("ack", ["auto", "client"])
    def test_of_a_queue(self, scene: Scene, ack: str) -> None:
        client = scene.consumer("/queue/a", ack=ack, **{"include-seq": "n"})
        fill(scene, 3, "/queue/a")
        found = [int(each.headers["n"]) for each in client.messages()]
        assert found == sorted(set(found))
        assert len(found) == 3

    def test_redelivered_it_is_the_same(self, scene: Scene) -> None:
        client = scene.consumer("/queue/a", ack="client", **{"include-seq": "n"})
        fill(scene, 1, "/queue/a")
        first = client.message()
        client.nack(first)
        assert client.message().headers["n"] == first.headers["n"]

    def test_under_the_name_of_rabbitmqs_streams_too(self, stage: Stage) -> None:
        scene = stage(LOG)
        fill(scene, 2)
        client = scene.consumer(T, **{"x-stream-offset": "first", "include-seq": "n"})
        fill(scene, 1, start=2)
        found = client.messages()
        assert [each.headers["x-stream-offset"] for each in found] == [each.headers["seq"] for each in found]
        assert [each.headers["n"] for each in found] == [each.headers["seq"] for each in found]

    @pytest.mark.parametrize("stored", [False, True])
    def test_of_what_the_topic_retained(self, stage: Stage, stored: bool) -> None:
        scene = stage(LOGS, stored=stored)
        fill(scene, 1, retain="set", persistent="true")
        if stored:
            scene = scene.restart()
        client = scene.consumer(T, **{"include-seq": "n"})
        found = client.message()
        assert found.headers["n"] == found.headers["seq"]
        assert found.headers["retained"] == "true"

    def test_a_topic_without_a_log_retains_what_has_none(self, stage: Stage) -> None:
        scene = stage(stored=True)
        fill(scene, 1, retain="set", persistent="true", seq="7")
        client = scene.restart().connect()
        client.subscribe("/topic/*", **{"include-seq": "n"})
        found = client.message()
        assert "n" not in found.headers
        assert "seq" not in found.headers  # the sender's own does not pass

    def test_of_a_browser(self, scene: Scene) -> None:
        sender, browser = scene.connect(), scene.connect()
        for _ in range(2):
            sender.publish("/queue/a", b"x")
        browser.subscribe("/queue/a", browser="true", **{"include-seq": "n"})
        first, second, end = browser.messages()
        assert int(first.headers["n"]) < int(second.headers["n"])
        assert end.headers["browser"] == "end"

    def test_the_name_that_all_have_anyway(self, stage: Stage) -> None:
        scene = stage(LOG)
        client = scene.consumer(T, **{"include-seq": "seq"})
        fill(scene, 1)
        assert client.written.count(b"\nseq:") == 1
