"""Whether there is memory left, and who has to go when there is none.

Two accounts.  `memory_limit` counts messages, at the moment that they are kept; the broker keeps that account, and it
misses much: outboxes, subscriptions, buffers, what the allocator could not give back.  `memory_mark` is for the process
as a whole, by its resident memory, which is looked at some times a second.  Both say the same thing to the broker:

    from 3/4 on   publishers are held back (`back_pressure`)
    at the end    a SEND is refused, `/readyz` says why no new client should come, and the client that costs most is
                  closed, as many of them as it takes; then there is a pause, because that takes a moment to help

What is measured may be wrong.  Resident memory does not fall when memory is freed: 768 MiB of chunks that were freed
stayed with the process, all of them, until `malloc_trim` gave them back, in 143 ms.  So it is called when much was
freed; and what then is still resident, but belongs to nobody that we know of, is a reason neither to hold anybody back
nor to close anybody: it would not help, and would not end.  The log says so, and the kernel decides.

Who goes.  Whoever has most that goes with it.  Consumers who have not acknowledged much are spared, for they alone make
room, and what they have would go back to its queue; but for one that has a quarter of all memory, which others could
consume.  Incomplete messages are nobody's good: when they are what memory is short of, and nothing has moved for a
while, because all who could complete theirs are held back, the largest goes before the end is reached.  The same holds
for what waits for clients that do not read, when outboxes are what memory is short of; besides, each outbox may have
but little then (`Broker.judge_memory`), so that slow consumers are found out sooner, and hold back nobody else.

A client is told why, for as long as `close_linger` lasts; who does not read cannot be told.
"""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import structlog
import trio

from gateway.broker.errors import TooCostly
from gateway.broker.session.cost import Cost, cost_of

from . import allocator

if TYPE_CHECKING:
    from gateway.broker import Quotas

    from ..connection.connection import Connection
    from ..server import Server

log = structlog.get_logger("gateway.memory")

# Seconds between looks: while there is plenty, and from half of the mark on, or under pressure.  At 500 MiB/s, what one
# client can send through loopback, the latter are 50 MiB.
_CALM, _ALERT = 0.5, 0.1
# Parts of the limit: what is worth to hold back those who have it, what a client must have that goes for what it has
# not acknowledged, and what is to go at once.
_GOOD_PART, _HOG, _SLICE = 8, 4, 32
# Connections that go at one look, at most, and seconds until more of them do.
_MOST_AT_ONCE, _PAUSE = 64, 1.0
# Seconds of pressure after which incomplete messages, where they are half of it, are taken for stuck.
_STUCK = 5.0
# Freed memory is given back to the system when it is so many bytes, or so many seconds have gone by; at any rate not
# sooner than after so many.  128 MiB take 25 ms.
_MUCH_FREED, _TRIM_PAUSE, _SOONEST_TRIM = 128 * 1024 * 1024, 5.0, 0.5
# Publishers go on when it is so much, as a part of the mark, below what they were held back at: no to and fro.
_BACK_BY = 16
# Seconds in which the log says once that nothing helps.
_QUIET = 10.0

# Bytes that messages may take however small the mark is.
_LEAST_LIMIT = 1024 * 1024

_STATM = "/proc/self/statm"


class Offender(NamedTuple):
    """A connection, and what it costs in bytes: what goes with it, and what it has not acknowledged."""

    connection: Connection
    cost: Cost

    @property
    def own(self) -> int:
        """What goes with it."""
        own: int = self.cost.own
        return own + self.connection.incomplete.nbytes

    def sentence(self) -> str:
        """What it has."""
        outbox, transactions, subscriptions, unacknowledged = self.cost
        parts = {
            "that wait to be read": outbox,
            "in open transactions": transactions,
            "of subscriptions and what waits for them": subscriptions,
            "of an incomplete message": self.connection.incomplete.nbytes,
            "not acknowledged": unacknowledged,
        }
        most = sorted(parts.items(), key=lambda item: -item[1])
        return ", ".join([f"{nbytes} octets {what}" for what, nbytes in most if nbytes])


