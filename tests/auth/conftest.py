"""Fixtures: what was logged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog
from structlog.typing import EventDict


@pytest.fixture
def logged() -> Iterator[list[EventDict]]:
    """The lines of the log that a test causes."""
    with structlog.testing.capture_logs() as lines:
        yield lines
