"""What holds of a connection holds within TLS, too: the tests of others, once more, in harnesses where all speak it.

Left out are the few that put bytes below the TLS, or break it before the handshake.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
import trio

from . import test_closing
from .harness import Harness
from .test_back_pressure import TestBackPressure as TestBackPressure
from .test_connection import TestErrors as TestErrors


class TestEnd(test_closing.TestEnd):
    test_ended_when_it_has_ended_itself = None  # type: ignore[assignment]


@pytest.fixture
async def make_harness(nursery: trio.Nursery) -> AsyncIterator[Callable[..., Harness]]:
    harnesses: list[Harness] = []

    def make(**parts: object) -> Harness:
        harnesses.append(Harness(nursery, secured=True, **parts))  # type: ignore[arg-type]
        return harnesses[-1]

    yield make
    for harness in harnesses:
        harness.close()
