"""The first frame: its command, version, heart-beat, login; and that what follows it obeys the chosen version."""

from __future__ import annotations

import pytest

from gateway.broker.errors import LoginRefused, NotAllowed, VersionRefused, error_frame
from gateway.broker.headers.connect import Opening, read_opening
from gateway.codec import V10, V11, V12, Frame, Head, MalformedFrame, Version, encoder

from ..client import ALL, WITH_NACK, Scene
from ..wire import parse


def opening(command: str = "CONNECT", **headers: str) -> Opening:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return read_opening(Frame(Head(command, named), b""))


@pytest.mark.requirement("CON-02")
def test_stomp_is_handled_like_connect() -> None:
    for command in ["CONNECT", "STOMP"]:
        assert opening(command, accept_version="1.2").version is V12


@pytest.mark.requirement("SES-01")
def test_nothing_else_comes_first() -> None:
    for command in "SEND SUBSCRIBE UNSUBSCRIBE ACK NACK BEGIN COMMIT ABORT DISCONNECT MESSAGE connect".split():
        with pytest.raises(NotAllowed, match="not connected") as caught:
            opening(command, destination="/queue/a")
        assert repr(command) in caught.value.detail


@pytest.mark.requirement("NEG-01")
def test_no_accept_version_means_1_0() -> None:
    assert opening().version is V10


@pytest.mark.requirement("NEG-02", "NEG-03", "NEG-06")
def test_the_highest_common_version_is_used() -> None:
    for offered, chosen in [
        ("1.0", V10),
        ("1.1", V11),
        ("1.2", V12),
        ("1.0,1.1", V11),
        ("1.0,1.1,1.2", V12),
        ("1.2,1.0,1.1", V12),
        ("1.1,1.0", V11),
        ("1.0,1.1,2.0", V11),
        ("0.9,1.0,1.3", V10),
        ("1.1, 1.2", V12),
        ("1.0,,1.0", V10),
    ]:
        assert opening(accept_version=offered).version is chosen


@pytest.mark.requirement("NEG-04", "NEG-07")
def test_no_common_version_is_refused_with_a_list() -> None:
    for offered in ["2.0,9.9", "11.2", "1.20", "1.1.1", "1", "", ",", "v1.2", "1.2;q=1"]:
        with pytest.raises(VersionRefused) as caught:
            opening(accept_version=offered)
        (frame,) = parse(error_frame(caught.value, None, end=encoder.END), V10)
        assert frame.headers["version"] == "1.0,1.1,1.2"
        assert frame.headers["message"] == "no common version"
        assert b"1.0 1.1 1.2" in frame.body


@pytest.mark.requirement("HBT-01", "HBT-02")
def test_heart_beats_are_read() -> None:
    for version in WITH_NACK:
        assert opening(accept_version=version.name, heart_beat="100,200").heart_beat == (100, 200)
        assert opening(accept_version=version.name).heart_beat == (0, 0)


@pytest.mark.requirement("HBT-10")
def test_malformed_heart_beats_are_refused() -> None:
    for value in ["abc", "5", "-1,0"]:
        for version in WITH_NACK:
            with pytest.raises(MalformedFrame, match="heart-beat"):
                opening(accept_version=version.name, heart_beat=value)


@pytest.mark.requirement("HBT-11")
def test_1_0_does_not_know_heart_beats() -> None:
    for value in ["100,100", "abc"]:
        assert opening(heart_beat=value).heart_beat == (0, 0)


@pytest.mark.requirement("CON-05")
def test_login_and_passcode_are_passed_on(version: Version) -> None:
    asked = opening(accept_version=version.name, login="ada", passcode="secret")
    assert (asked.login, asked.passcode) == ("ada", "secret")
    assert "secret" not in repr(asked)


@pytest.mark.requirement("CON-05")
def test_both_may_be_missing(version: Version) -> None:
    asked = opening(accept_version=version.name)
    assert (asked.login, asked.passcode) == (None, None)


@pytest.mark.requirement("LEN-11")
def test_username_is_the_login_of_1_0_where_login_is_missing() -> None:
    assert opening(username="ada").login == "ada"
    assert opening(username="ada", login="bob").login == "bob"
    assert opening(accept_version="1.1", username="ada").login is None


@pytest.mark.requirement("CON-04", "CON-10")
def test_any_host_is_accepted_and_none_too(version: Version) -> None:
    for headers in [{}, {"host": "no-such-host"}, {"host": ""}]:
        assert opening(accept_version=version.name, **headers).host == headers.get("host")


@pytest.mark.requirement("CON-03", "CON-05")
def test_a_refused_login_says_so_and_not_which_half_was_wrong() -> None:
    frame = Frame(Head("CONNECT", {"login": "ada", "passcode": "secret"}), b"")
    (refusal,) = parse(error_frame(LoginRefused(), frame, end=encoder.END), V10)
    assert refusal.headers["message"] == "login refused"
    assert b"ada" not in refusal.body
    assert b"secret" not in refusal.body


@pytest.mark.requirement("CON-09")
def test_a_receipt_on_connect_asks_for_nothing(scene: Scene, version: Version) -> None:
    data = f"CONNECT\naccept-version:{version.name}\nreceipt:r\n\n\0".encode()
    assert not scene.connect_by(data).received()


@pytest.mark.requirement("CON-11")
def test_frames_right_behind_connect_are_handled_in_order(scene: Scene, version: Version) -> None:
    client = scene.connect_by(
        f"CONNECT\naccept-version:{version.name}\n\n\0"
        "SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0"
        "SEND\ndestination:/queue/a\n\n1\0SEND\ndestination:/queue/a\nreceipt:r\n\n2\0".encode()
    )
    assert [frame.command for frame in client.received()] == ["MESSAGE", "MESSAGE", "RECEIPT"]


@pytest.mark.requirement("NEG-08")
def test_the_session_follows_the_chosen_version(scene: Scene) -> None:
    ids = {
        version: scene.connect_by(
            f"CONNECT\naccept-version:{version.name}\n\n\0"
            "SUBSCRIBE\nid:a\\cb\ndestination:/queue/x\nreceipt:a\\cb\n\n\0".encode()
        )
        for version in ALL
    }
    (of_1_0, *later) = [list(client.session.subscriptions) for client in ids.values()]
    assert of_1_0 == ["a\\cb"]
    assert later == [["a:b"], ["a:b"]]
    assert b"receipt-id:a\\cb\n" in ids[V10].written
    assert ids[V12].receipts() == ["a:b"]


@pytest.mark.requirement("CON-12")
@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
def test_a_second_connect_is_refused(scene: Scene, version: Version, command: str) -> None:
    client, neighbour = scene.connect(version), scene.connect(version)
    client.send(command, {"accept-version": version.name, "host": "localhost"})
    assert client.error().headers["message"] == "already connected"
    neighbour.send("SEND", {"destination": "/topic/a", "receipt": "r"})
    assert neighbour.receipts() == ["r"]


@pytest.mark.requirement("CON-07")
def test_every_session_has_an_id_of_its_own(scene: Scene, version: Version) -> None:
    ids = {scene.connect(version).session.id for _ in range(50)}
    assert len(ids) == 50
    assert ids == set(scene.broker.sessions)
    assert all(id.isalnum() for id in ids)
