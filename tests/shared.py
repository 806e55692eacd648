"""What several folders share: a conftest.py that imports the fixtures has them, with a gateway of its folder's own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gateway.auth.passwords import hash_passcode
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


def write_users(file: Path, passcodes: Mapping[str, str]) -> Path:
    """Write a users file that knows these users, and return it."""
    file.write_text("".join(f"{user}:{hash_passcode(passcode)}\n" for user, passcode in passcodes.items()))
    return file
