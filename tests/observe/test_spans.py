"""Spans on their way: what they say, and what happens when nobody takes them."""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Sequence

import pytest
import structlog.testing
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from gateway.observe.metrics import of_spans
from gateway.observe.spans import MOST_PER_SECOND, QUEUE, Spans
from gateway.observe.tracing import GatewaySpan, Mark

CONTEXT = f"00-{'a' * 32}-{'b' * 16}-01"


class Failing(SpanExporter):
    """Takes nothing until `mended`; says why to its log, or breaks."""

    def __init__(self, *, breaks: bool = False) -> None:
        self.mended = False
        self.breaks = breaks

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self.mended:
            return SpanExportResult.SUCCESS
        if self.breaks:
            raise ZeroDivisionError("why")
        logging.getLogger("opentelemetry.exporter.some").error("code %s", 404)
        return SpanExportResult.FAILURE


class Stuck(SpanExporter):
    """A collector that does not answer until it is `let_go`."""

    def __init__(self) -> None:
        self.asked, self.let_go = threading.Event(), threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.asked.set()
        self.let_go.wait(20)
        return SpanExportResult.SUCCESS


def mark(operation: str = "send", destination: str = "/queue/a", **facts: str | int) -> Mark:
    return Mark(operation, CONTEXT, "c" * 16, "v=1", 1_000, 2_000, destination, "s1", 7, 5, facts)


def sending(exporter: SpanExporter) -> Spans:
    return Spans(exporter, "gw", lambda: "run", lambda: 0)


def sent(*marks: Mark | GatewaySpan) -> tuple[ReadableSpan, ...]:
    exporter = InMemorySpanExporter()
    spans = sending(exporter)
    for each in marks:
        spans.tell(each)
    spans.start()
    spans.close(20.0)
    return exporter.get_finished_spans()


class TestSpans:
    def test_a_send_is_a_child_of_its_sender(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
        (span,) = sent(mark())
        assert (span.name, span.kind) == ("send /queue/a", SpanKind.PRODUCER)
        assert span.context is not None
        assert f"{span.context.span_id:x}" == "b" * 16
        assert span.context.trace_state.to_header() == "v=1"
        assert span.parent is not None
        assert f"{span.parent.span_id:x}" == "c" * 16
        assert span.attributes is not None
        assert span.attributes["messaging.message.id"] == "run-7"
        assert span.attributes["messaging.client.id"] == "s1"
        assert (span.start_time or 0) + 1_000 == span.end_time
        assert span.resource.attributes["service.name"] == "shop"

    @pytest.mark.parametrize(("operation", "kind"), [("ack", "settle"), ("nack", "settle"), ("deliver", None)])
    def test_others_are_children_of_the_send(self, operation: str, kind: str | None) -> None:
        marked = mark(operation, "/reply-queue/(temporary)", **{"gateway.attempt": 2})
        (span,) = sent(marked._replace(parent="", client=""))
        assert (span.name, span.kind) == (f"{operation} (temporary)", SpanKind.INTERNAL)
        assert span.parent is not None
        assert f"{span.parent.span_id:x}" == "b" * 16
        assert span.context is not None
        assert span.context.span_id != span.parent.span_id
        assert span.attributes is not None
        assert span.attributes.get("messaging.operation.type") == kind
        assert span.attributes["gateway.attempt"] == 2
        assert "messaging.client.id" not in span.attributes
        assert span.attributes["messaging.destination.temporary"] is True


def test_spans_of_the_gateway_itself() -> None:
    trace, root = "a" * 32, "b" * 16
    whole = GatewaySpan("take over", trace, root, "", 1_000, 5_000, {"gateway.epoch": 3})
    part = GatewaySpan("log", trace, "c" * 16, root, 2_000, 3_000, {})
    first, second = sent(whole, part)
    assert (first.name, first.parent, dict(first.attributes or {})) == ("take over", None, {"gateway.epoch": 3})
    assert second.parent is not None
    assert (second.parent.span_id, second.context.trace_id) == (int(root, 16), int(trace, 16))
    assert (first.end_time or 0) - (first.start_time or 0) == 4_000


def test_the_loop_need_not_wait_for_a_batch() -> None:
    before = sys.getswitchinterval()
    spans = sending(InMemorySpanExporter())
    spans.start()
    assert sys.getswitchinterval() < before
    spans.close(20.0)
    assert sys.getswitchinterval() == before


class TestFailure:
    def test_the_queue_is_bounded_and_the_loop_never_waits(self) -> None:
        exporter = Stuck()
        spans = sending(exporter)
        spans.start()
        for _ in range(64):
            spans.tell(mark())
        assert exporter.asked.wait(20)
        for _ in range(QUEUE + 10_000):
            spans.tell(mark())
        assert 10_000 - 64 <= spans.dropped <= 10_000
        with structlog.testing.capture_logs() as lines:
            spans.close(0.0)
        assert [(line["event"], line["reason"]) for line in lines] == [("spans are lost", "the collector is slow")]
        exporter.let_go.set()
        spans._thread.join(20)

    def test_so_many_messages_a_second(self) -> None:
        spans = sending(Failing())
        second = 1_000_000_000
        assert all(spans.may(5 * second + each) for each in range(MOST_PER_SECOND))
        assert not spans.may(6 * second - 1)
        assert spans.may(6 * second)
        assert spans.left_out == 1

    def test_one_line_when_it_begins_and_one_when_it_ends(self) -> None:
        """What the exporter says goes nowhere else, and the metrics have the numbers."""
        exporter, stream = Failing(), io.StringIO()
        spans, handler = sending(exporter), logging.StreamHandler(stream)
        logging.getLogger().addHandler(handler)
        try:
            with structlog.testing.capture_logs() as lines:
                for _ in range(2):
                    spans._send([mark()])
                spans.tell(mark())
                assert (spans.failure, spans.dropped, spans.sent) == ("code 404", 2, 0)
                families = [*of_spans(spans)]
                exporter.mended = True
                for _ in range(2):
                    spans._send([mark()])
        finally:
            logging.getLogger().removeHandler(handler)
        assert (spans.failure, spans.dropped, spans.sent) == ("", 2, 2)
        assert [line["event"] for line in lines] == ["spans cannot be sent for now", "spans are sent again"]
        assert (lines[0]["reason"], lines[1]["dropped"]) == ("code 404", 2)
        assert stream.getvalue() == ""
        assert {sample.name: sample.value for family in families for sample in family.samples} == {
            "gateway_spans_sent_total": 0,
            "gateway_spans_dropped_total": 2,
            "gateway_messages_untraced_total": 0,
            "gateway_spans_waiting": 1,
            "gateway_spans_failed": 1,
        }

    def test_an_exporter_that_breaks_ends_nothing(self) -> None:
        spans = sending(Failing(breaks=True))
        with structlog.testing.capture_logs() as lines:
            for _ in range(2):
                spans._send([mark()])
        assert [line["event"] for line in lines] == ["spans cannot be made", "spans cannot be sent for now"]
        assert spans.dropped == 2
