"""The integration suites of stompest and of stomp.py, as they are in the sdists that suites.txt names, unedited.

What is not left out must pass.
stompest.async is not run: no Python since 3.7 can import a package named `async`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.clients.driver import HERE, ROOT
from tests.gateway_process import HOST, GatewayProcess, free_ports
from tests.transports import tls_files

PROGRAM = HERE / "suite_program.py"
SUITES = ROOT / ".venv" / "suites"
TIME_LIMIT = 90.0
PATIENCE = 0.3
"""Seconds in which stompest's suite takes what does not come as nothing."""

STOMPEST = "stompest.tests.sync_client_integration_test."
STOMPEST_PROCESSES = ([f"{STOMPEST}SimpleStompIntegrationTest"], [f"{STOMPEST}SimpleStompIntegrationTestSSL"])

STOMP_PY = "stomp.test."
STOMP_PY_PROCESSES = (
    ["basic_test"],
    "activemq_test misc_test nonascii_test rabbitmq_test s10_test s11_test s12_test ssl_test stompserver_test".split(),
    ["cli_test.TestCLI.testrun", "cli_test.TestCLI.testrunarg", "cli_test.TestCLI.testabort"],
    ["cli_test.TestCLI.testcommit", "cli_test.TestCLI.testsendrec"],
    ["cli_test.TestCLI.testsendfile", "cli_test.TestCLI.testsendfileheaders"],
    ["cli_ssl_test", "cli_test.TestCLI.testsubscribe"],
)
OWN_SERVER = "talks with a server of its own, at a port that may be taken"
NO_BROKER = "asks nothing of a broker"
STOMP_PY_LEFT_OUT = {
    "basic_test.TestBasicSend.test_timeout": "wants an address that takes 5 s to be unreachable; here it is so at once",
    "misc_test.TestNoResponseConnectionKill.test_noresponse": OWN_SERVER,
    "s11_test.Test11Send.testheartbeat_timeout": OWN_SERVER,
    "s12_test.Test12Connect.test_timeout": OWN_SERVER,
    "cli_test.TestCLI.teststats": "expects the message behind its SEND, and fails if it has come before",
    "apollo_test": "rabbitmq_test, at another port",
    "local_test": "wants an address of IPv6 that it asks Docker for",
    "multicast_test": NO_BROKER,
    "override_threading_test": "reconnects in two threads at once, and fails where they meet",
    "p2_backward_test": NO_BROKER,
    "p3_backward_test": NO_BROKER,
    "ss_test": OWN_SERVER,
    "ssl_sni_test": "wants a proxy for TLS that knows its broker as my.example.com",
    "threading_test": "calls Thread.isAlive, which no Python since 3.9 has",
    "transport_test": NO_BROKER,
    "utils_test": NO_BROKER,
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GatewayProcess, int]]:
    """A gateway, and its port for TLS."""
    folder = tmp_path_factory.mktemp("suites")
    files = tls_files.write(folder)
    (tls_port,) = free_ports(1)
    settings = {"tcp_tls": f"{HOST}:{tls_port}", "tls_certificate": files.certificate, "tls_key": files.key}
    with GatewayProcess(folder, settings).running() as process:
        yield process, tls_port


def unpacked(name: str, folder: Path) -> Path:
    """The one sdist of that name, unpacked."""
    packed = sorted(SUITES.glob(f"{name}-*.tar.gz"))
    assert packed, f"the sdist of {name} is missing, and this test needs it: `make .venv/suites` downloads it"
    with tarfile.open(packed[-1]) as archive:
        archive.extractall(folder, filter="data")
    (project,) = folder.iterdir()
    return project


def run(
    project: Path,
    processes: tuple[list[str], ...],
    left_out: list[str],
    variables: Mapping[str, str] | None = None,
    stompest: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """What became of each test: what its failure says, or nothing."""

    def work(number: int) -> dict[str, str]:
        report = project / f"report-{number}.json"
        job = {"folder": str(project), "names": processes[number], "left_out": left_out, "stompest": stompest}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(PROGRAM), json.dumps({**job, "report": str(report)})],
            cwd=project,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
        )
        assert report.exists(), f"{processes[number]} ended with {done.returncode}: {done.stdout}{done.stderr}"
        outcomes: dict[str, str] = json.loads(report.read_text())
        return outcomes

    with ThreadPoolExecutor(len(processes)) as pool:
        return {name: outcome for each in pool.map(work, range(len(processes))) for name, outcome in each.items()}


def judge(outcomes: Mapping[str, str]) -> None:
    failed = {name: said for name, said in outcomes.items() if said}
    assert not failed, "".join([f"\n{name}:\n{said}" for name, said in failed.items()])


@pytest.mark.long
def test_stompest(broker: tuple[GatewayProcess, int], tmp_path: Path) -> None:
    process, tls_port = broker
    place = {"host": HOST, "port": process.tcp_port, "tls_port": tls_port, "closed": free_ports(2)}
    project = unpacked("stompest", tmp_path)
    outcomes = run(project, STOMPEST_PROCESSES, [], stompest={**place, "patience": PATIENCE})
    assert len(outcomes) == 16
    judge(outcomes)


@pytest.mark.long
def test_stomp_py(broker: tuple[GatewayProcess, int], tmp_path: Path) -> None:
    process, tls_port = broker
    project = unpacked("stomp.py", tmp_path)
    modules = {file.stem for file in (project / "stomp" / "test").glob("*_test.py")}
    named = {name.partition(".")[0] for names in STOMP_PY_PROCESSES for name in names}
    assert modules == named | {name for name in STOMP_PY_LEFT_OUT if "." not in name}

    variables = {"STD_SSL_PORT": str(tls_port)}
    for server in ("STD", "RABBITMQ", "STOMPSERVER"):
        variables |= {f"{server}_HOST": HOST, f"{server}_PORT": str(process.tcp_port)}
    processes = tuple([[STOMP_PY + name for name in names] for names in STOMP_PY_PROCESSES])
    outcomes = run(project, processes, [STOMP_PY + name for name in STOMP_PY_LEFT_OUT], variables)
    short = {name.removeprefix(STOMP_PY): said for name, said in outcomes.items()}
    assert len([name for name in short if name.startswith("cli_test.")]) == 8
    judge(short)
