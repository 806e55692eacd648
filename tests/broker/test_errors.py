"""ERROR frames: what is in them for which exception, in which version, and that they end the session."""

from __future__ import annotations

import pytest

from gateway.broker.errors import (
    AccessLost,
    AccessRefused,
    HeaderMissing,
    LoginRefused,
    NotAllowed,
    SessionEnded,
    SlowConsumer,
    VersionRefused,
    error_frame,
)
from gateway.codec import V10, Frame, Head, MalformedFrame, ProtocolError, Version, encoder

from .client import Scene
from .conftest import Stage
from .wire import Received, parse


def written(error: ProtocolError, version: Version, **headers: str) -> Received:
    (frame,) = parse(error_frame(error, Frame(Head("SEND", headers), b""), version, end=encoder.END), version)
    return frame


def test_an_error_has_a_message_and_a_body_that_says_more(version: Version) -> None:
    for error in [
        HeaderMissing("SEND", "destination"),
        NotAllowed("no", "because"),
        AccessRefused("no", "because", "rule 1"),
        AccessLost("over", "because", "rule 1"),
        LoginRefused(),
        VersionRefused("no", "because"),
        SlowConsumer("very", "max_outbound"),
        SessionEnded("over", "for good"),
        MalformedFrame("bad", "very"),
    ]:
        frame = written(error, version)
        assert frame.command == "ERROR"
        assert frame.headers["message"] == str(error)
        assert frame.headers["content-length"] == str(len(frame.body))
        assert frame.headers["content-type"] == "text/plain;charset=utf-8"
        assert frame.body.decode() == error.detail != ""
        assert "receipt-id" not in frame.headers
        assert "version" in frame.headers or not isinstance(error, VersionRefused)


def test_it_names_the_receipt_of_the_frame_it_is_about(version: Version) -> None:
    for receipt in ["r", "a b", "ünï", "a:b", "a\\b"]:
        assert written(NotAllowed("no"), version, receipt=receipt).headers["receipt-id"] == receipt


@pytest.mark.parametrize(
    ("error", "header", "value"),
    [
        (VersionRefused("no"), "version", "1.0,1.1,1.2"),
        (NotAllowed("no"), "version", None),
        (SessionEnded("over", "", 2000), "retry-after", "2000"),
        (SessionEnded("over", "", 0), "retry-after", "0"),
        (SessionEnded("over", ""), "retry-after", None),
    ],
)
def test_headers_of_some_errors(version: Version, error: ProtocolError, header: str, value: str | None) -> None:
    assert written(error, version).headers.get(header) == value


def test_without_a_session_it_is_written_as_every_version_reads_it() -> None:
    error = NotAllowed("no", "x")
    assert error_frame(error, None, end=b"\0") == error_frame(error, None, V10, end=b"\0")


def test_the_error_is_the_last_frame_and_what_follows_the_bad_one_is_not_processed(
    scene: Scene, version: Version
) -> None:
    client, other = scene.connect(version), scene.connect(version)
    other.subscribe("/queue/a")
    client.receive(
        b"SEND\ndestination:/queue/a\nreceipt:1\n\nbefore\0SEND\nreceipt:2\n\n\0"
        b"SEND\ndestination:/queue/a\nreceipt:3\n\nbehind\0"
    )
    receipt, error = client.received()
    assert receipt.headers["receipt-id"] == "1"
    assert (error.command, error.headers["receipt-id"]) == ("ERROR", "2")
    assert client.closed
    assert other.bodies() == [b"before"]
    assert scene.broker.counters.totals()["errors"] == 1


@pytest.mark.parametrize("stalled", [False, True])
def test_nothing_goes_out_behind_the_error(scene: Scene, stalled: bool) -> None:
    """Other connections may publish until this one is gone; queues keep that for others."""
    client, producer, other = (scene.connect() for _ in range(3))
    client.subscribe("/topic/a", "0")
    client.subscribe("/topic/a", "1", ack="client")
    client.subscribe("/queue/a", "2")
    client.subscribe("/queue/a", "3", ack="client")
    client.begin()
    client.publish("/queue/a", b"never", transaction="t")
    client.stalled = stalled
    list(client.session.failing(NotAllowed("no")))
    producer.publish("/topic/a", b"late")
    producer.publish("/queue/a", b"late")
    client.resume()
    (error,) = client.received()
    assert error.command == "ERROR"
    client.drop()
    other.subscribe("/queue/a")
    assert other.bodies() == [b"late"]


def test_nor_a_receipt_that_waited_for_the_store(stage: Stage) -> None:
    scene = stage(stored=True)
    client = scene.connect()
    client.publish("/queue/a", b"m", persistent="true", receipt="r")
    list(client.session.failing(NotAllowed("no")))
    scene.commit()
    assert [frame.command for frame in client.received()] == ["ERROR"]
