"""What the tests of the pages share: a machine for each, and the one Spark session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.machine import Machine
from tests.spark import spark

__all__ = ["spark"]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine that has nothing but the gateway; what the page has started must end well."""
    machine = Machine(tmp_path)
    try:
        yield machine
        machine.stop()
    finally:
        machine.end()
