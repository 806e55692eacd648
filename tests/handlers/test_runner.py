"""Functions at work: what they are given, what becomes of what they say, and of their failures.

Clients are on memory streams, and the clock jumps over every wait of a test that has any.
"""

from __future__ import annotations

import math

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.broker.model.policy import OnNack
from gateway.codec import Frame, Head, ProtocolError
from gateway.handlers import Handlers, Reject, Request, Runner, runner
from tests.transports.peers import Peer
from tests.transports.pipes import ControlledPipe

from .conftest import MakeHall
from .hall import Hall

BROKEN = "the session of the functions broke, and a new one follows"
DEAD = {"/handlers/send/#": {"dead_letter": "/queue/dead", "max_attempts": 3}}


class Gate:
    """Functions that wait until the test lets them go on.

    Attributes:
        begun: bodies of the requests that came in.
        running: how many wait here.
    """

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.running = 0
        self.cancelled = 0
        self._lot = trio.lowlevel.ParkingLot()

    async def pass_through(self, request: Request) -> None:
        self.begun.append(request.body)
        self.running += 1
        try:
            await self._lot.park()
        except trio.Cancelled:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    async def open(self) -> None:
        """Let those go on that wait now."""
        self._lot.unpark_all()
        await wait_all_tasks_blocked()


