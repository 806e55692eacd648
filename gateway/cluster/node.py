"""Node of a cluster: standby until it wins the lease, then primary until it loses it.

    follow()    standby: applies the log, tells of itself, and tries for the lease when it is free
    decide()    primary: until another node has taken over, or a handover is asked for

The caller opens the gateway in between: as a standby, which refuses clients, or on the store of a `Term`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog
import trio

from gateway.broker.core.ports import StoreError

from .directory import Directory, LeaseLost, NodeState, Primary
from .follower import Follower, LogGap
from .lease import Lease
from .log import Bounds, Log, LogUnavailable
from .replica import Replica
from .snapshots import Snapshot, Snapshots
from .store import ReplicatedStore

log = structlog.get_logger("gateway.cluster")

T = TypeVar("T")

# Parts that may fail.
_LOG, _DIRECTORY, _COPY = "log", "directory", "copy"

LOOK_EVERY = 0.25
"""Seconds between two looks of a standby at the log and at the lease."""

TELL_EVERY = 1.0
"""Seconds between two words of a node about itself."""

AFTER_FAILURE = 5.0
"""Seconds after which a standby that could not apply the log tries again."""

SNAPSHOT_LOOK = 30.0
"""Seconds between two looks at how much the log has grown since the last snapshot."""

YIELD = 3.0
"""Seconds for which other nodes leave the lease to the one that a handover names."""


class Role(StrEnum):
    """What a node does."""

    STARTING = "starting"
    STANDBY = "standby"
    TAKING_OVER = "taking over"
    PRIMARY = "primary"


@dataclass(frozen=True)
class NodeOptions:
    """A node.

    `cluster`: its name.  `name`: of the node, unique in it.  `address`: where clients reach it, for people to read.
    `url`: of its pages, for the consoles of other nodes; empty: not known.  `file`: of the replica.  `snapshot_after`:
    bytes of the log after which a standby makes a snapshot, or twice the size of the file, if that is more.
    """

    cluster: str
    name: str
    address: str
    version: str
    file: Path
    snapshot_after: int = 256 * 1024 * 1024
    url: str = ""


@dataclass
class Term:
    """The time of a node as primary.

    `ended`: set when it is over; `reason` says why, empty: it goes in order.
    """

    store: ReplicatedStore
    lease: Lease
    ended: trio.Event
    reason: str = ""


@dataclass(frozen=True)
class Change:
    """A change of the primary."""

    time: float  # seconds since 1970, by the clock of the new primary
    node: str
    epoch: int
    reason: str


class Node:
    """A node.

    Attributes:
        primary: the primary, by the last look; None: there is none, or the directory did not answer.
        nodes: all that are there.
        changes: of the primary, the last ones.
        changed: how many changes there were.
        load: the number of connections.
        bounds: of the log, by the last look.
        snapshot: the newest one, by the last look; None: there is none.

    Args:
        log: for the thread of the store alone.
        directory: for the thread that looks at the lease.
        lease_directory: for the thread that renews it.
        snapshots: for the thread that makes and reads them.
        status: the log, for the thread that looks at the lease.
    """

    def __init__(
        self,
        options: NodeOptions,
        log: Log,
        directory: Directory,
        lease_directory: Directory,
        snapshots: Snapshots,
        status: Log,
    ) -> None:
        self.options = options
        self.role = Role.STARTING
        self.primary: Primary | None = None
        self.nodes: list[NodeState] = []
        self.changes: deque[Change] = deque(maxlen=20)
        self.changed = 0
        self._failures: dict[str, str] = {}  # part of the servers, or of this node -> why it does not work
        self.follower: Follower | None = None
        self.term: Term | None = None
        self.load: Callable[[], int] = lambda: 0
        self.bounds = Bounds(1, 0, 0)
        self.snapshot: Snapshot | None = None
        self._handover = ""
        self._log = log
        self._directory = directory
        self._lease_directory = lease_directory
        self._snapshots = snapshots
        self._status = status
        self._snapshot_thread = trio.CapacityLimiter(1)
        self._store_thread = trio.CapacityLimiter(1)
        self._look_thread = trio.CapacityLimiter(1)
        self._revision = 0
        self._yield_until = 0.0  # trio's clock
        self._broken_until = 0.0  # trio's clock, until which it does not try to apply the log
        self._free_since = 0.0  # trio's clock, since which a handover names another node

    async def open(self) -> None:
        """Open the file of the replica; a new one begins with the newest snapshot.  Raises StoreError."""
        replica = await self._in_store(partial(Replica.open, self.options.file))
        self.follower = Follower(self._log, replica)
        if not replica.sequence:
            await self._install_snapshot()

    async def close(self) -> None:
        """Close the file; the node must not be primary any more."""
        if self.follower is not None:
            await self._in_store(self.follower.replica.close)
            self.follower = None

    # standby

    async def follow(self) -> Term:
        """Be a standby until this node is primary."""
        self.role = Role.STANDBY
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._make_snapshots)
            while True:
                await self._catch_up()
                await self._look()
                if self._may_try() and (term := await self._try()) is not None:
                    nursery.cancel_scope.cancel()
                    return term
                await trio.sleep(LOOK_EVERY)

    async def _catch_up(self) -> None:
        """Apply what the log has by now."""
        follower = self._follower
        if trio.current_time() < self._broken_until:
            return
        try:
            await self._in_store(follower.look)
            told = trio.current_time()
            while follower.lag and await self._in_store(follower.step):
                # It may take long, and the others are not to take this node for lost.
                if trio.current_time() - told >= TELL_EVERY:
                    await self._look()
                    told = trio.current_time()
        except LogUnavailable as error:
            self._fail(_LOG, error)
        except LogGap as error:
            if not self.failure:
                log.warning("this node is behind the log, and begins again with a snapshot", reason=str(error))
            if not await self._install_snapshot():
                self._fail(_COPY, error)
        except StoreError as error:
            # A record of a newer gateway, or a full disk: trying again at once is no use.
            self._fail(_COPY, error)
            self._broken_until = trio.current_time() + AFTER_FAILURE
        else:
            self._works(_LOG)
            self._works(_COPY)

    async def _look(self) -> None:
        """Look at the lease, and tell of this node."""
        try:
            self._revision, found = await self._in_look(self._directory.primary)
            await self._in_look(partial(self._directory.tell, self._state()))
            self.nodes = await self._in_look(self._directory.nodes)
            self.bounds = await self._in_look(self._status.bounds)
        except LogUnavailable as error:
            self._fail(_DIRECTORY, error)
            return
        self._works(_DIRECTORY)
        if found is not None and found.node and found != self.primary:
            self._note(found)
        self.primary = found

    def _may_try(self) -> bool:
        """True if the lease is free, and this node has what the log has."""
        found = self.primary
        if self.failure or self._follower.lag or (found is not None and found.node):
            self._free_since = 0.0
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
        options, follower = self.options, self._follower
        epoch = follower.replica.epoch + 1
        reason = "the lease of the last one ended" if self.primary is None else "a handover"
        if epoch == 1:
            reason = "it is the first primary"
        value = Primary(options.name, options.address, epoch, since=time.time(), reason=reason)
        before = time.monotonic()
        try:
            revision = await self._in_look(partial(self._directory.take, value, self._revision))
        except (LeaseLost, LogUnavailable):
            return None
        self.role = Role.TAKING_OVER
        ended = trio.Event()
        token = trio.lowlevel.current_trio_token()
        term: list[Term] = []

        def end(why: str) -> None:
            """From any thread: this node is not primary any more."""

            def on_loop() -> None:
                if term and not ended.is_set():
                    term[0].reason = why
                ended.set()

            token.run_sync_soon(on_loop)

        lease = Lease(self._lease_directory, value, revision, before, lambda: end("the lease was lost"))
        lease.start()
        take = partial(
            follower.take_over,
            options.name,
            options.address,
            options.version,
            lambda: end("another node writes to the log"),
        )
        try:
            store = await self._in_store(take)
        except StoreError as error:
            log.warning("this node cannot become primary", reason=str(error))
            await trio.to_thread.run_sync(lease.hand_over)
            self.role = Role.STANDBY
            self._yield_until = trio.current_time() + YIELD
            return None
        except BaseException:  # cancelled
            lease.stop()
            raise
        term.append(Term(store, lease, ended))
        self.primary = value
        self.role = Role.PRIMARY
        self.term = term[0]
        self._note(value)
        return term[0]

    # snapshots

    async def _install_snapshot(self) -> bool:
        """Replace the file by the newest snapshot; False: there is none that is newer, or it cannot be had."""
        file, replica = self.options.file, self._follower.replica
        try:
            found = (await self._in_snapshots(self._snapshots.all))[:1]
            # At the very beginning, the store of a single gateway may be there as the snapshot of sequence 0.
            if not found or (replica.sequence and found[0].sequence <= replica.sequence):
                return False
            new = file.with_name(f"{file.name}.new")
            new.unlink(missing_ok=True)
            await self._in_snapshots(partial(self._snapshots.get, found[0], new))
        except (LogUnavailable, OSError) as error:
            self._fail(_COPY, error)
            return False
        replica = await self._in_store(partial(replica.replace, new))
        self.follower = Follower(self._log, replica)
        log.info("a snapshot is installed", sequence=found[0].sequence, bytes=found[0].size)
        return True

    async def _make_snapshots(self) -> None:
        """Make a snapshot, whenever the log has grown by so much."""
        while True:
            try:
                await self._make_snapshot()
            except (LogUnavailable, StoreError, OSError) as error:
                log.warning("no snapshot could be made", reason=str(error))
            await trio.sleep(SNAPSHOT_LOOK)

    async def _make_snapshot(self) -> None:
        replica, snapshots = self._follower.replica, self._snapshots
        newest = await self._look_at_snapshots()
        grown = replica.position - (newest.position if newest is not None else 0)
        if grown < self.snapshot_due:
            return
        copy = self.options.file.with_name(f"{self.options.file.name}.snapshot")
        copy.unlink(missing_ok=True)
        sequence, position = await self._in_store(partial(replica.snapshot, copy))
        made = self.snapshot = await self._in_snapshots(partial(snapshots.put, copy, sequence, position))
        copy.unlink()
        oldest = await self._in_snapshots(snapshots.forget_old)
        if oldest is not None:
            await self._in_store(partial(self._log.purge, oldest.sequence + 1))
        log.info("a snapshot was made", sequence=made.sequence, bytes=made.size)

    async def _look_at_snapshots(self) -> Snapshot | None:
        """The newest snapshot.  Raises LogUnavailable."""
        self.snapshot = next(iter(await self._in_snapshots(self._snapshots.all)), None)
        return self.snapshot

    async def _watch_snapshots(self) -> None:
        """Know of the snapshots that the standbys make, to tell of them."""
        while True:
            with suppress(LogUnavailable):
                await self._look_at_snapshots()
            await trio.sleep(SNAPSHOT_LOOK)

    @property
    def snapshot_due(self) -> int:
        """Bytes by which the log grows until a standby makes the next snapshot."""
        try:
            size = self.options.file.stat().st_size
        except OSError:  # a snapshot takes its place
            size = 0
        return max(self.options.snapshot_after, 2 * size)

    # primary

    async def decide(self, term: Term) -> None:
        """Be primary until the term has ended: tell of this node, and show the lease that the loop runs."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._show_life, term)
            nursery.start_soon(self._watch_snapshots)
            await term.ended.wait()
            nursery.cancel_scope.cancel()

    async def _show_life(self, term: Term) -> None:
        seen = -1  # revision of the last wish for a handover: those of an earlier term are not for this one
        while True:
            term.lease.beat()
            await self._look()
            with suppress(LogUnavailable):
                wish = await self._in_look(self._directory.wish)
                if seen < 0:
                    seen = 0 if wish is None else wish[0]
                elif wish is not None and wish[0] != seen:
                    self.hand_over(wish[1])
            await trio.sleep(TELL_EVERY)

    def hand_over(self, to: str = "") -> None:
        """End the term in order; another node takes over.  `to`: its name; empty: any."""
        if self.term is not None and to != self.options.name:
            self._handover = to
            self.term.ended.set()

    def give_up(self, reason: str) -> None:
        """End the term at once: this node cannot write, and another one may."""
        if self.term is not None and not self.term.ended.is_set():
            self.term.reason = reason
            self.term.ended.set()

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
            log.warning("this node is not primary any more", reason=term.reason)
        self.term, self._handover, self.role = None, "", Role.STANDBY
        # From the last commit that is applied here: of a commit under way, the log may have a part, or all.
        self.follower = Follower(self._log, self._follower.replica)
        self._yield_until = trio.current_time() + YIELD

    # both

    @property
    def lag(self) -> int:
        """Messages of the log that this node has not applied."""
        if self.follower is None:
            return 0
        return max(0, max(self.follower.end, self.bounds.last) - self.follower.replica.sequence)

    @property
    def _follower(self) -> Follower:
        assert self.follower is not None  # `open` comes first
        return self.follower

    def _state(self) -> NodeState:
        options = self.options
        sequence = self._follower.replica.sequence
        return NodeState(
            options.name, options.address, str(self.role), options.version, sequence, self.load(), options.url
        )

    def where(self) -> str:
        """Where the primary is, as clients of a standby read it."""
        if self.primary is None or not self.primary.node:
            return "the cluster has no primary for now: connect again"
        return f"the primary is {self.primary.node} at {self.primary.address}: connect there, or again"

    def _note(self, primary: Primary) -> None:
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

    async def _in_snapshots(self, function: Callable[[], T]) -> T:
        # It may take long: a node that becomes primary does not wait for it.
        return await trio.to_thread.run_sync(function, limiter=self._snapshot_thread, abandon_on_cancel=True)

    async def _in_look(self, function: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(function, limiter=self._look_thread)
