"""The lease of a primary, renewed each second by a thread of its own: the loop may be busy with a recovery.

    renewed within 2 s      the primary delivers
    not renewed for 2 s     it stops delivering what is durable in queues: another node may do so soon
    not renewed for 15 s    it refuses what is durable, which had to wait until then
    ended                   this node takes it again, unless another one has won it meanwhile, perhaps for a while
    lost                    another node has or had it: this one stops being primary

The thread renews only while the loop shows that it runs, or is known to recover, which has a bound too.  All times are
those of `clock`; a renewal counts from the moment in which it was sent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import structlog

from .directory import Directory, LeaseLost, Primary
from .log import ELECTION, LogUnavailable

log = structlog.get_logger("gateway.cluster")

RENEW_EVERY = 1.0

AGAIN = 0.25
"""Seconds until the next attempt, where one has failed."""

PATIENCE = 2.0
"""Seconds after the last renewal at which the primary stops delivering."""

TIMEOUT = 0.9
"""Seconds for an attempt: another one comes before the patience ends."""

STUCK = 10.0
"""Seconds without a sign of the loop after which the lease is not renewed any more."""

RECOVERY = 600.0
"""The same for a recovery, in which the loop shows no sign.  A million messages take 2 s: behind so long a time a disk
hangs, and another node has its own."""

# CLOCK_MONOTONIC stands still while a machine or its VM is suspended, and the lease does not.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> float:
    """Seconds of a clock that only goes forward, at the same pace whatever happens to this machine."""
    return time.clock_gettime(_CLOCK)


class Lease:
    """A lease that this node has won.

    Args:
        directory: for the thread of the lease alone.
        revision: of the lease as it was won.
        taken: the time before it was taken.
        on_lost: called once, in the thread of the lease.

    Attributes:
        won: that revision.
    """

    def __init__(
        self,
        directory: Directory,
        value: Primary,
        revision: int,
        taken: float,
        on_lost: Callable[[], None],
        clock: Callable[[], float] = clock,
    ) -> None:
        self.value = value
        self.is_lost = False
        self.renewed = taken
        self._directory = directory
        self.won = self._revision = revision
        self._has_ended = False  # another node may have had it
        self._on_lost = on_lost
        self._clock = clock
        self._alive = clock()
        self._recovers = True
        self._fails = False  # the last renewal had no answer
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        """Begin to renew it."""
        self._thread.start()

    def beat(self) -> None:
        """The loop runs; to be called each second, once the recovery is over."""
        self._alive = self._clock()
        self._recovers = False

    @property
    def age(self) -> float:
        """Seconds since it was renewed."""
        return self._clock() - self.renewed

    @property
    def holds(self) -> bool:
        """True if no other node can be primary yet, so that messages may be delivered."""
        return not self.is_lost and self.age < PATIENCE

    @property
    def is_overdue(self) -> bool:
        """True if it was not renewed for so long that clients need not wait for it."""
        return self.is_lost or self.age >= ELECTION

    def hand_over(self, node: str = "") -> None:
        """Give the lease up; blocks for a second or two.  `node`: the one that shall be next; empty: any."""
        self.drop()
        if self.is_lost:
            return
        try:
            self._directory.take(replace(self.value, node="", handover=node), self._revision)
        except (LeaseLost, LogUnavailable) as error:
            log.warning("the lease could not be given up: it ends by itself", reason=str(error))

    def drop(self) -> None:
        """Renew it no more: it is lost, or ends by itself."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def stop(self) -> None:
        """The same, without waiting for a renewal that is under way."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(max(AGAIN, self.renewed + RENEW_EVERY - self._clock())):
            self.turn()
            if self.is_lost:
                self._on_lost()
                return

    def turn(self) -> None:
        """A second has passed: renew it, while the loop runs.

        If a server is lost, the next one is asked at once: in another second, the lease would be as good as lost.
        """
        if self._clock() - self._alive < (RECOVERY if self._recovers else STUCK):
            _ = self.renew() or self.renew()

    def renew(self) -> bool:
        """Renew it once; False: there was no answer."""
        sent = self._clock()
        try:
            self._revision = self._directory.take(self.value, self._revision, TIMEOUT)
            # Behind `take`: now nothing else can win it.
            self.is_lost = self._has_ended and self._directory.won() != self.won
            self._has_ended = False
        except LogUnavailable as error:
            if not self._fails:
                log.warning("the lease cannot be renewed for now", reason=str(error))
            self._fails = True
            return False
        except LeaseLost:
            return self._find_out()
        else:
            if self._fails:
                log.info("the lease is renewed again", seconds=round(sent - self.renewed, 1))
            self._fails = False
            self.renewed = sent
        return True

    def _find_out(self) -> bool:
        """The key has changed: by an earlier renewal whose answer was lost, or by another node.

        False: a server that was cut off shows what was before, as it does not know yet that another one leads.
        """
        try:
            revision, value = self._directory.primary()
            won = self._directory.won() if value is None else 0
        except LogUnavailable:
            return True
        if value == self.value or (value is None and not revision and won <= self.won):
            # Ours, or ended in the meantime, so that any node may take it: also this one.
            self._revision = revision
            self._has_ended = self._has_ended or value is None
        elif value is not None and value.epoch < self.value.epoch:
            self._directory.leave_server()
            return False
        else:
            self.is_lost = True
        return True
