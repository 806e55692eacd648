"""Errors of commands: one sentence on standard error, and the exit status that belongs to it.

An error that comes neither from us, nor from the system, Spark or a library that reads files, is a bug of this program,
and has its traceback.
"""

from __future__ import annotations

from typing import Any

import click

from gateway.archive.layout import ArchiveError

from .errors import EnvironmentFailure, JobFailure, PipelineFailure

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
        from .error_text import reason

        return _failure(JobFailure(reason(error)))
    return None
