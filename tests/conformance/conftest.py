"""Running of the conformance tests: one gateway, a test per version and transport, and the table at the end.

A test is run for every column in which the first requirement that it names binds, or for those of
`@pytest.mark.columns("1.2", "ws")`; the other requirements are what it shows besides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.broker.client import Scene as Broker
from tests.gateway_process import GatewayProcess, start_gateway

from .requirements import COLUMNS, REQUIREMENTS, columns
from .scene import Scene

Cell = tuple[str, str, str]
OUTCOMES = pytest.StashKey[dict[Cell, list[str]]]()

# One body limit small enough to be passed in a test, and heart-beats short enough to be measured in one.
SETTINGS = {"heartbeat_send": 250, "heartbeat_receive": 250, "heartbeat_margin": 2.0, "max_body": 1024 * 1024}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--conformance-table", action="store_true", help="print a row per requirement at the end")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "columns(*names): run for these versions, over these transports")
    config.stash[OUTCOMES] = defaultdict(list)


def named(definition: pytest.Item) -> list[str]:
    return [id for mark in definition.iter_markers("requirement") for id in mark.args]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "stomp" not in metafunc.fixturenames:
        return
    ids = named(metafunc.definition)
    unknown = [id for id in ids if id not in REQUIREMENTS]
    if unknown or not ids:
        raise pytest.UsageError(f"{metafunc.definition.nodeid} names no requirement of the table: {unknown}")
    given = [name for mark in metafunc.definition.iter_markers("columns") for name in mark.args]
    runs = columns(ids, given)
    metafunc.parametrize("stomp", runs, ids=["-".join(run) for run in runs], indirect=True)


@pytest.fixture(scope="session")
def gateway() -> Iterator[GatewayProcess]:
    with start_gateway(**SETTINGS) as process:
        yield process


@pytest.fixture
def stomp(request: pytest.FixtureRequest) -> Iterator[Scene]:
    version, transport = request.param
    server = Broker() if transport == "core" else request.getfixturevalue("gateway")
    scene = Scene(server, version, transport)
    yield scene
    scene.close()
    if isinstance(server, Broker):
        server.finish()
    assert not scene.faults(), "the server's octets break the grammar: " + "; ".join(scene.faults())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> object:
    report = yield
    callspec = getattr(item, "callspec", None)
    column = callspec.params.get("stomp") if callspec else None
    if column and (report.when == "call" or report.failed):
        for id in named(item):
            if REQUIREMENTS[id].binds(*column):
                item.config.stash[OUTCOMES][id, *column].append(report.outcome)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--conformance-table", default=False):
        return
    outcomes = config.stash[OUTCOMES]
    write = terminalreporter.write_line
    terminalreporter.section("STOMP conformance")
    write("        " + "".join(f"{' '.join(column):>9}" for column in COLUMNS) + "  statement")
    count: dict[str, int] = defaultdict(int)
    for row in REQUIREMENTS.values():
        cells = []
        for column in COLUMNS:
            cell = "—" if not row.binds(*column) else verdict(outcomes.get((row.id, *column), []))
            count[cell] += 1
            cells.append(f"{cell:>9}")
        write(f"{row.id:<8}" + "".join(cells) + f"  {row.statement[:60]}")
    write("")
    write(
        f"{len(REQUIREMENTS)} requirements, each per version and transport: "
        f"{count['pass']} pass, {count['FAIL']} FAIL, {count['no test']} without a test, {count['—']} do not apply"
    )


def verdict(outcomes: list[str]) -> str:
    if not outcomes:
        return "no test"
    return "pass" if set(outcomes) == {"passed"} else "FAIL"
