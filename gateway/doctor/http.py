"""HTTP as far as the doctor needs it: one request a connection, and an answer that is bounded."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from socket import socket
from typing import cast

import trio

from .dial import Dialler, HungUp
from .finding import Trouble, shown
from .places import Place

_END = b"\r\n\r\n"

MOST = 4 << 20
"""Octets of an answer that we take: a thousand sessions are a third of a MiB."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back.

    Attributes:
        fields: by lower-case name.
    """

    status: int
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def __str__(self) -> str:
        said = shown(self.body)
        return f"{self.status}" + (f", {said!r}" if said else "")


class NoHttp(Trouble):
    """What came back is no HTTP.

    Attributes:
        octets: that came; empty: the peer closed without a word.
    """

    def __init__(self, octets: bytes) -> None:
        said = f"it said {shown(octets[:80])!r}, which is no HTTP" if octets else "it closed without a word"
        super().__init__(said, "Dial the port of HTTP")
        self.octets = octets


class _Octets:
    """What http.client takes for a socket."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._octets)


def request(place: Place, path: str, fields: Mapping[str, str]) -> bytes:
    """A GET."""
    lines = [f"GET {path} HTTP/1.1", f"Host: {place.authority}", *[f"{name}: {text}" for name, text in fields.items()]]
    return "\r\n".join([*lines, "", ""]).encode()


def parse(octets: bytes, *, whole: bool = True) -> Answer:
    """Read an answer.

    Args:
        whole: with its body; else that is left out.

    Raises:
        NoHttp: it is none.
    """
    response = HTTPResponse(cast(socket, _Octets(octets)))
    try:
        response.begin()
        body = response.read() if whole else b""
    except (HTTPException, ValueError, OSError):
        raise NoHttp(octets) from None
    return Answer(response.status, {name.lower(): text for name, text in response.getheaders()}, body)


async def get(dialler: Dialler, place: Place, path: str, fields: Mapping[str, str] | None = None) -> Answer:
    """Ask for a page.

    Raises:
        Trouble: there is no answer; NoHttp: none that is HTTP.
    """
    stream = await dialler.open(place)
    try:
        with trio.fail_after(dialler.patience):
            await stream.send_all(request(place, path, {**(fields or {}), "Connection": "close"}))
            return parse(await _until_end(stream))
    except trio.TooSlowError:
        raise Trouble(
            f"no answer to {path} within {dialler.patience:g} s", "Look into the log of what listens"
        ) from None
    except trio.BrokenResourceError:
        raise NoHttp(b"") from None
    finally:
        await trio.aclose_forcefully(stream)


async def _until_end(stream: trio.abc.Stream) -> bytes:
    """All that comes, up to a bound."""
    octets = b""
    while len(octets) < MOST:
        try:
            chunk = await stream.receive_some(65_536)
        except trio.BrokenResourceError:
            break
        if not chunk:
            break
        octets += chunk
    return octets


async def until_head(stream: trio.abc.Stream) -> tuple[bytes, bytes]:
    """The head of an answer, and what came behind it.

    Raises:
        HungUp: it ended before.
    """
    octets = b""
    while _END not in octets:
        try:
            chunk = await stream.receive_some(65_536)
        except trio.BrokenResourceError:
            chunk = b""
        if not chunk or len(octets) > MOST:
            raise HungUp(octets)
        octets += chunk
    head, _, behind = octets.partition(_END)
    return head + _END, behind
