"""`gateway push`: the process.  One loop has a task for each table; pages for the monitoring have threads.

Exit status: 0 after SIGTERM, 130 after Ctrl-C, 1 and one sentence when the server refuses at the start, 2 usage.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import click

from gateway.client import StompError
from gateway.observe import logs
from gateway.observe.slim import structlog
from gateway.process import systemd
from gateway.process.pages import HttpError

from . import settings
from .consumer import PushConsumer
from .monitoring import LoopWatch, serving
from .settings import PlanError, PushConfig

log = structlog.get_logger("gateway.push")

PASSCODE = "STOMP_PASSCODE"
# Seconds for requests under way.  Their messages are safe at the server, because none is acknowledged too early.
_LAST_WORDS = 20.0
_LINE_EVERY = 60.0
_TURN = 1.0
_STATUS = {signal.SIGTERM: 0, signal.SIGINT: 130}
_FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


@click.command()
@click.argument("source", required=False, default="", metavar="[QUEUE]")
@click.argument("url", required=False, default="", metavar="[URL]")
@click.option("--server", default="", metavar="URL", help="The STOMP server: stomp://user@host:port.")
@click.option("--config", type=_FILE, help="A file with [[push]] tables instead of options, but for the log's.")
@click.option("--passcode-file", type=_FILE, help=f"A file with the passcode; without it, {PASSCODE}.")
@click.option("--secret-file", type=_FILE, help="A file with the secrets that sign the requests.")
@click.option("--selector", default="", help="A condition on headers; other messages stay in the queue.")
@click.option("--concurrency", default=settings.CONCURRENCY, show_default=True, help="Requests at the same time.")
@click.option("--timeout", default="15s", show_default=True, help="The longest time of a request.")
@click.option("--allow-private", is_flag=True, help="URL may be an address of this machine, or of a private network.")
@click.option("--http", default="", metavar="HOST:PORT", help="Serve /healthz, /readyz and /metrics there.")
@click.option("--log-format", type=click.Choice(["auto", "json", "human"]), default="auto", show_default=True)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def push(source: str, url: str, config: Path | None, log_format: str, log_level: str, **options: Any) -> None:
    """POST each message of QUEUE to URL, until SIGTERM or Ctrl-C.

    An answer 2xx acknowledges the message, 4xx makes a dead letter of it; after any other answer, and without one, it
    comes again later.

    Exit status: 0 after SIGTERM; 130 after Ctrl-C; 1 when the server refuses login or queue at the start.
    """
    try:
        if config is not None:
            if source or any(_given(name) for name in options):
                raise click.UsageError("--config goes with the options of the log only: write all else into its file")
            orders = settings.read(config)
        else:
            orders = _of_options(source, url, **options)
    except PlanError as error:
        raise click.UsageError(str(error)) from None
    logs.configure(log_format, log_level)
    sys.exit(anyio.run(_run, orders, backend="trio"))


def _given(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _of_options(
    source: str,
    url: str,
    server: str,
    passcode_file: Path | None,
    secret_file: Path | None,
    selector: str,
    concurrency: int,
    timeout: str,
    allow_private: bool,
    http: str,
) -> PushConfig:
    if not source or not url or not server:
        raise PlanError("--server, QUEUE and URL are needed, or --config")
    passcode = os.environ.get(PASSCODE, "") if passcode_file is None else settings.read_passcode(passcode_file)
    endpoint = settings.make_endpoint(
        url,
        secret_file=secret_file,
        concurrency=concurrency,
        timeout=settings.read_duration(timeout),
        allow_private=allow_private,
    )
    plan = settings.make_plan(source, endpoint, selector=selector)
    return PushConfig(settings.make_server(server, passcode), (plan,), settings.http_address(http))


async def _run(orders: PushConfig) -> int:
    """Push until a signal; returns the exit status."""
    stop = anyio.Event()
    watch = LoopWatch()
    consumers = [PushConsumer(orders.server, plan, stop) for plan in orders.plans]
    try:
        with serving(orders.http, [each.status for each in consumers], watch):
            return await _until_signal(orders, consumers, stop, watch)
    except HttpError as error:
        raise click.ClickException(str(error)) from None


async def _until_signal(
    orders: PushConfig, consumers: list[PushConsumer], stop: anyio.Event, watch: LoopWatch
) -> int:
    failures: list[str] = []
    status = 0

    async def consume(consumer: PushConsumer, scope: anyio.CancelScope) -> None:
        try:
            await consumer.run()
        except StompError as error:
            failures.append(f"cannot push: {error}")
            scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_report, consumers, watch)
        with anyio.open_signal_receiver(*_STATUS) as signals:
            async with anyio.create_task_group() as pushing:
                for consumer in consumers:
                    plan = consumer.status.plan
                    log.info("pushing", source=plan.source, url=plan.endpoint.name, server=str(orders.server.address))
                    pushing.start_soon(consume, consumer, pushing.cancel_scope)
                systemd.ready("pushing")
                status = _STATUS[await anext(signals)]
                systemd.stopping()
                stop.set()
                pushing.cancel_scope.deadline = anyio.current_time() + _LAST_WORDS
        tasks.cancel_scope.cancel()
    _tell(consumers)
    if failures:
        raise click.ClickException(failures[0])
    return status


async def _report(consumers: list[PushConsumer], watch: LoopWatch) -> None:
    """Tell the service manager each second that the loop turns, and the log each minute what was pushed."""
    while True:
        deadline = anyio.current_time() + _LINE_EVERY
        while anyio.current_time() < deadline:
            watch.turns()
            systemd.alive()
            await anyio.sleep(_TURN)
        _tell(consumers)


def _tell(consumers: list[PushConsumer]) -> None:
    for each in consumers:
        plan, news = each.status.plan, each.status.news()
        log.info("pushed", **news, held=each.status.held, source=plan.source, url=plan.endpoint.name)
