"""What `send` and `subscribe` share: options, failures, and messages as lines of JSON, which one writes and one reads:

    {"destination": "/queue/a", "headers": {"colour": "red"}, "body": "hello"}
    {"destination": "/queue/a", "headers": {}, "body": "AP8=", "body_encoding": "base64"}

A body that is not UTF-8 is written in base64.  Headers of the delivery are written, and left out when the line is sent.
"""

import base64
import binascii
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import click

from gateway.client import Client, StompError, StompServer
from gateway.client.server import FileError, server_at

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
            click.option("--ca", type=_FILE, help="Certificates to trust instead of the system's."),
            click.option("--cert", type=_FILE, help="The client certificate."),
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


_HOW_TO_LOG_IN = f"; --url stomp://USER@HOST:PORT names the user, and {PASSCODE} or --passcode-file has the passcode"


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
        hint = _HOW_TO_LOG_IN if "login refused" in str(error) else ""
        raise click.ClickException(f"{doing}: {error}{hint}") from None
    except KeyboardInterrupt:
        sys.exit(130)
    except Terminated:
        sys.exit(143)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains at its own end
    finally:
        signal.signal(signal.SIGTERM, before)


_OF_DELIVERY = frozenset(
    "ack content-length delivery-count destination message-id receipt redelivered subscription transaction".split()
)
_KEYS = frozenset({"destination", "headers", "body", "body_encoding"})


class BadLine(Exception):
    """A line is wrong; the text is one sentence."""


@dataclass(frozen=True)
class Line:
    """A message to send; `destination` may be ""."""

    destination: str
    headers: Mapping[str, str]
    body: bytes


def json_line(headers: Mapping[str, str], body: bytes) -> str:
    """A MESSAGE as a line, without its end."""
    others = {name: value for name, value in headers.items() if name not in ("destination", "content-length")}
    told: dict[str, object] = {"destination": headers.get("destination", ""), "headers": others}
    try:
        told["body"] = body.decode()
    except UnicodeDecodeError:
        told |= {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}
    return json.dumps(told, ensure_ascii=False)


def read_line(line: bytes) -> Line:
    """A line as a message.  Raises BadLine: the line is wrong."""
    try:
        told = json.loads(line)
    except ValueError:
        raise BadLine("it is not JSON") from None
    if not isinstance(told, dict):
        raise BadLine('it is not an object; write {"body": "..."}')
    if unknown := sorted(told.keys() - _KEYS):
        raise BadLine(f"{unknown[0][:80]!r} is unknown: keys are {', '.join(sorted(_KEYS))}")
    headers, destination = told.get("headers", {}), told.get("destination", "")
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise BadLine("headers must be an object of strings")
    if not isinstance(destination, str):
        raise BadLine("destination must be a string")
    kept = {name: value for name, value in headers.items() if name not in _OF_DELIVERY}
    return Line(destination, kept, _body(told.get("body", ""), told.get("body_encoding", "utf-8")))


def _body(text: object, encoding: object) -> bytes:
    if not isinstance(text, str):
        raise BadLine("body must be a string")
    if encoding == "utf-8":
        return text.encode(errors="surrogatepass")
    if encoding != "base64":
        raise BadLine("body_encoding must be utf-8 or base64")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadLine("body is not base64") from None
