"""Traces of a running gateway: opened as the settings say, closed at the end.

open    after the journal, whose recorder they wrap; before the store is read, because subscriptions keep the recorder
close   after the last session; the collector has some seconds for the waiting spans
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import structlog
import trio

from gateway.broker import Broker
from gateway.broker.model.message import Message
from gateway.config.errors import StartError, unusable
from gateway.config.settings import Settings
from gateway.journal import Journal
from gateway.observe.tracing import NullRecorder, Traced

if TYPE_CHECKING:
    from gateway.observe.spans import Spans

log = structlog.get_logger("gateway.tracing")

# Seconds for the last spans.
_LONGEST_CLOSE = 3.0


def open_tracing(settings: Settings, broker: Broker, journal: Journal | None) -> Spans | None:
    """Begin to trace messages, if the settings say so.

    `journal`: None: there is none.  Raises StartError: the packages are missing.
    """
    if not settings.trace_endpoint:
        return None
    try:
        # Costs 100 ms and 20 MB, and is not installed everywhere.
        from gateway.observe.spans import Spans, over_http
    except ImportError as error:
        reason = f"{error.name} is not installed; pip install 'stomp-gateway[otel]' brings it"
        raise StartError(unusable("trace_endpoint", reason)) from None
    recorder = NullRecorder() if journal is None else journal
    exporter = over_http(settings.trace_endpoint)
    spans = Spans(exporter, settings.server_name, lambda: Message.run.decode(), recorder.clock)
    broker.records = Traced(broker, recorder, settings.trace_ratio, spans.tell, spans.may)
    spans.start()
    log.info("tracing", endpoint=settings.trace_endpoint, ratio=settings.trace_ratio)
    return spans


async def close_tracing(spans: Spans, broker: Broker) -> None:
    """Send the waiting spans, within some seconds."""
    broker.records = None
    await trio.to_thread.run_sync(partial(spans.close, _LONGEST_CLOSE))
