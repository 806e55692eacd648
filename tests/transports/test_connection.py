"""The connection loop: handshake, errors, books; see also `test_closing`, `test_heartbeats`, `test_back_pressure`."""

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

    @parametrize("name", ["alice", "a b", "漢", "urn:user:7", "two\nlines", "two\rlines"])
    async def test_the_name_of_the_user(self, make_harness: MakeHarness, name: str) -> None:
        """As /user/NAME/queue/... has it.  CONNECTED knows no escapes, so a name that fits no line is left out."""
        harness = make_harness(authenticator=Slow(0.0, name))
        greeting = await harness.connect("tcp").connect()
        assert greeting.headers.get("user-name") == (None if "lines" in name else name)
        (session,) = harness.broker.sessions.values()
        assert session.user == name

    @requirement("FRM-13", "SES-01", "CON-03", "ERR-01", "ERR-03")
    @parametrize(
        ("data", "reason"),
        [
            (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "this is not STOMP"),
            (frame("SEND", b"x", destination="/queue/a"), "not connected"),
            (frame("CONNECT", accept_version="9.9"), "no common version"),
            (frame("CONNECT", b"x" * 2000, accept_version="1.2"), "body too large"),
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


class Refusing:
    """An authenticator that says why, or cannot do its work."""

    def __init__(self, refusal: Exception) -> None:
        self.refusal = refusal

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        raise self.refusal


class TestAuthentication:
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

    async def test_one_that_fails(self, make_harness: MakeHarness) -> None:
        """Our fault: the client reads no inside of ours, the log says all."""
        harness = make_harness(authenticator=Refusing(OSError("the directory of users burns")))
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


@parametrize("data", [b"", b"CONN", CONNECT])
async def test_no_login_in_time(make_harness: MakeHarness, data: bytes, autojump_clock: MockClock) -> None:
    """The time of the authenticator counts."""
    harness = make_harness(authenticator=Slow(100.0))
    peer = harness.connect("tcp")
    if data:
        await peer.send(data)
    error = await peer.at_end_after_error()
    assert error["message"] == "connect timeout"
    assert error.body.endswith(b"within 10 s (connect_timeout)")
    assert harness.counters.totals()["refused"] == harness.counters.refusals["connect-timeout"] == 1
    assert trio.current_time() == pytest.approx(10.01, abs=0.02)


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
    async def test_no_tasks_but_the_readers(self, harness: Harness) -> None:
        """Two tasks per client would be twice the memory of a hundred thousand idle ones."""
        await wait_all_tasks_blocked()  # the hub's own are there
        before = trio.lowlevel.current_statistics().tasks_living
        peers = [await harness.session("tcp", heart_beat="1000,1000") for _ in range(10)]
        await wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living - before == len(peers)
