"""Requests: the message that a function reads, and the messages that it sends.

The clients of a scene see the messages of a request only after `carry_out`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio

from gateway.codec import Frame, Head
from gateway.handlers import CannotSend, Reject, Request
from gateway.handlers.request import Body
from tests.broker.client import Client, Scene

STAMPED = {"user-id": "ann", "session": "s1", "message-id": "m-1", "ack": "1-1", "subscription": "0"}


class Functions:
    """An application with one function, for all names that start with `/app/a`."""

    def queue_of_send(self, name: str) -> str | None:
        return "/handlers/send/a" if name.startswith("/app/a") else None

    def queue_of_subscribe(self, name: str) -> str | None:
        raise NotImplementedError


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene(max_outbound=100_000, memory_limit=1_000_000, max_destinations=5, max_delayed=1)
    scene.broker.context.application = Functions()
    yield scene
    scene.finish()


@pytest.fixture
def reader(scene: Scene) -> Client:
    client = scene.connect()
    client.subscribe("/topic/a")
    return client


def request_of(scene: Scene, body: bytes = b"", *, is_subscribe: bool = False, **headers: str) -> Request:
    said = {"destination": "/app/x", **STAMPED, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return Request(scene.broker, Frame(Head.of("MESSAGE", said), body), is_subscribe=is_subscribe)


def carry_out(scene: Scene, request: Request) -> None:
    request.check()
    request.carry_out()
    request.close()
    scene.settle()


class TestReading:
    async def test_attributes(self, scene: Scene) -> None:
        request = request_of(scene, b"body", reply_to="/queue/r", kind="k")
        assert (request.destination, request.body, request.text) == ("/app/x", b"body", "body")
        assert (request.user, request.session, request.message_id) == ("ann", "s1", "m-1")
        assert (request.reply_to, request.attempt, request.is_subscribe) == ("/queue/r", 1, False)
        stamped = {"destination": "/app/x", "user-id": "ann", "session": "s1", "message-id": "m-1"}
        assert dict(request.headers) == {**stamped, "reply-to": "/queue/r", "kind": "k"}
        with pytest.raises(TypeError):
            request.headers["a"] = "b"  # type: ignore[index]
        later = request_of(scene, b'{"a": [1]}', redelivered="true", delivery_count="3")
        assert (later.attempt, later.reply_to, later.json()) == (3, None, {"a": [1]})

    async def test_a_body_of_another_kind_is_rejected(self, scene: Scene) -> None:
        for body in (b"{", b"\xff", b"[" * 100_000):
            with pytest.raises(Reject, match="the body is not"):
                request_of(scene, body).json()
        with pytest.raises(Reject, match="the body is not UTF-8"):
            _ = request_of(scene, b"\xff").text


class TestSending:
    @pytest.mark.parametrize("body", ["grüße", bytearray(b"gr\xc3\xbc\xc3\x9fe")])
    async def test_sent_after_the_function_has_returned(self, scene: Scene, reader: Client, body: Body) -> None:
        request = request_of(scene)
        request.send("/topic/a", body, {"kind": "k"})
        scene.broker.scheduler.proceed()
        assert reader.received() == []
        carry_out(scene, request)
        message = reader.message()
        assert message.body == "grüße".encode()
        assert (message.headers["destination"], message.headers["kind"]) == ("/topic/a", "k")
        assert not {"user-id", "session"} & message.headers.keys()

    async def test_a_function_that_failed_has_sent_nothing(self, scene: Scene, reader: Client) -> None:
        request = request_of(scene)
        request.send("/topic/a", b"x")
        request.send("/queue/b", b"x")
        assert scene.broker.memory.used
        request.close()
        scene.settle()
        assert reader.received() == []
        assert not scene.broker.memory.used
        assert "/queue/b" not in scene.broker.destinations

    async def test_another_function_gets_the_user_of_the_request(self, scene: Scene, reader: Client) -> None:
        """Whatever the function sets; other destinations get the headers of the function."""
        request = request_of(scene)
        request.send("/topic/a,/app/a", b"", {"user-id": "root", "session": "s0", "kind": "k"})
        carry_out(scene, request)
        other = scene.connect(transport="internal")
        other.subscribe("/handlers/send/a")
        headers = other.message().headers
        assert {name: headers[name] for name in ("user-id", "session", "kind")} == {
            "user-id": "ann",
            "session": "s1",
            "kind": "k",
        }
        assert reader.message().headers["user-id"] == "root"

    async def test_what_is_kept_counts(self, scene: Scene) -> None:
        """A function cannot collect more than the memory limit."""
        request = request_of(scene)
        while scene.broker.memory.used < 1_000_000:
            request.send("/topic/a", b"x" * 20_000)
        with pytest.raises(
            CannotSend, match=r"memory limit reached: kept messages cost 1,0\d\d,\d{3} bytes, 1,000,000 may"
        ):
            request.send("/topic/a")
        request.close()
        assert not scene.broker.memory.used

    async def test_other_messages_may_have_come_first(self, scene: Scene) -> None:
        """Each message is checked when it is sent, and all together at the end."""
        first, second = request_of(scene), request_of(scene)
        for request in (first, second):
            request.send("/topic/a", b"", {"x-delay": "10"})
        first.carry_out()
        with pytest.raises(CannotSend, match="too many delayed messages: the server may keep 1"):
            second.check()
        second.close()
        scene.wait(0.1)


class TestRefusals:
    @pytest.mark.parametrize(
        ("destination", "headers", "why"),
        [
            ("/topic/*", {}, "wildcard in a name"),
            ("/nowhere/a", {}, "unsupported kind of destination: '/nowhere/a' is of no known kind"),
            ("/handlers/send/a", {}, "unsupported kind of destination"),
            ("/app/nobody", {}, "no function for this destination"),
            ("/topic/a", {"priority": "high"}, "priority"),
            ("/topic/a", {"AMQ_SCHEDULED_CRON": "* * *"}, "bad value of AMQ_SCHEDULED_CRON"),
            ("/topic/a", {"exclusive": "true"}, "exclusive is not supported"),
            ("/topic/a", {"reply-to": "/temp-queue/a"}, "functions have no temporary destinations"),
            ("/topic/a", {"transaction": "t"}, "a function cannot set the header 'transaction'"),
            ("/topic/a", {"k": "a\0b"}, "no frame can hold the header 'k'"),
            ("/topic/a", {"k": "\ud800"}, "no frame can hold the header 'k'"),
            ("/topic/a", {"k": "x" * 50_000}, "message too large: it must fit into half of max_outbound, 50000 bytes"),
        ],
    )
    async def test_the_function_gets_the_error(
        self, scene: Scene, reader: Client, destination: str, headers: dict[str, str], why: str
    ) -> None:
        request = request_of(scene)
        with pytest.raises(CannotSend) as refusal:
            request.send(destination, b"x", headers)
        assert why in str(refusal.value)
        carry_out(scene, request)
        assert reader.received() == []

    async def test_after_the_function_has_returned_and_in_a_thread(self, scene: Scene) -> None:
        """In a thread the broker would be changed by two at once."""
        request = request_of(scene, reply_to="/queue/r")
        with pytest.raises(RuntimeError, match="a thread cannot use the broker"):
            await trio.to_thread.run_sync(request.send, "/topic/a")
        request.close()
        for use in (lambda: request.send("/topic/a"), request.reply):
            with pytest.raises(RuntimeError, match="the function has returned"):
                use()


class TestReply:
    async def test_to_where_the_client_wants_it(self, scene: Scene) -> None:
        client = scene.connect()
        client.subscribe("/queue/r")
        request = request_of(scene, reply_to="/queue/r", correlation_id="7")
        request.reply("one", {"kind": "k"})
        request.reply(b"two", {"correlation-id": "mine"})
        carry_out(scene, request)
        one, two = client.messages()
        assert (one.body, one.headers["correlation-id"], one.headers["kind"]) == (b"one", "7", "k")
        assert (two.body, two.headers["correlation-id"]) == (b"two", "mine")
        assert one.headers["destination"] == "/queue/r"

    @pytest.mark.parametrize("reply_to", ["/nowhere/a", "/topic/#", "", "/queue/r,/nowhere/a", "/temp-queue/x"])
    async def test_what_is_no_destination_never_will_be(self, scene: Scene, reply_to: str) -> None:
        request = request_of(scene, reply_to=reply_to)
        with pytest.raises(Reject, match="reply-to: "):
            request.reply("one")

    async def test_a_subscriber_sees_what_it_subscribed(self, scene: Scene, reader: Client) -> None:
        request = request_of(scene, is_subscribe=True, destination="/app/prices", reply_to="/topic/a")
        request.reply("[]", {"kind": "k"})
        carry_out(scene, request)
        message = reader.message()
        assert (message.body, message.headers["destination"], message.headers["kind"]) == (b"[]", "/app/prices", "k")
