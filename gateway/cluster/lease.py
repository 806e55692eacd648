"""The lease of a primary, renewed each second by a thread of its own: the loop may be busy with a recovery.

    renewed within 2 s      the primary delivers
    not renewed for 2 s     it stops delivering what is durable, for another node may be primary soon
    lost                    another node has the lease, or it ended: this one stops being primary

The thread renews only while the loop shows that it runs, or is known to recover.  All times are of a monotonic clock; a
renewal counts from the moment in which it was sent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import structlog

from .directory import Directory, LeaseLost, Primary
from .log import LogUnavailable

log = structlog.get_logger("gateway.cluster")

RENEW_EVERY = 1.0
PATIENCE = 2.0
"""Seconds after the last renewal at which the primary stops delivering."""

STUCK = 10.0
"""Seconds without a sign of the loop after which the lease is not renewed any more."""


class Lease:
    """A lease that this node has won.

    Args:
        directory: for the thread of the lease alone.
        revision: of the lease as it was taken.
        taken: the monotonic time before it was taken.
        on_lost: called once, in the thread of the lease.
    """

    def __init__(
        self,
        directory: Directory,
        value: Primary,
        revision: int,
        taken: float,
        on_lost: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.value = value
        self.is_lost = False
        self.renewed = taken
        self._directory = directory
        self._revision = revision
        self._on_lost = on_lost
        self._clock = clock
        self._alive = clock()
        self._recovers = True
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
    def holds(self) -> bool:
        """True if no other node can be primary yet, so that messages may be delivered."""
        return not self.is_lost and self._clock() - self.renewed < PATIENCE

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
        while not self._stop.wait(RENEW_EVERY):
            self.turn()
            if self.is_lost:
                self._on_lost()
                return

    def turn(self) -> None:
        """A second has passed: renew it, while the loop runs."""
        if self._recovers or self._clock() - self._alive < STUCK:
            self.renew()

    def renew(self) -> None:
        """Renew it once; a server that does not answer may do so the next time."""
        sent = self._clock()
        try:
            self._revision = self._directory.take(self.value, self._revision)
        except LogUnavailable as error:
            log.warning("the lease could not be renewed", reason=str(error), seconds=round(sent - self.renewed, 1))
        except LeaseLost:
            self._find_out()
        else:
            self.renewed = sent

    def _find_out(self) -> None:
        """The key has changed: by an earlier renewal whose answer was lost, or by another node."""
        try:
            revision, value = self._directory.primary()
        except LogUnavailable:
            return
        if value == self.value or (value is None and not revision):
            # Ours, or ended in the meantime, so that anybody may take it: also this node.
            self._revision = revision
        else:
            self.is_lost = True
