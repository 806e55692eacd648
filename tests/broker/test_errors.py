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
from .wire import Received, parse


def written(error: ProtocolError, version: Version, **headers: str) -> Received:
    (frame,) = parse(error_frame(error, Frame(Head("SEND", headers), b""), version, end=encoder.END), version)
    return frame


@pytest.mark.requirement("ERR-01", "ERR-03")
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


@pytest.mark.requirement("ERR-03")
def test_an_error_without_detail_has_no_body(version: Version) -> None:
    frame = written(NotAllowed("no"), version)
    assert frame.headers == {"message": "no"}
    assert frame.body == b""


def test_a_missing_header_is_named(version: Version) -> None:
    frame = written(HeaderMissing("SEND", "destination"), version)
    assert frame.headers["message"] == "SEND needs the header destination"
    assert b"'destination'" in frame.body


@pytest.mark.requirement("ERR-02", "ENC-04")
def test_it_names_the_receipt_of_the_frame_it_is_about(version: Version) -> None:
    for receipt in ["r", "a b", "ünï", "a:b", "a\\b"]:
        assert written(NotAllowed("no"), version, receipt=receipt).headers["receipt-id"] == receipt


@pytest.mark.requirement("NEG-04")
def test_only_a_refused_version_lists_versions(version: Version) -> None:
    assert written(VersionRefused("no"), version).headers["version"] == "1.0,1.1,1.2"
    assert "version" not in written(NotAllowed("no"), version).headers


def test_the_end_of_a_session_may_say_when_to_come_back(version: Version) -> None:
    for retry_after, header in [(2000, "2000"), (0, "0"), (None, None)]:
        frame = written(SessionEnded("over", "", retry_after), version)
        assert frame.headers.get("retry-after") == header


def test_without_a_session_it_is_written_as_every_version_reads_it() -> None:
    assert error_frame(NotAllowed("no", "x"), None, end=b"\0") == error_frame(
        NotAllowed("no", "x"), None, V10, end=b"\0"
    )


@pytest.mark.requirement("ERR-02", "ERR-04", "ERR-05", "RCP-03")
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
    assert scene.broker.counters.errors == 1


@pytest.mark.requirement("ERR-05", "NEG-05")
@pytest.mark.parametrize("stalled", [False, True])
def test_nothing_goes_out_behind_the_error(scene: Scene, version: Version, stalled: bool) -> None:
    """Other connections may publish until this one is gone; queues keep that for others."""
    client, producer, other = (scene.connect(version) for _ in range(3))
    client.subscribe("/topic/a", "0")
    client.subscribe("/topic/a", "1", ack="client")
    client.subscribe("/queue/a", "2")
    client.subscribe("/queue/a", "3", ack="client")
    client.begin()
    client.publish("/queue/a", b"never", transaction="t")
    client.stalled = stalled
    client.session.fail(NotAllowed("no"))
    producer.publish("/topic/a", b"late")
    producer.publish("/queue/a", b"late")
    client.resume()
    (error,) = client.received()
    assert error.command == "ERROR"
    client.drop()
    other.subscribe("/queue/a")
    assert other.bodies() == [b"late"]


@pytest.mark.requirement("ERR-05")
def test_nor_when_an_operator_ends_the_session(scene: Scene, version: Version) -> None:
    client, producer = scene.connect(version), scene.connect(version)
    client.subscribe("/topic/a")
    client.subscribe("/queue/a", "1", ack="client")
    assert scene.broker.end_session(client.session.id, "goodbye")
    producer.publish("/topic/a")
    assert client.error().body == b"goodbye"


@pytest.mark.requirement("SES-04")
def test_a_broken_client_disturbs_nobody(scene: Scene, version: Version) -> None:
    neighbour = scene.connect(version)
    neighbour.subscribe("/queue/a")
    for data in (b"GET / HTTP/1.1\r\n\r\n\0", b"SEND\n\n\0", b"ACK\nid:nope\n\n\0", b"BOGUS\n\n\0", b"\0\1\0"):
        broken = scene.connect(version)
        broken.receive(data)
        assert broken.error().headers["message"]
    neighbour.publish("/queue/a", b"well")
    assert neighbour.bodies() == [b"well"]
