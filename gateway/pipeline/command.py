"""`gateway pipeline`: what Spark makes of the archive.

The commands are thin: they find the places, start Spark, and hand over.  Nothing heavy is imported before a command
that needs it runs, so `gateway pipeline --help` works without pyspark, pyarrow and pandas.

Exit status: 0 when all was done, also after a first SIGTERM or Ctrl-C where a command waits for something; 1 when a job
failed; 2 when the command was not meant like that; 3 when something is missing on this machine; 130 when a Ctrl-C ended
it at once.  Whatever is wrong is one sentence on standard error.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.files import SHOWN, store

from . import options, paths
from .cli_errors import GIVEN_UP, ErrorSentences
from .errors import EnvironmentFailure, PipelineFailure, UsageFailure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .replay.run import ReplayOptions, ReplayPlan

# Under this a command finds the arguments that it was called with.
_ARGUMENTS = "gateway.pipeline.arguments"

Settings = Sequence[tuple[str, str]]


@click.group(cls=ErrorSentences, context_settings={"help_option_names": ["-h", "--help"]})
def pipeline() -> None:
    """Tables, reports and replays out of the archive, by Spark.

    Exit status: 0 done, 1 a job failed, 2 usage, 3 something is missing here (`gateway pipeline doctor` says what),
    130 a Ctrl-C ended it at once.
    """


@pipeline.command()
@options.as_json
def doctor(as_json: bool) -> None:
    """Look whether this machine has all that jobs need, and say what mends it."""
    from .spark.doctor import examine

    healthy = True
    for finding in examine():
        healthy &= finding.ok
        click.echo(json.dumps(finding.json()) if as_json else str(finding))
    if not healthy:
        sys.exit(EnvironmentFailure.status)


@pipeline.command()
@options.job
@click.option("--journal", metavar="DIR", help="Fill the archive from it, in the same process.")
@options.spark
def run(
    job: str,
    archive: str | None,
    tables: str | None,
    once: bool,
    interval: float,
    files: int,
    publish: str | None,
    reset_checkpoint: bool,
    stuck_after: float,
    as_json: bool,
    journal: str | None,
    master: str | None,
    remote: str | None,
    conf: Settings,
) -> None:
    """Run a job: read what comes into the archive, and keep its table up to date, until SIGTERM or Ctrl-C.

    With --journal the archive is filled by the same process, which is all that one machine needs.
    """
    from .signals import StopOnSignal
    from .streaming.progress import Progress

    if remote is not None:
        # Spark Connect runs the function that each batch goes through in its server.
        raise UsageFailure("run cannot use --remote, which would write the tables where the server is: use --master")
    source, into = paths.archive(archive), paths.make("--tables", paths.tables(tables))
    segments = None if journal is None else paths.folder("--journal", journal)
    progress = Progress(as_json)
    with StopOnSignal(progress.say, "what is begun is in the archive") as stopping:
        with stopping.at_once():
            _check()
            from .jobs import JOBS, AlarmLimits
            from .streaming import archiving, checkpoints, runner

        chosen = list(JOBS.values()) if job == "all" else [JOBS[job]]
        if reset_checkpoint:
            for each in chosen:
                checkpoints.reset(into, each.name)
        with archiving.beside(segments, source, stopping.event, progress.say, once=once, interval=interval):
            with stopping.at_once():
                spark = _spark(f"run {job}", master, None, conf)
            stopping.until = "this batch is done"
            runner.run(
                spark,
                chosen,
                source,
                into,
                once=once,
                interval=interval,
                files=files,
                publish=publish,
                progress=progress,
                stopping=stopping.event,
                limits=AlarmLimits(stuck_after=stuck_after),
            )
        spark.stop()


@pipeline.command()
@options.archive
@click.option("--journal", metavar="DIR", help="What is there is archived first.")
@options.since_or_first
@options.until
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default="report.html", show_default=True)
@click.option("--csv", "csv_folder", type=click.Path(file_okay=False, path_type=Path), help="Its figures as CSV, too.")
@options.stuck_after
@options.spark
def report(
    archive: str | None,
    journal: str | None,
    since: str,
    until: str,
    out: Path,
    csv_folder: Path | None,
    stuck_after: float,
    master: str | None,
    remote: str | None,
    conf: Settings,
) -> None:
    """Write one HTML file: traffic, latencies, top destinations, dead letters, stuck consumers."""
    from .time_range import span

    context = click.get_current_context()
    context.meta[GIVEN_UP] = f"{out} is not written"
    source = paths.archive(archive)
    begin, end = span(since or "24h", until, datetime.now(UTC))
    segments = None if journal is None else paths.folder("--journal", journal)
    paths.writable("--out", out.absolute().parent)
    if csv_folder is not None:
        paths.writable("--csv", _standing(csv_folder.absolute()))
    _check()
    from .jobs import AlarmLimits
    from .report import build, csv_files, page, time_steps
    from .spark.dataframe import files_of
    from .streaming import archiving

    archiving.now(segments, source, _say)
    paths.existing("--archive", source, "`gateway archive`")
    if not since and not paths.is_uri(source):
        begin, end = time_steps.fitted(Path(source), begin, end)
    _watched("Spark starts")
    spark = _spark("report", master, remote, conf)
    files = "" if paths.is_uri(source) else f"{len(files_of(source, begin, end)):,} files of "
    _watched(f"reads {files}the archive")
    made = build.report(spark, source, begin, end, limits=AlarmLimits(stuck_after=stuck_after))
    _watched(f"writes {out}")
    store(out.absolute(), page.page_of(made).encode(), SHOWN)
    if csv_folder is not None:
        context.meta[GIVEN_UP] = f"{out} is written, the files in {csv_folder} are not, or not all"
        csv_files.write(made, csv_folder)
    context.meta[GIVEN_UP] = None
    spark.stop()
    click.echo(f"wrote {out}")


def _standing(folder: Path) -> Path:
    """The folder, or, where it has yet to be made, the one in which that begins."""
    return next(each for each in (folder, *folder.parents) if each.exists())


class _Replay(click.Command):
    """Knows how it was called."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        context.meta[_ARGUMENTS] = list(args)
        return super().parse_args(context, args)


