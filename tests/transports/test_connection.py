"""The connection loop: handshake, errors, the books.

Everything runs in memory on the autojump clock but for the few tests in which the operating system's socket is what
matters.  What frames mean is the broker's and tested there; here it is when they are read, written, and no longer.
`test_farewell`, `test_heartbeats` and `test_back_pressure` are about the same loop.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import structlog.testing
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.broker import Session
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Credentials, Identity
from gateway.codec import Limits
from gateway.transports import TransportOptions

from .house import House, Slow
from .peers import BINARY, CONNECT, TEXT, frame

requirement, parametrize = pytest.mark.requirement, pytest.mark.parametrize
MakeHouse = Callable[..., House]


class TestHandshake:
    @requirement("CON-01", "CON-06", "CON-07", "CON-08", "HBT-01")
    async def test_connected(self, make_house: MakeHouse, kind: str) -> None:
        house = make_house(options=TransportOptions(server="gateway/1.0", heartbeat_send=300, heartbeat_receive=400))
        greeting = await house.visit(kind).connect()
        (session,) = house.broker.sessions.values()
        assert greeting.headers == {
            "version": "1.2",
            "session": session.id,
            "server": "gateway/1.0",
            "heart-beat": "300,400",
        }
        assert greeting.body == b""
        assert (session.login, session.peer, session.transport) == ("anonymous", "test", kind)
        assert house.counters.sessions == house.counters.connections == 1

    @requirement("NEG-01", "NEG-02", "LEN-12")
    @parametrize(("accepted", "version"), [("1.0", "1.0"), ("1.0,1.1", "1.1"), ("1.0,1.1,1.2", "1.2")])
    async def test_the_version_is_that_of_connect(self, house: House, kind: str, accepted: str, version: str) -> None:
        greeting = await house.visit(kind).connect(accepted)
        assert greeting["version"] == version
        assert greeting["heart-beat"] == ("0,0" if version == "1.0" else "250,250")

    @parametrize("version", ["1.0", "1.1", "1.2"])
    @parametrize("login", ["alice", "a b", "漢", "urn:user:7"])
    async def test_the_name_of_the_user(self, house: House, kind: str, version: str, login: str) -> None:
        """As /user/NAME/queue/... has it.  CONNECTED knows no escapes, so it is as it is."""
        greeting = await house.visit(kind).connect(version, login=login)
        assert greeting["user-name"] == login

    @parametrize("version", ["1.0", "1.1", "1.2"])
    @parametrize("headers", [{}, {"login": ""}])
    async def test_no_name_where_none_was_given(
        self, house: House, kind: str, version: str, headers: dict[str, str]
    ) -> None:
        greeting = await house.visit(kind).connect(version, **headers)
        assert "user-name" not in greeting.headers

    async def test_the_name_is_the_authenticators(self, make_house: MakeHouse, kind: str) -> None:
        house = make_house(authenticator=Slow(0.0, "bob"))
        assert (await house.visit(kind).connect(login="token", passcode="x"))["user-name"] == "bob"

    @parametrize("name", ["two\nlines", "two\rlines"])
    async def test_a_name_that_fits_no_line(self, make_house: MakeHouse, kind: str, name: str) -> None:
        house = make_house(authenticator=Slow(0.0, name))
        peer = house.visit(kind)
        assert "user-name" not in (await peer.connect()).headers
        (session,) = house.broker.sessions.values()
        assert session.user == name

    @requirement("CON-11", "FRM-09")
    async def test_frames_right_behind_connect(self, house: House, kind: str) -> None:
        peer = house.visit(kind)
        subscribe = frame("SUBSCRIBE", destination="/queue/a", id=1)
        await peer.send(CONNECT + subscribe + frame("SEND", b"x", destination="/queue/a"))
        await peer.frame("CONNECTED")
        assert (await peer.frame("MESSAGE")).body == b"x"

    @requirement("FRM-09", "WST-04")
    async def test_octet_by_octet(self, house: House, kind: str) -> None:
        peer = house.visit(kind)
        data = CONNECT + frame("SUBSCRIBE", destination="/queue/a", id=1) + frame("SEND", b"x", destination="/queue/a")
        for octet in data:
            await peer.send(bytes([octet]))
        await peer.frame("CONNECTED")
        assert (await peer.frame("MESSAGE")).body == b"x"

    @requirement("LEN-02")
    async def test_empty_lines_and_nuls_in_front(self, house: House, kind: str) -> None:
        peer = house.visit(kind)
        await peer.send(b"\n\r\n")
        await peer.send(b"\0" * 2000)
        await peer.send(CONNECT)
        await peer.frame("CONNECTED")

    @requirement("FRM-13", "SES-01", "CON-03", "ERR-01", "ERR-03")
    @parametrize(
        ("data", "reason"),
        [
            (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "this is not STOMP"),
            (frame("SEND", b"x", destination="/queue/a"), "not connected"),
            (frame("CONNECT", accept_version="9.9"), "no common version"),
            (frame("CONNECT", accept_version="1.2", heart_beat="x"), "malformed heart-beat header"),
            (frame("CONNECT", accept_version="1.2", x="y" * 9000), "header line too long"),
            (frame("CONNECT", b"x" * 2000, accept_version="1.2"), "body too large"),
            (b"CONNECT\n" + b"a:b\n" * 65 + b"\n\0", "too many headers"),
            (b"SEND\0", "NUL byte among the headers"),
            (b"\0\n" * 3000, "no CONNECT"),
        ],
    )
    async def test_refused_with_words(self, house: House, kind: str, data: bytes, reason: str) -> None:
        peer = house.visit(kind)
        await peer.send(data)
        error = await peer.frame("ERROR")
        assert error["message"] == reason
        assert error.body
        assert error["content-type"] == "text/plain;charset=utf-8"
        await peer.at_end()
        assert house.counters.refused == house.counters.errors == 1
        assert not house.broker.sessions

    @requirement("ERR-02")
    async def test_refused_with_the_receipt_id(self, house: House, kind: str) -> None:
        peer = house.visit(kind)
        await peer.send_frame("SEND", destination="/queue/a", receipt="7")
        assert (await peer.frame("ERROR"))["receipt-id"] == "7"

    @requirement("NEG-04", "NEG-05")
    async def test_no_common_version_lists_ours(self, house: House, kind: str) -> None:
        peer = house.visit(kind)
        await peer.send_frame("CONNECT", accept_version="2.0", host="h")
        assert (await peer.frame("ERROR"))["version"] == "1.0,1.1,1.2"
        await peer.at_end()

    async def test_a_peer_that_says_nothing_and_goes(self, house: House, kind: str) -> None:
        peer = house.visit(kind)
        await wait_all_tasks_blocked()
        await peer.aclose()
        await house.server.wait_empty()
        assert house.counters.errors == 0

    async def test_a_peer_that_goes_in_the_middle(self, house: House, kind: str) -> None:
        peer = house.visit(kind)
        await peer.send(CONNECT[:20])
        await peer.aclose()
        await house.server.wait_empty()
        assert house.counters.sessions == 0

    async def test_a_tls_hello_is_named_in_the_log(self, house: House) -> None:
        peer = house.visit("tcp")
        with structlog.testing.capture_logs() as logs:
            await peer.send(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"\xaa" * 300)
            await peer.frame("ERROR")
        assert {"event": "TLS hello on a plain port", "log_level": "warning", "peer": "test"}.items() <= logs[0].items()


class Broken:
    """An authenticator that cannot do its work."""

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        raise OSError("the directory of users burns")


class Refusing:
    """An authenticator that says why."""

    def __init__(self, refusal: LoginRefused) -> None:
        self.refusal = refusal

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        raise self.refusal


class TestAuthentication:
    async def test_may_take_long(self, make_house: MakeHouse, kind: str, autojump_clock: MockClock) -> None:
        house = make_house(authenticator=Slow(5.0))
        await house.visit(kind).connect()
        assert trio.current_time() == pytest.approx(5.0, abs=0.05)
        (session,) = house.broker.sessions.values()
        assert session.login == "user"

    @requirement("CON-03", "CON-05")
    async def test_refused(self, make_house: MakeHouse, kind: str) -> None:
        house = make_house(authenticator=Slow(0.0, None))
        peer = house.visit(kind)
        await peer.send_frame("CONNECT", accept_version="1.2", login="a", passcode="secret")
        error = await peer.frame("ERROR")
        assert error["message"] == "login refused"
        assert b"secret" not in error.body
        await peer.at_end()

        if kind == "websocket":
            assert peer.websocket.closed == (1008, "login refused")

    @parametrize(
        ("refusal", "said"),
        [
            (LoginRefused(), {"login": "(hidden)"}),
            (
                LoginRefused(method="passcode", why="wrong passcode", user="ada"),
                {"login": "ada", "method": "passcode", "why": "wrong passcode"},
            ),
        ],
    )
    async def test_the_log_has_no_login_but_a_users(
        self, make_house: MakeHouse, kind: str, refusal: LoginRefused, said: dict[str, str]
    ) -> None:
        house = make_house(authenticator=Refusing(refusal))
        peer = house.visit(kind)
        with structlog.testing.capture_logs() as logs:
            await peer.send_frame("CONNECT", accept_version="1.2", host="h", login="ticket-or-passcode")
            error = await peer.at_end_after_error()
        assert "wrong" not in str(error.headers) + error.body.decode()
        line = {"event": "connection refused", "log_level": "info", "peer": "test", "reason": "login refused", **said}
        assert [each for each in logs if each["event"] == "connection refused"] == [line]

    async def test_a_login_is_told(self, make_house: MakeHouse, kind: str) -> None:
        with structlog.testing.capture_logs() as logs:
            peer = make_house(authenticator=Slow(0.0)).visit(kind)
            session = (await peer.connect())["session"]
        line = {"session": session, "login": "user", "method": "passcode", "peer": "test", "transport": kind}
        assert {"event": "connected", "log_level": "info", **line} in logs

    async def test_where_nobody_has_to_say_who_he_is_only_when_asked(self, house: House, kind: str) -> None:
        with structlog.testing.capture_logs() as logs:
            await house.visit(kind).connect()
        assert [(line["log_level"], line["login"]) for line in logs if line["event"] == "connected"] == [
            ("debug", "anonymous")
        ]

    async def test_longer_than_the_connect_timeout(
        self, make_house: MakeHouse, kind: str, autojump_clock: MockClock
    ) -> None:
        house = make_house(authenticator=Slow(100.0))
        peer = house.visit(kind)
        await peer.send(CONNECT)
        assert (await peer.frame("ERROR"))["message"] == "connect timeout"
        assert trio.current_time() == pytest.approx(10.01, abs=0.02)
        await peer.at_end()

    async def test_one_that_fails(self, make_house: MakeHouse, kind: str) -> None:
        """Our fault: the client reads no inside of ours, the log says all."""
        house = make_house(authenticator=Broken())
        peer = house.visit(kind)
        with structlog.testing.capture_logs() as logs:
            await peer.send(CONNECT)
            error = await peer.frame("ERROR")
        assert error["message"] == "internal error"
        assert b"burns" not in error.body
        assert any(entry["log_level"] == "error" and entry.get("exc_info") for entry in logs)
        await peer.at_end()


class TestConnectTimeout:
    @parametrize("data", [b"", b"CONN", CONNECT[:-1], b"\n\n"])
    async def test_no_login_in_time(self, house: House, kind: str, data: bytes, autojump_clock: MockClock) -> None:
        peer = house.visit(kind)
        if data:
            await peer.send(data)
        error = await peer.frame("ERROR")
        assert error["message"] == "connect timeout"
        assert house.counters.refusals["connect-timeout"] == 1
        assert error.body == b"no login within 10 s (connect_timeout)"
        assert trio.current_time() == pytest.approx(10.01, abs=0.02)
        await peer.at_end()
        assert house.counters.refused == 1

    async def test_octets_do_not_prolong_it(self, house: House, kind: str, autojump_clock: MockClock) -> None:
        peer = house.visit(kind)
        for octet in CONNECT[:9]:
            await peer.send(bytes([octet]))
            await trio.sleep(1)
        await peer.frame("ERROR")
        assert trio.current_time() == pytest.approx(10.01, abs=0.02)


class TestErrors:
    @requirement("ERR-04", "ERR-05", "WST-08")
    async def test_an_error_is_the_last_frame(self, house: House, kind: str) -> None:
        peer = await house.session(kind)
        other = await house.session(kind)
        await other.subscribe("/queue/a")
        bad = frame("SEND", b"no destination", receipt="7")
        await peer.send(frame("SEND", b"1", destination="/queue/a") + bad + frame("SEND", b"2", destination="/queue/a"))
        error = await peer.frame("ERROR")
        assert (error["message"], error["receipt-id"]) == ("SEND needs the header destination", "7")
        await peer.at_end()
        assert (await other.frame("MESSAGE")).body == b"1"
        await other.publish("/queue/a", b"3")
        assert (await other.frame("MESSAGE")).body == b"3"

    @requirement("LIM-04", "FRM-08")
    @parametrize(
        ("data", "reason"),
        [
            (b"SEND\nnonsense\n\n\0", "malformed header line"),
            (b"HELLO\n\n\0", "unknown command"),
            (frame("SEND", b"x" * 101, destination="/queue/a"), "body too large"),
        ],
    )
    async def test_what_is_no_frame(self, make_house: MakeHouse, kind: str, data: bytes, reason: str) -> None:
        house = make_house(options=TransportOptions(limits=Limits(body=100)))
        peer = await house.session(kind)
        await peer.send(data)
        assert (await peer.frame("ERROR"))["message"] == reason
        await peer.at_end()

    async def test_what_was_written_before_comes_first(self, house: House, kind: str) -> None:
        peer = await house.session(kind)
        await peer.send(frame("SEND", destination="/topic/a", receipt="1") + b"HELLO\n\n\0")
        assert (await peer.frame("RECEIPT"))["receipt-id"] == "1"
        await peer.frame("ERROR")
        await peer.at_end()

    async def test_our_own_fault(self, house: House, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """A frame on which the broker itself breaks ends its session, and no other."""
        peer, neighbour = await house.session(kind), await house.session(kind)
        (session, _) = house.broker.sessions.values()

        def burn(*_: object) -> None:
            raise RuntimeError("secret inside")

        with structlog.testing.capture_logs() as logs:
            with monkeypatch.context() as patch:
                patch.setattr(type(house.broker.router), "publish", burn)
                await peer.publish("/queue/a", b"x")
                error = await peer.frame("ERROR")
            await peer.at_end()
        assert (error["message"], b"secret" in error.body) == ("internal error", False)
        assert any(entry["log_level"] == "error" and entry.get("session") == session.id for entry in logs)
        await neighbour.settled()

    @parametrize("also_in_the_broker", [False, True])
    async def test_a_fault_of_the_loop_itself_stays_in_it(
        self, house: House, kind: str, also_in_the_broker: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An exception that left a connection would end the listener, and with it everybody."""
        peer, neighbour = await house.session(kind), await house.session(kind)

        async def burn(*_: object) -> None:
            raise RuntimeError("in the farewell")

        def burn_at_once(*_: object) -> None:
            raise RuntimeError("in the broker")

        with structlog.testing.capture_logs() as logs:
            monkeypatch.setattr(type(house.connections[0]), "_farewell", burn)
            if also_in_the_broker:
                monkeypatch.setattr(Session, "close", burn_at_once)
            await peer.send_frame("DISCONNECT")
            await peer.at_end()
        monkeypatch.undo()
        failures = {entry["event"] for entry in logs if entry["log_level"] == "error"}
        assert failures == {"connection failed"} | ({"closing a session failed"} if also_in_the_broker else set())
        await neighbour.settled()
        assert len(house.server.open_connections) == 1

    @requirement("FRM-13")
    async def test_the_log_names_session_and_reason(self, house: House, kind: str) -> None:
        peer = await house.session(kind)
        (session,) = house.broker.sessions
        with structlog.testing.capture_logs() as logs:
            await peer.send(b"HELLO\n\n\0")
            await peer.at_end_after_error()
        (entry,) = [entry for entry in logs if entry["event"] == "session failed"]
        assert (entry["session"], entry["reason"]) == (session, "unknown command")


