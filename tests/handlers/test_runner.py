"""The runner: requests and replies of functions, their failures, their concurrency, and their session.

Clients are on memory streams, and the clock jumps over every wait.
"""

from __future__ import annotations

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.handlers import Handlers, Reject, Request
from tests.transports.peers import Peer
from tests.transports.pipes import ControlledPipe

from .conftest import MakeHall
from .hall import Hall

BROKEN = "the session of the functions broke, and a new one follows"
DEAD = {"/handlers/send/#": {"dead_letter": "/queue/dead", "max_attempts": 3}}


class Gate:
    """Functions that wait until the test lets them go on.

    Attributes:
        begun: bodies of the requests that have started.
        running: requests that wait here.
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
        self._lot.unpark_all()
        await wait_all_tasks_blocked()


class TestSend:
    @pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
    async def test_the_request_has_the_frame_and_a_user_and_a_session_that_are_verified(
        self, handlers: Handlers, make_hall: MakeHall, version: str
    ) -> None:
        seen: list[Request] = []

        @handlers.send("/app/a")
        async def function(request: Request) -> str:
            seen.append(request)
            return ""

        hall = make_hall().begin()
        ann, guest = hall.harness.connect("tcp"), hall.harness.connect("tcp")
        sessions = [(await ann.connect(version, login="ann"))["session"], (await guest.connect(version))["session"]]
        said = {"1.0": "a:b\\n", "1.1": "a\\c\\\\b\\n", "1.2": "a\\c\\r\\\\\\n"}[version]
        meant = {"1.0": "a:b\\n", "1.1": "a:\\b\n", "1.2": "a:\r\\\n"}[version]
        headers = {"odd": said, "content_type": "x/y", "transformation": "x", "session": "s0", "JMSXUserID": "root"}
        await hall.ask(ann, "/app/a", b"\0\xff", user_id="ann", **headers)
        await hall.ask(guest, "/app/a", user_id="anonymous", **headers)
        request = seen[0]
        assert (request.body, request.headers["odd"], request.headers["content-type"]) == (b"\0\xff", meant, "x/y")
        assert not {"ack", "subscription", "content-length"} & request.headers.keys()
        assert [(each.user, each.session) for each in seen] == [("ann", sessions[0]), (sessions[1], sessions[1])]
        await ann.publish("/app/a", user_id="root")
        assert (await ann.at_end_after_error())["message"] == "user-id of another user"

    async def test_without_a_function(self, handlers: Handlers, make_hall: MakeHall) -> None:
        """Clients cannot use the queues of functions: a client could then set another user's name."""
        gate = Gate()
        handlers.send("/app/a")(gate.pass_through)
        handlers.subscribe("/app/a")(gate.pass_through)
        hall = make_hall().begin()
        for destination in ("/app/nobody", "/app/a/b", "/handlers/send/a", "/handlers/subscribe/a"):
            kind = "no function for this destination" if "/app/" in destination else "unsupported kind of destination"
            for command in ("SEND", "SUBSCRIBE"):
                client = await hall.client()
                await client.send_frame(command, destination=destination, id=1, receipt="r")
                error = await client.at_end_after_error()
                assert (error["message"], error["receipt-id"]) == (kind, "r")
        assert not gate.begun


async def test_subscribe_is_answered_with_one_message(handlers: Handlers, make_hall: MakeHall) -> None:
    """Which can be acknowledged; and nothing is left behind."""

    @handlers.subscribe("/app/prices/{symbol}")
    async def prices(request: Request, symbol: str) -> str:
        assert request.is_subscribe
        assert request.body == b""
        return f"{symbol} for {request.user}"

    hall = make_hall(max_subscriptions=3, max_destinations=10).begin()
    client = await hall.client(login="ann")
    for _ in range(20):
        await client.send_frame("SUBSCRIBE", destination="/app/prices/x", id=9, ack="client")
        message = await client.frame("MESSAGE")
        assert (message.body, message["destination"], message["subscription"]) == (b"x for ann", "/app/prices/x", "9")
        await client.send_frame("ACK", id=message["ack"])
        await client.send_frame("UNSUBSCRIBE", id=9)
    await client.settled()  # and no other one
    assert not hall.harness.broker.memory.used