class MemoryGuard:
    """The one who looks.

    Attributes:
        mark: bytes that the process may take; 0: nobody looks.
        resident: bytes that it took at the last look.
        closed: clients that had to go since the start.
    """

    def __init__(self, server: Server) -> None:
        self.mark = 0
        self.resident = 0
        self.closed = 0
        self._server = server
        self._name = "memory_mark"
        self._read: Callable[[], int] = lambda: 0
        self._trim: Callable[[], object] = lambda: None
        self._on_wheel = False
        self._is_scarce = False
        self._pause_until = self._pressed_since = -math.inf
        self._trimmed_at = -math.inf
        self._most_accounted = 0
        self._quiet_until = -math.inf

    def watch(self, mark: int, name: str, read: Callable[[], int], trim: Callable[[], object]) -> None:
        """Look at the process's memory from now on.

        Args:
            mark: bytes that it may take.
            name: where they come from, in words.
            read: bytes that it takes.
            trim: gives back to the system what was freed.
        """
        self.mark, self._name, self._read, self._trim = mark, name, read, trim
        broker = self._server.broker
        broker.memory.crowd = min(broker.memory.crowd, mark // _GOOD_PART)
        self.look_soon()

    @property
    def reason(self) -> str:
        """Why no new client should come, as a sentence; empty: there is memory."""
        return self._server.broker.memory.is_full or self._at_mark()

    def facts(self) -> dict[str, int]:
        """For the log."""
        return {"resident": self.resident, "memory_mark": self.mark} if self.mark else {}

    def look_soon(self) -> None:
        """There is a reason to look."""
        if not self._on_wheel:
            self._on_wheel = True
            self._pressed_since = trio.current_time()
            self._server.timers.add(self, self._pressed_since)

    def tick(self, now: float) -> float:
        """Look; returns when to look again."""
        broker = self._server.broker
        if self.mark:
            self._measure(now)
        if not broker.memory.pressed:
            self._pressed_since = now
        if now >= self._pause_until and (broker.memory.pressed or self._at_mark()):
            self._make_room(now)
        if broker.memory.pressed or (self.mark and self.resident > self.mark // 2):
            return now + _ALERT
        if self.mark:
            return now + _CALM
        self._on_wheel = False
        return math.inf

    def _at_mark(self) -> str:
        if not self.mark or self.resident < self.mark:
            return ""
        return f"the process takes {self.resident} octets of memory, {self.mark} may ({self._name})"

    def _measure(self, now: float) -> None:
        """Look at the process, and tell the broker."""
        broker, high = self._server.broker, self.mark * 3 // 4
        self.resident = self._read()
        if self.resident < high - self.mark // _BACK_BY:
            self._judge(scarce=False)
            return
        outboxes = sum([session.outbox.size for session in broker.sessions.values()])
        accounted = broker.memory.used + outboxes
        self._give_back(now, accounted)
        is_ours = accounted >= self.mark // _GOOD_PART
        scarce = is_ours and (self.resident >= high or self._is_scarce)
        self._judge(
            scarce=scarce,
            flooded=scarce and outboxes >= self.mark // _GOOD_PART,
            nearly_exhausted=is_ours and self.resident >= self.mark - self.mark // _BACK_BY,
            exhausted=self._at_mark() if is_ours else "",
        )

    def _judge(
        self, *, scarce: bool, flooded: bool = False, nearly_exhausted: bool = False, exhausted: str = ""
    ) -> None:
        self._is_scarce = scarce
        self._server.broker.judge_memory(
            scarce=scarce, flooded=flooded, nearly_exhausted=nearly_exhausted, exhausted=exhausted
        )

    def _give_back(self, now: float, accounted: int) -> None:
        """Have freed memory given back to the system, if there is much of it, and look again."""
        self._most_accounted = max(self._most_accounted, accounted)
        much = self._most_accounted - accounted >= min(_MUCH_FREED, self.mark // _GOOD_PART)
        is_time = self.resident - accounted > self.mark // _GOOD_PART and now >= self._trimmed_at + _TRIM_PAUSE
        if is_time or (much and now >= self._trimmed_at + _SOONEST_TRIM):
            self._trim()
            self._trimmed_at, self._most_accounted = now, accounted
            self.resident = self._read()

    # who goes

    def _make_room(self, now: float) -> None:
        """Close those who cost most, if memory is full, or incomplete messages keep it from moving."""
        broker = self._server.broker
        limit = broker.quotas.memory_limit
        is_stuck = now - self._pressed_since >= _STUCK
        if broker.memory.used >= limit:
            self._close(now, broker.memory.is_full, limit, broker.memory.used - limit, _kept)
        elif at_mark := self._at_mark():
            self._close(now, at_mark, self.mark, self.resident - self.mark, _all)
        elif is_stuck and broker.memory.partial >= 3 * broker.memory.crowd:
            reason = f"incomplete messages cost {broker.memory.partial} octets, and memory is short ({self._names()})"
            self._close(now, reason, _GOOD_PART * broker.memory.crowd, 0, _incomplete)
        elif is_stuck and broker.memory.flooded:
            reason = f"memory is short ({self._name}), and much of it waits for clients that do not read"
            self._close(now, reason, self.mark, 0, partial(_unread, now - self._server.options.slow_consumer_timeout))

    def _names(self) -> str:
        return f"memory_limit, {self._name}" if self.mark else "memory_limit"

    def _close(self, now: float, reason: str, limit: int, excess: int, weight_of: Callable[[Offender], int]) -> None:
        """Close those who cost most.

        Args:
            excess: bytes that are too many.
            weight_of: what of a client's bytes counts.
        """
        self._pause_until = now + _PAUSE
        costs = [(weight_of(each), each) for each in self._offenders()]
        total = sum([weight for weight, _ in costs])
        if total < max(limit // _GOOD_PART, excess):
            if not self._close_hog([each for _, each in costs], reason, limit) and now >= self._quiet_until:
                self._quiet_until = now + _QUIET
                log.error("memory is full, and closing clients would not help", reason=reason, clients_cost=total)
            return
        goal = max(excess, limit // _SLICE)
        for weight, offender in heapq.nlargest(_MOST_AT_ONCE, costs, key=lambda pair: pair[0]):
            self._send_away(offender, reason)
            goal -= weight
            if goal <= 0:
                return

    def _close_hog(self, offenders: list[Offender], reason: str, limit: int) -> bool:
        """Close the one that has not acknowledged most, if others could do much with it."""
        hog = max(offenders, key=lambda each: each.cost.unacknowledged, default=None)
        if hog is None or hog.cost.unacknowledged < limit // _HOG:
            return False
        self._send_away(hog, reason)
        return True

    def _offenders(self) -> Iterator[Offender]:
        for session, connection in self._server.connections.items():
            if not session.failed:
                yield Offender(connection, cost_of(session))

    def _send_away(self, offender: Offender, reason: str) -> None:
        self.closed += 1
        what = offender.sentence()
        detail = f"{reason}; this client is the one, or among those, that cost most: {what}"
        offender.connection.end(TooCostly("memory is full", detail))
        session = offender.connection.session
        assert session is not None  # only sessions are asked for their costs
        log.warning(
            "a client is closed to make room in memory",
            session=session.id,
            login=session.login,
            peer=session.peer,
            reason=reason,
            costs=what,
        )


def _all(offender: Offender) -> int:
    return offender.own


def _kept(offender: Offender) -> int:
    """What the broker's own account has of it."""
    return offender.own - offender.cost.outbox


def _incomplete(offender: Offender) -> int:
    return offender.connection.incomplete.nbytes


def _unread(since: float, offender: Offender) -> int:
    """What waits for a client that has taken nothing since then."""
    writer = offender.connection.writer
    return offender.cost.outbox if writer is not None and writer.last_write < since else 0


# what the system says


def mark_of(wanted: int) -> tuple[int, str]:
    """The mark in force, in bytes, and where it comes from, in words; 0: it cannot be told.

    Args:
        wanted: the setting `memory_mark`.
    """
    most, whose = available()
    return wanted or most * 3 // 4, "memory_mark" if wanted else f"memory_mark, 3/4 of what {whose} has"


def within_mark(quotas: Quotas, wanted: int) -> Quotas:
    """The quotas, with a `memory_limit` that the mark has room for.

    The process is looked at some times a second, messages are counted as they come: only a limit of theirs keeps many
    publishers that begin at once from passing the mark between two looks.

    Args:
        wanted: the setting `memory_mark`.
    """
    mark, name = mark_of(wanted)
    left = max(mark - resident(), _LEAST_LIMIT)
    if not mark or quotas.memory_limit <= left:
        return quotas
    log.info(f"memory_limit is taken as {left} and not {quotas.memory_limit} octets: {mark} may be taken ({name})")
    return replace(quotas, memory_limit=left)


def watch_process(memory: MemoryGuard, wanted: int) -> None:
    """Begin to look at the memory of this process.

    Args:
        wanted: the setting `memory_mark`.
    """
    most, whose = available()
    mark, name = mark_of(wanted)
    allocator.keep(mark)
    if not mark or not resident():
        log.info("memory is not watched: this system does not tell how much there is, or is taken")
        return
    if most and wanted > most:
        log.warning(f"memory_mark is {wanted} octets and {whose} has {most}: the system ends the process before that")
    memory.watch(mark, name, resident, allocator.trim)


def resident() -> int:
    """Bytes of memory that this process takes; 0 where the system does not tell."""
    try:
        with open(_STATM, "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def available(root: Path = Path("/")) -> tuple[int, str]:
    """Bytes of memory that this process may ever take, and whose they are in words; 0 where the system does not tell.

    Args:
        root: of the file system that /proc and /sys are looked for in.
    """
    found = [(size, "the container") for size in _of_groups(root)]
    if total := physical():
        found.append((total, "the machine"))
    return min(found, default=(0, ""))


def physical() -> int:
    """Bytes of memory that the machine has, also where /proc shows processes alone; 0 where nobody tells."""
    try:
        return max(0, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError):
        return 0


def _of_groups(root: Path) -> Iterator[int]:
    """The limits of the control groups that this process is in, and of those around them (versions 1 and 2)."""
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        base, name = ("memory", "memory.limit_in_bytes") if controllers else (".", "memory.max")
        folder = root / "sys/fs/cgroup" / base
        group = folder / path.lstrip("/")
        # The names are those of the host where the container does not see its own alone: then only the root is there.
        for place in [group, *[each for each in group.parents if each.is_relative_to(folder)]]:
            with suppress(OSError, ValueError):  # not there, or "max"
                yield int((place / name).read_text())
