"""Traces: who is traced, what a message carries, and what is told of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from time import monotonic_ns

import pytest

from gateway.broker import Broker, Session
from gateway.broker.core.ports import NullRecorder
from gateway.broker.model.patterns import Pattern
from gateway.broker.model.policy import Policies, WhenFull
from gateway.codec import V12, Frame, Head
from gateway.observe.tracing import Mark, Traced, is_traceparent, shown
from tests.observe.everything import Carrier

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{PARENT}-01"


@dataclass
class Scene:
    policies: Policies = field(default_factory=Policies)
    ratio: float = 0.0
    marks: list[Mark] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.broker = Broker(policies=self.policies, clock=lambda: self.now)
        self.broker.records = Traced(
            self.broker, NullRecorder(monotonic_ns), self.ratio, self.marks.append, random=Random(7)
        )

    def session(self) -> Session:
        return self.broker.open_session(V12, "bob", peer="p", transport="tcp", connected_at=0.0, carrier=Carrier())

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.broker.scheduler.tick()
        self.broker.scheduler.proceed()

    @property
    def told(self) -> list[str]:
        return [mark.operation for mark in self.marks]


def handle(session: Session, command: str, body: bytes = b"", /, **headers: object) -> None:
    named = {name.replace("_", "-"): str(value) for name, value in headers.items()}
    session.handle(Frame(Head.of(command, named), body))


def received(session: Session) -> str:
    return b"".join(session.outbox.take()).decode()


class TestSampling:
    @pytest.mark.parametrize(
        ("text", "valid"),
        [
            (SAMPLED, True),
            (f"cc-{TRACE}-{PARENT}-01-what-comes-later", True),
            (f"cc-{TRACE}-{PARENT}-01", True),
            (f"cc-{TRACE}-{PARENT}-01.what", False),
            (f"00-{TRACE}-{PARENT}-01-more", False),
            (f"ff-{TRACE}-{PARENT}-01", False),
            (f"00-{'0' * 32}-{PARENT}-01", False),
            (f"00-{TRACE}-{'0' * 16}-01", False),
            (SAMPLED.upper(), False),
            (f"00-{TRACE}-{PARENT}-0\u0661", False),
            (SAMPLED + "\n", False),
            ("", False),
        ],
    )
    def test_what_can_be_understood(self, text: str, valid: bool) -> None:
        assert is_traceparent(text) == valid

    @pytest.mark.parametrize(
        ("given", "ratio", "count"),
        [
            (SAMPLED, 0.0, 1),
            (f"00-{TRACE}-{PARENT}-03", 0.0, 1),
            (f"00-{TRACE}-{PARENT}-02", 1.0, 0),
            ("nonsense", 1.0, 1),
            ("nonsense", 0.0, 0),
        ],
    )
    def test_the_flag_decides_and_else_the_ratio(self, given: str, ratio: float, count: int) -> None:
        """What is not traced goes through as it is."""
        scene = Scene(ratio=ratio)
        session = scene.session()
        handle(session, "SUBSCRIBE", id=1, destination="/queue/a")
        handle(session, "SEND", destination="/queue/a", traceparent=given, tracestate="a=b")
        assert scene.told == ["send", "deliver"] * count
        assert (f"traceparent:{given}\ntracestate:a=b\n" in received(session)) is (count == 0)

    def test_a_message_beyond_the_limit_goes_through_untouched(self) -> None:
        scene, asked = Scene(), []
        scene.broker.records = Traced(
            scene.broker,
            NullRecorder(monotonic_ns),
            1.0,
            scene.marks.append,
            lambda now: not asked.append(now) and len(asked) < 2,  # type: ignore[func-returns-value]
        )
        session = scene.session()
        handle(session, "SUBSCRIBE", id=1, destination="/queue/a")
        received(session)
        for _ in range(2):
            handle(session, "SEND", destination="/queue/a", traceparent=SAMPLED)
        first, second = received(session).split("\0")[:2]
        assert (SAMPLED in first, SAMPLED in second) == (False, True)


class TestWhatAMessageCarries:
    def test_the_same_trace_and_the_flags_of_its_sender(self) -> None:
        scene = Scene()
        session = scene.session()
        handle(session, "SUBSCRIBE", id=1, destination="/queue/a")
        handle(
            session, "SEND", destination="/queue/a,/queue/b", traceparent=f"00-{TRACE}-{PARENT}-03", tracestate="a=b"
        )
        first, second = [mark for mark in scene.marks if mark.operation == "send"]
        assert (first.destination, second.destination) == ("/queue/a", "/queue/b")
        assert first.context != second.context, "each destination has its own span"
        assert first.context.startswith(f"00-{TRACE}-")
        assert first.context.endswith("-03")
        assert (first.parent, first.state) == (PARENT, "a=b")
        text = received(session)
        assert f"traceparent:{first.context}\n" in text
        assert "tracestate:a=b\n" in text
        assert PARENT not in text

    def test_frames_that_share_a_head_are_traces_of_their_own(self) -> None:
        scene = Scene(ratio=1.0)
        session = scene.session()
        head = Head.of("SEND", {"destination": "/queue/a"})
        for _ in range(2):
            session.handle(Frame(head, b""))
        assert "traceparent" not in head.headers
        assert len({mark.context[3:35] for mark in scene.marks}) == 2


class TestWhatIsTold:
    def test_of_a_rejected_message_until_it_is_a_dead_letter(self) -> None:
        scene = Scene(Policies([(Pattern("/queue/a"), {"max_attempts": 2, "backoff": 0.0})]))
        session = scene.session()
        handle(session, "SUBSCRIBE", id=1, destination="/queue/a", ack="client-individual")
        handle(session, "SEND", b"hello", destination="/queue/a", traceparent=SAMPLED)
        for _ in range(2):
            handles = [line[4:] for line in received(session).splitlines() if line.startswith("ack:")]
            handle(session, "NACK", id=handles[-1])
            scene.wait(60.0)
        assert scene.told == ["send", "deliver", "nack", "deliver", "nack", "dead-letter"]
        attempts = [mark.facts["gateway.attempt"] for mark in scene.marks if mark.operation == "deliver"]
        assert attempts == [1, 2]
        assert scene.marks[-1].facts == {"gateway.reason": "max-attempts"}
        assert len({mark.context for mark in scene.marks}) == 1
        handle(session, "SUBSCRIBE", id=2, destination="/queue/dlq.a")
        assert scene.marks[-1].operation == "deliver"
        assert scene.marks[-1].destination == "/queue/dlq.a"
        assert len({mark.context for mark in scene.marks}) == 1

    def test_of_a_topic_one_span_with_the_number_of_its_receivers(self) -> None:
        scene = Scene()
        sessions = [scene.session() for _ in range(3)]
        for session in sessions:
            handle(session, "SUBSCRIBE", id=1, destination="/topic/a")
        handle(sessions[0], "SEND", destination="/topic/a", traceparent=SAMPLED)
        assert scene.told == ["send", "deliver"]
        assert scene.marks[1].facts == {"gateway.receivers": 3}
        assert scene.marks[1].destination == "/topic/a"

    def test_of_what_has_no_room_and_of_what_expires(self) -> None:
        scene = Scene(Policies([(Pattern("/queue/a"), {"max_messages": 1, "when_full": WhenFull.DROP_OLDEST})]))
        session = scene.session()
        for _ in range(2):
            handle(session, "SEND", destination="/queue/a", traceparent=SAMPLED, expires=1_000)
        assert scene.told == ["send", "send", "drop"]
        scene.wait(60.0)
        assert scene.told[3:] == ["expire"]

    def test_untraced_messages_are_not_told(self) -> None:
        scene = Scene(Policies([(Pattern("/queue/a"), {"max_attempts": 1})]))
        session = scene.session()
        handle(session, "SUBSCRIBE", id=1, destination="/queue/a", ack="client")
        handle(session, "SEND", destination="/queue/a")
        (ack,) = [line[4:] for line in received(session).splitlines() if line.startswith("ack:")]
        handle(session, "NACK", id=ack)
        handle(session, "SEND", destination="/queue/b", expires=1_000)
        scene.wait(60.0)
        assert (scene.broker.counters.expired, scene.broker.counters.dead_lettered) == (1, 1)
        assert scene.marks == []

    def test_long_texts_of_clients_are_not_kept(self) -> None:
        scene = Scene()
        session = scene.session()
        handle(session, "SUBSCRIBE", id=1, destination="/queue/a")
        handle(session, "SEND", destination="/queue/a", traceparent=SAMPLED, tracestate="a" * 513)
        assert scene.marks[0].state == ""
        assert "a" * 513 in received(session)
        assert len(shown("/queue/" + "x" * 60_000)) == 256

    def test_a_reply_does_not_show_where_it_goes(self) -> None:
        scene = Scene()
        session = scene.session()
        handle(session, "SUBSCRIBE", id=1, destination="/temp-queue/x")
        handle(session, "SEND", destination="/temp-queue/x", traceparent=SAMPLED)
        assert scene.told == ["send", "deliver"]
        assert {mark.destination for mark in scene.marks} == {"/reply-queue/(temporary)"}
