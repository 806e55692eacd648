"""Options that several commands of `gateway pipeline` share, said once.

`for_job` and `for_spark` hand a command one object with all of their values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

import click

from gateway.config.units import SHORTEST_INTERVAL, duration_like

from .jobs import JOBS

_LIKE = "60s, 5m or 2h"

Command = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options of a job, wherever it runs; see their help below."""

    job: str
    archive: str | None
    tables: str | None
    once: bool
    interval: float
    files: int
    publish: str | None
    reset_checkpoint: bool
    stuck_after: float
    as_json: bool


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Which Spark runs, with which settings."""

    master: str | None
    remote: str | None
    conf: Sequence[tuple[str, str]]


def name_and_value(text: str) -> tuple[str, str]:
    """`spark.name=value`.  `click.BadParameter`: the text is no setting of Spark."""
    name, equals, value = text.partition("=")
    if not (equals and name.startswith("spark.")):
        raise click.BadParameter(f"{text[:80]!r} is no setting of Spark; write spark.name=value")
    return name, value


journal = click.option("--journal", metavar="DIR", help="Folder of the journal; else the setting `journal`.")
archive = click.option("--archive", metavar="DIR|URI", help="The archive; else the setting `archive`.")
tables = click.option("--tables", metavar="DIR", help="Folder of the tables; else the setting `tables`.")
as_json = click.option("--json", "as_json", is_flag=True, help="Lines of JSON on standard output.")
stuck_after = click.option(
    "--stuck-after",
    type=duration_like(_LIKE),
    default="60s",
    show_default=True,
    help="A consumer with an older unacknowledged message is slow or stuck.",
)
since = click.option("--since", default="24h", show_default=True, help="2h, 7d, today, 2026-11-21T14:30 ...: UTC.")
since_or_first = click.option("--since", default="", help="2h, 7d ...; else the first row of the last 24 h.")
until = click.option("--until", default="now", show_default=True, help="The end of the span, written like --since.")
conf = click.option(
    "--conf",
    "conf",
    type=name_and_value,
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of Spark; can be repeated.",
)
_SPARK = (
    click.option("--master", metavar="URL", help="Master of Spark.  [default: local[2]]"),
    click.option("--remote", metavar="URL", help="A server of Spark Connect, sc://host:port, instead."),
    conf,
)
_JOB = (
    click.argument("job", type=click.Choice([*JOBS, "all"])),
    archive,
    tables,
    click.option("--once", is_flag=True, help="End when all files of the archive have been read."),
    click.option(
        "--interval",
        type=duration_like(_LIKE, SHORTEST_INTERVAL),
        default="10s",
        show_default=True,
        help="Pause from one look to the next.",
    ),
    click.option(
        "--files",
        type=click.IntRange(1),
        metavar="N",
        default=200,
        show_default=True,
        help="Files of the archive in a batch, at most; fewer need less memory.",
    ),
    click.option("--publish", metavar="URL", help="Send results, too: stomp://user@host:port/topic/name."),
    click.option("--reset-checkpoint", is_flag=True, help="Forget the tables, and compute them anew."),
    stuck_after,
    as_json,
)


def for_spark(command: Command) -> Command:
    """The options of Spark; the command gets them as `spark_options`."""
    return _gathered(command, "spark_options", SparkOptions, _SPARK)


def for_job(command: Command) -> Command:
    """The options of a job; the command gets them as `job_options`."""
    return _gathered(command, "job_options", JobOptions, _JOB)


def _gathered(
    command: Command, name: str, kind: type[JobOptions | SparkOptions], options: Sequence[Callable[[Command], Command]]
) -> Command:
    names = [field.name for field in fields(kind)]

    @functools.wraps(command)
    def run(**told: Any) -> Any:
        told[name] = kind(**{each: told.pop(each) for each in names})
        return command(**told)

    return functools.reduce(lambda run, option: option(run), reversed(options), cast(Command, run))
