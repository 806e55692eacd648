"""Logs: structlog to standard error, one event a line.

Every module logs by `structlog.get_logger()`; this one says only how lines look.  A connection binds its
session id with `structlog.contextvars`, which follow the task, so that every line of a session carries the
id.

Nothing is logged per message: a line costs some 10 us, a message some 3.  Lines are written at once and by
the thread that logs.  Known weakness: whoever reads our standard error and stops reading stops the gateway
with it, as with every program that logs to a pipe.

Libraries log through the standard library.  Those listed in FOREIGN get the same form; hypercorn's command prints its
few lines itself, in its own form, before our settings are even read.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

SECRETS = frozenset({"passcode", "password", "authorization", "admin_token", "token"})
"""Keys whose values are never written.  No caller passes them; this is the second lock on that door."""

FOREIGN = ("trio-websocket", "gateway.http")
"""Loggers of the standard library that get our form; the second is hypercorn's under `gateway serve`."""


def configure(log_format: str = "auto", log_level: str = "info", *, stream: TextIO | None = None) -> None:
    """Set up logging for the whole process; the last call wins.

    Args:
        log_format: `json`, `human`, or `auto` (human on a terminal, else JSON).
        log_level: least level that is written: debug, info, warning or error.
        stream: where lines go instead of standard error.
    """
    stream = stream or sys.stderr
    human = log_format == "human" or (log_format == "auto" and stream.isatty())
    level = logging.getLevelNamesMapping()[log_level.upper()]
    structlog.configure(
        processors=[*_shared(), *_rendering(human, stream)],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(stream),
        # Loggers are made at import, before this call: a cached one would keep writing in the old form.
        cache_logger_on_first_use=False,
    )
    _adopt_foreign(human, stream, level)


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        hide_secrets,
    ]


def _rendering(human: bool, stream: TextIO) -> list[Processor]:
    if human:
        plain = structlog.dev.plain_traceback
        return [structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)]
    # `default=str`: a log call never fails because of what it was given.
    return [structlog.processors.format_exc_info, lead_with_event, structlog.processors.JSONRenderer(default=str)]


def _adopt_foreign(human: bool, stream: TextIO, level: int) -> None:
    """Give lines that libraries log by the standard library the same form and place."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_shared(),
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(human, stream)],
        )
    )
    for name in FOREIGN:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        # Libraries are chattier than we are: their `info` is our `debug`.
        logger.setLevel(max(level, logging.WARNING) if level > logging.DEBUG else level)
        logger.propagate = False


def lead_with_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Time, level and event first, for whoever reads JSON lines by eye."""
    return {key: event[key] for key in ("timestamp", "level", "event") if key in event} | dict(event)


def hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace the values of keys that name a secret."""
    for key in SECRETS & event.keys():
        event[key] = "(hidden)"
    return event