class TestFailures:
    async def test_retries_and_then_a_dead_letter(
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

    @pytest.mark.parametrize(
        ("ending", "reason", "why"),
        [
            ("reject", "no such customer", "rejected"),
            ("reject in lines", r"a b\c\\x00c\\ud800", "rejected"),
            ("hang", "timeout after 5 s", "max-attempts"),
            ("wrong type", "PydanticSerializationError", "max-attempts"),
            *((destination, "CannotSend", "max-attempts") for destination in ("/topic/*", "/app/nobody", "/nowhere")),
        ],
    )
    async def test_the_reason_of_a_dead_letter(
        self, handlers: Handlers, make_hall: MakeHall, autojump_clock: MockClock, ending: str, reason: str, why: str
    ) -> None:
        gate = Gate()

        @handlers.send("/app/a", timeout=5.0)
        async def function(request: Request) -> object:
            request.send("/topic/a", "never sent")
            if ending.startswith("/"):
                request.send(ending)
            if ending == "hang":
                await gate.pass_through(request)
            if ending == "wrong type":
                return object()
            raise Reject("no such customer" if ending == "reject" else "a\nb:\0c\ud800")

        hall = make_hall({"/handlers/send/#": {"dead_letter": "/queue/dead", "max_attempts": 1}}).begin()
        session = hall.runner.session
        client = await hall.client()
        await client.subscribe("/topic/a")
        await client.subscribe("/queue/dead", id=2)
        began = trio.current_time()
        await client.publish("/app/a", b"x", reply_to="/queue/r")
        letter = await client.frame("MESSAGE")
        assert (letter["reason"], letter["dlq-reason"], letter["dlq-attempts"]) == (reason, why, "1")
        assert trio.current_time() == pytest.approx(began + 5.0 * (ending == "hang"), abs=0.1)
        assert gate.cancelled == (ending == "hang")
        assert hall.runner.session is session
        await client.settled()


class TestConcurrency:
    async def test_no_more_than_the_concurrency(self, handlers: Handlers, make_hall: MakeHall) -> None:
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
        assert hall.harness.broker.context.waiting == 7 + 9
        await gate.open()
        assert gate.begun == [b"0", b"1", b"2", b"3", b"4", b"5"]
        assert (gate.running, other.running) == (3, 1)
        while other.running:
            await other.open()
        assert other.begun == [str(number).encode() for number in range(10)]

    async def test_functions_without_await_do_not_block_the_loop(self, handlers: Handlers, make_hall: MakeHall) -> None:
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

    async def test_a_slow_consumer_blocks_its_function(
        self, handlers: Handlers, make_hall: MakeHall, autojump_clock: MockClock
    ) -> None:
        """Like a client that publishes: until the consumer reads, or for `slow_consumer_timeout`."""
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
        assert len(begun) == 2  # the second message was too much
        pipe.open(60_000)
        await reader.frame("MESSAGE")
        await wait_all_tasks_blocked()
        assert len(begun) == 3
        assert begun[-1] == begun[0]


class TestSession:
    async def test_an_operator_ends_it(
        self, handlers: Handlers, make_hall: MakeHall, autojump_clock: MockClock
    ) -> None:
        """Running functions are cancelled, and their messages are redelivered to the next session."""
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
        assert not hall.harness.broker.memory.used

    async def test_a_frame_that_it_cannot_read(
        self, handlers: Handlers, make_hall: MakeHall, autojump_clock: MockClock
    ) -> None:
        """A fault of the gateway is logged, costs a second, and ends no other session."""

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

    async def test_a_new_session_over_the_limits(
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


class TestFinish:
    async def begun(self, hall: Hall, gate: Gate) -> Peer:
        """One request runs, and another one waits."""
        client = await hall.begin().client()
        for body in (b"1", b"2"):
            await client.publish("/app/a", body)
        await client.settled()
        assert gate.running == 1
        return client

    async def test_unfinished_functions_are_cancelled(
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
        assert hall.harness.broker.context.waiting == 2  # not counted as an attempt
        assert hall.runner.session.id not in hall.harness.broker.sessions
