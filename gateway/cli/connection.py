"""What `send` and `subscribe` have in common: where the server is, who we are there, and how a failure is told."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from gateway.client import Client, StompError, StompServer
from gateway.client.server import read_url
from gateway.client.tls import FileError, context_of

URL, PASSCODE = "STOMP_URL", "STOMP_PASSCODE"
# Milliseconds without an answer after which somebody at a terminal wants to know.
_PATIENCE = 10_000
_HERE = "stomp://127.0.0.1:61613"

Command = Callable[..., Any]


def where(command: Command) -> Command:
    """Give a command the options that `server_of` wants."""
    for option in reversed(
        [
            click.option("--url", envvar=URL, show_envvar=True, default=_HERE, show_default=True, help=_URL_HELP),
            click.option("--passcode-file", type=_FILE, help=f"A file that holds the passcode; else {PASSCODE} does."),
            click.option("--ca", type=_FILE, help="Certificates to trust instead of the system's, for stomps."),
            click.option("--cert", type=_FILE, help="The certificate to show, for stomps."),
            click.option("--key", type=_FILE, help="Its key, where that has a file of its own."),
            click.option("--vhost", default="", help="The header `host` of CONNECT; RabbitMQ wants / here."),
            click.option("--client-id", default="", help="The header `client-id` of CONNECT."),
        ]
    ):
        command = option(command)
    return command


_URL_HELP = "The server: stomp://user@host:port, or stomps for TLS."
_FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


def server_of(
    url: str,
    passcode_file: Path | None,
    ca: Path | None,
    cert: Path | None,
    key: Path | None,
    vhost: str,
    client_id: str,
) -> StompServer:
    """The server that the options name.

    Raises:
        click.BadParameter: the URL is none of a STOMP server.
        click.UsageError: a file of certificates or keys cannot be used, or is for nothing.
    """
    try:
        server, destination = read_url(url, PASSCODE)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--url") from None
    if destination:
        raise click.BadParameter("the destination is an argument of its own", param_hint="--url")
    passcode = os.environ.get(PASSCODE, "")
    if passcode_file is not None:
        passcode = passcode_file.read_text().rstrip("\r\n")
    headers = {"client-id": client_id} if client_id else {}
    server = dataclasses.replace(server, passcode=passcode, vhost=vhost, headers=headers)
    server = dataclasses.replace(server, ca=str(ca or ""), cert=str(cert or ""), key=str(key or ""))
    _check_files(server)
    return dataclasses.replace(server, receipt_timeout=_PATIENCE)


def _check_files(server: StompServer) -> None:
    if not server.tls and (server.ca or server.cert or server.key):
        raise click.UsageError("--ca, --cert and --key are for TLS: write stomps://")
    try:
        context_of(server.ca, server.cert, server.key)
    except FileError as error:
        raise click.UsageError(str(error)) from None


def header(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """`NAME:VALUE`, as often as given.

    Raises:
        click.BadParameter: there is no colon, or no name.
    """
    found = {}
    for text in values:
        name, colon, value = text.partition(":")
        if not (colon and name.strip()):
            raise click.BadParameter(f"{text[:80]!r} is no header: write NAME:VALUE")
        found[name.strip()] = value.strip()
    return found


@contextmanager
def connected(server: StompServer, *, beat: bool = False) -> Iterator[Client]:
    """A session for the block.  However that ends, the server is told, so that what it sent ahead goes back unharmed.

    Raises:
        StompError: there is no session, or it broke.
    """
    client = Client(server, beat=beat)
    try:
        yield client
    finally:
        client.disconnect()


class Terminated(BaseException):
    """SIGTERM came."""


@contextmanager
def told(doing: str) -> Iterator[None]:
    """Turn the ends that a client knows into a sentence and a status: 1, or 130 and 143 for SIGINT and SIGTERM.

    Whoever reads standard output may stop (`| head`): that is no failure.
    """

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
        sys.stdout.flush()
    except StompError as error:
        raise click.ClickException(f"{doing}: {error}") from None
    except KeyboardInterrupt:
        sys.exit(130)
    except Terminated:
        sys.exit(143)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains at its own end
    finally:
        signal.signal(signal.SIGTERM, before)
