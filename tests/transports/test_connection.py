"""The connection loop: handshake, errors, the books.

Everything runs in memory on the autojump clock but for the few tests in which the operating system's socket is what
matters.  What frames mean is the broker's and tested there; here it is when they are read, written, and no longer.
`test_closing`, `test_heartbeats` and `test_back_pressure` are about the same loop.
"""

from __future__ import annotations

import pytest
import structlog.testing
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.broker import Session
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Credentials, Identity
from gateway.transports import TransportOptions

from .harness import Harness, MakeHarness, Slow
from .peers import CONNECT, frame

requirement, parametrize = pytest.mark.requirement, pytest.mark.parametrize


class TestHandshake:
    @requirement("CON-01", "CON-06", "CON-07", "CON-08", "HBT-01")
    async def test_connected(self, make_harness: MakeHarness, kind: str) -> None:
        harness = make_harness(
            options=TransportOptions(server="gateway/1.0", heartbeat_send=300, heartbeat_receive=400)
        )
        greeting = await harness.connect(kind).connect()
        (session,) = harness.broker.sessions.values()
        assert greeting.headers == {
            "version": "1.2",
            "session": session.id,
            "server": "gateway/1.0",
            "heart-beat": "300,400",
        }
        assert greeting.body == b""
        assert (session.login, session.peer, session.transport) == ("anonymous", "test", kind)
        assert harness.counters.sessions == harness.counters.connections == 1

    @parametrize("version", ["1.0", "1.1", "1.2"])
    @parametrize("login", ["alice", "a b", "漢", "urn:user:7"])
    async def test_the_name_of_the_user(self, harness: Harness, version: str, login: str) -> None:
        """As /user/NAME/queue/... has it.  CONNECTED knows no escapes, so it is as it is."""
        greeting = await harness.connect("tcp").connect(version, login=login)
        assert greeting["user-name"] == login

    @parametrize("name", ["two\nlines", "two\rlines"])
    async def test_a_name_that_fits_no_line(self, make_harness: MakeHarness, name: str) -> None:
        harness = make_harness(authenticator=Slow(0.0, name))
        peer = harness.connect("tcp")
        assert "user-name" not in (await peer.connect()).headers
        (session,) = harness.broker.sessions.values()
        assert session.user == name

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
    async def test_refused_with_words(self, harness: Harness, kind: str, data: bytes, reason: str) -> None:
        peer = harness.connect(kind)
        await peer.send(data)
        error = await peer.frame("ERROR")
        assert error["message"] == reason
        assert error.body
        assert error["content-type"] == "text/plain;charset=utf-8"
        await peer.at_end()
        assert harness.counters.totals()["refused"] == harness.counters.totals()["errors"] == 1
        assert not harness.broker.sessions

    @pytest.mark.parametrize("headers", [{}, {"login": ""}])
    async def test_no_name_where_none_was_given(self, harness: Harness, headers: dict[str, str]) -> None:
        assert "user-name" not in (await harness.connect("tcp").connect(**headers)).headers

    @pytest.mark.parametrize("data", [b"", CONNECT[:20]])
    async def test_a_peer_that_goes_before_its_login(self, harness: Harness, data: bytes) -> None:
        peer = harness.connect("tcp")
        if data:
            await peer.send(data)
        await wait_all_tasks_blocked()
        await peer.aclose()
        await harness.server.wait_empty()
        assert (harness.counters.totals()["errors"], harness.counters.sessions) == (0, 0)


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
    @requirement("CON-03", "CON-05")
    async def test_refused(self, make_harness: MakeHarness, kind: str) -> None:
        harness = make_harness(authenticator=Slow(0.0, None))
        peer = harness.connect(kind)
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
        self, make_harness: MakeHarness, refusal: LoginRefused, said: dict[str, str]
    ) -> None:
        harness = make_harness(authenticator=Refusing(refusal))
        peer = harness.connect("tcp")
        with structlog.testing.capture_logs() as logs:
            await peer.send_frame("CONNECT", accept_version="1.2", host="h", login="ticket-or-passcode")
            error = await peer.at_end_after_error()
        assert "wrong" not in str(error.headers) + error.body.decode()
        line = {"event": "connection refused", "log_level": "info", "peer": "test", "reason": "login refused", **said}
        assert [each for each in logs if each["event"] == "connection refused"] == [line]

    async def test_longer_than_the_connect_timeout(self, make_harness: MakeHarness, autojump_clock: MockClock) -> None:
        harness = make_harness(authenticator=Slow(100.0))
        peer = harness.connect("tcp")
        await peer.send(CONNECT)
        assert (await peer.frame("ERROR"))["message"] == "connect timeout"
        assert trio.current_time() == pytest.approx(10.01, abs=0.02)
        await peer.at_end()

    async def test_one_that_fails(self, make_harness: MakeHarness) -> None:
        """Our fault: the client reads no inside of ours, the log says all."""
        harness = make_harness(authenticator=Broken())
        peer = harness.connect("tcp")
        with structlog.testing.capture_logs() as logs:
            await peer.send(CONNECT)
            error = await peer.frame("ERROR")
        assert error["message"] == "internal error"
        assert b"burns" not in error.body
        assert any(entry["log_level"] == "error" and entry.get("exc_info") for entry in logs)
        await peer.at_end()

    async def test_logins_are_logged_those_of_anonymous_clients_at_debug(self, make_harness: MakeHarness) -> None:
        with structlog.testing.capture_logs() as logs:
            named = await make_harness(authenticator=Slow(0.0)).connect("tcp").connect(login="token", passcode="x")
            anonymous = await make_harness().connect("tcp").connect()
        assert named["user-name"] == "user"
        common = {"event": "connected", "peer": "test", "transport": "tcp"}
        assert logs == [
            {"session": named["session"], "login": "user", "method": "passcode", "log_level": "info", **common},
            {
                "session": anonymous["session"],
                "login": "anonymous",
                "method": "anonymous",
                "log_level": "debug",
                **common,
            },
        ]


