"""`python -m benchmarks.primary`: what the primary does for the messages of its edges, and what one process does for
the same clients, in microseconds of CPU, without the noise of a machine with many processes.

Both gateways run in this process, one at a time, on sockets of the system: one with a `ConnectionHandler` and a TCP
connection for each client, one with a `PrimaryLink` and a pair of unix sockets.  Clients and edge are a function that
is called between two turns.  So the method is:

    write what clients, or their edge, would write       the clock stands
    let the gateway run until all its tasks wait         the clock runs: CPU of this thread, system calls with it
    read what came for clients, and count the frames     the clock stands

A turn with nothing to do costs some microseconds, too, in both gateways; it is measured and taken off.  What is not in
it: waking a process that sleeps, here or at the other end (several microseconds for each batch), and the edges.

A batch of an edge is what `EdgeLink` makes of the clients' frames: a run of SENDs with one header block, each other
frame by itself, what sockets have taken since the last batch.  How many frames a batch has is the row's choice, while
on a real link it comes of the load: so the rows for 1 to 100 clients a batch say how the cost of a lone SEND falls.

Rounds are interleaved, and the table shows the best of each: what others do on the machine only adds.  `--profile ROW`
shows where the primary's time goes instead.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import itertools
import logging
import pstats
import select
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgpack
import structlog
import trio
from trio.testing import wait_all_tasks_blocked

from benchmarks.wire import DeliveryError, bodies, frame, send_frame
from gateway.auth.authenticator import Anonymous
from gateway.broker.core.ports import ANONYMOUS
from gateway.broker.model.identity import Identity
from gateway.codec import V12, encoder
from gateway.edges.forms import ToEdge, ToPrimary, fields_of_login
from gateway.edges.pipe import MessagePipe
from gateway.edges.primary import PrimaryLink
from gateway.transports import ConnectionHandler, Server
from gateway.transports.accept.listener import Acceptor
from gateway.transports.flow.connected import Login
from gateway.transports.wire.link import SocketPipe

_HOST = "127.0.0.1"
_READ = 1 << 20
# Turns after which frames that have not come are lost.
_PATIENCE = 100
# Seconds of the clock that one sample takes, and turns before it.
_SAMPLE, _WARM_UP = 0.05, 5


class Clock:
    """CPU of the gateway."""

    def __init__(self, profile: cProfile.Profile | None = None) -> None:
        self.spent = 0.0
        self.turns = 0
        self._profile = profile

    async def turn(self) -> None:
        """Let the gateway run until all its tasks wait."""
        if self._profile is not None:
            self._profile.enable()
        began = time.thread_time()
        await wait_all_tasks_blocked()
        self.spent += time.thread_time() - began
        self.turns += 1
        if self._profile is not None:
            self._profile.disable()


@dataclass
class Send:
    """A SEND of a client; `receipt`: the id of its RECEIPT, if it asks for one."""

    client: int
    destination: str
    body: bytes
    receipt: str = ""


class Clients(ABC):
    """The clients of one gateway.  What they do is written at the next `turn`."""

    def __init__(self, server: Server, clock: Clock) -> None:
        self.server = server
        self.clock = clock

    @abstractmethod
    async def start(self, nursery: trio.Nursery) -> None:
        """Let the gateway serve them."""

    @abstractmethod
    def connect(self, client: int) -> None:
        """Log in."""

    @abstractmethod
    def put(self, client: int, command: str, **headers: str) -> None:
        """Send a frame that is no SEND."""

    @abstractmethod
    def send(self, sends: Sequence[Send]) -> None:
        """Send messages."""

    @abstractmethod
    def leave(self, client: int) -> None:
        """Close, behind a DISCONNECT."""

    @abstractmethod
    def write(self) -> None:
        """Write what they have."""

    @abstractmethod
    def read(self) -> int:
        """Read, and return how many frames came."""

    async def get(self, frames: int) -> None:
        """Run turns until so many frames have come."""
        for _ in range(_PATIENCE):
            self.write()
            await self.clock.turn()
            frames -= self.read()
            if not frames:
                return
        raise DeliveryError(f"{frames} frames did not come")


class OneProcess(Clients):
    """Their sockets are the gateway's."""

    async def start(self, nursery: trio.Nursery) -> None:
        (listener,) = await trio.open_tcp_listeners(0, host=_HOST)
        self._address = listener.socket.getsockname()
        self._sockets: dict[int, socket.socket] = {}
        self._unsent: dict[int, bytes] = {}
        self._poll = select.poll()
        handler = ConnectionHandler(self.server)
        nursery.start_soon(trio.serve_listeners, handler.serve, [Acceptor(listener)])

    def connect(self, client: int) -> None:
        self._sockets[client] = made = socket.create_connection(self._address)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setblocking(False)
        self._add(client, frame("CONNECT", accept_version="1.2", host=_HOST))

    def put(self, client: int, command: str, **headers: str) -> None:
        self._add(client, frame(command, **headers))

    def send(self, sends: Sequence[Send]) -> None:
        for each in sends:
            headers = {"receipt": each.receipt} if each.receipt else {}
            self._add(each.client, send_frame(each.destination, each.body, **headers))

    def leave(self, client: int) -> None:
        self._sockets.pop(client).close()

    def _add(self, client: int, data: bytes) -> None:
        self._unsent[client] = self._unsent.get(client, b"") + data

    def write(self) -> None:
        for client, data in self._unsent.items():
            if self._sockets[client].send(data) < len(data):
                raise DeliveryError("the socket of a client has no room for a batch")
        self._unsent.clear()

    def read(self) -> int:
        frames = 0
        for each in self._sockets.values():
            with_end = b""
            try:
                while with_end := each.recv(_READ):
                    frames += with_end.count(b"\0")
            except BlockingIOError:
                pass
        return frames