@pipeline.command(cls=_Replay)
@options.archive
@options.tables
@options.since
@options.until
@click.option("--destination", required=True, metavar="PATTERN", help="Where the messages went: /queue/orders.*")
@click.option(
    "--where",
    default="",
    metavar="SQL",
    help="Of these, those for which it is true: size > 100, headers['kind'] = 'a'.",
)
@click.option("--to", required=True, metavar="DEST", help="Where they go now; {destination} is where they went.")
@click.option("--broker", required=True, metavar="URL", help="stomp://user@host:port")
@click.option("--rate", type=click.IntRange(0), default=0, metavar="N", help="At most so many a second.")
@click.option("--limit", type=click.IntRange(0), default=0, metavar="N", help="At most so many.")
@click.option("--id", "name", default="", metavar="NAME", help="Of this replay; the same again sends nothing twice.")
@click.option(
    "--partial-bodies",
    type=click.Choice(["refuse", "skip", "send"]),
    default="refuse",
    show_default=True,
    help="What becomes of messages of whose body the journal kept only the start, or nothing.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be sent, and send nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.spark
def replay(
    archive: str | None,
    tables: str | None,
    dry_run: bool,
    yes: bool,
    master: str | None,
    remote: str | None,
    conf: Settings,
    name: str,
    partial_bodies: str,
    **told: Any,
) -> None:
    """Send messages of the archive again.

    The passcode of the broker is in GATEWAY_PIPELINE_PASSCODE.
    """
    from .signals import StopOnSignal

    source = paths.existing("--archive", paths.archive(archive), "`gateway archive`")
    into = paths.make("--tables", paths.tables(tables))
    with StopOnSignal(_say, "this part is sent") as stopping:
        with stopping.at_once():
            _check()
            from .replay import run as job

            chosen = job.ReplayOptions(**told, id=name, partial=partial_bodies)
            spark = _spark("replay", master, remote, conf)
            plan = job.plan(spark, source, into, chosen, datetime.now(UTC), dry_run=dry_run)
            click.echo(plan.text())
            wanted = not dry_run and _is_wanted(plan, chosen, yes=yes)
        if wanted:
            job.run(spark, plan, _say, stopping.event)
        spark.stop()


def _is_wanted(plan: ReplayPlan, chosen: ReplayOptions, *, yes: bool) -> bool:
    """Whether there is something to send, and whoever is asked wants it.

    Raises:
        UsageFailure: something stands against it.
    """
    plan.check()
    if not plan.rows:
        return False
    if not chosen.id:
        _say_how_to_go_on(chosen.since, chosen.until, plan.record.id)
    return yes or click.confirm("Send them?", err=True)


def _say_how_to_go_on(since: str, until: str, name: str) -> None:
    """Where the same words mean another span later, and would be another replay: the command for this one."""
    from .time_range import is_fixed

    if is_fixed(since) and is_fixed(until):
        return
    context = click.get_current_context()
    _say("If it is broken off go on with this, for the same command again would send all of it again:")
    _say(f"{context.command_path} {shlex.join([*context.meta[_ARGUMENTS], '--id', name])}")


@pipeline.command()
@options.archive
@click.option("--before", default="15m", show_default=True, help="Hours that ended before: 2h, today, 2026-11-21: UTC.")
def compact(archive: str | None, before: str) -> None:
    """Make one sorted file of each hour's many, for reports and replays."""
    from .signals import StopOnSignal
    from .time_range import moment

    source = paths.folder("--archive", paths.archive(archive))
    paths.existing("--archive", str(source), "`gateway archive`")
    _check(("pyarrow",))
    from .streaming import archiving

    with StopOnSignal(_say, "this hour is compacted") as stopping:
        archiving.compact(source, moment(before, datetime.now(UTC)), _say, stopping.event)


@pipeline.command()
@options.journal
@options.archive
@options.tables
@options.as_json
def status(journal: str | None, archive: str | None, tables: str | None, as_json: bool) -> None:
    """Say how far archive and tables are; the status is 1 where the last run of a job failed."""
    source = paths.archive(archive)
    segments, told = journal or paths.settings("journal"), tables or paths.settings("tables")
    into = paths.tables(told) if told else None
    _check(("pyarrow",))
    from .status import status as look

    found = look(paths.folder("--journal", segments) if segments else None, source, into, datetime.now(UTC))
    for line in [json.dumps(found.json())] if as_json else found.lines():
        click.echo(line)
    if found.failed:
        sys.exit(PipelineFailure.status)


@pipeline.command("submit-command")
@options.job
@click.option("--master", required=True, metavar="URL", help="Master of the cluster: spark://host:7077 ...")
@options.setting
@click.option(
    "--into", type=click.Path(path_type=Path), default="spark-submit", show_default=True, help="For its files."
)
@click.option("--python", default=sys.executable, show_default="this one", help="The interpreter of the workers.")
def submit_command(
    job: str,
    archive: str | None,
    tables: str | None,
    once: bool,
    interval: float,
    files: int,
    publish: str | None,
    reset_checkpoint: bool,
    stuck_after: float,
    as_json: bool,
    master: str,
    conf: Settings,
    into: Path,
    python: str,
) -> None:
    """Print the line that runs a job on a cluster, by spark-submit; on standard error, what it needs."""
    arguments = ["run", job, "--archive", paths.archive(archive), "--tables", str(paths.tables(tables))]
    arguments += ["--interval", f"{interval:g}", "--stuck-after", f"{stuck_after:g}", "--files", str(files)]
    arguments += ["--publish", publish] if publish else []
    for wanted, name in ((once, "--once"), (reset_checkpoint, "--reset-checkpoint"), (as_json, "--json")):
        arguments += [name] if wanted else []
    _check(("pyspark",))
    from .spark.submit import submission

    found = submission(
        arguments,
        master=master,
        name=f"gateway pipeline {job}",
        into=into,
        python=python,
        publishes=publish is not None,
        conf=dict(conf),
    )
    for sentence in found.needs:
        _say(sentence)
    click.echo(found.line)


def _check(names: tuple[str, ...] | None = None) -> None:
    """See that the packages are there, before anything else is done."""
    from .spark import session

    session.check_packages(names or session.PACKAGES)


def _spark(name: str, master: str | None, remote: str | None, conf: Settings) -> SparkSession:
    if master is not None and remote is not None:
        raise UsageFailure("--master and --remote exclude each other: give one of them")
    from .spark.session import session, silence

    silence()
    return session(master, remote, f"gateway pipeline {name}", dict(conf))


def _watched(sentence: str) -> None:
    """Say what is done now, to whoever waits for it."""
    if _is_watched():
        _say(sentence)


def _is_watched() -> bool:
    """Whether somebody waits at a terminal."""
    return sys.stderr.isatty()


def _say(sentence: str) -> None:
    click.echo(sentence, err=True)
