"""What a node tells of itself, where the directory refuses it."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from gateway.cluster.directory import LeaseLost, NodeState
from gateway.cluster.log import LogUnavailable
from gateway.cluster.presence import Presence
from tests.cluster.directories import MemoryDirectory

STATE = NodeState("a", "host-a:61613", "standby", "1", 0, 0)


class Refusing(MemoryDirectory):
    """The word of the moment is on its way to the disks: it is not shown, and nothing may come behind it."""

    def tell(self, state: NodeState, revision: int) -> int:
        self.told += 1
        raise LeaseLost

    def node(self, name: str) -> tuple[int, NodeState | None]:
        return 0, None


async def test_a_word_that_is_refused_and_not_shown(autojump_clock: trio.testing.MockClock) -> None:
    directory = Refusing()
    presence = Presence(directory, trio.CapacityLimiter(1), "a", lambda: STATE)
    with pytest.raises(LogUnavailable, match="does not show why yet"):
        await presence.tell()
    assert directory.told == 2
    assert not presence.is_taken
