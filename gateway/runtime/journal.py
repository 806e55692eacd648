"""Journal and traces of a running gateway: opened as the settings say, fed with the broker's events, closed at the end.

open        after the store is open, because message-ids start with its token; in a thread, because the segments of the
            last process must be completed
broker  ->  `EventLog`, each message and session; `Gauges`, every few seconds
failure     one line in the log when it begins and one when it ends; the gateway goes on
close       after the last session, so that its end is in the journal

Traces are opened after the journal, whose recorder they wrap, and before the store is read, because subscriptions keep
the recorder.  At the end the collector has some seconds for the waiting spans.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import structlog
import trio

from gateway.broker import Broker
from gateway.broker.core.events import EventLog, NullEventLog
from gateway.broker.core.ports import NullRecorder
from gateway.broker.gauges import Gauges
from gateway.broker.model.message import Message
from gateway.broker.model.policy import Policies
from gateway.config.errors import StartError, not_installed, unusable
from gateway.config.kinds import bodies
from gateway.config.settings import Settings
from gateway.journal import Journal, JournalError, Mended, check
from gateway.observe.tracing import Traced
from gateway.transports import Server

if TYPE_CHECKING:
    from gateway.observe.spans import Spans

log = structlog.get_logger("gateway.journal")
tracing_log = structlog.get_logger("gateway.tracing")

# Seconds for the last rows.
_LONGEST_CLOSE = 5.0
# Seconds for the last spans.
_LONGEST_CLOSE_OF_SPANS = 3.0


async def open_journal(settings: Settings, server: Server, policies: Policies) -> Journal | None:
    """Begin to record the events of the broker, if the settings say so.

    Raises StartError: the folder cannot be used, or another gateway uses it.
    """
    if settings.journal is None:
        return None
    opening: Callable[[], Journal] = partial(
        Journal,
        settings.journal,
        settings.journal_name,
        run=Message.run.decode(),
        bodies=_bodies(policies, bodies(settings.journal_bodies)),
        sync=settings.journal_sync,
        limit=settings.journal_queue,
        holds=settings.journal_when_full == "block",
        call_soon=partial(_call_soon, trio.lowlevel.current_trio_token()),
        on_relief=server.relieve,
        on_state=lambda: _tell(journal),
        on_mended=_tell_mended,
    )
    try:
        journal: Journal = await trio.to_thread.run_sync(opening)
    except JournalError as error:
        raise StartError(unusable("journal", error)) from None
    broker = server.broker
    broker.records = records = EventLog(broker.sessions, journal, broker.context.work_limits)
    if settings.journal_gauges:
        Gauges(broker, records, settings.journal_gauges).begin()
    journal.start()
    log.info("recording", journal=str(settings.journal / settings.journal_name), epoch=journal.epoch)
    return journal


def check_recording(settings: Settings) -> None:
    """Try whether the primary of a cluster could open journal and traces here.  Blocks; raises StartError."""
    if settings.journal is not None:
        try:
            check(settings.journal / settings.journal_name)
        except JournalError as error:
            raise StartError(unusable("journal", error)) from None
    if settings.trace_endpoint:
        import_tracing()


async def close_journal(journal: Journal, broker: Broker) -> None:
    """Write the waiting rows, within some seconds."""
    broker.records = NullEventLog()
    unwritten = await trio.to_thread.run_sync(journal.close, _LONGEST_CLOSE)
    missing = unwritten + journal.rows_dropped + journal.segments.lost
    if missing:
        why = "a segment was removed before it was complete" if journal.segments.lost else "the disk was too slow"
        log.warning("rows are missing in the journal", rows=missing, reason=journal.failure or why)


def _bodies(policies: Policies, default: int) -> Callable[[str], int]:
    """Bytes of a body that are kept, by destination."""

    def kept(destination: str) -> int:
        said = policies.find(destination).journal_bodies
        return default if said is None else bodies(said)

    return kept


def _call_soon(token: trio.lowlevel.TrioToken, action: Callable[[], None]) -> None:
    with suppress(trio.RunFinishedError):  # the loop has ended
        token.run_sync_soon(action)


def _tell(journal: Journal) -> None:
    if journal.failure:
        log.error("nothing is recorded for now", reason=journal.failure, waiting=journal.queued)
    else:
        log.info("what happens is recorded again", missing=journal.rows_dropped + journal.segments.lost)


def _tell_mended(mended: Mended) -> None:
    segment = str(mended.path)
    if mended.torn:
        log.warning("the torn end of a segment was cut off", segment=segment, octets=mended.torn)
    if mended.damaged:
        log.warning("a segment is damaged, all other rows of it are kept", segment=segment, octets=mended.damaged)


def open_tracing(settings: Settings, broker: Broker, journal: Journal | None) -> Spans | None:
    """Begin to trace messages, if the settings say so.

    `journal`: None: there is none.  Raises StartError: the packages are missing.
    """
    if not settings.trace_endpoint:
        return None
    import_tracing()
    from gateway.observe.spans import Spans, over_http

    recorder = NullRecorder(time.monotonic_ns) if journal is None else journal
    exporter = over_http(settings.trace_endpoint)
    spans = Spans(exporter, settings.server_name, lambda: Message.run.decode(), recorder.clock)
    broker.records = Traced(broker, recorder, settings.trace_ratio, spans.tell, spans.may)
    spans.start()
    tracing_log.info("tracing", endpoint=settings.trace_endpoint, ratio=settings.trace_ratio)
    return spans


def import_tracing() -> None:
    """Import what costs 100 ms and 20 MB, and is not installed everywhere.  Raises StartError: it is missing."""
    try:
        import gateway.observe.spans  # noqa: F401
    except ImportError as error:
        raise StartError(not_installed("trace_endpoint", error, "otel")) from None


async def close_tracing(spans: Spans, broker: Broker) -> None:
    """Send the waiting spans, within some seconds."""
    broker.records = NullEventLog()
    await trio.to_thread.run_sync(partial(spans.close, _LONGEST_CLOSE_OF_SPANS))
