"""Scenes for the tests: each is finished at the test's end, and then the broker must have nothing left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from gateway.broker.core.work_limits import WORK_LIMITS, WorkLimits
from gateway.codec import Version

from .client import ALL, Client, Scene

Stage = Callable[..., Scene]


def small(**limits: Any) -> pytest.MarkDecorator:
    """Gives the scenes of a test, or of all tests of a class, smaller limits: `@small(groups=3)`."""
    return pytest.mark.parametrize("work_limits", [WorkLimits(**limits)], ids=["small"])


@pytest.fixture
def work_limits() -> WorkLimits:
    """Those of the scenes that `stage` makes, where it is given no others."""
    return WORK_LIMITS


@pytest.fixture
def stage(work_limits: WorkLimits) -> Iterator[Stage]:
    """Makes scenes with policies and quotas of one's own: `stage({"/queue/a": {"backoff": 1.0}}, max_outbound=9)`."""
    scenes: list[Scene] = []

    def make(policies: Mapping[str, Mapping[str, Any]] | None = None, **quotas: Any) -> Scene:
        scenes.append(Scene(policies, **{"work_limits": work_limits} | quotas))
        return scenes[-1]

    yield make
    for scene in scenes:
        scene.finish()


@pytest.fixture
def scene(stage: Stage) -> Scene:
    """A broker with the default quotas."""
    return stage()


@pytest.fixture
def client(scene: Scene) -> Client:
    """A client of 1.2."""
    return scene.connect()


@pytest.fixture
def other(scene: Scene) -> Client:
    """Another one."""
    return scene.connect()


@pytest.fixture(params=ALL, ids=lambda version: version.name)
def version(request: pytest.FixtureRequest) -> Version:
    """Runs the test once per protocol version; `@pytest.mark.parametrize("version", WITH_NACK)` narrows that."""
    chosen: Version = request.param
    return chosen