class TestSend:
    async def test_reply(self, handlers: Handlers, make_hall: MakeHall) -> None:
        @handlers.send("/app/greet/{name}")
        async def greet(request: Request, name: str) -> None:
            request.send("/topic/greetings", f"hello {name}", {"kind": "greeting"})
            request.reply("done")

        hall = make_hall().begin()
        client = await hall.client()
        await client.subscribe("/topic/greetings")
        await client.publish("/app/greet/bob", reply_to="/temp-queue/r", correlation_id="7")
        greeting, done = await client.frame("MESSAGE"), await client.frame("MESSAGE")
        assert (greeting.body, greeting["kind"], greeting["subscription"]) == (b"hello bob", "greeting", "1")
        assert (done.body, done["correlation-id"], done["subscription"]) == (b"done", "7", "/temp-queue/r")
        assert not hall.harness.broker.stored_bytes

    @pytest.mark.parametrize(("answer", "body"), [("text", b"text"), (b"octets", b"octets"), ("", b"")])
    async def test_what_it_returns_is_its_reply(
        self, handlers: Handlers, make_hall: MakeHall, answer: str | bytes, body: bytes
    ) -> None:
        @handlers.send("/app/a")
        async def function(request: Request) -> str | bytes:
            return answer

        hall = make_hall().begin()
        assert (await hall.ask(await hall.client(), "/app/a")).body == body

    async def test_fields_are_given_by_name(self, handlers: Handlers, make_hall: MakeHall) -> None:
        @handlers.send("/app/{a}/and/{b}")
        async def function(request: Request, b: str, a: str) -> str:
            return f"{a} {b} {request.destination}"

        hall = make_hall().begin()
        reply = await hall.ask(await hall.client(), "/app/x.and.y")
        assert reply.body == b"x y /app/x.and.y"

    @pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
    async def test_what_the_client_said(self, handlers: Handlers, make_hall: MakeHall, version: str) -> None:
        seen: list[Request] = []

        @handlers.send("/app/a")
        async def function(request: Request) -> str:
            seen.append(request)
            return ""

        hall = make_hall().begin()
        client = await hall.client(version, login="ann")
        said = {"1.0": "a:b\\n", "1.1": "a\\c\\\\b\\n", "1.2": "a\\c\\r\\\\\\n"}[version]
        meant = {"1.0": "a:b\\n", "1.1": "a:\\b\n", "1.2": "a:\r\\\n"}[version]
        await hall.ask(client, "/app/a", b"\0\xff", odd=said, content_type="x/y", transformation="x")
        (request,) = seen
        assert (request.body, request.headers["odd"], request.headers["content-type"]) == (b"\0\xff", meant, "x/y")
        assert request.user == "ann"
        assert not {"ack", "subscription", "content-length"} & request.headers.keys()

    async def test_who_sent_it_is_known_for_sure(self, handlers: Handlers, make_hall: MakeHall) -> None:
        @handlers.send("/app/a")
        async def function(request: Request) -> str:
            return f"{request.user} {request.session}"

        hall = make_hall().begin()
        ann = hall.harness.connect("tcp")
        session = (await ann.connect(login="ann"))["session"]
        reply = await hall.ask(ann, "/app/a", session="s0", user_id="ann", JMSXUserID="root")
        assert reply.body == f"ann {session}".encode()
        nobody = hall.harness.connect("tcp")
        session = (await nobody.connect())["session"]
        reply = await hall.ask(nobody, "/app/a", session="s0", user_id="anonymous")
        assert reply.body == f"{session} {session}".encode()

    async def test_nobody_can_be_somebody_else(self, handlers: Handlers, make_hall: MakeHall) -> None:
        hall = make_hall().begin()
        client = await hall.client(login="ann")
        await client.publish("/app/a", user_id="root")
        assert (await client.at_end_after_error())["message"] == "user-id of somebody else"

    @pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
    @pytest.mark.parametrize("destination", ["/app/nobody", "/app/a/b", "/handlers/send/a", "/handlers/subscribe/a"])
    async def test_where_there_is_no_function(
        self, handlers: Handlers, make_hall: MakeHall, command: str, destination: str
    ) -> None:
        """The queues of functions are not for clients either: there they could be somebody else."""
        gate = Gate()
        handlers.send("/app/a")(gate.pass_through)
        handlers.subscribe("/app/a")(gate.pass_through)
        hall = make_hall().begin()
        client = await hall.client()
        await client.send_frame(command, destination=destination, id=1, receipt="r")
        error = await client.at_end_after_error()
        kind = "nobody handles this destination" if "/app/" in destination else "unsupported kind of destination"
        assert (error["message"], error["receipt-id"]) == (kind, "r")
        assert not gate.begun

    async def test_functions_call_functions(self, handlers: Handlers, make_hall: MakeHall) -> None:
        @handlers.send("/app/first")
        async def first(request: Request) -> None:
            request.send("/app/second", request.user, {"reply-to": request.reply_to or ""})

        @handlers.send("/app/second")
        async def second(request: Request) -> str:
            return f"{request.text} {request.user}"

        hall = make_hall().begin()
        assert (await hall.ask(await hall.client(login="ann"), "/app/first")).body == b"ann ann"

    async def test_what_waits_longer_than_one_outbox(self, handlers: Handlers, make_hall: MakeHall) -> None:
        """A window full of large messages is taken at once, and the next follow."""
        gate = Gate()
        handlers.send("/app/a", concurrency=50)(gate.pass_through)
        hall = make_hall(max_outbound=64_000).begin()
        client = await hall.client()
        for _ in range(50):
            await client.publish("/app/a", b"x" * 5_000)
        await wait_all_tasks_blocked()
        assert gate.running == 50
        await gate.open()
        assert hall.harness.counters.acknowledged == 50


