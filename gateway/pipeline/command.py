"""`gateway pipeline`: tables, reports and replays of the archive, by Spark.

The commands are thin: they find the folders, start Spark, and hand over.  An error is one sentence on standard error.
"""

from __future__ import annotations

import json
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.files import SHOWN, store

from . import options, paths
from .errors import EnvironmentFailure, PipelineFailure, UsageFailure
from .exits import GIVEN_UP, ErrorSentences, StopOnSignal
from .options import JobOptions, SparkOptions, is_fixed, moment, span

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .replay.run import ReplayOptions, ReplayPlan

_ARGUMENTS = "gateway.pipeline.arguments"  # the key under which a command finds the arguments that it was called with


@click.group(cls=ErrorSentences, context_settings={"help_option_names": ["-h", "--help"]})
def pipeline() -> None:
    """Tables, reports and replays out of the archive, by Spark.

    Exit status: 0 done, 1 a job failed, 2 usage, 3 something is missing here (`gateway pipeline doctor` says what),
    130 a Ctrl-C ended it at once.
    """


@pipeline.command()
@options.as_json
def doctor(as_json: bool) -> None:
    """Check that this machine has all that jobs need, and say what to do about the rest."""
    from .spark.doctor import examine

    healthy = True
    for finding in examine():
        healthy &= finding.ok
        click.echo(json.dumps(finding.json()) if as_json else str(finding))
    if not healthy:
        sys.exit(EnvironmentFailure.status)


@pipeline.command()
@options.for_job
@click.option("--journal", metavar="DIR", help="Also archive this journal.")
@options.for_spark
def run(job_options: JobOptions, journal: str | None, spark_options: SparkOptions) -> None:
    """Run a job: read new files of the archive and keep its table up to date, until SIGTERM or Ctrl-C.

    With --journal the same process fills the archive, so one machine needs no other service.
    """
    from .streaming.progress import Progress

    if spark_options.remote is not None:
        # Spark Connect runs the function that each batch goes through in its server.
        raise UsageFailure("run cannot use --remote, which would write the tables where the server is: use --master")
    wanted = job_options
    source, into = paths.archive(wanted.archive), paths.make("--tables", paths.tables(wanted.tables))
    segments = None if journal is None else paths.folder("--journal", journal)
    progress = Progress(wanted.as_json)
    with StopOnSignal(progress.say, "the segments in work are in the archive") as stopping:
        with stopping.at_once():
            _check()
            from .jobs import JOBS, AlarmLimits
            from .streaming import archiving, checkpoints, runner

        chosen = list(JOBS.values()) if wanted.job == "all" else [JOBS[wanted.job]]
        if wanted.reset_checkpoint:
            for each in chosen:
                checkpoints.reset(into, each.name)
        archiver = archiving.beside(
            segments, source, stopping.event, progress.say, once=wanted.once, interval=wanted.interval
        )
        with archiver:
            with stopping.at_once():
                spark = _spark(f"run {wanted.job}", spark_options)
            stopping.until = "this batch is done"
            runner.run(
                spark,
                chosen,
                source,
                into,
                once=wanted.once,
                interval=wanted.interval,
                files=wanted.files,
                publish=wanted.publish,
                progress=progress,
                stopping=stopping.event,
                limits=AlarmLimits(stuck_after=wanted.stuck_after),
            )
        spark.stop()


@pipeline.command()
@options.archive
@click.option("--journal", metavar="DIR", help="Archive this journal first.")
@options.since_or_first
@options.until
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default="report.html", show_default=True)
@click.option("--csv", "csv_folder", type=click.Path(file_okay=False, path_type=Path), help="Write CSV files, too.")
@options.stuck_after
@options.for_spark
def report(
    archive: str | None,
    journal: str | None,
    since: str,
    until: str,
    out: Path,
    csv_folder: Path | None,
    stuck_after: float,
    spark_options: SparkOptions,
) -> None:
    """Write one HTML file: traffic, latencies, top destinations, dead letters, stuck consumers."""
    context = click.get_current_context()
    context.meta[GIVEN_UP] = f"{out} is not written"
    source = paths.archive(archive)
    begin, end = span(since or "24h", until, datetime.now(UTC))
    segments = None if journal is None else paths.folder("--journal", journal)
    paths.writable("--out", out.absolute().parent)
    if csv_folder is not None:
        # The folder may have to be made: then its nearest parent must be writable.
        place = csv_folder.absolute()
        paths.writable("--csv", next(each for each in (place, *place.parents) if each.exists()))
    _check()
    from .jobs import AlarmLimits
    from .report import build, csv_files, page
    from .spark.dataframe import files_of
    from .streaming import archiving

    archiving.now(segments, source, _say)
    paths.existing("--archive", source, "`gateway archive`")
    if not since and not paths.is_uri(source):
        begin, end = build.fitted(Path(source), begin, end)
    _watched("Spark starts")
    spark = _spark("report", spark_options)
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


class _Replay(click.Command):
    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        context.meta[_ARGUMENTS] = list(args)
        return super().parse_args(context, args)


