"""The first frame: its command, version, login and heart-beats."""

from __future__ import annotations

import pytest

from gateway.broker.errors import NotAllowed, VersionRefused, error_frame
from gateway.broker.headers.connect import Opening, beat_interval, parse_heart_beat, read_opening, send_early
from gateway.codec import V10, V11, V12, Frame, Head, MalformedFrame, encoder

from ..client import ALL, WITH_NACK
from ..wire import parse


def opening(command: str = "CONNECT", **headers: str) -> Opening:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return read_opening(Frame(Head(command, named), b""))


@pytest.mark.requirement("CON-02", "SES-01")
def test_connect_or_stomp_comes_first() -> None:
    for command in ["CONNECT", "STOMP"]:
        assert opening(command, accept_version="1.2").version is V12
    for command in "SEND SUBSCRIBE UNSUBSCRIBE ACK NACK BEGIN COMMIT ABORT DISCONNECT MESSAGE connect".split():
        with pytest.raises(NotAllowed, match="not connected") as caught:
            opening(command, destination="/queue/a")
        assert repr(command) in caught.value.detail


@pytest.mark.requirement("NEG-01", "NEG-02", "NEG-03", "NEG-06")
def test_the_highest_common_version_is_used() -> None:
    assert opening().version is V10
    for offered, chosen in [("1.0,1.1", V11), ("1.2,1.0,1.1", V12), ("0.9,1.0,1.3", V10)]:
        assert opening(accept_version=offered).version is chosen


@pytest.mark.requirement("NEG-04", "NEG-07")
def test_no_common_version_is_refused_with_a_list() -> None:
    for offered in ["2.0,9.9", "1", "", "1.2;q=1"]:
        with pytest.raises(VersionRefused) as caught:
            opening(accept_version=offered)
        (frame,) = parse(error_frame(caught.value, None, end=encoder.END), V10)
        assert frame.headers["version"] == "1.0,1.1,1.2"
        assert frame.headers["message"] == "no common version"
        assert b"1.0 1.1 1.2" in frame.body


@pytest.mark.requirement("HBT-01", "HBT-02", "HBT-10", "HBT-11")
def test_heart_beats_are_read_but_in_1_0() -> None:
    for version in WITH_NACK:
        assert opening(accept_version=version.name, heart_beat="100,200").heart_beat == (100, 200)
        assert opening(accept_version=version.name).heart_beat == (0, 0)
        with pytest.raises(MalformedFrame, match="heart-beat"):
            opening(accept_version=version.name, heart_beat="abc")
    for value in ["100,100", "abc"]:
        assert opening(heart_beat=value).heart_beat == (0, 0)


@pytest.mark.requirement("CON-04", "CON-05", "CON-10", "LEN-11")
def test_login_passcode_and_host_are_optional() -> None:
    for version in ALL:
        assert opening(accept_version=version.name) == Opening(version, (0, 0), None, None)
        asked = opening(accept_version=version.name, login="ada", passcode="secret", host="no-such-host")
        assert (asked.login, asked.passcode, asked.host) == ("ada", "secret", "no-such-host")
        assert "secret" not in repr(asked)
    assert opening(username="ada").login == "ada"
    assert opening(username="ada", login="bob").login == "bob"
    assert opening(accept_version="1.1", username="ada").login is None


@pytest.mark.requirement("HBT-10")
def test_any_other_heart_beat_header_is_refused() -> None:
    for value in [
        *("", ",", "5", "5,", ",5", "abc", "a,b", "-1,0", "0,-1", "+1,0", "1.5,0", "1e3,0", " 1,0", "1, 0", "1,0 "),
        *("1,2,3", "٣,٣", "²,0", "1_000,0", "9" * 13 + ",0", "0," + "9" * 5000),
    ]:
        with pytest.raises(MalformedFrame, match="heart-beat") as caught:
            parse_heart_beat(value)
        assert "10000,10000" in caught.value.detail
        assert len(caught.value.detail) < 200


@pytest.mark.requirement("HBT-03", "HBT-05", "HBT-06", "HBT-09")
def test_the_interval_is_the_longer_of_both_unless_one_declines() -> None:
    for ours, theirs, seconds in [
        *((250, 10_000, 10.0), (10_000, 250, 10.0), (500, 500, 0.5)),
        *((0, 500, 0.0), (500, 0, 0.0), (0, 0, 0.0)),
    ]:
        assert beat_interval(ours, theirs) == seconds
    # Sent a quarter early, and never more than a second.
    for seconds, early in [(0.0, 0.0), (0.4, 0.3), (4.0, 3.0), (10.0, 9.0), (60.0, 59.0)]:
        assert send_early(seconds) == pytest.approx(early)