class TestSubscribe:
    async def test_one_message(self, handlers: Handlers, make_hall: MakeHall) -> None:
        @handlers.subscribe("/app/prices/{symbol}")
        async def prices(request: Request, symbol: str) -> str:
            assert request.is_subscribe
            assert request.body == b""
            return f"{symbol} for {request.user}"

        hall = make_hall().begin()
        client = await hall.client(login="ann")
        await client.send_frame("SUBSCRIBE", destination="/app/prices/x", id=9)
        message = await client.frame("MESSAGE")
        assert (message.body, message["destination"], message["subscription"]) == (b"x for ann", "/app/prices/x", "9")
        await client.settled()  # and no other one

    async def test_nothing_to_say(self, handlers: Handlers, make_hall: MakeHall) -> None:
        @handlers.subscribe("/app/a")
        async def function(request: Request) -> None:
            request.send("/topic/a", "somebody came")

        hall = make_hall().begin()
        client = await hall.client()
        await client.subscribe("/topic/a")
        await client.send_frame("SUBSCRIBE", destination="/app/a", id=2)
        assert (await client.frame("MESSAGE")).body == b"somebody came"
        await client.settled()

    async def test_each_time_anew(self, handlers: Handlers, make_hall: MakeHall) -> None:
        @handlers.subscribe("/app/a")
        async def function(request: Request) -> str:
            return "here"

        hall = make_hall(max_subscriptions=3, max_destinations=10).begin()
        client = await hall.client()
        for _ in range(20):
            await client.send_frame("SUBSCRIBE", destination="/app/a", id=1)
            await client.frame("MESSAGE")
            await client.send_frame("UNSUBSCRIBE", id=1)

    async def test_to_be_acknowledged(self, handlers: Handlers, make_hall: MakeHall) -> None:
        @handlers.subscribe("/app/a")
        async def function(request: Request) -> str:
            return "here"

        hall = make_hall().begin()
        client = await hall.client()
        await client.send_frame("SUBSCRIBE", destination="/app/a", id=1, ack="client")
        message = await client.frame("MESSAGE")
        await client.send_frame("ACK", id=message["ack"])
        await client.settled()
        assert not hall.harness.broker.stored_bytes

    async def test_one_who_has_left(self, handlers: Handlers, make_hall: MakeHall) -> None:
        gate = Gate()

        @handlers.subscribe("/app/a")
        async def function(request: Request) -> str:
            await gate.pass_through(request)
            return "too late"

        hall = make_hall().begin()
        client = await hall.client()
        await client.send_frame("SUBSCRIBE", destination="/app/a", id=1)
        await wait_all_tasks_blocked()
        await client.aclose()
        await gate.open()
        assert hall.harness.counters.unroutable == 1
        assert not hall.harness.broker.stored_bytes