class TestBooks:
    async def test_counters(self, house: House, kind: str) -> None:
        peer = await house.session(kind)
        await peer.subscribe("/topic/a")
        await peer.publish("/topic/a", b"x")
        await peer.frame("MESSAGE")
        await peer.send_frame("DISCONNECT", receipt="bye")
        await peer.frame("RECEIPT")
        counters = house.counters
        assert (counters.connections, counters.sessions, counters.refused, counters.errors) == (1, 1, 0, 0)
        assert (counters.frames_in, counters.published, counters.delivered) == (3, 1, 1)
        assert counters.bytes_in > 100
        assert counters.bytes_out > 100

    async def test_frames_of_a_session(self, house: House, kind: str) -> None:
        peer = await house.session(kind)
        await peer.settled()
        await peer.settled()
        (session,) = house.broker.sessions.values()
        assert (session.frames_in, session.outbox.size, session.transport) == (2, 0, kind)

    async def test_no_tasks_but_the_readers(self, house: House, kind: str) -> None:
        """Two tasks per client would be twice the memory of a hundred thousand idle ones."""
        await wait_all_tasks_blocked()  # the hub's own are there
        before = trio.lowlevel.current_statistics().tasks_living
        peers = [await house.session(kind, heart_beat="1000,1000") for _ in range(10)]
        await wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living - before == len(peers)

    async def test_binary_and_text(self, house: House) -> None:
        """WST-06: by what the body is, not by how it came."""
        peer = await house.session("websocket")
        await peer.subscribe("/topic/a")
        for body in (b"text", b"\xff", "漢".encode()):
            await peer.publish("/topic/a", body)
            await peer.frame("MESSAGE")
        assert peer.websocket.kinds[-3:] == [TEXT, BINARY, TEXT]
