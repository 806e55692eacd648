"""`--edges N`: all gateways that tests start as processes get so many edges, but for those whose test sets `edges`.

How `make test` divides the tests between two workers (pytest-xdist); run without it, this does nothing.

A worker gets a file at a time, and a whole folder where that shares what is dear: a JVM, a browser or an image.  How
long something takes says nothing where others run too, so Hypothesis does not look at it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.cluster.network import NoNetwork
from tests.gateway_process import EDGES

# Who is started in the background of a script ignores SIGINT, and so do all whom it starts; tests send it to some.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--edges", metavar="N", help="edges of all gateways that tests start as processes")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("edges"):
        os.environ[EDGES] = config.getoption("edges")  # workers of pytest-xdist have it, too


settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

# By what is shared, dearest first; a group of several shares it between them, and a file may leave its folder for it.
TOGETHER = {
    "tests/pyspark_stomp/": "spark",
    **dict.fromkeys([f"tests/pipeline/{name}/" for name in ("jobs", "replay", "report", "streaming")], "spark"),
    "tests/pipeline/spark/test_dataframe.py": "spark",
    "tests/docs/test_connector.py": "spark",
    "tests/deploy/": "deploy",
    "tests/console/": "console",
    "tests/clients/": "clients",
}


def group(nodeid: str) -> str:
    """The name of what goes to a worker as a whole: a group of folders, or a file."""
    path = nodeid.partition("::")[0]
    return next((name for folder, name in TOGETHER.items() if path.startswith(folder)), path)


def rank(nodeid: str) -> int:
    """A lower one is begun sooner."""
    names = list(dict.fromkeys(TOGETHER.values()))
    return names.index(name) if (name := group(nodeid)) in names else len(names)


class ByGroup(LoadScopeScheduling):  # type: ignore[misc]
    """One group after the other, in the order in which they are collected."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByGroup:
    config.option.loadscopereorder = False  # by the number of tests, which says nothing of how long they take
    return ByGroup(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: rank(item.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None]:
    """Without network namespaces, tests that need them fail with one sentence."""
    found: BaseException | None = None
    try:
        yield
    except* NoNetwork as group:  # of trio's nurseries
        found = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    if found is not None:
        pytest.fail(str(found), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    """The same, where the test itself makes them."""
    return (yield from pytest_runtest_setup())