class TestFailures:
    async def test_again_and_then_a_dead_letter(
        self, handlers: Handlers, make_hall: MakeHall, autojump_clock: MockClock
    ) -> None:
        attempts: list[tuple[int, float]] = []

        @handlers.send("/app/fail/{x}")
        async def function(request: Request, x: str) -> None:
            attempts.append((request.attempt, trio.current_time()))
            request.send("/topic/a", "not to be seen")
            raise KeyError("a secret")

        hall = make_hall({**DEAD, "/handlers/send/fail/#": {"backoff": 1.0}}).begin()
        client = await hall.client()
        await client.subscribe("/topic/a")
        await client.subscribe("/queue/dead", id=2)
        began = trio.current_time()
        with capture_logs() as logs:
            await client.publish("/app/fail/1", b"x")
            letter = await client.frame("MESSAGE")
        assert attempts == [
            (1, began),
            (2, pytest.approx(began + 1.0, abs=0.05)),
            (3, pytest.approx(began + 3.0, abs=0.1)),
        ]
        assert letter.body == b"x"
        assert letter["dlq-source"] == "/handlers/send/fail/{x}"
        assert (letter["dlq-reason"], letter["dlq-attempts"]) == ("max-attempts", "3")
        assert letter["reason"] == "KeyError"
        failures = [each for each in logs if each["event"] == "a function failed"]
        assert [each["attempt"] for each in failures] == [1, 2, 3]
        assert [bool(each.get("exc_info")) for each in failures] == [True, False, False]
        assert failures[0]["function"] == "send /app/fail/{x}"
        await client.settled()

    async def test_a_later_attempt_succeeds(
        self, handlers: Handlers, make_hall: MakeHall, autojump_clock: MockClock
    ) -> None:
        """And what the earlier ones sent has not come."""

        @handlers.send("/app/a")
        async def function(request: Request) -> str:
            request.send("/topic/a", f"attempt {request.attempt}")
            if request.attempt < 3:
                raise OSError
            return "done"

        hall = make_hall().begin()
        client = await hall.client()
        await client.subscribe("/topic/a")
        await client.publish("/app/a", reply_to="/temp-queue/r")
        bodies = [(await client.frame("MESSAGE")).body for _ in range(2)]
        assert bodies == [b"attempt 3", b"done"]

    async def test_reject(self, handlers: Handlers, make_hall: MakeHall) -> None:
        @handlers.send("/app/a")
        async def function(request: Request) -> None:
            request.send("/topic/a", "not to be seen")
            raise Reject("no such customer")

        hall = make_hall(DEAD).begin()
        client = await hall.client()
        await client.subscribe("/topic/a")
        await client.subscribe("/queue/dead", id=2)
        await client.publish("/app/a", b"x")
        letter = await client.frame("MESSAGE")
        assert (letter["reason"], letter["dlq-reason"], letter["dlq-attempts"]) == ("no such customer", "rejected", "1")
        await client.settled()

    async def test_a_reason_of_several_lines(self, handlers: Handlers, make_hall: MakeHall) -> None:
        @handlers.send("/app/a")
        async def function(request: Request) -> None:
            raise Reject("a\nb:\0c\ud800")

        hall = make_hall(DEAD).begin()
        client = await hall.client()
        await client.subscribe("/queue/dead")
        await client.publish("/app/a", b"x")
        assert (await client.frame("MESSAGE"))["reason"] == r"a b\c\\x00c\\ud800"

    async def test_a_function_that_hangs(
        self, handlers: Handlers, make_hall: MakeHall, autojump_clock: MockClock
    ) -> None:
        gate = Gate()
        handlers.send("/app/a", timeout=5.0)(gate.pass_through)
        hall = make_hall({"/handlers/send/#": {"dead_letter": "/queue/dead", "max_attempts": 1}}).begin()
        client = await hall.client()
        await client.subscribe("/queue/dead")
        began = trio.current_time()
        await client.publish("/app/a", b"x")
        letter = await client.frame("MESSAGE")
        assert trio.current_time() == pytest.approx(began + 5.0, abs=0.1)
        assert letter["reason"] == "timeout after 5 s"
        assert gate.cancelled == 1

    async def test_no_timeout(self, handlers: Handlers, make_hall: MakeHall, autojump_clock: MockClock) -> None:
        @handlers.send("/app/a", timeout=math.inf)
        async def function(request: Request) -> str:
            await trio.sleep(10_000)
            return "at last"

        hall = make_hall().begin()
        client = await hall.client()
        await client.subscribe("/queue/r")
        await client.publish("/app/a", reply_to="/queue/r")
        with trio.fail_after(10_001):
            message = await client._receive()
        assert message is not None
        assert message.body == b"at last"

    async def test_a_timeout_that_comes_too_late(
        self, handlers: Handlers, make_hall: MakeHall, autojump_clock: MockClock
    ) -> None:
        """The function finished what it was at, and so it has succeeded."""

        @handlers.send("/app/a", timeout=5.0)
        async def function(request: Request) -> str:
            with trio.CancelScope(shield=True):
                await trio.sleep(10.0)
            return "late"

        hall = make_hall().begin()
        assert (await hall.ask(await hall.client(), "/app/a")).body == b"late"

    @pytest.mark.parametrize("destination", ["/topic/*", "/app/nobody", "/nowhere"])
    async def test_a_destination_that_is_none(self, handlers: Handlers, make_hall: MakeHall, destination: str) -> None:
        """The function learns of it, and the session of all functions goes on."""

        @handlers.send("/app/a")
        async def function(request: Request) -> None:
            request.send(destination)

        hall = make_hall({"/handlers/send/#": {"on_nack": OnNack.DEAD_LETTER, "dead_letter": "/queue/dead"}}).begin()
        session = hall.runner.session
        client = await hall.client()
        await client.subscribe("/queue/dead")
        await client.publish("/app/a")
        assert (await client.frame("MESSAGE"))["reason"] == "CannotSend"
        assert hall.runner.session is session

    async def test_no_room_when_it_has_returned(
        self, handlers: Handlers, make_hall: MakeHall, autojump_clock: MockClock
    ) -> None:
        """Each of two was promised the only place for a delayed message; the second gets it when it is free."""
        gate = Gate()

        @handlers.send("/app/a", concurrency=2)
        async def function(request: Request) -> None:
            request.send("/topic/a", request.body, {"x-delay": "50"})
            if request.attempt == 1:
                await gate.pass_through(request)

        hall = make_hall(max_delayed=1).begin()
        client = await hall.client()
        await client.subscribe("/topic/a")
        await client.publish("/app/a", b"1")
        await client.publish("/app/a", b"2")
        await wait_all_tasks_blocked()
        assert gate.running == 2
        await gate.open()
        assert {(await client.frame("MESSAGE")).body for _ in range(2)} == {b"1", b"2"}
        assert hall.harness.counters.rejected == 1

    async def test_an_answer_of_another_type(self, handlers: Handlers, make_hall: MakeHall) -> None:
        @handlers.send("/app/a")  # type: ignore[type-var]
        async def function(request: Request) -> dict[str, int]:
            return {"a": 1}

        hall = make_hall({"/handlers/send/#": {"max_attempts": 1, "dead_letter": "/queue/dead"}}).begin()
        client = await hall.client()
        await client.subscribe("/queue/dead")
        await client.publish("/app/a", reply_to="/queue/r")
        assert (await client.frame("MESSAGE"))["reason"] == "TypeError"


