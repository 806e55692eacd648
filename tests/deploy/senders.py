"""Clients that send durable messages over nginx, whatever becomes of the gateway: they come back and send again.

Each message has a `dedup-id`, so one that is sent again because its RECEIPT did not come is one message.  There is one
that speaks over WebSocket, and stomp.py.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio
from trio_websocket import ConnectionClosed, HandshakeError, WebSocketConnection, wrap_client_stream

from tests.clients.driver import ROOT
from tests.clients.nginx import Public
from tests.gateway_process import HOST

QUEUE = "/queue/orders"
CONNECT = "CONNECT\naccept-version:1.2\nhost:x\nlogin:ada\npasscode:engine\n\n\0"
# Between two attempts; clients are told to wait longer, but so the test is not.
PAUSE = 0.05


@dataclass
class Books:
    """What one client did and saw.

    Attributes:
        promised: bodies of the messages whose RECEIPT came.
        hints: values of `retry-after` that came.
        closes: WebSocket close codes of connections that ended.
        logins: how often it was connected.
    """

    name: str
    promised: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    closes: list[int] = field(default_factory=list)
    logins: int = 0
    over: trio.Event = field(default_factory=trio.Event)
    _changed: trio.Event = field(default_factory=trio.Event)

    @property
    def next(self) -> str:
        """The body to send now: the same until it is promised."""
        return f"{self.name}-{len(self.promised)}"

    def promise(self, body: str) -> None:
        self.promised.append(body)
        self._changed.set()
        self._changed = trio.Event()

    async def more(self, count: int) -> None:
        """Wait until so many more were promised."""
        goal = len(self.promised) + count
        while len(self.promised) < goal:
            await self._changed.wait()


Stream = trio.SSLStream[trio.SocketStream]


async def _converse(books: Books, page: WebSocketConnection) -> None:
    """Send, one message after the other, until an ERROR comes or the line breaks."""
    await page.send_message(CONNECT)
    assert (await page.get_message()).startswith("CONNECTED\n")
    books.logins += 1
    while not books.over.is_set():
        body = books.next
        head = f"SEND\ndestination:{QUEUE}\npersistent:true\ndedup-id:{body}\nreceipt:{body}"
        await page.send_message(f"{head}\n\n{body}\0")
        answer = await page.get_message()
        headers = dict(line.split(":", 1) for line in answer.split("\n\n", 1)[0].split("\n")[1:])
        if answer.startswith("ERROR\n"):
            books.hints.append(headers["retry-after"])
            await page.get_message()  # nothing more: this is the end
            return
        assert headers["receipt-id"] == body
        books.promise(body)


@asynccontextmanager
async def _secured(public: Public, port: int) -> AsyncIterator[Stream]:
    async with await trio.open_tcp_stream(HOST, port) as plain:
        yield trio.SSLStream(plain, public.trust, server_hostname=HOST, https_compatible=True)


async def over_websocket(public: Public, books: Books) -> None:
    while not books.over.is_set():
        try:
            async with _secured(public, public.https) as stream, trio.open_nursery() as tasks:
                await _page(public, books, tasks, stream)
                tasks.cancel_scope.cancel()
        except* (OSError, HandshakeError, trio.BrokenResourceError):
            pass  # nginx says 502 while nobody is behind it
        await trio.sleep(PAUSE)


async def _page(public: Public, books: Books, tasks: trio.Nursery, stream: Stream) -> None:
    page = await wrap_client_stream(tasks, stream, HOST, "/ws", extra_headers=[("Origin", public.url)])
    try:
        await _converse(books, page)
    except ConnectionClosed as closed:
        books.closes.append(closed.reason.code if closed.reason else 1006)


async def with_stomp_py(public: Public, books: Books) -> None:
    """Send until it is over: `stomp_program`, which says what happens to it line by line."""
    command = [sys.executable, "-m", "tests.deploy.stomp_program", str(public.stomp), str(public.authority)]
    process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdin is not None
    assert process.stdout is not None
    async with process.stdout, trio.open_nursery() as nursery:
        nursery.start_soon(_end_with, process.stdin, books)
        rest = b""
        async for nbytes in process.stdout:
            *lines, rest = (rest + nbytes).split(b"\n")
            for line in lines:
                _note(books, *line.decode().split(" ", 1))
    await process.wait()


async def _end_with(stdin: trio.abc.SendStream, books: Books) -> None:
    """Its input ends, and that is its sign."""
    async with stdin:
        await books.over.wait()


def _note(books: Books, what: str, word: str) -> None:
    if what == "login":
        books.logins += 1
    elif what == "promised":
        books.promise(word)
    else:
        books.hints.append(word)