class AtEdge(Clients):
    """Their sockets are at an edge, of which there is the link alone."""

    async def start(self, nursery: trio.Nursery) -> None:
        ours, self._socket = socket.socketpair()
        self._socket.setblocking(False)
        pipe = MessagePipe(SocketPipe(trio.SocketStream(trio.socket.from_stdlib_socket(ours))))
        nursery.start_soon(PrimaryLink(self.server, pipe, "1").run)
        self._packer = msgpack.Packer(autoreset=False)
        self._unpacker = msgpack.Unpacker(use_list=False)
        self._places: dict[tuple[int, str], int] = {}
        self._wrote: dict[int, int] = {}

    def _put(self, kind: ToPrimary, *fields: object) -> None:
        self._packer.pack((int(kind), *fields))

    def connect(self, client: int) -> None:
        login = Login(V12, (0, 0), "", Identity(ANONYMOUS), f"{_HOST}:{client}", "tcp", _HOST, encoder.END)
        self._put(ToPrimary.OPEN, client, fields_of_login(login), False)

    def put(self, client: int, command: str, **headers: str) -> None:
        receipt = headers.pop("receipt", None)
        self._put(ToPrimary.FRAME, client, command, headers, 60, b"", receipt)

    def send(self, sends: Sequence[Send]) -> None:
        for (client, destination), run in itertools.groupby(sends, lambda each: (each.client, each.destination)):
            of_run = list(run)
            if (client, destination) not in self._places:
                place = self._places[client, destination] = len(self._places)
                headers, size = {"destination": destination, "content-length": str(len(of_run[0].body))}, 60
                self._put(ToPrimary.HEAD, client, place, "SEND", headers, len(of_run[0].body), size)
            place = self._places[client, destination]
            texts = [each.body for each in of_run]
            if of_run[0].receipt:
                self._put(ToPrimary.CONFIRMED, client, place, texts, [each.receipt for each in of_run])
            else:
                self._put(ToPrimary.RUN, client, place, texts)

    def leave(self, client: int) -> None:
        if nbytes := self._wrote.pop(client, 0):
            self._put(ToPrimary.WROTE, (client, nbytes))
        self._put(ToPrimary.LEFT, client, 1 << 30)

    def write(self) -> None:
        if self._wrote:
            self._put(ToPrimary.WROTE, list(itertools.chain.from_iterable(self._wrote.items())))
            self._wrote.clear()
        if data := self._packer.bytes():
            self._put(ToPrimary.BATCH)
            data = self._packer.bytes()
        self._packer.reset()
        if data and self._socket.send(data) < len(data):
            raise DeliveryError("the link has no room for a batch")

    def read(self) -> int:
        frames = 0
        try:
            while data := self._socket.recv(_READ):
                self._unpacker.feed(data)
        except BlockingIOError:
            pass
        for kind, *fields in self._unpacker:
            if kind == ToEdge.WRITE:
                shared, receivers, _ = fields
                size = sum(map(len, shared))
                for client, prefixes in zip(receivers[0::2], receivers[1::2], strict=True):
                    own = len(prefixes) * len(shared) if isinstance(prefixes, bytes) else sum(map(len, prefixes))
                    self._wrote[client] = self._wrote.get(client, 0) + size + own
                    frames += len(shared)
        return frames


class Row(ABC):
    """One row; `operations` of each `step`."""

    operations: int

    async def prepare(self, clients: Clients) -> None:  # noqa: B027 - a storm needs none
        """Log in those that stay."""

    @abstractmethod
    async def step(self, clients: Clients) -> None:
        """Run a turn, or several."""


async def _log_in(clients: Clients, count: int, destination: str = "") -> None:
    for client in range(count):
        clients.connect(client)
    await clients.get(count)
    for client in range(1, count) if destination else ():
        clients.put(client, "SUBSCRIBE", destination=destination, id="0", receipt="s")
    await clients.get(count - 1 if destination else 0)


