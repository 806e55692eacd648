"""Spans on their way to a collector of OpenTelemetry: the loop queues marks, a thread sends them.

    loop     `tell` puts a mark into the queue, or counts it as dropped if the queue is full
    thread   once a second, or when there are many: marks -> spans -> OTLP over HTTP

A slow or missing collector costs the gateway these spans only, and one line of the log when that begins and ends.

The packages of the extra `otel` are needed; they read `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME` and so on.
"""

import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Self

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.span import TraceState

import gateway

from .tracing import GatewaySpan, Mark

log = structlog.get_logger("gateway.tracing")

QUEUE = 8_192  # most spans that wait: each has some 500 bytes, and a second of 2,000 traced messages has fewer
MOST_PER_SECOND = 1_000  # most traced messages: with three spans for each the thread takes a sixth of a core

_SECOND = 1_000_000_000

# Few at a time: encoding a span takes some 50 us, in which the loop may have to wait for the interpreter.
_BATCH = 64
# Seconds after which a thread gives the interpreter to another.  Encoding never waits: with Python's default a turn of
# the loop would wait 5 ms, or until the batch is done.
_SWITCH = 0.0005
# Seconds of rest after a batch while more waits: the thread takes a quarter of a core at most, even if clients set the
# flag of very many messages, or have them delivered many times.
_REST = 0.01
# Seconds between two batches of few spans, and until the next attempt after a failure.
_PAUSE = 1.0
# Seconds for the thread to finish its last attempt.
_LAST_WORD = 1.0
# Seconds for one attempt to send.
_TIMEOUT = 5.0

_TYPES = {"send": "send", "ack": "settle", "nack": "settle"}
"""`messaging.operation.type` of the semantic conventions; they have none for other operations of a broker."""

_KINDS = {"send": SpanKind.PRODUCER}
"""Spans of consumers are its children.  All other operations are internal, or a service map would have false arrows."""

_SCOPE = InstrumentationScope("gateway", gateway.__version__)


