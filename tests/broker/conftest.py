"""Scenes for the tests: each is finished at the test's end, and then the broker must have nothing left."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gateway.codec import Version

from .client import ALL, Scene

Stage = Callable[..., Scene]


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Makes scenes with quotas of one's own: `stage(max_subscriptions=2)`."""
    scenes: list[Scene] = []

    def make(**quotas: int) -> Scene:
        scenes.append(Scene(**quotas))
        return scenes[-1]

    yield make
    for scene in scenes:
        scene.finish()


@pytest.fixture
def scene(stage: Stage) -> Scene:
    """A broker with the default quotas."""
    return stage()


@pytest.fixture(params=ALL, ids=lambda version: version.name)
def version(request: pytest.FixtureRequest) -> Version:
    """Runs the test once per protocol version; `@pytest.mark.parametrize("version", WITH_NACK)` narrows that."""
    chosen: Version = request.param
    return chosen
