"""What is different where clients are at edges; and two edges for each harness."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from gateway.transports import Server
from tests.transports.conftest import harness, kind, make_harness, turns_take_no_time  # noqa: F401 - fixtures
from tests.transports.harness import Harness

from ..linked import LinkedEdge

_COUNTS = "an edge tells its counts once a second"
_READS = "an edge reads chunks of any size, and only frames count for rates"
_TURNS = "a turn of the primary is a batch, of many clients"
_MEMORY = "incomplete frames are in the memory of the edge"

DIFFERENT = {
    "test_a_fault_of_the_loop_itself_stays_in_it": "the primary has no such loop",
    "test_a_large_one_waits_in_the_middle": _MEMORY,
    "test_a_long_turn_lets_others_have_theirs": _TURNS,
    "test_a_session_that_ends_in_the_same_chunk_owes_it": _READS,
    "test_a_subscriber_that_reads_blocks_no_publisher": "what a socket took is known a round of the link later",
    "test_by_what_is_no_stomp": _READS,
    "test_connected": _COUNTS,
    "test_half_a_frame_is_no_turn": _TURNS,
    "test_it_lingers": "the connection at the edge lingers, and the primary does not know of it",
    "test_many_follow_in_turns": "an edge reviews its sessions itself",
    "test_no_login_in_time": _COUNTS,
    "test_no_tasks_but_the_readers": "a link has tasks",
    "test_refused": _COUNTS,
    "test_refused_with_words": _COUNTS,
    "test_the_frames_are_measured_with_what_they_cause": _TURNS,
    "test_they_come_to_the_limit_together": _READS,
    "test_what_is_waited_for_behind_it_is_not": _TURNS,
    "test_when_nothing_moves_the_largest_goes": _MEMORY,
}
"""Tests that say nothing of edges, or something else, and why."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is different."""
    here = Path(__file__).parent
    out = [each for each in items if each.path.parent == here and each.name.partition("[")[0] in DIFFERENT]
    if out:
        items[:] = [each for each in items if each not in set(out)]
        config.hook.pytest_deselected(items=out)


@pytest.fixture(autouse=True)
def through_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of all harnesses are at edges, of which each harness has two, in turn."""
    edges: dict[int, list[LinkedEdge]] = {}

    def door(of: Harness) -> Server:
        if id(of) not in edges:
            edges[id(of)] = [LinkedEdge(of, "1"), LinkedEdge(of, "2")]
        found = edges[id(of)]
        found.append(found.pop(0))
        return found[-1].server

    async def counted(of: Harness) -> None:
        await trio.sleep(1.1)  # edges tell once a second

    monkeypatch.setattr(Harness, "door", door)
    monkeypatch.setattr(Harness, "counted", counted)
