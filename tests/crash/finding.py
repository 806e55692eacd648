"""Rounds of a gateway that lies, up to the one that finds the lie.

A client has to see something, or to have it, in the moment of a kill: it does in most rounds, and not in all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol, TypeVar

import pytest

from .books import Complaint

SEEDS = range(1, 6)


class Outcome(Protocol):
    """What a round has shown."""

    complaints: list[Complaint]


T = TypeVar("T", bound=Outcome)


async def rounds_until(kinds: set[str], folder: Path, run: Callable[[int, Path], Awaitable[T]]) -> list[T]:
    """The outcomes up to the first with complaints of all these kinds; the test fails if there is none.

    `run`: runs the round of a seed, with a folder of its own.
    """
    outcomes: list[T] = []
    for seed in SEEDS:
        (place := folder / str(seed)).mkdir()
        outcomes.append(await run(seed, place))
        if kinds <= {complaint.kind for complaint in outcomes[-1].complaints}:
            return outcomes
    pytest.fail("\n".join(map(str, outcomes)))
