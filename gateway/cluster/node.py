"""Node of a cluster: standby until it wins the lease, then primary until it loses it.

    follow()    standby: applies the log, tells of itself, and tries for the lease when it is free
    decide()    primary: until another node has taken over, or a handover is asked for

The caller opens the gateway in between: as a standby, which refuses clients, or on the store of a `Term`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import structlog
import trio

from gateway.broker.core.ports import StoreError

from .directory import LEASE, Directory, LeaseLost, NodeState, NoDirectory, Primary, present
from .follower import Follower, LogGap
from .lease import clock
from .log import Bounds, Log, LogUnavailable
from .presence import TELL_EVERY, Presence
from .records import FORM
from .replica import Replica
from .room import ENOUGH, SHORT, Room, tightest
from .snapshot_keeper import SnapshotKeeper
from .snapshots import Snapshots
from .term import TakeOver, Term

log = structlog.get_logger("gateway.cluster")

T = TypeVar("T")

# Parts that may fail.
_LOG, _DIRECTORY, _COPY, _NAME = "log", "directory", "copy", "name"

LOOK_EVERY = 0.25
"""Seconds between two looks of a standby at the log and at the lease."""

AFTER_FAILURE = 5.0
"""Seconds after which a standby that could not apply the log tries again."""

YIELD = 3.0
"""Seconds for which other nodes leave the lease to the one that a handover names."""


ROOM_EVERY = 10.0
"""Seconds between two looks at the room that the NATS servers have."""

RETURN = 1.0
"""Seconds for which a standby leaves the lease to the last primary when the servers answer again: that one could not
renew it either, and its sessions go on if it does now."""


class Role(StrEnum):
    """What a node does."""

    STARTING = "starting"
    STANDBY = "standby"
    TAKING_OVER = "taking over"
    PRIMARY = "primary"
    DRAINED = "drained"
    """As a standby, but it takes over no more: an operator is about to stop it."""


@dataclass(frozen=True)
class NodeOptions:
    """A node.

    `cluster`: its name.  `name`: of the node, unique in it.  `address`: where clients reach it, for people to read.
    `url`: of its pages, for the consoles of other nodes; empty: not known.  `file`: of the replica.  `snapshot_after`:
    bytes of the log after which a standby makes a snapshot, or twice the size of the file, if that is more.  `form`:
    the newest one of records that it reads.  `replicas`: of what is to be made again.
    """

    cluster: str
    name: str
    address: str
    version: str
    file: Path
    snapshot_after: int
    url: str = ""
    form: int = FORM
    replicas: int = 3


@dataclass(frozen=True)
class Change:
    """A change of the primary."""

    time: float  # seconds since 1970, by the clock of the new primary
    node: str
    epoch: int
    reason: str
    took: Mapping[str, float] | None = None  # stage -> seconds; None: another node took over, or has not done yet


class EdgesOfNode(Protocol):
    """Edges that last as long as the node does."""

    all: list[Any]

    @property
    def are_up(self) -> bool:
        """True if one of them has a link to the primary."""

    def reload(self, settings: Any) -> None:
        """Settings were read again."""


class Node:
    """A node.

    Attributes:
        primary: the primary, by the last look; None: there is none, or the directory did not answer.
        nodes: all that are there.
        changes: of the primary, the last ones.
        changed: how many changes there were.
        took: the last take-over of this node; None: there was none.
        load: the number of connections.
        is_drained: an operator has drained it, so it is primary no more; only a restart ends that.
        bounds: of the log, by the last look.
        known: when primary, nodes and bounds were last told, in seconds since 1970; 0: never.
        lease_leader: server of NATS that leads the bucket of the lease; empty: not known.
        snapshots: of the log, as this node makes and fetches them.

    Args:
        log: for the thread of the store alone.
        directory: for the thread that looks at the lease.
        lease_directory: for the thread that renews it.
        snapshots: for the thread that makes and reads them.
        status: the log, for the thread that looks at the lease; a primary asks it.
        rooms: what has a limit of storage, and tells it; for any thread.
    """

    def __init__(
        self,
        options: NodeOptions,
        log: Log,
        directory: Directory,
        lease_directory: Directory,
        snapshots: Snapshots,
        status: Log,
        rooms: Callable[[], Sequence[Room]] = tuple,
    ) -> None:
        self.options = options
        self.role = Role.STARTING
        self.primary: Primary | None = None
        self.edges: EdgesOfNode | None = None  # processes that have the sockets; None: its gateway has them
        self.nodes: list[NodeState] = []
        self.changes: deque[Change] = deque(maxlen=20)
        self.changed = 0
        self.took: TakeOver | None = None
        self.is_drained = False
        self._failures: dict[str, str] = {}  # part of the servers, or of this node -> why it does not work
        self.follower: Follower | None = None
        self.term: Term | None = None
        self.load: Callable[[], int] = lambda: 0
        self.bounds = Bounds(1, 0, 0)
        self.lease_leader = ""
        self.known = 0.0
        self._ask_leader_at = 0.0  # trio's clock
        self._rooms = rooms
        self._room: Room | None = None  # of servers and account, by the last look
        self._is_short = False
        self._handover = ""
        self._log = log
        self._directory = directory
        self._lease_directory = lease_directory
        self._status = status
        self._store_thread = trio.CapacityLimiter(1)
        self._look_thread = trio.CapacityLimiter(1)
        self._presence = Presence(directory, self._look_thread, options.name, self._state)
        self._revision = 0
        self._gone_since = 0.0  # `clock`, since which there is no directory; 0: there is one
        self._seen = 0.0  # monotonic time of the last sign of a primary; 0: there was none
        self._yield_until = 0.0  # trio's clock
        self._return_until = 0.0  # trio's clock, until which the last primary may come back
        self._broken_until = 0.0  # trio's clock, until which it does not try to apply the log
        self._free_since = 0.0  # trio's clock, since which a handover names another node
        self.snapshots = SnapshotKeeper(
            options.file, options.snapshot_after, options.replicas, snapshots, log, self._store_thread
        )

    async def open(self) -> int:
        """Open the file of the replica; returns how many messages of the log it has.

        Raises StoreError: it cannot be opened.
        """
        replica = await self._in_store(partial(Replica.open, self.options.file))
        self.follower = self._follower_of(replica)
        return replica.sequence

    async def join(self) -> None:
        """Look at the log; a new file begins with the newest snapshot.

        Raises StoreError: the snapshot cannot be opened, or the log has records of a newer gateway; NameTaken.
        """
        try:
            await self._presence.claim()
            if not self._follower.replica.sequence:
                await self._install_snapshot()
            await self._in_store(self._follower.check_form)
        except LogUnavailable as error:
            self._fail(_LOG, error)

    async def close(self) -> None:
        """Close the file; the node must not be primary any more."""
        if _DIRECTORY not in self._failures:
            with suppress(LogUnavailable):
                await self._presence.leave()
        if self.follower is not None:
            await self._in_store(self.follower.replica.close)
            self.follower = None

    # standby

    async def follow(self) -> Term:
        """Be a standby until this node is primary."""
        self._stand_by()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.snapshots.make_when_due, self._sound_copy)
            nursery.start_soon(self._watch_room)
            while True:
                # The others are not to take this node for lost while it makes a copy of a large file.
                if not self.snapshots.is_copying:
                    await self._catch_up()
                await self._look()
                if self._may_try() and (term := await self._try()) is not None:
                    nursery.cancel_scope.cancel()
                    return term
                await trio.sleep(LOOK_EVERY)

    def _sound_copy(self) -> Replica | None:
        """The copy, if it is known to be of this log; None: a snapshot of it could be of another."""
        return self._follower.replica if self._follower.is_shown else None

    async def _catch_up(self) -> None:
        """Apply what the log has by now."""
        if trio.current_time() < self._broken_until:
            return
        try:
            await self._apply()
        except LogUnavailable as error:
            self._fail(_LOG, error)
        except StoreError as error:
            # A record of a newer gateway, or a full disk: trying again at once is no use.
            self._works(_LOG)  # it has answered, whatever it did not do before
            self._fail(_COPY, error)
            self._broken_until = trio.current_time() + AFTER_FAILURE
        else:
            self._works(_LOG)
            self._works(_COPY)

    async def _apply(self) -> None:
        follower = self._follower
        try:
            await self._in_store(follower.look)
            self.bounds = follower.bounds
            told = trio.current_time()
            while follower.lag and await self._in_store(follower.step):
                # It may take long, and the others are not to take this node for lost.
                if trio.current_time() - told >= TELL_EVERY:
                    await self._look()
                    told = trio.current_time()
        except LogGap as gap:
            if not self.failure:
                log.warning("this node is behind the log, and begins again with a snapshot", reason=str(gap))
            try:
                if not await self._install_snapshot():
                    raise
            except LogUnavailable as error:
                raise StoreError(f"{gap}; {error}") from None

    async def _install_snapshot(self) -> bool:
        """Begin again with the newest snapshot; False: there is none that is newer.  Raises StoreError."""
        replica = await self.snapshots.fetch(self._follower.replica)
        if replica is not None:
            self.follower = self._follower_of(replica)
        return replica is not None

    async def _look(self) -> None:
        """Look at the lease, and tell of this node."""
        try:
            revision, found = await self._in_look(self._directory.primary)
            if revision not in (0, self._revision):
                self._seen = time.monotonic()
            self._revision = revision
            await self._presence.tell()
            nodes = await self._in_look(self._directory.nodes)
            if trio.current_time() >= self._ask_leader_at:
                self.lease_leader = await self._in_look(self._directory.leader)
                self._ask_leader_at = trio.current_time() + ROOM_EVERY
            self.known = time.time()
        except LogUnavailable as error:
            self._fail(_DIRECTORY, error)
            if isinstance(error, NoDirectory):
                await self._make_directory()
            return
        self._gone_since = 0.0
        if _DIRECTORY in self._failures:
            self._return_until = trio.current_time() + RETURN
        self._works(_DIRECTORY)
        if self._presence.is_taken:  # this node was silent for long, and the other one came
            self._fail(_NAME, self._presence.taken)
        else:
            self._works(_NAME)
        if found is not None and found.node and found != self.primary:
            self._note(found)
        self.primary = found
        self.nodes = present(nodes, found)

    async def _make_directory(self) -> None:
        """Make the lost directory again, when the last lease has ended: no primary of before delivers any more."""
        self._gone_since = self._gone_since or clock()
        if clock() - self._gone_since > LEASE:
            with suppress(LogUnavailable):
                await self._in_look(partial(self._directory.make_again, self.options.replicas))
                log.warning("the directory of the cluster was gone: it is made again")

    def _may_try(self) -> bool:
        """True if the lease is free, and this node has what the log has."""
        found = self.primary
        if self.is_drained or self.failure or self._follower.lag or (found is not None and found.node):
            self._free_since = 0.0
            return False
        if trio.current_time() < self._return_until:
            return False
        # After its own term this node lets the others be first, unless there are none.
        if trio.current_time() < self._yield_until and len(self.nodes) > 1:
            return False
        if found is None or found.handover in ("", self.options.name):
            return True
        # Another node shall be next; if it does not come, any other may.
        self._free_since = self._free_since or trio.current_time()
        return trio.current_time() - self._free_since > YIELD

    async def _try(self) -> Term | None:
        """Try for the lease, and become primary with it."""
        value, before, began = self._candidacy(), clock(), self._seen or time.monotonic()
        try:
            revision = await self._in_look(partial(self._directory.win, value, self._revision))
        except (LeaseLost, LogUnavailable):
            return None
        self.role = Role.TAKING_OVER
        self.snapshots.give_way()
        took, read = TakeOver(began), self._follower.read
        took.reached("lease")
        term = Term(self._lease_directory, value, revision, before)
        term.lease.start()
        try:
            # The newest form that all nodes read: during an upgrade, the old ones follow, and may take over.
            form = min([self.options.form, *[each.form for each in self.nodes]])
            await self._in_store(partial(term.take_over, self._follower, self.options.version, form))
        except StoreError as error:
            log.warning("this node cannot become primary", reason=str(error))
            await trio.to_thread.run_sync(term.lease.hand_over)
            self._stand_by()
            self._yield_until = trio.current_time() + YIELD
            return None
        except BaseException:  # cancelled
            term.lease.stop()
            raise
        took.messages = self._follower.read - read - 1  # but its own
        took.reached("log")
        self.role, self.primary, self.term, self.took = Role.PRIMARY, value, term, took
        term.store.log_shortage = lambda: self.shortage
        self._note(value)
        if self.is_drained:  # meanwhile
            term.end()
        return term

    def _candidacy(self) -> Primary:
        epoch = self._follower.replica.epoch + 1
        if epoch == 1:
            reason = "it is the first primary"
        else:
            reason = "the lease of the last one ended" if self.primary is None else "a handover"
        return Primary(self.options.name, self.options.address, epoch, since=time.time(), reason=reason)

    # primary

    def opened(self, term: Term) -> None:
        """The gateway on the store of a term takes clients."""
        took, value = self.took, term.lease.value
        assert took is not None  # the term began with it
        took.reached("open")
        for place, change in enumerate(self.changes):
            if change.epoch == value.epoch:
                self.changes[place] = replace(change, took=took.seconds)
        stages = took.seconds
        log.info(
            "this node has taken over",
            epoch=value.epoch,
            reason=value.reason,
            seconds=took.total,
            lease=stages["lease"],
            log=stages["log"],
            recovery=stages["recovery"],
            open=stages["open"],
            messages=took.messages,
        )

    async def decide(self, term: Term) -> None:
        """Be primary until the term has ended: tell of this node, and show the lease that the loop runs."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._show_life, term)
            nursery.start_soon(self._watch_directory, term)
            nursery.start_soon(self.snapshots.watch)
            nursery.start_soon(self._watch_room)
            await term.ended.wait()
            nursery.cancel_scope.cancel()

    async def _show_life(self, term: Term) -> None:
        """The loop runs, however long the servers take for an answer."""
        while True:
            term.lease.beat()
            await trio.sleep(TELL_EVERY)

    async def _watch_directory(self, term: Term) -> None:
        while True:
            await self._look()
            await self._look_at_log()
            with suppress(LogUnavailable):
                wish = await self._in_look(self._directory.wish)
                # One that is older than the term was not for this node.
                if wish is not None and wish[0] > term.lease.won:
                    self.hand_over(wish[1])
            await trio.sleep(TELL_EVERY)

    async def _look_at_log(self) -> None:
        """Know how long it is, and who has it; the thread of the store is busy with appends."""
        try:
            self.bounds = await self._in_look(self._status.bounds)
        except LogUnavailable as error:
            self._fail(_LOG, error)
        else:
            self._works(_LOG)

    def hand_over(self, to: str = "") -> None:
        """End the term in order; another node takes over.  `to`: its name; empty: any."""
        if self.term is not None and to != self.options.name:
            self._handover = to
            self.term.end()

    def why_ended(self, term: Term) -> str:
        """Why this node is primary no more."""
        if term.reason:
            return term.reason
        if not term.ended.is_set():
            return "the node stops"
        return f"a handover to {self._handover}" if self._handover else "a handover"

    def give_up(self, reason: str) -> None:
        """End the term at once: this node cannot write, and another one may."""
        if self.term is not None:
            self.term.lose(reason)

    @property
    def has_standby(self) -> bool:
        """True if another node could take over."""
        return any(each.role == Role.STANDBY and each.node != self.options.name for each in self.nodes)

    async def ask_for_handover(self, to: str) -> None:
        """Ask the primary to hand over, this node or another one.  Raises LogUnavailable."""
        await self._in_look(partial(self._directory.ask_for_handover, to))

    async def end(self, term: Term) -> None:
        """The gateway on the store of a term is closed: be a standby again."""
        give_up = term.lease.drop if term.reason else partial(term.lease.hand_over, self._handover)
        await trio.to_thread.run_sync(give_up)
        if term.reason:
            log.warning("this node is not primary any more", epoch=term.lease.value.epoch, reason=term.reason)
        else:
            log.info("this node gave up the lease", epoch=term.lease.value.epoch, to=self._handover or "any standby")
        self.term, self._handover = None, ""
        self._stand_by()
        if self.is_drained:
            log.info("drained", next="stop or restart the process: this node takes over no more")
        # From the last commit that is applied here: of a commit under way, the log may have a part, or all.
        self.follower = self._follower_of(self._follower.replica)
        self._yield_until = trio.current_time() + YIELD

    # both

    def have_edges(self, edges: EdgesOfNode) -> None:
        """Processes have the sockets of this node, from now on."""
        self.edges = edges

    def drain(self) -> None:
        """Be primary no more until the process ends; a primary hands over in order."""
        if self.is_drained:
            return
        self.is_drained = True
        log.info("draining", signal="an operator's word")
        if self.role is Role.STANDBY:
            self._stand_by()
        self.hand_over()

    def _stand_by(self) -> None:
        self.role = Role.DRAINED if self.is_drained else Role.STANDBY

    async def _watch_room(self) -> None:
        while True:
            found = tightest(await self._in_room(self._rooms))
            if found is not None:  # servers that are full do not answer
                self._room = found
                self.snapshots.free = found.limit - found.used
            self.snapshots.is_short = bool(self.shortage)
            await trio.sleep(ROOM_EVERY)

    @property
    def room(self) -> Room | None:
        """The least room that is known for the log; None: no limit is known."""
        bounds = self.bounds
        of_stream = [Room("the stream of the log", bounds.nbytes, bounds.limit)] if bounds.limit else []
        return tightest([*of_stream, *([self._room] if self._room is not None else [])])

    @property
    def shortage(self) -> str:
        """Why the log should get no new messages; empty: it has room."""
        room = self.room
        self._is_short = room is not None and room.part >= (ENOUGH if self._is_short else SHORT)
        return f"the log of the cluster is short of room: {room}" if self._is_short else ""

    @property
    def full(self) -> str:
        """Why the log takes nothing from this primary any more; empty: it does."""
        return "" if self.term is None else self.term.store.full

    @property
    def lag(self) -> int:
        """Messages of the log that this node has not applied."""
        if self.follower is None:
            return 0
        return max(0, max(self.follower.end, self.bounds.last) - self.follower.replica.sequence)

    def _follower_of(self, replica: Replica) -> Follower:
        return Follower(self._log, replica, newest=self.options.form)

    @property
    def _follower(self) -> Follower:
        assert self.follower is not None  # `open` comes first
        return self.follower

    def _state(self) -> NodeState:
        options = self.options
        return NodeState(
            options.name,
            options.address,
            str(self.role),
            options.version,
            self._follower.replica.sequence,
            self.load(),
            options.url,
            options.form,
            "" if self.role is Role.PRIMARY else self.failure,  # it does not follow the log: it writes it
            self._follower.replica.time / 1e6,
        )

    def where(self) -> str:
        """Where the primary is, as clients of a standby read it."""
        if self.primary is None or not self.primary.node:
            return "the cluster has no primary for now: connect again"
        return f"the primary is {self.primary.node} at {self.primary.address}: connect there, or again"

    def _note(self, primary: Primary) -> None:
        """Tell of a new primary; one that has its lease again after a while is none."""
        if self.changes and self.changes[-1].epoch == primary.epoch:
            return
        self.changes.append(Change(primary.since, primary.node, primary.epoch, primary.reason))
        self.changed += 1
        log.info("the primary is", node=primary.node, epoch=primary.epoch, reason=primary.reason)

    @property
    def failure(self) -> str:
        """Why the log or the directory do not answer, or cannot be applied; empty: all is well."""
        return next(iter(self._failures.values()), "")

    @property
    def unavailable(self) -> str:
        """Why the servers of the log do not answer; empty: they do."""
        return self._failures.get(_LOG) or self._failures.get(_DIRECTORY) or ""

    def _fail(self, part: str, error: Exception) -> None:
        if part not in self._failures:
            log.error("a part of the cluster does not work", part=part, reason=str(error))
        self._failures[part] = str(error)

    def _works(self, part: str) -> None:
        if self._failures.pop(part, None) is not None:
            log.info("a part of the cluster works again", part=part)

    async def _in_store(self, function: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(function, limiter=self._store_thread)

    async def _in_room(self, function: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(function, abandon_on_cancel=True)

    async def _in_look(self, function: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(function, limiter=self._look_thread)