class Spans:
    """The queue and its thread.

    Args:
        exporter: sends spans.
        service: the name of the gateway among others.
        run: the start of its message-ids.
        clock: nanoseconds, of the marks.
    """

    def __init__(
        self, exporter: SpanExporter, service: str, run: Callable[[], str], clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.sent = 0  # spans that a collector took
        self.dropped = 0  # spans that the queue had no room for, or the collector did not take
        self.left_out = 0  # messages that were not traced because too many came
        self.failure = ""  # reason why the last batch was not taken; empty: it was
        self._exporter = exporter
        self._resource = _resource(service)
        self._run = run
        self._clock = clock
        self._random = Random()
        self._second = 0
        self._in_second = 0
        self._waiting: deque[Mark | GatewaySpan] = deque()
        self._wake = threading.Event()
        self._ends = threading.Event()
        self._switch = sys.getswitchinterval()
        self._thread = threading.Thread(target=self._work, name="spans", daemon=True)

    def may(self, now: int) -> bool:
        """Whether one more message may be traced in this second.  `now`: on the clock."""
        second = now // _SECOND
        if second != self._second:
            self._second, self._in_second = second, 0
        self._in_second += 1
        if self._in_second > MOST_PER_SECOND:
            self.left_out += 1
            return False
        return True

    def tell(self, mark: Mark | GatewaySpan) -> None:
        waiting = self._waiting
        if len(waiting) >= QUEUE:
            self.dropped += 1
            return
        waiting.append(mark)
        if len(waiting) == _BATCH:
            self._wake.set()

    def start(self) -> None:
        sys.setswitchinterval(_SWITCH)
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Send the waiting spans, for so many seconds at most."""
        self._ends.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(seconds)
        if self._waiting:
            log.warning("spans are lost", waiting=len(self._waiting), reason=self.failure or "the collector is slow")
        self._exporter.shutdown()  # aborts a repeated attempt; the thread logs how that ended
        if self._thread.is_alive():
            self._thread.join(_LAST_WORD)
        sys.setswitchinterval(self._switch)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    # in the thread

    def _work(self) -> None:
        while True:
            self._wake.clear()
            ends = self._ends.is_set()
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
                self._send(batch)
                if self._waiting:
                    self._ends.wait(_PAUSE if self.failure else _REST)
            if ends:
                return
            self._wake.wait(_PAUSE)

    def _send(self, batch: Sequence[Mark | GatewaySpan]) -> None:
        offset = time.time_ns() - self._clock()
        try:
            with _Words() as words:
                result = self._exporter.export([self._span(mark, offset) for mark in batch])
            failure = "" if result is SpanExportResult.SUCCESS else words.last or "the collector did not take them"
        except Exception:  # a fault of the exporter must not end the thread
            failure = "a fault; the log has the traceback"
            if not self.failure:
                log.exception("spans cannot be made")
        self._say(failure)
        if failure:
            self.dropped += len(batch)
        else:
            self.sent += len(batch)
        self.failure = failure

    def _say(self, failure: str) -> None:
        if failure and not self.failure:
            log.warning("spans cannot be sent for now", reason=failure)
        elif self.failure and not failure:
            log.info("spans are sent again", dropped=self.dropped)

    def _own_span(self, own: GatewaySpan, offset: int) -> ReadableSpan:
        def context(span: str) -> SpanContext:
            flags = TraceFlags(TraceFlags.SAMPLED)
            return SpanContext(int(own.trace, 16), int(span, 16), is_remote=False, trace_flags=flags)

        return ReadableSpan(
            name=own.name,
            context=context(own.span),
            parent=context(own.parent) if own.parent else None,
            resource=self._resource,
            attributes=own.facts,
            start_time=own.start + offset,
            end_time=own.end + offset,
            instrumentation_scope=_SCOPE,
        )

    def _span(self, mark: Mark | GatewaySpan, offset: int) -> ReadableSpan:
        return self._own_span(mark, offset) if isinstance(mark, GatewaySpan) else self._message_span(mark, offset)

    def _message_span(self, mark: Mark, offset: int) -> ReadableSpan:
        trace, flags = int(mark.context[3:35], 16), TraceFlags(int(mark.context[53:55], 16))
        state = TraceState.from_header([mark.state]) if mark.state else None
        own = int(mark.context[36:52], 16)
        if mark.operation == "send":
            span, parent = own, int(mark.parent, 16) if mark.parent else None
        else:
            span, parent = self._random.getrandbits(64) or 1, own
        destination = mark.destination
        is_temporary = destination.endswith("(temporary)")
        attributes: dict[str, str | int | bool] = {
            "messaging.system": "stomp",
            "messaging.operation.name": mark.operation,
            "messaging.destination.name": destination,
            "messaging.message.id": f"{self._run()}-{mark.number}",
            "messaging.message.body.size": mark.size,
            **mark.facts,
        }
        if (kind := _TYPES.get(mark.operation)) is not None:
            attributes["messaging.operation.type"] = kind
        if mark.client:
            attributes["messaging.client.id"] = mark.client
        if is_temporary:
            attributes["messaging.destination.temporary"] = True
        return ReadableSpan(
            name=f"{mark.operation} {'(temporary)' if is_temporary else destination}",
            context=SpanContext(trace, span, is_remote=False, trace_flags=flags, trace_state=state),
            parent=None if parent is None else SpanContext(trace, parent, is_remote=True, trace_flags=flags),
            resource=self._resource,
            attributes=attributes,
            kind=_KINDS.get(mark.operation, SpanKind.INTERNAL),
            start_time=mark.start + offset,
            end_time=mark.end + offset,
            instrumentation_scope=_SCOPE,
        )


def over_http(endpoint: str) -> SpanExporter:
    """An exporter of spans.  `endpoint`: whole address of the collector."""
    return OTLPSpanExporter(endpoint=endpoint, timeout=_TIMEOUT)


def _resource(service: str) -> Resource:
    own = {"service.version": gateway.__version__}
    if not os.environ.get("OTEL_SERVICE_NAME"):
        own["service.name"] = service
    return Resource.create(own)


class _Words(logging.Handler):
    """Catches the log of the exporter while it works: only there it tells the reason of a failure."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""
        self._logger = logging.getLogger("opentelemetry")

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage()

    def __enter__(self) -> Self:
        self._propagates = self._logger.propagate
        self._logger.propagate = False
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagates
