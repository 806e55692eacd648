"""Edges of a gateway: their processes, started, watched and started again; and what an edge is told at its start.

The gateway opens the listening sockets, so that a port in use is told as without edges, and hands them down: an edge
that dies takes no waiting connection with it.  Settings and descriptors go to the standard input of the new process.
An edge obeys its link alone: it ignores SIGTERM and SIGINT, which a terminal or a service manager sends to all
processes, and ends when the link ends.

All edges start at the same time, and the gateway is ready when all are.  If one does not get so far, the gateway does
not start.  One that ends later is started again, after a pause if it did not last.
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import structlog
import trio

from gateway.codec import ProtocolError
from gateway.config.errors import StartError
from gateway.config.settings import Settings
from gateway.edges.edge import Connect
from gateway.edges.forms import EdgeLoad
from gateway.edges.link import EdgeLink
from gateway.edges.pipe import MessagePipe
from gateway.runtime.reload import RELOADED
from gateway.transports import Listening
from gateway.transports.flow.process_memory import resident
from gateway.transports.wire.link import SocketPipe

log = structlog.get_logger("gateway.edge")

# The module that an edge's process runs.
_MODULE = "gateway.edge_process"
# Seconds until an edge that has ended is started again, doubled each time that it does not last.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
# Seconds after which an edge that has run counts as one that starts well.
_LASTS = 30.0
# Seconds that an edge has to end once its link has.
_LONGEST_END = 5.0


@dataclass(frozen=True, slots=True)
class EdgeStart:
    """What the process of an edge is told at its start."""

    name: str
    settings: Settings
    link: int  # descriptor of its end of the link
    listeners: dict[str, list[int]]  # kind of listener -> descriptors
    inherited: list[int]  # those of them that systemd keeps open, too
    follows: bool  # it looks for its primary itself, and the link only ties it to the process that has started it


@dataclass(frozen=True, slots=True)
class EdgePart:
    """The part of an edge in `open_gateway`."""

    link: EdgeLink
    connect: Connect
    listening: dict[str, Listening] | None = None  # None: it opens its own
    longest_silence: float = math.inf  # seconds after which a link counts as lost


def settings_of_edge(settings: Settings) -> Settings:
    """The settings of an edge: what the primary decides is left out."""
    nothing = {"max_frames_per_second": 0, "max_bytes_per_second": 0, "max_connections_per_user": 0}
    nothing |= {f"{name}_per_{whose}": 0 for name in list(nothing)[:2] for whose in ("user", "address")}
    kept = {"store": "memory", "journal": None, "handlers": "", "rule": (), "cluster": ""}
    kept |= {"trace_endpoint": "", "events": ""}
    share = {"max_handshakes": math.ceil(settings.max_handshakes / max(settings.edges, 1))}
    return settings.model_copy(update=kept | nothing | share)


class LinkToEdge(Protocol):
    """What ties an edge to the process that has started it."""

    load: EdgeLoad
    is_silent: bool  # it ended because the edge said nothing any more

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes that came, and that were sent."""

    @property
    def sessions(self) -> int:
        """Sessions of the edge that go over it."""

    async def run(self) -> None:
        """Serve it until it ends."""

    def drain(self, error: ProtocolError, *, is_final: bool) -> None:
        """Have it end its sessions by an error."""

    def reload(self, changed: Mapping[str, Any]) -> None:
        """Have it read its files again, and take settings."""


@dataclass(slots=True, eq=False)
class Edge:
    """One edge.  `address`: of the machine that it is on; empty: this one, and this process has started it."""

    name: str
    address: str = ""
    link: LinkToEdge | None = None  # None: it is not running
    process: trio.Process | None = None
    is_ready: bool = False  # it serves clients
    starts: int = 0
    since: float = 0.0  # when it was started last, in seconds since the epoch
    ended: str = ""  # why it ended the last time; empty: it has not
    ended_at: float = 0.0  # in seconds since the epoch

    @property
    def load(self) -> EdgeLoad:
        """What it said last that it has and takes."""
        return EdgeLoad() if self.link is None else self.link.load

    def begin(self, link: LinkToEdge, address: str = "") -> None:
        """It has a link."""
        self.link, self.address = link, address
        self.starts += 1
        self.since = time.time()

    def serve(self) -> None:
        """It serves clients."""
        self.is_ready = True

    def end(self, reason: str) -> None:
        """It has no link any more; an empty reason: it has left."""
        self.link, self.is_ready = None, False
        self.ended = reason or self.ended
        self.ended_at = time.time() if reason else 0.0


async def _kill(process: trio.Process) -> None:
    process.kill()  # does nothing if it has ended
    await process.wait()


