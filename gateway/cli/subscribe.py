"""`gateway subscribe`: messages on standard output, until a limit or Ctrl-C.

A message is acknowledged after it was written, so a broken pipe loses none: the server takes back the others.  For a
terminal, control characters are written as escapes.
"""

import math
import sys
import time
from typing import Any, Self

import click

from gateway.client import Client
from gateway.client.protocol import handle_of
from gateway.codec import Frame
from gateway.config.values import duration_like
from gateway.text import visible

from .connection import connected, header, json_line, server_of, told, where

_PREFETCH = 100
# Seconds between two checks of the timeout and of heart-beats.
_LOOK = 1.0
LATE = 3  # the exit status if --timeout comes before --count messages


@click.command()
@click.argument("destinations", nargs=-1, required=True, metavar="DESTINATION...")
@where
@click.option("--header", "-H", "headers", multiple=True, callback=header, help="A header, as NAME:VALUE; repeatable.")
@click.option("--selector", default="", help="Only messages with matching headers.")
@click.option("--browse", is_flag=True, help="Show a queue's waiting messages, consume none, and end.")
@click.option(
    "--json", "as_json", is_flag=True, help="Lines of JSON with headers and body, as `send --json` reads them."
)
@click.option("--count", type=click.IntRange(min=1), help="End after so many messages.")
@click.option("--timeout", type=duration_like("10s or 5m", 0.001), help="End after so long, like 10s or 5m.")
def subscribe(
    destinations: tuple[str, ...],
    headers: dict[str, str],
    selector: str,
    browse: bool,
    as_json: bool,
    count: int | None,
    timeout: float | None,
    **server: Any,
) -> None:
    """Write the messages of each DESTINATION to standard output: the body and a line end.

    Messages of a queue are consumed: what is shown is gone.  With --browse they stay.

    Exit status: 0 after --count messages, or --timeout without it, or the end of --browse; 3 when --timeout came before
    --count; 130 after Ctrl-C; 1 when the server refuses or the connection is lost.
    """
    if selector:
        headers["selector"] = selector
    window = min(_PREFETCH, count or _PREFETCH)
    wanted = {"ack": "client-individual", "prefetch-count": str(window)}
    if browse:
        wanted = {"ack": "auto", "browser": "true"}
    where_to, is_late = server_of(**server), False
    with told("cannot subscribe"), connected(where_to, beat=True) as client:
        for number, destination in enumerate(destinations):
            client.request("SUBSCRIBE", {"id": str(number), "destination": destination, **wanted, **headers})
        browsers = len(destinations) if browse else 0
        if not browse and "browser" not in headers and (queues := [each for each in destinations if _is_queue(each)]):
            names = visible(", ".join(queues))
            click.echo(f"consumes {names}: each message shown is gone from the queue; --browse only looks", err=True)
        with _Reader(client, as_json, count or math.inf, window, browsers) as reader:
            is_late = reader.run(time.monotonic() + (timeout or math.inf))
    if is_late and count:
        click.echo(f"{reader.written} of {count} messages came in {timeout:g} s", err=True)
        sys.exit(LATE)


def _is_queue(destination: str) -> bool:
    return destination.startswith(("/queue/", "/amq/queue/")) or not destination.startswith("/")


class _Reader:
    """Writes messages and acknowledges them, at the latest at the end of its block.

    Each ACK lets the server send one more.  The last ACKs are held back, so that it sends no message beyond --count.
    """

    def __init__(self, client: Client, as_json: bool, count: float, window: int, browsers: int) -> None:
        self.written = 0
        self._client = client
        self._as_json = as_json
        self._count = count
        self._browsers = browsers
        self._browses = browsers > 0
        self._escapes = sys.stdout.isatty()
        self._held: list[tuple[str, str]] = []  # subscription and handle of written messages without an ACK
        self._window = window
        self._acknowledged = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._acknowledge(len(self._held))

    def run(self, deadline: float) -> bool:
        """Read until --count messages; True: the deadline came first."""
        while self.written < self._count and (self._browsers or not self._browses):
            left = deadline - time.monotonic()
            if left <= 0:
                return True
            self._take(self._client.receive(min(left, _LOOK)))
        return False

    def _take(self, frames: list[Frame]) -> None:
        taken = []
        for frame in frames:
            if self._browses and frame.headers.get("browser") == "end":
                self._browsers -= 1
            elif frame.command == "MESSAGE" and self.written < self._count:
                self._write(frame)
                self.written += 1
                taken.append((frame.headers.get("subscription", ""), handle_of(frame)))
        sys.stdout.flush()
        if not self._browses:
            self._held += taken
            self._acknowledge(min(len(self._held), self._count - self._window - self._acknowledged))

    def _acknowledge(self, count: float) -> None:
        if count <= 0:
            return
        first, self._held = self._held[: int(count)], self._held[int(count) :]
        by_subscription: dict[str, list[str]] = {}
        for subscription, handle in first:
            by_subscription.setdefault(subscription, []).append(handle)
        self._client.send(b"".join([self._client.acks(name, each) for name, each in by_subscription.items()]))
        self._acknowledged += len(first)

    def _write(self, frame: Frame) -> None:
        if self._as_json:
            line = json_line(frame.headers, frame.body)
            click.echo(visible(line) if self._escapes else line)
        elif self._escapes:
            click.echo(visible(frame.body.decode(errors="backslashreplace")))
        else:
            sys.stdout.buffer.write(frame.body + b"\n")
