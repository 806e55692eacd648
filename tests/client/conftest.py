"""One gateway for all tests of the client, and a name for each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.gateway_process import GatewayProcess, start_gateway

_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def gateway() -> Iterator[GatewayProcess]:
    """The gateway that all tests share."""
    with start_gateway() as process:
        yield process


@pytest.fixture
def name() -> str:
    """A word that no other test has, for destinations."""
    return f"client-{next(_numbers)}"
