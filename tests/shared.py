"""Fixtures of several folders: a conftest.py that imports them has them, with a gateway of its folder's own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.gateway_process import GatewayProcess, start_gateway

_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def gateway() -> Iterator[GatewayProcess]:
    """The gateway that all tests of the folder share, so each has destinations of its own."""
    with start_gateway() as process:
        yield process


@pytest.fixture
def name() -> str:
    """A word that no other test has, for destinations."""
    return f"test-{next(_numbers)}"