class TestConnectTimeout:
    @parametrize("data", [b"", b"CONN", CONNECT[:-1], b"\n\n"])
    async def test_no_login_in_time(self, harness: Harness, data: bytes, autojump_clock: MockClock) -> None:
        peer = harness.connect("tcp")
        if data:
            await peer.send(data)
        error = await peer.frame("ERROR")
        assert error["message"] == "connect timeout"
        assert harness.counters.refusals["connect-timeout"] == 1
        assert error.body == b"no login within 10 s (connect_timeout)"
        assert trio.current_time() == pytest.approx(10.01, abs=0.02)
        await peer.at_end()
        assert harness.counters.totals()["refused"] == 1


class TestErrors:
    @requirement("ERR-04", "ERR-05", "WST-08")
    async def test_an_error_is_the_last_frame(self, harness: Harness, kind: str) -> None:
        peer = await harness.session(kind)
        other = await harness.session(kind)
        await other.subscribe("/queue/a")
        bad = frame("SEND", b"no destination", receipt="7")
        await peer.send(frame("SEND", b"1", destination="/queue/a") + bad + frame("SEND", b"2", destination="/queue/a"))
        error = await peer.frame("ERROR")
        assert (error["message"], error["receipt-id"]) == ("SEND needs the header destination", "7")
        await peer.at_end()
        assert (await other.frame("MESSAGE")).body == b"1"
        await other.publish("/queue/a", b"3")
        assert (await other.frame("MESSAGE")).body == b"3"

    async def test_our_own_fault(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        """A frame on which the broker itself breaks ends its session, and no other."""
        peer, bystander = await harness.session("tcp"), await harness.session("tcp")
        (session, _) = harness.broker.sessions.values()

        def burn(*_: object) -> None:
            raise RuntimeError("secret inside")

        with structlog.testing.capture_logs() as logs:
            with monkeypatch.context() as patch:
                patch.setattr(type(harness.broker.router), "publish", burn)
                await peer.publish("/queue/a", b"x")
                error = await peer.frame("ERROR")
            await peer.at_end()
        assert (error["message"], b"secret" in error.body) == ("internal error", False)
        assert any(entry["log_level"] == "error" and entry.get("session") == session.id for entry in logs)
        await bystander.settled()

    @parametrize("also_in_the_broker", [False, True])
    async def test_a_fault_of_the_loop_itself_stays_in_it(
        self, harness: Harness, also_in_the_broker: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An exception that left a connection would end the listener, and with it everybody."""
        peer, bystander = await harness.session("tcp"), await harness.session("tcp")

        async def burn(*_: object) -> None:
            raise RuntimeError("while closing")

        def burn_at_once(*_: object) -> None:
            raise RuntimeError("in the broker")

        with structlog.testing.capture_logs() as logs:
            monkeypatch.setattr(type(harness.connections[0]), "_close", burn)
            if also_in_the_broker:
                monkeypatch.setattr(Session, "close", burn_at_once)
            await peer.send_frame("DISCONNECT")
            await peer.at_end()
        monkeypatch.undo()
        failures = {entry["event"] for entry in logs if entry["log_level"] == "error"}
        assert failures == {"connection failed"} | ({"closing a session failed"} if also_in_the_broker else set())
        await bystander.settled()
        assert len(harness.server.open_connections) == 1


class TestBooks:
    async def test_counters(self, harness: Harness, kind: str) -> None:
        peer = await harness.session(kind)
        await peer.subscribe("/topic/a")
        await peer.publish("/topic/a", b"x")
        await peer.frame("MESSAGE")
        await peer.send_frame("DISCONNECT", receipt="bye")
        await peer.frame("RECEIPT")
        counters = harness.counters
        assert (counters.connections, counters.sessions) == (1, 1)
        assert (counters.totals()["refused"], counters.totals()["errors"]) == (0, 0)
        assert (counters.frames_in, counters.published, counters.delivered) == (3, 1, 1)
        assert counters.bytes_in > 100
        assert counters.bytes_out > 100

    async def test_no_tasks_but_the_readers(self, harness: Harness) -> None:
        """Two tasks per client would be twice the memory of a hundred thousand idle ones."""
        await wait_all_tasks_blocked()  # the hub's own are there
        before = trio.lowlevel.current_statistics().tasks_living
        peers = [await harness.session("tcp", heart_beat="1000,1000") for _ in range(10)]
        await wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living - before == len(peers)