class TestConcurrency:
    async def test_no_more_than_asked_for(self, handlers: Handlers, make_hall: MakeHall) -> None:
        gate, other = Gate(), Gate()
        handlers.send("/app/a", concurrency=3)(gate.pass_through)
        handlers.send("/app/b", concurrency=1)(other.pass_through)
        hall = make_hall().begin()
        client = await hall.client()
        for number in range(10):
            await client.publish("/app/a", str(number).encode())
            await client.publish("/app/b", str(number).encode())
        await client.settled()
        assert (gate.running, other.running) == (3, 1)
        assert hall.harness.broker.waiting == 7 + 9
        await gate.open()
        assert gate.begun == [b"0", b"1", b"2", b"3", b"4", b"5"]
        assert (gate.running, other.running) == (3, 1)
        while other.running:
            await other.open()
        assert other.begun == [str(number).encode() for number in range(10)]

    async def test_what_waits_before_they_begin(self, handlers: Handlers, make_hall: MakeHall) -> None:
        gate = Gate()
        handlers.send("/app/a", concurrency=2)(gate.pass_through)
        hall = make_hall()
        client = await hall.client()
        for _ in range(5):
            await client.publish("/app/a")
        await client.settled()
        hall.begin()
        await wait_all_tasks_blocked()
        assert gate.running == 2

    async def test_functions_that_do_not_wait_let_others_go_on(self, handlers: Handlers, make_hall: MakeHall) -> None:
        done: list[int] = []
        seen: list[int] = []

        @handlers.send("/app/a", concurrency=1)
        async def function(request: Request) -> None:
            done.append(1)

        async def other() -> None:
            while len(done) < 100:
                seen.append(len(done))
                await trio.lowlevel.checkpoint()

        hall = make_hall()
        client = await hall.client()
        for _ in range(100):
            await client.publish("/app/a")
        await client.settled()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            hall.begin()
        assert len({count for count in seen if count}) > 50

    async def test_a_slow_reader_holds_its_function_back(
        self, handlers: Handlers, make_hall: MakeHall, autojump_clock: MockClock
    ) -> None:
        """As it would hold back a client that publishes: until it reads, or for `slow_consumer_timeout`."""
        begun: list[float] = []

        @handlers.send("/app/a", concurrency=1)
        async def function(request: Request) -> None:
            begun.append(trio.current_time())
            request.send("/topic/a", b"x" * 30_000)

        hall = make_hall(max_outbound=64_000).begin()
        pipe = ControlledPipe()
        reader = hall.harness.connect_through("tcp", pipe)
        await reader.connect()
        await reader.subscribe("/topic/a")
        pipe.room = 0
        client = await hall.client()
        for _ in range(3):
            await client.publish("/app/a")
        await client.settled()
        assert len(begun) == 2  # the second one's message was too much
        pipe.open(60_000)
        await reader.frame("MESSAGE")
        await wait_all_tasks_blocked()
        assert len(begun) == 3
        assert begun[-1] == begun[0]

    async def test_a_full_queue_holds_its_function_back(self, handlers: Handlers, make_hall: MakeHall) -> None:
        @handlers.send("/app/a", concurrency=1)
        async def function(request: Request) -> None:
            request.send("/queue/small", request.body)

        hall = make_hall({"/queue/small": {"max_messages": 2}}).begin()
        client = await hall.client()
        for number in range(4):
            await client.publish("/app/a", str(number).encode())
        await client.settled()
        assert hall.harness.counters.acknowledged == 2
        bodies = [each.body for each in await client.subscribe_and_read("/queue/small", 4)]
        assert bodies == [b"0", b"1", b"2", b"3"]

    async def test_not_for_ever(self, handlers: Handlers, make_hall: MakeHall, autojump_clock: MockClock) -> None:
        """It could be that only the same function can make room, later."""

        @handlers.send("/app/a", concurrency=1)
        async def function(request: Request) -> None:
            request.send("/queue/small", request.body)

        hall = make_hall({"/queue/small": {"max_messages": 1}}).begin()
        client = await hall.client()
        for number in range(3):
            await client.publish("/app/a", str(number).encode())
        await trio.sleep(30)
        assert hall.harness.counters.acknowledged == 3


