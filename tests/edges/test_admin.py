"""Edges as an operator sees them: the admin API, metrics, problems and the log."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.gateway_process import GatewayProcess, start_gateway

from .operating import ask, client, connected, edges, log_lines, metrics, until


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayProcess]:
    with start_gateway(edges=2, log_level="debug") as running:
        yield running


def test_where_each_session_is(gateway: GatewayProcess) -> None:
    with ExitStack() as stack:
        seen: set[str] = set()
        while seen != {"1", "2"}:
            stack.enter_context(connected(gateway))
            rows = ask(gateway, "sessions")[1]["sessions"]
            seen = {row["edge"] for row in rows}
            assert len(rows) < 200, seen
        for row in until(lambda: [each for each in edges(gateway) if each["connections"]]):
            own = [each["id"] for each in rows if each["edge"] == row["edge"]]
            assert row["sessions"] == len(own)
            assert ask(gateway, f"sessions/{own[0]}")[1]["edge"] == row["edge"]
        until(lambda: metrics(gateway)["gateway_connections_open"] == len(rows))
        figures = metrics(gateway)
        of_edges = [figures[f'gateway_edge_sessions{{edge="{name}"}}'] for name in sorted(seen)]
        assert sum(of_edges) == len(rows) == figures['gateway_sessions_connected{transport="tcp"}']
        assert ask(gateway, "overview")[1]["sessions"]["total"] == len(rows)
        connected_lines = log_lines(gateway, "connected")
        assert {line["edge"] for line in connected_lines} == seen


def test_what_each_edge_has_and_takes(gateway: GatewayProcess) -> None:
    began = time.time()
    with connected(gateway) as publisher:
        (session,) = until(lambda: len(found := ask(gateway, "sessions")[1]["sessions"]) == 1 and found)
        publisher.get("SEND", "x" * 100_000, destination="/topic/a")
        row = next(each for each in edges(gateway) if each["edge"] == session["edge"])
    assert row == next(each for each in ask(gateway, "overview")[1]["edges"] if each["edge"] == row["edge"]) | {
        name: row[name] for name in ("sessions", "connections", "cpu_seconds", "memory", "link_received", "link_sent")
    }
    assert (row["ready"], row["starts"], row["ended"]) == (True, 1, "")
    assert began - 300 < row["since"] <= began
    assert row["link_received"] > 100_000
    assert row["cpu_seconds"] > 0
    assert row["memory"] > 1 << 20
    os.kill(row["pid"], 0)
    figures = metrics(gateway)
    # The mark is one for all processes together.
    alone = figures["process_resident_memory_bytes"]
    until(lambda: metrics(gateway)["gateway_memory_resident_bytes"] > alone + row["memory"] / 2)


def test_handshakes_and_refusals_at_edges_count(gateway: GatewayProcess) -> None:
    before = metrics(gateway)
    with client(gateway.tcp_port), client(gateway.tcp_port):
        until(lambda: metrics(gateway)["gateway_handshakes"] == 2)
    with client(gateway.tcp_port) as wrong:
        wrong.send("SUBSCRIBE", destination="/queue/a")
        assert wrong.read().startswith("ERROR")
    name = "gateway_connections_total"
    until(lambda: metrics(gateway)[name] >= before[name] + 3)


def test_an_edge_that_does_not_run_is_a_problem() -> None:
    with start_gateway(edges=2) as gateway:
        (row, _) = edges(gateway)
        os.kill(row["pid"], signal.SIGKILL)

        def problems() -> dict[tuple[str, str], str]:
            found = ask(gateway, "problems")[1]["problems"]
            return {(each["id"], each["target"]): each["what"] for each in found}

        what = until(lambda: problems().get(("edge-restarted", row["edge"])), lambda: gateway.log)
        assert what == f"edge {row['edge']} was started again: it ended by signal SIGKILL"
        assert metrics(gateway)[f'gateway_edge_starts_total{{edge="{row["edge"]}"}}'] == 2
