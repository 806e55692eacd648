"""Connecting and negotiation (CON, NEG)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.gateway_process import GatewayProcess, start_gateway
from tests.shared import write_users

from .requirements import SOCKETS
from .scene import Scene
from .wire import Headers, octets

requirement, columns = pytest.mark.requirement, pytest.mark.columns

PASSCODES = {"fred": "xyzzy", "ключ": "C:\\temp\\q:ñ"}


@pytest.fixture(scope="session")
def guarded_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A second gateway, one that asks for login and passcode."""
    users = write_users(tmp_path_factory.mktemp("users") / "users", PASSCODES)
    with start_gateway(users_file=users, login_attempts=1_000, login_delay=0) as process:
        yield process


@pytest.fixture
def guarded(stomp: Scene, guarded_gateway: GatewayProcess) -> Scene:
    """The scene at the gateway that asks for credentials."""
    stomp.server = guarded_gateway
    return stomp


def refused_connect(stomp: Scene, headers: Headers, command: str = "CONNECT") -> None:
    """ERROR, end of stream, and no CONNECTED before."""
    peer = stomp.open()
    peer.send(command, headers)
    peer.refusal()
    assert [frame.command for frame in peer.frames] == ["ERROR"]


@requirement("CON-02", "CON-01", "CON-06")
def test_stomp_is_handled_like_connect(stomp: Scene) -> None:
    peer = stomp.greet(stomp.open(), stomp.opening(), "STOMP")
    assert peer.frames[0]["version"] == stomp.version
    peer.barrier()


@requirement("CON-05", "CON-03", "ERR-01")
def test_wrong_credentials_get_an_error_and_the_close(stomp: Scene, guarded: Scene) -> None:
    for wrong in [
        {"login": "fred", "passcode": "wrong"},
        {"login": "nobody", "passcode": "xyzzy"},
        {"login": "fred"},
        {},
    ]:
        refused_connect(guarded, guarded.opening(**wrong))


@requirement("CON-05", "CON-11", "ERR-05")
def test_frames_behind_a_refused_connect_have_no_effect(stomp: Scene, guarded: Scene) -> None:
    queue = guarded.queue()
    login = {"login": "fred", "passcode": "xyzzy"}
    watcher = guarded.connect(**login)
    watcher.subscribe(queue)
    peer = guarded.open()
    smuggled = octets("SEND", {"destination": queue, "receipt": "r"}, b"smuggled")
    peer.raw(guarded.opening_octets(login="fred", passcode="wrong") + smuggled)
    peer.refusal()
    assert [frame.command for frame in peer.frames] == ["ERROR"]
    assert watcher.seen(queue) == []


@requirement("CON-11", "CON-05", "ENC-05")
def test_frames_behind_connect_wait_for_the_login(stomp: Scene, guarded: Scene) -> None:
    for login in PASSCODES:
        assert_frames_behind_connect_are_handled(guarded, login=login, passcode=PASSCODES[login])


@requirement("LEN-11", "CON-05")
@columns("1.0", *SOCKETS)
def test_username_is_the_login_of_10(stomp: Scene, guarded: Scene) -> None:
    guarded.connect(username="fred", passcode="xyzzy").barrier()
    refused_connect(guarded, guarded.opening(username="fred", passcode="wrong"))
    refused_connect(guarded, guarded.opening(login="nobody", username="fred", passcode="xyzzy"))


@requirement("CON-04")
def test_any_virtual_host_is_taken(stomp: Scene) -> None:
    for host in ("no-such-host.invalid", "127.0.0.1", "/", ""):
        stomp.connect(host=host).barrier()


@requirement("CON-10")
def test_host_may_be_missing(stomp: Scene) -> None:
    stomp.greet(stomp.open(), {"accept-version": stomp.version}).barrier()


@requirement("CON-07", "LEN-12")
def test_sessions_have_different_names(stomp: Scene) -> None:
    names = [stomp.connect().frames[0]["session"] for _ in range(5)]
    assert all(names)
    assert len(set(names)) == 5