@pipeline.command(cls=_Replay)
@options.archive
@options.tables
@options.since
@options.until
@click.option("--destination", required=True, metavar="PATTERN", help="Messages sent to these: /queue/orders.*")
@click.option(
    "--where",
    default="",
    metavar="SQL",
    help="Only messages for which this is true: size > 100, headers['kind'] = 'a'.",
)
@click.option("--to", required=True, metavar="DEST", help="The new destination; {destination} is the original one.")
@click.option("--broker", required=True, metavar="URL", help="stomp://user@host:port")
@click.option("--rate", type=click.IntRange(0), default=0, metavar="N", help="Messages a second, at most.")
@click.option("--limit", type=click.IntRange(0), default=0, metavar="N", help="Messages in all, at most.")
@click.option("--id", "name", default="", metavar="NAME", help="Its name; with it nothing is sent twice.")
@click.option(
    "--partial-bodies",
    type=click.Choice(["refuse", "skip", "send"]),
    default="refuse",
    show_default=True,
    help="Messages whose body the journal has not whole.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan, and send nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.for_spark
def replay(
    archive: str | None,
    tables: str | None,
    dry_run: bool,
    yes: bool,
    spark_options: SparkOptions,
    name: str,
    partial_bodies: str,
    **told: Any,
) -> None:
    """Send messages of the archive again.

    The passcode of the broker is in GATEWAY_PIPELINE_PASSCODE.
    """
    source = paths.existing("--archive", paths.archive(archive), "`gateway archive`")
    into = paths.make("--tables", paths.tables(tables))
    with StopOnSignal(_say, "this part is sent") as stopping:
        with stopping.at_once():
            _check()
            from .replay import run as job

            chosen = job.ReplayOptions(**told, id=name, partial=partial_bodies)
            spark = _spark("replay", spark_options)
            plan = job.plan(spark, source, into, chosen, datetime.now(UTC), dry_run=dry_run)
            click.echo(plan.text())
            wanted = not dry_run and _is_wanted(plan, chosen, yes=yes)
        if wanted:
            job.run(spark, plan, _say, stopping.event)
        spark.stop()


def _is_wanted(plan: ReplayPlan, chosen: ReplayOptions, *, yes: bool) -> bool:
    """True if there are messages, and the user agrees to send them.  `UsageFailure`: they cannot be sent."""
    plan.check()
    if not plan.rows:
        return False
    if not chosen.id:
        _say_how_to_continue(chosen.since, chosen.until, plan.record.id)
    return yes or click.confirm("Send them?", err=True)


def _say_how_to_continue(since: str, until: str, name: str) -> None:
    """Print the command that continues this replay, if the same words would mean another span later."""
    if is_fixed(since) and is_fixed(until):
        return
    context = click.get_current_context()
    _say("If the replay is interrupted, continue with this command; the same again would send all messages again:")
    _say(f"{context.command_path} {shlex.join([*context.meta[_ARGUMENTS], '--id', name])}")


@pipeline.command()
@options.archive
@click.option("--before", default="15m", show_default=True, help="Hours that ended before: 2h, today, 2026-11-21: UTC.")
def compact(archive: str | None, before: str) -> None:
    """Make one sorted file of the many files of an hour, for reports and replays."""
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
    """Show how far archive and tables are; the exit status is 1 if the last run of a job failed."""
    source = paths.archive(archive)
    segments, told = journal or paths.setting("journal"), tables or paths.setting("tables")
    into = paths.tables(told) if told else None
    _check(("pyarrow",))
    from .status import status as look

    found = look(paths.folder("--journal", segments) if segments else None, source, into, datetime.now(UTC))
    for line in [json.dumps(found.json())] if as_json else found.lines():
        click.echo(line)
    if found.failed:
        sys.exit(PipelineFailure.status)


@pipeline.command("submit-command")
@options.for_job
@click.option("--master", required=True, metavar="URL", help="Master of the cluster: spark://host:7077 ...")
@options.conf
@click.option(
    "--into", type=click.Path(path_type=Path), default="spark-submit", show_default=True, help="Folder for its files."
)
@click.option("--python", default=sys.executable, show_default="this one", help="The Python of the workers.")
def submit_command(
    job_options: JobOptions, master: str, conf: tuple[tuple[str, str], ...], into: Path, python: str
) -> None:
    """Print the line that runs a job on a cluster, by spark-submit; on standard error, what it needs."""
    wanted = job_options
    arguments = ["run", wanted.job, "--archive", paths.archive(wanted.archive)]
    arguments += ["--tables", str(paths.tables(wanted.tables)), "--interval", f"{wanted.interval:g}"]
    arguments += ["--stuck-after", f"{wanted.stuck_after:g}", "--files", str(wanted.files)]
    arguments += ["--publish", wanted.publish] if wanted.publish else []
    flags = {"--once": wanted.once, "--reset-checkpoint": wanted.reset_checkpoint, "--json": wanted.as_json}
    arguments += [name for name, is_set in flags.items() if is_set]
    _check(("pyspark",))
    from .spark.submit import submission

    found = submission(
        arguments,
        master=master,
        name=f"gateway pipeline {wanted.job}",
        into=into,
        python=python,
        publishes=wanted.publish is not None,
        conf=dict(conf),
    )
    for sentence in found.needs:
        _say(sentence)
    click.echo(found.line)


def _check(names: tuple[str, ...] | None = None) -> None:
    from .spark import session

    session.check_packages(names or session.PACKAGES)


def _spark(name: str, wanted: SparkOptions) -> SparkSession:
    if wanted.master is not None and wanted.remote is not None:
        raise UsageFailure("--master and --remote exclude each other: give one of them")
    from .spark.session import session, silence

    silence()
    return session(wanted.master, wanted.remote, f"gateway pipeline {name}", dict(wanted.conf))


def _watched(sentence: str) -> None:
    """Say what is done now, if a user waits at a terminal."""
    if _is_watched():
        _say(sentence)


def _is_watched() -> bool:
    return sys.stderr.isatty()


def _say(sentence: str) -> None:
    click.echo(sentence, err=True)
