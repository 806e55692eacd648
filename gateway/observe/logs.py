"""Logs: structlog to standard error, one event a line.

Every module logs by `structlog.get_logger("gateway...")`; this one says only how lines look.  Whoever logs something of
a session names it, by the field `session`.  It is not bound to the task: one client's task does the work of others, and
what it says of them would carry the wrong id.  docs/logs.md has every event and field, and a test compares.

Nothing is logged per message: a line costs some 10 us, a message some 3.  Lines are written at once and by
the thread that logs.  Known weakness: whoever reads our standard error and stops reading stops the gateway
with it, as with every program that logs to a pipe.

Libraries log through the standard library.  Those listed in FOREIGN get the same form.  hypercorn's command sets its
logger up when it first has something to say, be that before us or behind us; so its lines are caught where they come in
(`_Diverted`).  What it says before our settings are read has its own form.

A journal of systemd knows no levels but those in front of each line, like `<4>` (sd-daemon(3)).  So they stand there
where standard error is the journal's, and nowhere else.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

SECRETS = frozenset({"passcode", "password", "authorization", "admin_token", "metrics_token", "token"})
"""Keys whose values are never written.  No caller passes them; this is the second lock on that door."""

HYPERCORN = "hypercorn.error"
"""hypercorn's logger under its own command."""

FOREIGN = ("trio-websocket", "gateway.http")
"""Loggers of the standard library that get our form; the second is hypercorn's under `gateway serve`."""

PRIORITIES = {"debug": "<7>", "info": "<6>", "warning": "<4>", "error": "<3>", "critical": "<2>"}
"""What the journal of systemd takes for these levels; it keeps none of it in the text."""

_Renderer = Callable[[WrappedLogger, str, EventDict], str | bytes]


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
        logger_factory=partial(_Named, stream),
        # Loggers are made at import, before this call: a cached one would keep writing in the old form.
        cache_logger_on_first_use=False,
    )
    _adopt_foreign(human, stream, level)


class _Named(structlog.WriteLogger):
    """Writes to a stream, and knows which module's logger it is.

    Args:
        name: as `get_logger` was told; empty: it was told nothing.
    """

    def __init__(self, stream: TextIO, name: str = "") -> None:
        super().__init__(stream)
        self.name = name


class _Diverted(logging.Filter):
    """Gives what comes to a logger to a handler of ours, and to no other.

    A filter stays where it is when somebody replaces the handlers of the logger.
    """

    def __init__(self, handler: logging.Handler, level: int) -> None:
        super().__init__()
        self._handler = handler
        self._least = level

    def filter(self, record: logging.LogRecord) -> bool:
        """Write it here; and nowhere else."""
        if record.levelno >= self._least:
            self._handler.handle(record)
        return False


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        add_logger,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        hide_secrets,
    ]


def _rendering(human: bool, stream: TextIO) -> list[Processor]:
    last: _Renderer
    if human:
        plain = structlog.dev.plain_traceback
        first: list[Processor] = [disarm]
        last = structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)
    else:
        first = [structlog.processors.format_exc_info, lead_with_event]
        # `default=str`: a log call never fails because of what it was given.
        last = structlog.processors.JSONRenderer(default=str)
    return [*first, _Prioritized(last) if is_journal(stream) else last]


def is_journal(stream: TextIO) -> bool:
    """Whether what is written there goes to the journal: systemd names its device and inode by JOURNAL_STREAM."""
    try:
        found = os.fstat(stream.fileno())
    except OSError:  # a stream of no file, as in tests
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


class _Prioritized:
    """Renders an event, with its priority in front of each line: the journal takes each for an entry of its own."""

    def __init__(self, renderer: _Renderer) -> None:
        self._renderer = renderer

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> str:
        priority = PRIORITIES.get(event["level"], "<6>")  # before the renderer takes the event apart
        return "\n".join([priority + line for line in str(self._renderer(logger, method, event)).split("\n")])


def _adopt_foreign(human: bool, stream: TextIO, level: int) -> None:
    """Give lines that libraries log by the standard library the same form and place."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_shared(),
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(human, stream)],
        )
    )
    hypercorn = logging.getLogger(HYPERCORN)
    hypercorn.filters = [each for each in hypercorn.filters if not isinstance(each, _Diverted)]
    hypercorn.addFilter(_Diverted(handler, level))
    for name in FOREIGN:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        # Libraries are chattier than we are: their `info` is our `debug`.
        logger.setLevel(max(level, logging.WARNING) if level > logging.DEBUG else level)
        logger.propagate = False


def add_logger(logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Say which logger it is, by the field `logger`."""
    record = event.get("_record")
    name = record.name if record is not None else getattr(logger, "name", "")
    if name:
        event["logger"] = name
    return event


def lead_with_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Time, level, logger and event first, for whoever reads JSON lines by eye."""
    return {key: event[key] for key in ("timestamp", "level", "logger", "event") if key in event} | dict(event)


def disarm(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escape what a terminal would obey: names come from clients.  Line breaks are the renderer's affair."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[key] = "".join([_escaped(character) for character in value])
    return event


def _escaped(character: str) -> str:
    return character if character.isprintable() or character in "\n\r\t" else ascii(character)[1:-1]


def hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace the values of keys that name a secret."""
    for key in SECRETS & event.keys():
        event[key] = "(hidden)"
    return event