@requirement("CON-08")
def test_the_server_header_has_the_documented_form(stomp: Scene) -> None:
    assert re.fullmatch(r"[^\s/]+(/[^\s]+)?( .*)?", stomp.connect().frames[0]["server"])


@requirement("CON-09")
def test_no_receipt_for_connect(stomp: Scene) -> None:
    for command in ["CONNECT", "STOMP"]:
        peer = stomp.greet(stomp.open(), stomp.opening(receipt="r"), command)
        peer.barrier()
        assert peer.frames[0].command == "CONNECTED"
        assert not [frame for frame in peer.frames if frame.get("receipt-id") == "r"]


def assert_frames_behind_connect_are_handled(stomp: Scene, **login: str) -> None:
    """CONNECT, SUBSCRIBE, SEND and DISCONNECT in one write; the version decides how the later ones are read."""
    peer, queue = stomp.open(), stomp.queue()
    value = {"1.0": b" v \\n\r", "1.1": b"a\\cb\r", "1.2": b"a\\cb\\r\r"}[stomp.version]
    peer.raw(
        stomp.opening_octets(**login)
        + octets("SUBSCRIBE", {"id": "0", "destination": queue})
        + octets("SEND", {"destination": queue, "k": value}, b"early")
        + octets("DISCONNECT", {"receipt": "bye"})
    )
    message = peer.message()
    assert message.body == b"early"
    assert message["k"] == {"1.0": "v \\n", "1.1": "a:b\r", "1.2": "a:b\r"}[stomp.version]
    peer.receipt("bye")
    peer.ends()
    assert [frame.command for frame in peer.frames] == ["CONNECTED", "MESSAGE", "RECEIPT"]


@requirement("CON-11", "CON-01", "NEG-08")
def test_frames_right_behind_connect(stomp: Scene) -> None:
    assert_frames_behind_connect_are_handled(stomp)


@requirement("CON-12", "SES-04")
def test_a_second_connect_is_refused(stomp: Scene) -> None:
    for command in ["CONNECT", "STOMP"]:
        peer = stomp.connect()
        peer.send(command, stomp.opening())
        peer.refusal()
        assert [frame.command for frame in peer.frames] == ["CONNECTED", "ERROR"]
        stomp.is_well()


# -- negotiation


@requirement("NEG-01", "NEG-08", "SUB-04")
def test_no_accept_version_means_10(stomp: Scene) -> None:
    peer, queue = stomp.connect(), stomp.queue()
    assert peer.frames[0].get("version") in (None, "1.0")
    peer.request("SUBSCRIBE", {"destination": queue})
    peer.publish(queue, b"x", {"k": "a\\cb"})
    assert peer.message()["k"] == "a\\cb"


OFFERS = {
    "1.0": ["1.0", "0.9,1.0"],
    "1.1": ["1.0,1.1", "1.1,1.3,1.0", " 1.1", "1.1,,x"],
    "1.2": ["1.0,1.1,1.2", "1.2,1.0,1.1", "1.0 , 1.2", "1.20,1.2"],
}


@requirement("NEG-02", "NEG-03", "NEG-06", "CON-06")
def test_the_highest_common_version_is_used_in_any_order(stomp: Scene) -> None:
    for offer in OFFERS[stomp.version]:
        peer = stomp.greet(stomp.open(), stomp.opening() | {"accept-version": offer})
        assert (peer.frames[0].get("version") or "1.0") == stomp.version, offer
        peer.barrier()


@requirement("NEG-04", "NEG-05", "NEG-07")
def test_no_common_version(stomp: Scene) -> None:
    for offer in ["2.0,9.9", "11.2", "1.20", "1.1.1", "1,1"]:
        peer = stomp.open()
        peer.send("CONNECT", stomp.opening() | {"accept-version": offer})
        error = peer.refusal()
        assert error["version"] == "1.0,1.1,1.2"
        assert [frame.command for frame in peer.frames] == ["ERROR"]
