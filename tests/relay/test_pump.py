"""One direction, between a gateway and servers that do as the test says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.client import ServerError, StompServer
from gateway.codec import V12, Decoder, Frame, Head, Limits
from gateway.codec.encoder import frame
from gateway.relay import settings
from gateway.relay.pump import MOST_HOPS, Loop, Pump, onward
from gateway.relay.settings import RelayPlan, make
from tests.gateway_process import HOST
from tests.logged_command import eventually

from .relaying import Listener, Reader, at, relaying, send, waiting

Answer = Callable[[Frame], bytes]
CONNECTED = b"CONNECTED\nversion:1.2\nserver:foreign/1\n\n\0"


def receipt(sent: Frame) -> bytes:
    return frame("RECEIPT", {"receipt-id": sent.headers["receipt"]}, version=V12)


class Foreign(Listener):
    """A server that answers each SEND as it is told to, and closes behind an ERROR.

    Attributes:
        sent: the bodies of all SENDs that it has seen.
        receipts: how many of them asked for one.
    """

    def __init__(self, answer: Answer, connected: bytes = CONNECTED) -> None:
        self.sent: list[str] = []
        self.receipts = 0
        self._answer = answer
        self._connected = connected
        super().__init__()
        self.where = at(self.port)

    def meet(self, connection: socket.socket) -> None:
        decoder = Decoder(Limits(origin=""))
        while chunk := connection.recv(65_536):
            decoder.feed(chunk)
            for each in decoder.frames():
                answer = self._to(each, decoder)
                connection.sendall(answer)
                if answer.startswith(b"ERROR"):
                    return

    def _to(self, each: Frame, decoder: Decoder) -> bytes:
        if each.command == "CONNECT":
            decoder.begin(V12, Limits(origin=""))
            return self._connected
        if each.command == "SEND":
            self.sent.append(each.body.decode())
            self.receipts += "receipt" in each.headers
            return self._answer(each)
        return receipt(each) if "receipt" in each.headers else b""


@contextmanager
def foreign(answer: Answer, connected: bytes = CONNECTED) -> Iterator[Foreign]:
    server = Foreign(answer, connected)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def pumping(source: StompServer, target: StompServer, *destinations: str) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=Pump(settings.make(source, target, destinations), stop).run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_each_asks_for_a_receipt_of_its_own_at_a_foreign_server(source: StompServer, name: str) -> None:
    """There, one says nothing of those before it."""
    send(source, f"/queue/{name}", ["1", "2", "3"])
    with foreign(receipt) as target:
        with pumping(source, target.where, f"/queue/{name}"):
            eventually(lambda: target.sent == ["1", "2", "3"])
        assert target.receipts == 3
    assert waiting(source, f"/queue/{name}") == []


def test_what_is_confirmed_is_not_sent_again(source: StompServer, name: str) -> None:
    def answer(sent: Frame) -> bytes:
        return frame("ERROR", {"message": "bad"}, version=V12) if sent.body == b"3" else receipt(sent)

    send(source, f"/queue/{name}", ["1", "2", "3", "4"])
    with foreign(answer) as target, pumping(source, target.where, f"/queue/{name}"):
        eventually(lambda: "4" in target.sent)
        assert target.sent.count("1") == target.sent.count("2") == target.sent.count("4") == 1
    assert [body for _, body in waiting(source, f"/queue/dlq.{name}")] == ["3"]


@pytest.mark.parametrize("message", ["the store cannot be written", "memory limit reached", "session ended"])
def test_what_is_not_the_messages_fault(message: str, source: StompServer, name: str) -> None:
    """It is waited for, however often."""
    answers = [frame("ERROR", {"message": message}, version=V12)] * 4

    def answer(sent: Frame) -> bytes:
        return answers.pop() if answers else receipt(sent)

    send(source, f"/queue/{name}", ["1"])
    with foreign(answer) as target, pumping(source, target.where, f"/queue/{name}"):
        eventually(lambda: target.sent == ["1"] * 5)
    assert waiting(source, f"/queue/dlq.{name}") == []


def test_nothing_is_acknowledged_without_a_receipt(source: StompServer, name: str) -> None:
    """Not even when the target has it: the connection breaks before it says so."""
    send(source, f"/queue/{name}", ["1", "2"])
    ending = frame("ERROR", {"message": "x", "retry-after": "1"}, version=V12)
    with foreign(lambda _: ending) as target, pumping(source, target.where, f"/queue/{name}"):
        eventually(lambda: len(target.sent) > 3)
    reader = Reader(source, f"/queue/{name}")
    assert reader.until(2) == ["1", "2"]
    reader.client.disconnect()


@pytest.mark.long
def test_a_target_that_never_confirms_does_not_hold_up_the_end(source: StompServer, name: str, tmp_path: Path) -> None:
    send(source, f"/queue/{name}", ["1", "2"])
    with foreign(lambda _: b"") as target:
        urls = ("--from", f"stomp://{HOST}:{source.port}", "--to", f"stomp://{HOST}:{target.where.port}")
        with relaying(tmp_path, *urls, f"/queue/{name}") as relay:
            eventually(lambda: "1" in target.sent, lambda: relay.log)
    eventually(lambda: [body for _, body in waiting(source, f"/queue/{name}")] == ["1", "2"])


def test_a_source_that_cannot_acknowledge_one_by_one(target: StompServer) -> None:
    with foreign(receipt, b"CONNECTED\n\n\0") as source:
        pump = Pump(settings.make(source.where, target, ["/queue/a"]), threading.Event())
        with pytest.raises(ServerError, match=r"speaks STOMP 1\.0, which cannot acknowledge one by one"):
            pump.run()


PLAN = make(StompServer("one"), StompServer("two"), ["/queue/a", "/topic/b.>", "/topic/c.>=/queue/c"], name="here")
MESSAGE = {"message-id": "m1", "destination": "/queue/a", "subscription": "/queue/a", "ack": "a1"}


def sent(route: int = 0, plan: RelayPlan = PLAN, **headers: str) -> dict[str, str]:
    named = {name if name.startswith("_") else name.replace("_", "-"): value for name, value in headers.items()}
    return onward(Frame(Head.of("MESSAGE", MESSAGE | named), b""), plan, plan.routes[route])


def test_what_stays_behind_and_what_goes_on() -> None:
    delivery = {"redelivered": "true", "delivery_count": "2", "receipt": "r", "transaction": "t", "user_id": "u"}
    assert sent(**delivery, content_length="0").keys() == {"destination", "relayed", "dedup-id"}
    own = {"x": "1", "priority": "4", "correlation-id": "c", "reply-to": "/queue/r", "expires": "1"}
    assert own.items() <= sent(**own).items()
    assert "reply-to" not in sent(reply_to="/temp-queue/r"), "it would name a destination of the relay"


@pytest.mark.parametrize(
    ("route", "destination", "target"),
    [(0, "/queue/other", "/queue/a"), (1, "/topic/b.x", "/topic/b.x"), (2, "/topic/c.x", "/queue/c")],
)
def test_where_it_goes(route: int, destination: str, target: str) -> None:
    assert sent(route, destination=destination)["destination"] == target


def test_dedup_ids() -> None:
    first = sent(redelivered="false", ack="a1")["dedup-id"]
    assert first == sent(redelivered="true", ack="a2")["dedup-id"] == sent(dedup_id="")["dedup-id"]
    assert 1 <= len(first) <= 1000
    elsewhere = make(StompServer("three"), StompServer("two"), ["/queue/a"], name="here")
    others = [sent(message_id="m2"), sent(destination="/queue/b"), sent(plan=elsewhere)]
    assert len({first, *[each["dedup-id"] for each in others]}) == 4
    assert sent(dedup_id="mine")["dedup-id"] == "mine"
    assert "dedup-id" not in sent(_AMQ_DUPL_ID="mine")


def test_hops() -> None:
    assert sent()["relayed"] == "here"
    assert sent(relayed="a,b")["relayed"] == "a,b,here"
    with pytest.raises(Loop, match="has passed the relay here before"):
        sent(relayed="a,here,b")
    passed = [f"r{number}" for number in range(MOST_HOPS)]
    assert sent(relayed=",".join(passed[1:]))["relayed"].endswith(",here")
    with pytest.raises(Loop, match=f"{MOST_HOPS} may be"):
        sent(relayed=",".join(passed))