@dataclass
class Deliveries(Row):
    """`messages` of one client in each turn; others get them."""

    destination: str
    messages: int
    receivers: int = 1
    operations: int = field(init=False)

    def __post_init__(self) -> None:
        self.operations = self.messages * self.receivers
        self._sends = [Send(0, self.destination, text) for text in bodies(self.messages, 100)]

    async def prepare(self, clients: Clients) -> None:
        await _log_in(clients, 1 + self.receivers, self.destination)

    async def step(self, clients: Clients) -> None:
        clients.send(self._sends)
        await clients.get(self.operations)


@dataclass
class Receipts(Row):
    """One SEND with a RECEIPT of each client in each turn; nothing consumes the queue."""

    operations: int

    async def prepare(self, clients: Clients) -> None:
        self._sends = [Send(at, "/queue/a", text, "r") for at, text in enumerate(bodies(self.operations, 100))]
        await _log_in(clients, self.operations)

    async def step(self, clients: Clients) -> None:
        clients.send(self._sends)
        await clients.get(self.operations)


@dataclass
class Storm(Row):
    """CONNECT, DISCONNECT and the end of so many clients, each in a turn of its own."""

    operations: int

    async def step(self, clients: Clients) -> None:
        for client in range(self.operations):
            clients.connect(client)
        await clients.get(self.operations)
        for client in range(self.operations):
            clients.put(client, "DISCONNECT", receipt="r")
        await clients.get(self.operations)
        for client in range(self.operations):
            clients.leave(client)
        await clients.get(0)


ROWS: Mapping[str, tuple[str, Callable[[], Row]]] = {
    "q100": ("queue 1 to 1, 100 B, 400 in a batch", lambda: Deliveries("/queue/a", 400)),
    "t100": ("topic 1 to 1, 100 B, 400 in a batch", lambda: Deliveries("/topic/a", 400)),
    "fan50": ("topic 1 to 50, 50 in a batch, a delivery", lambda: Deliveries("/topic/a", 50, 50)),
    "fan100x1": ("topic 1 to 100, lone, a delivery", lambda: Deliveries("/topic/a", 1, 100)),
    "rcpt1": ("SEND with RECEIPT, 1 client in a batch", lambda: Receipts(1)),
    "rcpt8": ("SEND with RECEIPT, 8 clients in a batch", lambda: Receipts(8)),
    "rcpt32": ("SEND with RECEIPT, 32 clients in a batch", lambda: Receipts(32)),
    "rcpt100": ("SEND with RECEIPT, 100 clients in a batch", lambda: Receipts(100)),
    "storm": ("login and logout, 10 in a batch", lambda: Storm(10)),
}


async def _sample(kind: type[Clients], row: Row, profile: cProfile.Profile | None = None) -> float:
    """Microseconds of the gateway for an operation."""
    server, warm = Server(Anonymous()), Clock()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        clients = kind(server, warm)
        await clients.start(nursery)
        await row.prepare(clients)
        for _ in range(_WARM_UP):
            await row.step(clients)
        idle = Clock()
        while idle.turns < _PATIENCE:
            await idle.turn()
        clients.clock = clock = Clock(profile)
        steps = 0
        while clock.spent < _SAMPLE or clock.turns < _PATIENCE:
            await row.step(clients)
            steps += 1
        nursery.cancel_scope.cancel()
    return (clock.spent - idle.spent / idle.turns * clock.turns) / steps / row.operations * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.primary")
    parser.add_argument("row", nargs="*", help=f"rows; all when none is given: {' '.join(ROWS)}")
    parser.add_argument("--rounds", type=int, default=9, help="samples of each row, interleaved; default %(default)s")
    parser.add_argument("--profile", choices=ROWS, help="show where the primary's time goes in this row")
    options = parser.parse_args()
    if unknown := set(options.row) - set(ROWS):
        parser.error(f"no row {', '.join(sorted(unknown))}")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    gc.freeze()
    gc.set_threshold(500, 1, 2_000)  # as a gateway has them
    if options.profile:
        profile = cProfile.Profile(time.thread_time)
        trio.run(_sample, AtEdge, ROWS[options.profile][1](), profile)
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
        return
    wanted = options.row or list(ROWS)
    costs: dict[tuple[str, type[Clients]], list[float]] = {}
    for _ in range(options.rounds):
        for name in wanted:
            for kind in (OneProcess, AtEdge):
                costs.setdefault((name, kind), []).append(trio.run(_sample, kind, ROWS[name][1]()))
    sys.stdout.write(_table(wanted, {key: min(each) for key, each in costs.items()}))


def _table(wanted: Sequence[str], costs: Mapping[tuple[str, type[Clients]], float]) -> str:
    lines = ["| us of CPU for each | one process | primary | |", "|---|---|---|---|"]
    for name in wanted:
        one, primary = costs[name, OneProcess], costs[name, AtEdge]
        lines.append(f"| `{name}` {ROWS[name][0]} | {one:.3g} | {primary:.3g} | {primary / one:.0%} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
