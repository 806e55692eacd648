"""Options that commands of `gateway pipeline` share, and the kinds of their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from gateway.config import units

from .jobs import JOBS

_LIKE = "60s, 5m or 2h"


def duration(text: str) -> float:
    """Seconds: `60s`, `1.5m`, `2h`, `7d`, or a number of them.

    Raises:
        click.BadParameter: it is none of these.
    """
    return units.parse_duration(text, _LIKE)


def interval(text: str) -> float:
    """Seconds between two looks.

    Raises:
        click.BadParameter: it is no duration, or so short that nothing else would be done.
    """
    return units.parse_interval(text, _LIKE)


def name_and_value(text: str) -> tuple[str, str]:
    """`spark.name=value`.

    Raises:
        click.BadParameter: it is no setting of Spark.
    """
    name, equals, value = text.partition("=")
    if not (equals and name.startswith("spark.")):
        raise click.BadParameter(f"{text[:80]!r} is no setting of Spark; write spark.name=value")
    return name, value


Command = Callable[..., Any]

journal = click.option("--journal", metavar="DIR", help="Folder of the journal; else the setting `journal`.")
archive = click.option("--archive", metavar="DIR|URI", help="The archive; else the setting `archive`.")
tables = click.option("--tables", metavar="DIR", help="Folder of the tables; else the setting `tables`.")
as_json = click.option("--json", "as_json", is_flag=True, help="Lines of JSON on standard output.")
stuck_after = click.option(
    "--stuck-after",
    type=duration,
    metavar="DURATION",
    default="60s",
    show_default=True,
    help="A consumer whose oldest unacknowledged message is older is slow or stuck.",
)
since = click.option("--since", default="24h", show_default=True, help="2h, 7d, today, 2026-11-21T14:30 ...: UTC.")
since_or_first = click.option("--since", default="", help="The same; else the first row of the last 24 h.")
until = click.option("--until", default="now", show_default=True, help="The same; not any more in the span.")
setting = click.option(
    "--conf",
    "conf",
    type=name_and_value,
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of Spark; can be repeated.",
)


def spark(command: Command) -> Command:
    """The options that say which Spark."""
    command = setting(command)
    command = click.option("--remote", metavar="URL", help="A server of Spark Connect, sc://host:port, instead.")(
        command
    )
    return click.option("--master", metavar="URL", help="Master of Spark.  [default: local[2]]")(command)


def job(command: Command) -> Command:
    """What a job is told, wherever it runs."""
    for option in reversed(
        (
            click.argument("job", type=click.Choice([*JOBS, "all"])),
            archive,
            tables,
            click.option("--once", is_flag=True, help="End when all that is in the archive has been read."),
            click.option(
                "--interval",
                type=interval,
                metavar="DURATION",
                default="10s",
                show_default=True,
                help="Between two looks.",
            ),
            click.option(
                "--files",
                type=click.IntRange(1),
                metavar="N",
                default=200,
                show_default=True,
                help="Of the archive, in a batch at most; fewer need less memory.",
            ),
            click.option("--publish", metavar="URL", help="Send results, too: stomp://user@host:port/topic/name."),
            click.option("--reset-checkpoint", is_flag=True, help="Forget the tables, and compute them anew."),
            stuck_after,
            as_json,
        )
    ):
        command = option(command)
    return command