class TestSession:
    async def test_an_operator_sees_it(self, handlers: Handlers, make_hall: MakeHall) -> None:
        handlers.send("/app/a")(Gate().pass_through)
        hall = make_hall().begin()
        (session,) = hall.harness.broker.sessions.values()
        assert (session.transport, session.peer, session.login) == ("internal", "internal", "gateway")
        assert len(session.subscriptions) == 1
        assert list(hall.harness.broker.registry.hidden) == ["/handlers/send/a"]

    async def test_an_operator_ends_it(
        self, handlers: Handlers, make_hall: MakeHall, autojump_clock: MockClock
    ) -> None:
        """Functions at work are cancelled, and their messages come again with the next session."""
        gate = Gate()
        handlers.send("/app/a", concurrency=1)(gate.pass_through)
        hall = make_hall({"/handlers/#": {"max_attempts": 1}}).begin()
        client = await hall.client()
        await client.publish("/app/a", b"1")
        await client.publish("/app/a", b"2")
        await client.settled()
        session = hall.runner.session
        with capture_logs() as logs:
            assert hall.harness.broker.end_session(session.id, "An operator ended this session")
            await wait_all_tasks_blocked()
        assert [each["detail"] for each in logs] == ["An operator ended this session"]
        assert (gate.running, gate.cancelled) == (0, 1)
        await trio.sleep(1.5)
        assert hall.runner.session is not session
        assert len(hall.harness.broker.sessions) == 2
        await gate.open()
        await gate.open()
        assert gate.begun == [b"1", b"1", b"2"]
        assert not hall.harness.broker.stored_bytes

    async def test_what_comes_meanwhile_waits(
        self, handlers: Handlers, make_hall: MakeHall, autojump_clock: MockClock
    ) -> None:
        @handlers.send("/app/a")
        async def function(request: Request) -> str:
            return "done"

        hall = make_hall().begin()
        client = await hall.client()
        hall.harness.broker.end_session(hall.runner.session.id, "")
        assert (await hall.ask(client, "/app/a")).body == b"done"

    async def test_what_it_cannot_read(
        self, handlers: Handlers, make_hall: MakeHall, autojump_clock: MockClock
    ) -> None:
        """A fault of ours: it is logged, and costs a second; nobody else notices."""

        @handlers.send("/app/a")
        async def function(request: Request) -> str:
            return str(request.attempt)

        hall = make_hall().begin()
        client = await hall.client()
        session = hall.runner.session
        with capture_logs() as logs:
            session.outbox.append(b"nonsense\n\n\0")
            await client.publish("/app/a", b"", reply_to="/temp-queue/r")
            assert (await client.frame("MESSAGE")).body == b"2"
        assert [each["event"] for each in logs] == [BROKEN]
        assert hall.runner.session is not session

    async def test_what_it_says_and_should_not(
        self, handlers: Handlers, make_hall: MakeHall, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Likewise; and as the ACK failed, the function has replied already, and does so again."""

        @handlers.send("/app/a")
        async def function(request: Request) -> str:
            return str(request.attempt)

        hall = make_hall().begin()
        client = await hall.client()
        session = hall.runner.session

        def wrong_once(*_: object) -> Frame:
            monkeypatch.undo()
            return Frame(Head.of("ACK", {"id": "unknown"}), b"")

        with capture_logs() as logs:
            monkeypatch.setattr(runner, "_settlement", wrong_once)
            assert (await hall.ask(client, "/app/a")).body == b"1"
            await wait_all_tasks_blocked()
        assert [each["event"] for each in logs] == [BROKEN]
        assert (await client.frame("MESSAGE")).body == b"2"
        assert hall.runner.session is not session

    async def test_no_room_for_a_new_one(
        self, handlers: Handlers, make_hall: MakeHall, autojump_clock: MockClock
    ) -> None:
        @handlers.send("/app/a")
        async def function(request: Request) -> str:
            return "done"

        hall = make_hall(max_destinations=2).begin()
        client = await hall.client()
        await client.subscribe("/queue/1", id=1)
        with capture_logs() as logs:
            hall.harness.broker.end_session(hall.runner.session.id, "")
            await wait_all_tasks_blocked()
            await client.subscribe("/queue/2", id=2)
            await trio.sleep(3.5)
            assert [each["event"] for each in logs][1:] == ["functions cannot be run"] * 3
            await client.send_frame("UNSUBSCRIBE", id=1)
            await trio.sleep(1)
        await client.publish("/app/a", b"", reply_to="/queue/2")
        assert (await client.frame("MESSAGE")).body == b"done"

    async def test_more_functions_than_may_be(self, handlers: Handlers, make_hall: MakeHall) -> None:
        for name in "abc":
            handlers.send(f"/app/{name}")(Gate().pass_through)
        with pytest.raises(ProtocolError, match="too many subscriptions"):
            make_hall(max_subscriptions=2)

    async def test_it_never_waits_for_itself(self, handlers: Handlers, make_hall: MakeHall) -> None:
        ours: Runner = make_hall().runner
        assert ours.must_read
        assert not ours.peer_has_gone()
        with ours.held():
            pass


class TestFinish:
    async def begun(self, hall: Hall, gate: Gate) -> Peer:
        """One message is at work, and another one waits."""
        client = await hall.begin().client()
        for body in (b"1", b"2"):
            await client.publish("/app/a", body)
        await client.settled()
        assert gate.running == 1
        return client

    async def test_what_has_begun_is_finished(self, handlers: Handlers, make_hall: MakeHall) -> None:
        gate = Gate()

        @handlers.send("/app/a", concurrency=1)
        async def function(request: Request) -> None:
            await gate.pass_through(request)
            request.send("/topic/a", request.body)

        hall = make_hall()
        client = await self.begun(hall, gate)
        await client.subscribe("/topic/a")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hall.runner.finish)
            nursery.start_soon(hall.runner.finish)
            await wait_all_tasks_blocked()
            await client.publish("/app/a", b"3")
            await client.settled()
            await gate.open()
        assert (await client.frame("MESSAGE")).body == b"1"
        await hall.runner.finish()
        hall.scope.cancel()
        await wait_all_tasks_blocked()
        assert gate.begun == [b"1"]
        assert hall.harness.broker.waiting == 2

    async def test_what_is_not_finished_is_cancelled(
        self, handlers: Handlers, make_hall: MakeHall, autojump_clock: MockClock
    ) -> None:
        gate = Gate()
        handlers.send("/app/a", concurrency=1)(gate.pass_through)
        hall = make_hall({"/handlers/#": {"max_attempts": 1}})
        await self.begun(hall, gate)
        with trio.move_on_after(1) as scope:
            await hall.runner.finish()
        assert scope.cancelled_caught
        hall.scope.cancel()
        await wait_all_tasks_blocked()
        assert gate.cancelled == 1
        assert hall.harness.broker.waiting == 2  # it is not the message's fault
        assert hall.runner.session.id not in hall.harness.broker.sessions

    async def test_nothing_at_work(self, handlers: Handlers, make_hall: MakeHall) -> None:
        hall = make_hall().begin()
        await hall.runner.finish()
