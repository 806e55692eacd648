"""`gateway push`: the command.

Exit status: 0 after SIGTERM, 130 after Ctrl-C, 1 and one sentence when the server refuses at the start, 2 usage.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from gateway.config.command_file import PlanError, http_address, read_passcode
from gateway.observe import logs

from . import settings
from .settings import PushConfig

PASSCODE = "STOMP_PASSCODE"
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
    from .running import PushFailed, run  # `gateway --help` needs no event loop

    logs.configure(log_format, log_level)
    try:
        sys.exit(run(orders))
    except PushFailed as error:
        raise click.ClickException(str(error)) from None


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
    passcode = os.environ.get(PASSCODE, "") if passcode_file is None else read_passcode(passcode_file)
    endpoint = settings.make_endpoint(
        url,
        secret_file=secret_file,
        concurrency=concurrency,
        timeout=settings.read_duration(timeout),
        allow_private=allow_private,
    )
    plan = settings.make_plan(source, endpoint, selector=selector)
    return PushConfig(settings.make_server(server, passcode), (plan,), http_address(http, settings.EXAMPLE))