class Tie(Protocol):
    """Makes what ties an edge to this process."""

    def __call__(
        self,
        pipe: MessagePipe,
        name: str,
        *,
        end_process: Callable[[], Awaitable[None]],
        on_ready: Callable[[], None],
        memory_beside: Callable[[], int],
    ) -> LinkToEdge:
        """Of a pipe, and the name of the edge.

        `end_process`: ends its process.  `on_ready`: to be called when it serves clients.  `memory_beside`: the bytes
        of memory of the other processes.
        """


class Edges:
    """The edges of a gateway.

    `follows`: edges look for their primary themselves, by the setting `edge_of`.
    """

    def __init__(
        self,
        settings: Settings,
        opened: Mapping[str, Listening],
        tie: Tie,
        *,
        follows: bool = False,
    ) -> None:
        self._settings = settings_of_edge(settings)
        self._opened = opened
        self._tie = tie
        self._follows = follows
        self._is_draining = False
        self._is_decided = trio.Event()  # all edges are ready, or one has ended before they were
        self._has_started = False  # all were ready
        self.all = [Edge(str(number + 1)) for number in range(max(settings.edges, 1))]

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep all edges running, until cancelled; started when all are ready.

        Raises StartError, perhaps in groups: one of them did not start.
        """
        async with trio.open_nursery() as nursery:
            for edge in self.all:
                nursery.start_soon(self._keep, edge)
            await self._is_decided.wait()
            for edge in self.all:
                if edge.ended:
                    raise StartError(f"edge {edge.name} did not start: {edge.ended}; the log says more")
            task_status.started()

    async def _keep(self, edge: Edge) -> None:
        pause = _FIRST_PAUSE
        while not self._is_draining:
            began = trio.current_time()
            link = await self._start(edge)
            try:
                await link.run()
            finally:
                edge.link, edge.is_ready = None, False
                with trio.CancelScope(shield=True):
                    await self._end(edge, link)
            if not self._has_started:
                self._is_decided.set()
                return
            if self._is_draining:
                return
            if trio.current_time() - began > _LASTS:
                pause = _FIRST_PAUSE
            log.error("an edge has ended and is started again", edge=edge.name, reason=edge.ended, seconds=pause)
            await trio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _start(self, edge: Edge) -> LinkToEdge:
        ours, theirs = socket.socketpair()
        listeners = {kind: [each.socket.fileno() for each in of.listeners] for kind, of in self._opened.items()}
        inherited = [each.socket.fileno() for of in self._opened.values() for each in of.inherited]
        start = EdgeStart(edge.name, self._settings, theirs.fileno(), listeners, inherited, self._follows)
        with theirs:
            edge.process = process = await trio.lowlevel.open_process(
                # Modules are found as in this process, and the working directory is not searched before them.
                [sys.executable, "-P", "-m", _MODULE, edge.name],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
                stdin=subprocess.PIPE,
                pass_fds=[theirs.fileno(), *[each for of in listeners.values() for each in of]],
            )
        assert process.stdin is not None  # it was asked for
        async with process.stdin:
            with suppress(trio.BrokenResourceError):  # it has ended already, which its link says, too
                await process.stdin.send_all(pickle.dumps(start))
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        link = self._tie(
            MessagePipe(SocketPipe(stream)),
            edge.name,
            end_process=partial(_kill, process),
            on_ready=partial(self._note_ready, edge),
            memory_beside=lambda: resident() + self.memory(besides=edge),
        )
        edge.begin(link)
        log.info("an edge was started", edge=edge.name, pid=process.pid)
        return link

    def _note_ready(self, edge: Edge) -> None:
        edge.serve()
        if all(each.is_ready for each in self.all):
            self._has_started = True
            self._is_decided.set()

    async def _end(self, edge: Edge, link: LinkToEdge) -> None:
        process = edge.process
        assert process is not None  # it was started
        if not link.is_silent:  # else it would not notice
            with trio.move_on_after(_LONGEST_END):
                await process.wait()
        await _kill(process)
        edge.end("silence" if link.is_silent else _reason(await process.wait()))
        edge.process = None

    def memory(self, *, besides: Edge | None = None) -> int:
        """Bytes of memory that the processes of edges take."""
        return sum([each.load.memory for each in self.all if each is not besides])

    def close(self, *, is_final: bool) -> None:
        """Listen no more, and start no edge again; `is_final`: this process ends."""
        self._is_draining = True
        for of in self._opened.values():
            for listener in of.listeners:
                # Else clients would wait in a line that nothing serves.
                if is_final or listener not in of.inherited:
                    listener.socket.close()

    def reload(self, settings: Settings) -> None:
        """Settings were read again: have all edges take them, and read their files."""
        changed = {name: getattr(settings, name) for name in RELOADED}
        self._settings = self._settings.model_copy(update=changed)
        for edge in self.all:
            if edge.link is not None:
                edge.link.reload({name: value for name, value in changed.items() if "token" not in name})


def _reason(status: int) -> str:
    """Why a process has ended, in words."""
    return f"exit status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
