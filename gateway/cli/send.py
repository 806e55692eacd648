"""`gateway send`: a message from the command line, or one for each line of standard input.

All lines that are available are sent together, and the last message asks for a receipt: a server handles the frames of
a session in order, so that receipt confirms all of them.  Then the next lines are read.  So a typed line goes out at
once, and a file goes in large pieces.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import click

from gateway.client import Client

from .connection import BadLine, Line, connected, header, read_line, server_of, told, where

_READ = 64 * 1024
# Longer than any server takes: not a line of text.
_LONGEST = 64 * 1024**2
_STDIN = 0


@click.command()
@click.argument("destination", default="")
@click.argument("body", required=False)
@where
@click.option("--header", "-H", "headers", multiple=True, callback=header, help="A header, as NAME:VALUE; repeatable.")
@click.option("--content-type", default="", help="The header content-type.")
@click.option("--persistent", is_flag=True, help="The header persistent:true, to survive a restart.")
@click.option("--json", "as_json", is_flag=True, help="Lines are objects, as `subscribe --json` writes them.")
@click.option("--whole", is_flag=True, help="Send standard input as one body.")
def send(
    destination: str,
    body: str | None,
    headers: dict[str, str],
    content_type: str,
    persistent: bool,
    as_json: bool,
    whole: bool,
    **server: Any,
) -> None:
    """Send BODY to DESTINATION; without BODY, each line of standard input.

    With --json and without DESTINATION the lines name their destinations.

    Exit status: 0 when the server has confirmed all messages by receipts; otherwise 1, and a sentence with their
    number.
    """
    if not destination and not as_json:
        raise click.UsageError("DESTINATION is missing, like /queue/work")
    if (body is not None) + as_json + whole > 1:
        raise click.UsageError("BODY, --json and --whole exclude each other")
    if content_type:
        headers["content-type"] = content_type
    if persistent:
        headers["persistent"] = "true"
    where_to = server_of(**server)
    confirmed = 0
    try:
        with told("cannot send"), connected(where_to) as client:
            for group in _groups(client, partial(_encode, client, destination, headers), body, as_json, whole):
                confirmed += group
    except click.ClickException as error:
        raise click.ClickException(f"{error.message} ({_count(confirmed)} confirmed before)") from None
    click.echo(f"{_count(confirmed)} sent and confirmed", err=True)


def _count(number: int) -> str:
    return f"{number} message{'' if number == 1 else 's'}"


def _encode(client: Client, destination: str, common: Mapping[str, str], line: Line, receipt: str) -> bytes:
    target = destination or line.destination
    if not target:
        raise BadLine("it has no destination, and the command names none")
    headers = {"destination": target, **line.headers, **common}
    if receipt:
        headers["receipt"] = receipt
    return client.encode("SEND", headers, line.body)


def _groups(client: Client, encode: Any, body: str | None, as_json: bool, whole: bool) -> Iterator[int]:
    """Send the messages; yields the number of each group that the server has confirmed."""
    number = 0
    for group in _bodies(body, whole):
        frames = []
        for place, nbytes in enumerate(group, 1):
            number += 1
            last = place == len(group)
            try:
                line = read_line(nbytes) if as_json else Line("", {}, nbytes)
                frames.append(encode(line, f"r{number}" if last else ""))
            except BadLine as error:
                raise click.ClickException(f"line {number} of standard input: {error}") from None
        client.send(b"".join(frames))
        client.wait_for(f"r{number}", "SEND")
        yield len(group)


def _bodies(body: str | None, whole: bool) -> Iterator[list[bytes]]:
    """Groups of bodies that are available together."""
    if body is not None:
        yield [os.fsencode(body)]
    elif whole:
        yield [sys.stdin.buffer.read()]
    else:
        yield from _lines_of_stdin()


def _lines_of_stdin() -> Iterator[list[bytes]]:
    rest = b""
    while chunk := os.read(_STDIN, _READ):
        *group, rest = (rest + chunk).split(b"\n") if b"\n" in chunk else (rest + chunk,)
        if len(rest) > _LONGEST:
            raise click.ClickException(f"a line of standard input is longer than {_LONGEST} bytes: use --whole")
        if group:
            yield [line.removesuffix(b"\r") for line in group]
    if rest:
        yield [rest]
