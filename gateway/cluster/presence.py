"""Presence of a node: what it tells of itself in the directory, under a name that no other process may have.

A word names its process, and is put behind the last word of that process alone.  So two processes of one name find out,
like machines that are clones and share a host name.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

import trio

from gateway.broker.core.ports import StoreError

from .directory import KNOWN, PRESENCE, Directory, LeaseLost, NodeState
from .log import LogUnavailable

T = TypeVar("T")

TELL_EVERY = 1.0
"""Seconds between two words of a node about itself, without news: the servers replicate each."""

_LOOK_EVERY = 0.25


class NameTaken(StoreError):
    """Another process tells of itself under the name of this node."""


class Presence:
    """The words of a node.  All methods raise LogUnavailable: the directory does not answer.

    `is_taken`: by the last word, another process has the name; `taken` says it.

    Args:
        thread: that the directory is for.
        state: of the node now.
    """

    def __init__(
        self, directory: Directory, thread: trio.CapacityLimiter, name: str, state: Callable[[], NodeState]
    ) -> None:
        self.is_taken = False
        self._directory = directory
        self._thread = thread
        self._name = name
        self._state = state
        self._run = secrets.token_hex(8)
        self._revision = 0  # of the last word
        self._news: tuple[str, str] | None = None  # what it said
        self._old_at = 0.0  # trio's clock
        self._known_until = 0.0  # trio's clock, until which the word that lasts for a day need not be told again

    @property
    def taken(self) -> NameTaken:
        """The sentence for it."""
        return NameTaken(f"another process is the node {self._name} of this cluster: set cluster_node here")

    async def claim(self) -> None:
        """Tell of this node for the first time, once the last word of a process before it has ended.

        Raises NameTaken: that process goes on to tell.
        """
        before = 0
        with trio.move_on_after(2 * PRESENCE):
            while other := await self._put():
                if before not in (0, other):
                    raise self.taken
                before = other
                await trio.sleep(_LOOK_EVERY)

    async def tell(self) -> None:
        """Tell of this node, where there is news or the last word is old."""
        state, now = self._state(), trio.current_time()
        news = state.role, state.failure
        if news != self._news or now >= self._old_at:
            self.is_taken = bool(await self._put())
            self._news, self._old_at = news, now + TELL_EVERY
        if now >= self._known_until:
            await self._ask(partial(self._directory.remember, state))
            self._known_until = now + KNOWN / 24

    async def leave(self) -> None:
        """Take the last word back."""
        if self._revision:
            with suppress(LeaseLost):
                await self._ask(partial(self._directory.leave, self._name, self._revision))

    async def _put(self) -> int:
        """Tell of this node; returns 0, or the revision of another process's word under its name."""
        for _ in range(2):
            word = replace(self._state(), run=self._run)
            try:
                self._revision = await self._ask(partial(self._directory.tell, word, self._revision))
            except LeaseLost:
                # By an earlier word whose answer was lost, by the end of the last one, or by another process.
                revision, found = await self._ask(partial(self._directory.node, self._name))
                if found is not None and found.run != self._run:
                    self._revision = 0
                    return revision
                self._revision = revision
            else:
                return 0
        # An earlier word is on its way to the disks, of which there is no majority.
        raise LogUnavailable("the directory of the cluster refuses a word of this node, and does not show why yet")

    async def _ask(self, function: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(function, limiter=self._thread)
