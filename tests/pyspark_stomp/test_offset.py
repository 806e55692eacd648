"""Mode offset against the real gateway, without Spark: where streams begin and end, ranges, gaps."""

from __future__ import annotations

import dataclasses
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from pyspark_stomp import offset
from pyspark_stomp.errors import DataLost, OptionError, ServerError
from pyspark_stomp.offset import EMPTY, OffsetRange, Probe, read_range
from pyspark_stomp.offset_stream import OffsetStreamReader, split
from pyspark_stomp.options import Options
from tests.clients.forwarder import start_forwarder
from tests.gateway_process import HOST
from tests.pyspark_stomp.conftest import Broker
from tests.pyspark_stomp.queries import texts
from tests.pyspark_stomp.test_receiver import bodies


def read(options: Options, parts: list[OffsetRange]) -> list[str]:
    return texts(batch for part in parts for batch in read_range(options, part, ["body", "seq"]))


@pytest.fixture
def topic(name: str) -> str:
    return f"/topic/log.{name}"


def ends(broker: Broker, topic: str) -> tuple[int, int]:
    """The first number of a stream, and the one behind the last."""
    probe = Probe(broker.options())
    found = probe.first({topic: 0})[topic], probe.last((topic,))[topic] + 1
    probe.close()
    return found


def test_where_logs_begin_and_end(broker: Broker, topic: str) -> None:
    probe = Probe(broker.options(idleTimeoutMs="300"))
    assert probe.last((topic,)) == probe.first({topic: 0}) == {}
    broker.send(topic, bodies(10))
    first, last = probe.first({topic: 0})[topic], probe.last((topic,))[topic]
    assert last - first == 9
    assert probe.first({topic: first + 3}) == {topic: first + 3}
    assert probe.last((topic, topic + ".empty")) == {topic: last}
    probe.close()


@contextmanager
def late(seconds: float, questions: int = 0) -> Iterator[Options]:
    """A server that confirms at once, and sends what a stream has so much later, and after so many other questions."""
    listener = socket.create_server((HOST, 0))
    asked: list[bytes] = []

    def serve() -> None:
        with listener, listener.accept()[0] as connection:
            connection.settimeout(10)
            came = b""
            while chunk := connection.recv(65_536):
                *frames, came = (came + chunk).split(b"\0")
                for frame in [each.lstrip() for each in frames]:
                    if frame.startswith(b"CONNECT\n"):
                        connection.sendall(b"CONNECTED\nversion:1.2\n\n\0")
                    if receipt := re.search(rb"\nreceipt:([^\n]+)", frame):
                        connection.sendall(b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt[1])
                    if frame.startswith(b"SUBSCRIBE"):
                        asked.extend(re.findall(rb"\nid:([^\n]+)", frame))
                        about = asked[-1 - questions :][:1] if len(asked) > questions else [b"none"]
                        message = b"MESSAGE\nsubscription:%b\nmessage-id:1\nack:1\nseq:5000\n\nx\0" % about[0]
                        threading.Timer(seconds, connection.sendall, [message]).start()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield Options.of({"host": HOST, "port": str(listener.getsockname()[1])})
    finally:
        thread.join(10)
        assert not thread.is_alive()


def test_late_answers() -> None:
    """A server that answers late has no empty stream, and an answer to an older question counts for nothing."""
    with late(0.5) as options:
        probe = Probe(options)
        assert probe.last(("/topic/a",)) == {"/topic/a": 5000}
        probe.close()
    with late(0, questions=1) as options:
        probe = Probe(dataclasses.replace(options, idle_timeout=200))
        assert [probe.last(("/topic/a",)), probe.first({"/topic/a": 7})] == [{}, {}]
        probe.close()


def test_an_empty_log_does_not_hold_up_another(broker: Broker, topic: str) -> None:
    broker.send(topic, bodies(3))
    empty = f"{topic}.empty"
    first, end = ends(broker, topic)
    source = reader(broker, f"{topic},{empty}", idleTimeoutMs="60000")
    began = time.monotonic()
    at = source.latestOffset({"v": 1, "mode": "offset", "at": {topic: first, empty: EMPTY}}, ReadAllAvailable())
    assert at["at"] == {topic: end, empty: EMPTY}
    assert time.monotonic() - began < 15
    source.stop()


def test_ranges(broker: Broker, topic: str) -> None:
    broker.send(topic, bodies(5000))
    first, end = ends(broker, topic)
    options = broker.options(destination=topic)
    assert read(options, [OffsetRange(topic, first, end)]) == bodies(5000)
    assert read(options, split(topic, first, end, 2)) == bodies(5000)
    assert read(options, [OffsetRange(topic, first + 7, first + 9)]) == bodies(2, 7)
    assert read(options, [OffsetRange(topic, first, first)]) == []
    seqs = [batch.column("seq").to_pylist() for batch in read_range(options, OffsetRange(topic, first, end), ["seq"])]
    assert [seq for each in seqs for seq in each] == list(range(first, end))


def test_a_range_over_broken_connections(broker: Broker, topic: str) -> None:
    broker.send(topic, bodies(8_000))
    first, end = ends(broker, topic)
    with start_forwarder(broker.process.tcp_port) as relay:
        options = Options.of({"host": HOST, "port": str(relay.port), "destination": topic})
        got: list[str] = []
        for batch in read_range(options, OffsetRange(topic, first, end), ["body"]):
            relay.cut()
            got += texts([batch])
    assert got == bodies(8_000)


