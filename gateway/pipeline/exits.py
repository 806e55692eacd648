"""Exits of commands: by an error, and by a signal.

An error is one sentence on standard error, and the exit status that belongs to it.  One that comes neither from us, nor
from the system, Spark or a library that reads files, is a bug of this program, and has its traceback.

SIGTERM and Ctrl-C are an event, so that the running batch is finished.  Before anything has begun (`at_once`) a signal
leaves the context, as if its block were over.  A second signal ends the process like a kill; all files here survive
that.  The status is 130 after Ctrl-C, 143 after SIGTERM.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, Self

import click

from gateway.archive.layout import ArchiveError

from .errors import EnvironmentFailure, JobFailure, PipelineFailure, reason

_HEAVY = ("pyspark", "pyarrow", "pandas", "numpy", "grpc")

# Spark says this when a query, or one task of it, returns too many rows.
_TOO_MUCH = ("spark.driver.maxResultSize", "TaskResultLost")
_SMALLER = (
    "run it with --conf spark.driver.maxResultSize=4g --conf spark.driver.memory=6g; a batch of a job that was begun "
    "needs that in any case, and --files 20 makes the next ones smaller"
)

GIVEN_UP = "gateway.pipeline.given_up"
"""The key under which a command keeps in its context what a Ctrl-C takes from its user."""

_INTERRUPTED = 130  # as in a shell after a Ctrl-C: 128 and the number of the signal


class ErrorSentences(click.Group):
    """A group of commands: each error ends with a sentence and its status."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            given_up = context.meta.get(GIVEN_UP)
            click.echo(f"Aborted: {given_up}." if given_up else "Aborted!", err=True)
            context.exit(_INTERRUPTED)
        except Exception as error:
            failure = _failure(error)
            if failure is None:
                raise
            click.echo(f"Error: {failure}", err=True)
            context.exit(failure.status)


def _failure(error: Exception) -> PipelineFailure | None:
    """The error as the user sees it; None: it is a bug of this program."""
    if isinstance(error, JobFailure) and any(each in str(error) for each in _TOO_MUCH):
        return JobFailure(f"{error}: {_SMALLER}")
    if isinstance(error, PipelineFailure):
        return error
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] in _HEAVY:
        from .spark.session import NEEDED

        return EnvironmentFailure(f"{error.name} cannot be imported: {NEEDED}")
    if isinstance(error, ArchiveError) or type(error).__module__.startswith("pyarrow."):
        return JobFailure(str(error).strip().partition("\n")[0])
    if isinstance(error, OSError):
        return JobFailure(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    if type(error).__module__.startswith(("pyspark.", "py4j.")):
        return _failure(JobFailure(reason(error)))
    return None


_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)


class _Left(BaseException):
    """The context is left; handlers of errors do not catch it."""


class StopOnSignal:
    """A context, in the main thread, in which signals set `event`; the first one is told by `say`."""

    def __init__(self, say: Callable[[str], None], until: str) -> None:
        self.event = threading.Event()
        self.until = until  # the work that is finished first, as the sentence goes on: `this batch is done`
        self._say = say
        self._at_once = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {each: signal.signal(each, self._stop) for each in _SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        for each, handler in self._before.items():
            signal.signal(each, handler)
        return isinstance(error, _Left)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """A part of the block in which nothing has begun: a signal leaves the whole block, also one that came
        before."""
        self._at_once = True
        try:
            if self.event.is_set():
                raise _Left
            yield
        finally:
            self._at_once = False

    def _stop(self, number: int, frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, _end)
        self.event.set()
        if self._at_once:
            self._say("Ends at once: nothing has begun.")
            raise _Left
        self._say(f"Ends when {self.until}; another Ctrl-C or SIGTERM ends it at once.")
