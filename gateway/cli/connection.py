"""Options and failures that `send` and `subscribe` share."""

from __future__ import annotations

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
from gateway.client.server import server_at
from gateway.client.tls import FileError

URL, PASSCODE = "STOMP_URL", "STOMP_PASSCODE"
# Milliseconds: the user at a terminal waits.
_PATIENCE = 10_000
_HERE = "stomp://127.0.0.1:61613"

Command = Callable[..., Any]


def where(command: Command) -> Command:
    """Give a command the options of `server_of`."""
    for option in reversed(
        [
            click.option("--url", envvar=URL, show_envvar=True, default=_HERE, show_default=True, help=_URL_HELP),
            click.option("--passcode-file", type=_FILE, help=f"A file with the passcode; without it, {PASSCODE}."),
            click.option("--ca", type=_FILE, help="Certificates to trust instead of the system's, for stomps."),
            click.option("--cert", type=_FILE, help="The client certificate, for stomps."),
            click.option("--key", type=_FILE, help="Its key, if it has a file of its own."),
            click.option("--vhost", default="", help="The header `host` of CONNECT; RabbitMQ wants / here."),
            click.option("--client-id", default="", help="The header `client-id` of CONNECT."),
        ]
    ):
        command = option(command)
    return command


_URL_HELP = "The server: stomp://user@host:port, or stomps for TLS."
_FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


def server_of(url: str, passcode_file: Path | None, vhost: str, client_id: str, **files: Path | None) -> StompServer:
    """The server of the options; raises click.BadParameter for the URL, click.UsageError for files."""
    passcode = os.environ.get(PASSCODE, "")
    if passcode_file is not None:
        passcode = passcode_file.read_text().rstrip("\r\n")
    fields: dict[str, Any] = {"vhost": vhost, "headers": {"client-id": client_id} if client_id else {}}
    try:
        return server_at(url, PASSCODE, passcode=passcode, receipt_timeout=_PATIENCE, **fields, **files)
    except FileError as error:
        raise click.UsageError(str(error)) from None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--url") from None


def header(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """`NAME:VALUE`, as often as given.  Raises click.BadParameter: there is no colon, or no name."""
    found = {}
    for text in values:
        name, colon, value = text.partition(":")
        if not (colon and name.strip()):
            raise click.BadParameter(f"{text[:80]!r} is no header: write NAME:VALUE")
        found[name.strip()] = value.strip()
    return found


@contextmanager
def connected(server: StompServer, *, beat: bool = False) -> Iterator[Client]:
    """A session for the block; its DISCONNECT gives prefetched messages back at once.  Raises StompError."""
    client = Client(server, beat=beat)
    try:
        yield client
    finally:
        client.disconnect()


class Terminated(BaseException):
    pass


@contextmanager
def told(doing: str) -> Iterator[None]:
    """Turn failures into a sentence and status 1, signals into 130 and 143; a reader that stops is no failure."""

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