def test_a_selector_leaves_the_last_out(broker: Broker, topic: str) -> None:
    broker.send(topic, ["yes"], colour="red")
    broker.send(topic, ["no"], colour="blue")
    options = broker.options(destination=topic, selector="colour = 'red'", idleTimeoutMs="300")
    assert read(options, [OffsetRange(topic, *ends(broker, topic))]) == ["yes"]


def test_gaps_are_errors(broker: Broker, name: str) -> None:
    topic = f"/topic/short.{name}"
    broker.send(topic, bodies(10))
    first, _ = ends(broker, topic)
    broker.send(topic, bodies(200, 10))
    end = ends(broker, topic)[1]
    part = OffsetRange(topic, first, end)
    with pytest.raises(DataLost, match=f"{topic}: its stream no longer has the messages from {first} on, it"):
        read(broker.options(destination=topic), [part])
    assert read(broker.options(destination=topic, failOnDataLoss="false"), [part]) == bodies(100, 110)


def test_messages_that_never_come(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset, "MESSAGE_TIMEOUT", 0.3)
    broker.send(topic, bodies(3))
    first, end = ends(broker, topic)
    part = OffsetRange(topic, first, end + 5)
    with pytest.raises(DataLost, match=f"the messages from {end} to {end + 4} were there and do not come"):
        read(broker.options(destination=topic), [part])
    options = broker.options(destination=topic, failOnDataLoss="false", idleTimeoutMs="300")
    assert read(options, [part]) == bodies(3)


def test_a_topic_without_a_log_is_refused(broker: Broker, name: str) -> None:
    with pytest.raises(ServerError, match="says: "):
        Probe(broker.options()).last((f"/topic/{name}",))


def test_split() -> None:
    cases = {(5, 5, 4): [], (5, 6, 4): [(5, 6)], (0, 5000, 9): [(0, 2500), (2500, 5000)]}
    cases |= {(0, 8000, 2): [(0, 4000), (4000, 8000)]}
    for (start, end, count), expected in cases.items():
        assert [(part.start, part.end) for part in split("a", start, end, count)] == expected


# The reader of a query, as Spark asks it.


def reader(broker: Broker, destination: str, **more: str) -> OffsetStreamReader:
    return OffsetStreamReader(broker.options(destination=destination, mode="offset", **more), ["body"])


def rows(source: OffsetStreamReader, start: dict[str, object], end: dict[str, object]) -> list[str]:
    return texts(batch for part in source.partitions(start, end) for batch in source.read(part))


def test_a_query_from_the_beginning(broker: Broker, topic: str) -> None:
    broker.send(topic, bodies(10))
    source = reader(broker, topic)
    start = source.initialOffset()
    limit = ReadMaxRows(6)
    got = []
    for _ in range(4):
        end = source.latestOffset(start, limit)
        got.append(rows(source, start, end))
        assert rows(reader(broker, topic), start, end) == got[-1]  # another process, the same rows
        start = end
    assert got == [[], bodies(6), bodies(4, 6), []]
    source.stop()


def begin(source: OffsetStreamReader) -> dict[str, object]:
    """The offset at which a new query begins."""
    return source.latestOffset(source.initialOffset(), ReadAllAvailable())


def test_a_query_from_the_end_and_from_numbers(broker: Broker, topic: str) -> None:
    broker.send(topic, bodies(10))
    first, _ = ends(broker, topic)
    last = reader(broker, topic, startingOffsets="latest")
    numbers = reader(broker, topic, startingOffsets=f'{{"{topic}": {first + 4}}}')
    starts = [begin(source) for source in (last, numbers)]
    broker.send(topic, ["new"])
    for source, start, expected in zip((last, numbers), starts, (["new"], [*bodies(6, 4), "new"]), strict=True):
        assert rows(source, start, source.latestOffset(start, ReadAllAvailable())) == expected
        source.stop()
    with pytest.raises(OptionError, match="startingOffsets has no number for"):
        begin(reader(broker, topic, startingOffsets="{}"))


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_a_log_that_is_empty_at_first(broker: Broker, topic: str, starting: str) -> None:
    source = reader(broker, topic, startingOffsets=starting, idleTimeoutMs="300")
    start = begin(source)
    assert source.latestOffset(start, ReadAllAvailable()) == start
    broker.send(topic, bodies(3))
    begun = source.latestOffset(start, ReadAllAvailable())
    assert rows(source, start, begun) == []
    assert rows(source, begun, source.latestOffset(begun, ReadAllAvailable())) == bodies(3)
    source.stop()


def test_available_now_ends_with_what_was_there(broker: Broker, topic: str) -> None:
    broker.send(topic, bodies(3))
    source = reader(broker, topic)
    source.prepareForTriggerAvailableNow()
    start = source.latestOffset(source.initialOffset(), ReadMaxRows(10))
    broker.send(topic, ["late"])
    end = source.latestOffset(start, ReadMaxRows(10))
    assert rows(source, start, end) == bodies(3)
    assert source.latestOffset(end, ReadMaxRows(10)) == end
    source.stop()


def test_checkpoints_of_others(broker: Broker, topic: str) -> None:
    source = reader(broker, topic)
    with pytest.raises(OptionError, match="not one of mode offset"):
        source.latestOffset({"v": 1, "mode": "spool", "n": 5}, ReadAllAvailable())
    with pytest.raises(OptionError, match=r"destination lacks /topic/log\.other"):
        source.latestOffset({"v": 1, "mode": "offset", "at": {"/topic/log.other": 5}}, ReadAllAvailable())
