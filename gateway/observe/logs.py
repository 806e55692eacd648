"""Logs: structlog to standard error, one event a line; docs/logs.md has every event and field.

No line is logged per message: a line costs some 10 us, a message some 3.  Lines are written at once, by the thread that
logs.  Known weakness: a reader of standard error that stops reading stops the gateway.

Libraries log through the standard library; the loggers in FOREIGN get the same format.  hypercorn's command replaces
the handlers of its logger with its first line, so a filter catches its lines (`_Diverted`).
"""

import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TextIO

from gateway.observe.slim import structlog

# isort: split
from structlog.typing import EventDict, Processor, WrappedLogger

SECRETS = frozenset({"passcode", "password", "authorization", "admin_token", "metrics_token", "token"})
"""Keys whose values are never written.  No caller passes them; this is a second protection."""

HYPERCORN = "hypercorn.error"  # hypercorn's logger under its own command

FOREIGN = ("trio-websocket", "gateway.http")
"""Loggers of the standard library that get our format; the second is hypercorn's under `gateway serve`."""

PRIORITIES = {"debug": "<7>", "info": "<6>", "warning": "<4>", "error": "<3>", "critical": "<2>"}
"""Prefixes by which the journal of systemd knows the level; they are not part of the text."""

_Renderer = Callable[[WrappedLogger, str, EventDict], str | bytes]


def configure(
    log_format: str = "auto", log_level: str = "info", note: str = "", *, edge: str = "", stream: TextIO | None = None
) -> None:
    """Set up logging for the whole process; the last call wins.

    `log_format`: `json`, `human`, or `auto` (human on a terminal, else JSON).  `log_level`: lowest level that is
    written: debug, info, warning or error.  `note`: stands behind "Running on ...", the last line of
    hypercorn's command at its start.  `edge`: the name of this process in all lines; empty: it is no edge.
    `stream`: where lines go instead of standard error.
    """
    stream = stream or sys.stderr
    human = log_format == "human" or (log_format == "auto" and stream.isatty())
    level = logging.getLevelNamesMapping()[log_level.upper()]
    structlog.configure(
        processors=[*_shared(edge), *_rendering(human, stream)],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=partial(_Named, stream),
        # Loggers are made at import, before this call: a cached one would keep the old format.
        cache_logger_on_first_use=False,
    )
    _adopt_foreign(human, stream, level, note, edge)


class _Named(structlog.WriteLogger):
    """Writes to a stream, and has the name of its logger.  `name`: the argument of `get_logger`; empty: none."""

    def __init__(self, stream: TextIO, name: str = "") -> None:
        super().__init__(stream)
        self.name = name


class _Diverted(logging.Filter):
    """Gives the lines of a logger to our handler, and to no other.

    Unlike a handler, a filter stays when hypercorn replaces the handlers of the logger.
    """

    def __init__(self, handler: logging.Handler, level: int, note: str) -> None:
        super().__init__()
        self._handler = handler
        self._least = level
        self._note = note

    def filter(self, record: logging.LogRecord) -> bool:
        if self._note and str(record.msg).startswith("Running on"):
            record.msg, record.args = f"{record.getMessage()}; {self._note}", ()
        if record.levelno >= self._least:
            self._handler.handle(record)
        return False


def _shared(edge: str) -> list[Processor]:
    return [
        *([partial(name_edge, edge)] if edge else ()),
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
        # `default=str`: no value makes a log call fail.
        last = structlog.processors.JSONRenderer(default=str)
    return [*first, partial(_prioritized, last) if is_journal(stream) else last]


def is_journal(stream: TextIO) -> bool:
    """Whether the stream goes to the journal: systemd names its device and inode in JOURNAL_STREAM."""
    try:
        found = os.fstat(stream.fileno())
    except OSError:  # a stream without a file, as in tests
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def _prioritized(renderer: _Renderer, logger: WrappedLogger, method: str, event: EventDict) -> str:
    """An event, with its priority in front of each line: the journal makes an entry of each."""
    priority = PRIORITIES.get(event["level"], "<6>")  # before the renderer takes the event apart
    return "\n".join([priority + line for line in str(renderer(logger, method, event)).split("\n")])


def _adopt_foreign(human: bool, stream: TextIO, level: int, note: str, edge: str) -> None:
    """Give lines of libraries the same format and stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_shared(edge),
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(human, stream)],
        )
    )
    hypercorn = logging.getLogger(HYPERCORN)
    hypercorn.filters = [each for each in hypercorn.filters if not isinstance(each, _Diverted)]
    hypercorn.addFilter(_Diverted(handler, level, note))
    for name in FOREIGN:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        # Libraries log more than we do: their `info` is our `debug`.
        logger.setLevel(max(level, logging.WARNING) if level > logging.DEBUG else level)
        logger.propagate = False


def add_logger(logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    record = event.get("_record")
    name = record.name if record is not None else getattr(logger, "name", "")
    if name:
        event["logger"] = name
    return event


def name_edge(edge: str, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """The edge that writes the line; also in threads, which have no variables of the context."""
    return {"edge": edge, **event}


def lead_with_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Time, level, logger and event first, for the human reader of JSON lines."""
    return {key: event[key] for key in ("timestamp", "level", "logger", "event") if key in event} | dict(event)


def disarm(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escape control characters of a terminal: names come from clients.  The renderer escapes line breaks."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            shown = [each if each.isprintable() or each in "\n\r\t" else ascii(each)[1:-1] for each in value]
            event[key] = "".join(shown)
    return event


def hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for key in SECRETS & event.keys():
        event[key] = "(hidden)"
    return event
