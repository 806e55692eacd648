"""A directory in memory, which fails as a test says."""

from __future__ import annotations

from collections.abc import Callable

from gateway.cluster.directory import Directory, LeaseLost, NodeState, Primary
from gateway.cluster.log import LogUnavailable


class MemoryDirectory(Directory):
    """The bucket.

    `failure`: why it does not answer; empty: it does.  `is_mute`: takes are answered, looks are not.  `lost_answers`:
    so many of the next takes happen, and say that they did not.  `takes`: called while one is under way, for `timeout`
    seconds at most.  `passed`: the server in use was cut off, and shows this primary of before.
    """

    def __init__(self) -> None:
        self.value: Primary | None = None
        self.revision = 0
        self.states: dict[str, NodeState] = {}
        self.told = 0
        self.failure = ""
        self.is_mute = False
        self.lost_answers = 0
        self.takes: Callable[[], object] = dict
        self.timeout = 0.0
        self.passed: Primary | None = None
        self.last_won = 0
        self._revisions = 0

    def end(self) -> None:
        """The lease has run out."""
        self.value, self.revision = None, 0

    def leave_server(self) -> None:
        self.passed = None

    def primary(self) -> tuple[int, Primary | None]:
        self._answer(self.failure or ("no answer" if self.is_mute else ""))
        if self.passed is not None:
            return self.revision - 1, self.passed
        return self.revision, self.value

    def take(self, value: Primary, revision: int, timeout: float = 1.5) -> int:
        self.timeout = timeout
        self._answer(self.failure)
        self.takes()
        if self.passed is not None or revision != self.revision:
            raise LeaseLost
        self._revisions += 1
        self.value, self.revision = value, self._revisions
        if self.lost_answers:
            self.lost_answers -= 1
            raise LogUnavailable("no answer")
        return self.revision

    def win(self, value: Primary, revision: int) -> int:
        self.last_won = self.take(value, revision)
        return self.last_won

    def won(self) -> int:
        self._answer(self.failure or ("no answer" if self.is_mute else ""))
        return self.last_won

    def tell(self, state: NodeState, revision: int) -> int:
        self._answer(self.failure)
        self.told += 1
        self.states[state.node] = state
        return self.told

    def remember(self, state: NodeState) -> None:
        self._answer(self.failure)

    def leave(self, node: str, revision: int) -> None:
        """Its last word stays, for a test to look at."""

    def nodes(self) -> list[NodeState]:
        self._answer(self.failure)
        return list(self.states.values())

    def leader(self) -> str:
        self._answer(self.failure)
        return "n0"

    def wish(self) -> tuple[int, str] | None:
        self._answer(self.failure)
        return None

    def _answer(self, failure: str) -> None:
        if failure:
            raise LogUnavailable(failure)
