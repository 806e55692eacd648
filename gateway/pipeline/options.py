"""Options that several commands of `gateway pipeline` share, said once, and what their words mean.

`for_job` and `for_spark` hand a command one object with all of their values.

A time, of `--since`, `--until` and others, is in UTC, unless it names its own zone:

    now, today, yesterday       today and yesterday are their midnights
    90s, 30m, 2h, 7d, 2w        so long before now
    2026-11-21                  midnight
    2026-11-21T14:30            also with seconds, with a blank for the T, with Z or +01:00 behind

A STOMP server that a job sends to is stomp://user@host:port/topic/name, `stomps` for TLS.  The password stands in the
environment, in GATEWAY_PIPELINE_PASSCODE, because each user of the machine can read command lines.  Executors on other
machines need it in their environments, too.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import click

from gateway.client import Client, StompError, StompServer
from gateway.client.server import read_url
from gateway.config.values import SHORTEST_INTERVAL, duration_like

from .errors import JobFailure, UsageFailure
from .jobs import JOBS

_LIKE = "60s, 5m or 2h"

Command = Callable[..., Any]

_AGO = re.compile(r"(\d{1,9})\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_KNOWN = "now, today, yesterday, a time ago like 90m, 2h or 7d, or a moment like 2026-11-21 or 2026-11-21T14:30"

PASSCODE = "GATEWAY_PIPELINE_PASSCODE"


@dataclass(frozen=True)
class BrokerUrl:
    """A server with the login there, and a destination."""

    server: StompServer
    destination: str = ""  # the path after the port; "": none

    @classmethod
    def of(cls, url: str) -> BrokerUrl:
        """Read a URL.  `UsageFailure`: it is no URL of a STOMP server, or has a password in it."""
        try:
            return cls(*read_url(url, PASSCODE))
        except ValueError as error:
            raise UsageFailure(str(error)) from None

    def __str__(self) -> str:
        """The URL without the login."""
        server = self.server
        host = f"[{server.host}]" if ":" in server.host else server.host
        return f"{'stomps' if server.tls else 'stomp'}://{host}:{server.port}"

    def options(self) -> dict[str, str]:
        """The options of `format("stomp")` for server and login, without a destination."""
        server = self.server
        told = {"host": server.host, "port": str(server.port), "ssl": str(server.tls).lower(), "login": server.login}
        return told | {"passcodeEnv": PASSCODE} if os.environ.get(PASSCODE) else told

    def check(self) -> str:
        """The name of the server, by one connection.  `JobFailure`: it does not answer, or refuses the login."""
        try:
            client = Client(replace(self.server, passcode=os.environ.get(PASSCODE, "")))
        except StompError as error:
            raise JobFailure(str(error)) from None
        client.disconnect()
        return client.server


def moment(text: str, now: datetime) -> datetime:
    """The moment that a text names, in UTC; `now` has a zone.  `UsageFailure`: the text names no moment."""
    now = now.astimezone(UTC)
    words = {"now": now, "today": _midnight(now), "yesterday": _midnight(now) - timedelta(days=1)}
    word = text.strip().lower()
    if word in words:
        return words[word]
    try:
        if found := _AGO.fullmatch(word):
            return now - timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
        told = datetime.fromisoformat(text.strip())
        return told.astimezone(UTC) if told.tzinfo else told.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise UsageFailure(f"{text[:80]!r} is no moment; write {_KNOWN}") from None


def span(since: str, until: str, now: datetime) -> tuple[datetime, datetime]:
    """Two moments; the range includes the first.  `UsageFailure`: a text names none, or the range is empty."""
    begin, end = moment(since, now), moment(until, now)
    if begin >= end:
        raise UsageFailure(
            f"the range from {since!r}, {shown(begin)}, to {until!r}, {shown(end)}, is empty: --until must be later"
        )
    return begin, end


def is_fixed(text: str) -> bool:
    """True if a text names the same moment whenever it is read.  `UsageFailure`: the text names no moment."""
    early = datetime(2026, 1, 1, tzinfo=UTC)
    return moment(text, early) == moment(text, early + timedelta(days=1))


def shown(when: datetime) -> str:
    """A moment for people."""
    return when.strftime("%Y-%m-%d %H:%M:%S UTC")


def _midnight(when: datetime) -> datetime:
    return when.replace(hour=0, minute=0, second=0, microsecond=0)


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
until = click.option("--until", default="now", show_default=True, help="The end, written like --since.")
conf = click.option(
    "--conf",
    "conf",
    type=name_and_value,
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of Spark; repeatable.",
)
_SPARK = (
    click.option("--master", metavar="URL", help="Master of Spark.  [default: local[2]]"),
    click.option("--remote", metavar="URL", help="A Spark Connect server, sc://host:port, instead."),
    conf,
)
_JOB = (
    click.argument("job", type=click.Choice([*JOBS, "all"])),
    archive,
    tables,
    click.option("--once", is_flag=True, help="End when all files have been read."),
    click.option(
        "--interval",
        type=duration_like(_LIKE, SHORTEST_INTERVAL),
        default="10s",
        show_default=True,
        help="Pause between two looks.",
    ),
    click.option(
        "--files",
        type=click.IntRange(1),
        metavar="N",
        default=200,
        show_default=True,
        help="Most files of a batch; fewer need less memory.",
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
