"""Processes of a gateway with edges: their start, their end, and the deaths of each."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import trio

from gateway.auth import passwords
from gateway.config.errors import StartError
from gateway.config.settings import Settings
from gateway.runtime.node_edges import Leash, NodeEdges
from tests.app.process import HYPERCORN, SERVE, Server, connect, read_to_end, server
from tests.cluster.gateways import two_gateways
from tests.gateway_process import HOST, GatewayProcess, free_ports, start_gateway

from .authority import Authority
from .operating import Client, ask, client, connected, edges, log_lines, session_of, until

WAYS = {"serve": SERVE, "hypercorn": HYPERCORN, "hypercorn -k trio": [*HYPERCORN, "-k", "trio"]}
# Seconds in which processes end after the one that they belong to was killed.
SOON = 20.0


def to_process(number: int) -> Callable[[Server], None]:
    return lambda running: running.process.send_signal(number)


def to_group(number: int) -> Callable[[Server], None]:
    """As a terminal sends SIGINT, and some service managers SIGTERM: to each process."""
    return lambda running: os.killpg(running.process.pid, number)


def is_running(pid: int) -> bool:
    try:
        # A process that has ended, and was not waited for, has no memory.
        return Path(f"/proc/{pid}/statm").read_text().split()[0] != "0"
    except OSError:
        return False


def pids_of(running: Server) -> list[int]:
    return [event["pid"] for event in running.events() if event["event"] == "an edge was started"]


@contextmanager
def gone_soon(pids: list[int]) -> Iterator[None]:
    yield
    deadline = time.monotonic() + SOON
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline, f"of {pids} there are left {[*filter(is_running, pids)]}"
        time.sleep(0.02)


STOPS = {
    "SIGTERM": to_process(signal.SIGTERM),
    "SIGINT": to_process(signal.SIGINT),
    "Ctrl-C": to_group(signal.SIGINT),
    "SIGTERM to all": to_group(signal.SIGTERM),
}
# Each way, and each stop, once; the other pairs are long.
SHORT = {
    ("serve", "SIGTERM"),
    ("serve", "Ctrl-C"),
    ("hypercorn", "SIGTERM to all"),
    ("hypercorn -k trio", "SIGINT"),
}


@pytest.mark.parametrize(
    ("way", "stop"),
    [pytest.param(*pair, marks=[] if pair in SHORT else [pytest.mark.long]) for pair in itertools.product(WAYS, STOPS)],
)
def test_all_end_together(tmp_path: Path, way: str, stop: str) -> None:
    with server(WAYS[way], tmp_path, edges="2") as running, ExitStack() as stack:
        clients = [stack.enter_context(connect(running.tcp_port())) for _ in range(6)]
        running.http_port()
        pids = pids_of(running)
        assert len(pids) == 2
        with gone_soon(pids):
            STOPS[stop](running)
            for each in clients:
                farewell = read_to_end(each)
                assert b"ERROR\n" in farewell
                assert b"retry-after:" in farewell
            assert running.wait() == 0
        assert "Traceback" not in running.log
        assert not log_of(running, "an edge has ended and is started again")


def log_of(running: Server, event: str) -> list[dict[str, object]]:
    return [each for each in running.events() if each["event"] == event]


@pytest.mark.parametrize("way", ["serve", "hypercorn", pytest.param("hypercorn -k trio", marks=pytest.mark.long)])
def test_edges_end_when_the_gateway_is_killed(tmp_path: Path, way: str) -> None:
    with server(WAYS[way], tmp_path, edges="2") as running, ExitStack() as stack:
        clients = [stack.enter_context(connect(port := running.tcp_port())) for _ in range(6)]
        main = running.process.pid if way == "serve" else running.child()
        with gone_soon(pids_of(running)):
            os.kill(main, signal.SIGKILL)
        for each in clients:
            read_to_end(each)
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind((HOST, port))
            again.listen()


def test_an_edge_that_is_killed_is_started_again(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text('[[policy]]\nmatch = "/queue/**"\nmax_attempts = 1\n')
    with GatewayProcess(tmp_path, {"edges": 2}).running() as gateway, ExitStack() as stack:
        worker = stack.enter_context(connected(gateway))
        worker.get("SUBSCRIBE", id="1", destination="/queue/a", ack="client-individual")
        (session,) = ask(gateway, "sessions")[1]["sessions"]
        victim = next(row for row in edges(gateway) if row["edge"] == session["edge"])
        with client_of(gateway, besides=victim["edge"]) as publisher:
            publisher.get("SEND", "work", destination="/queue/a")
            assert worker.read().endswith("work")
            os.kill(victim["pid"], signal.SIGKILL)
            assert worker.read() == ""
            with connected(gateway) as next_worker:  # the other edge has the listeners, too
                next_worker.get("SUBSCRIBE", id="1", destination="/queue/a", ack="client-individual")
                message = next_worker.read()  # a client that has failed would have made it a dead letter
                assert message.endswith("work")
                assert "redelivered:true" in message
            again = until(
                lambda: next((row for row in edges(gateway) if row["starts"] == 2 and row["ready"]), None),
                lambda: gateway.log,
            )
            assert (again["edge"], again["ended"]) == (victim["edge"], "signal SIGKILL")
            assert again["pid"] != victim["pid"]
            (line,) = log_lines(gateway, "an edge has ended and is started again")
            assert (line["edge"], line["reason"], line["level"]) == (victim["edge"], "signal SIGKILL", "error")
            assert publisher.get("SEND", destination="/topic/a").startswith("RECEIPT"), "other edges' clients go on"
        with client_of(gateway, besides=next(row["edge"] for row in edges(gateway) if row["starts"] == 1)):
            pass  # it takes clients


@contextmanager
def client_of(gateway: GatewayProcess, *, besides: str) -> Iterator[Client]:
    """A client of another edge than that one."""
    with ExitStack() as stack:
        found = None
        while found is None:
            each = stack.enter_context(client(gateway.tcp_port))
            session = session_of(each.connect())
            if ask(gateway, f"sessions/{session}")[1]["edge"] != besides:
                found = each
        yield found


@pytest.mark.long
def test_an_edge_that_hangs_is_started_again() -> None:
    with start_gateway(edges=1) as gateway, connected(gateway) as lost:
        (row,) = edges(gateway)
        os.kill(row["pid"], signal.SIGSTOP)
        until(lambda: log_lines(gateway, "an edge is silent"), lambda: gateway.log)
        (row,) = until(lambda: [each for each in edges(gateway) if each["starts"] == 2 and each["ready"]])
        assert row["ended"] == "silence"
        assert lost.read() == ""
        with connected(gateway):
            pass


FAILING = """\
import sys

if sys.argv[-1:] == ["2"]:
    raise RuntimeError("no licence on this edge")

def authenticate(credentials):
    return "alice"
"""


@pytest.mark.parametrize("way", ["serve", pytest.param("hypercorn", marks=pytest.mark.long)])
def test_a_gateway_whose_edge_cannot_start(tmp_path: Path, way: str) -> None:
    (tmp_path / "ours.py").write_text(FAILING)
    with server(WAYS[way], tmp_path, edges="3", authenticator="ours:authenticate") as running:
        assert running.wait() == (1 if way == "serve" else 0)  # hypercorn ends so after a refusal
        (line,) = log_of(running, "an edge cannot start")
        assert line["edge"] == "2"
        assert "no licence on this edge" in str(line["reason"])
        (sentence,) = [line for line in running.log.splitlines() if line.startswith(("gateway: ", "Error: "))]
        assert sentence.endswith(": edge 2 did not start: exit status 1; the log says more")
        assert "Traceback" not in running.log
        with gone_soon(pids_of(running)):
            pass


def test_an_edge_that_cannot_start_again_does_not_spin(tmp_path: Path) -> None:
    users = tmp_path / "users"
    text = f"alice:{passwords.hash_passcode('right')}\n"
    users.write_text(text)
    with GatewayProcess(tmp_path, {"edges": 2, "users_file": users}).running() as gateway:
        users.write_text("nonsense\n")
        os.kill(edges(gateway)[0]["pid"], signal.SIGKILL)
        ended = until(
            lambda: len(found := log_lines(gateway, "an edge has ended and is started again")) > 2 and found,
            lambda: gateway.log,
        )
        assert [line["seconds"] for line in ended][:3] == [0.2, 0.4, 0.8]
        assert [line["reason"] for line in ended][1:3] == ["exit status 1"] * 2
        assert "users_file" in log_lines(gateway, "an edge cannot start")[0]["reason"]
        with connected(gateway, login="alice", passcode="right"):  # the other edge serves, by what it knows
            pass
        users.write_text(text)
        until(lambda: all(row["ready"] for row in edges(gateway)), lambda: gateway.log)


def test_a_drain_by_an_operator(tmp_path: Path) -> None:
    with start_gateway(edges=2) as gateway, ExitStack() as stack:
        clients = [stack.enter_context(connected(gateway)) for _ in range(4)]
        status, answer = ask(gateway, "drain", "POST", **{"Content-Type": "application/json"})
        assert (status, answer["sessions"]) == (202, 4), answer
        for each in clients:
            assert "retry-after:" in each.read()
        until(lambda: log_lines(gateway, "drained"), lambda: gateway.log)
        assert ask(gateway, "sessions")[1]["sessions"] == []
        with suppress(OSError), client(gateway.tcp_port) as late:
            assert not late.connect().startswith("CONNECTED")


@pytest.mark.slow
@pytest.mark.long
def test_the_primary_of_a_cluster_has_edges_and_its_standby_none(tmp_path: Path) -> None:
    with two_gateways(tmp_path, edges=1) as pair:
        first, second = pair.nodes["a"], pair.nodes["b"]
        (row,) = pair.until(lambda: edges(first))
        assert row["ready"]
        pair.until(lambda: pair.ask("b", "readyz")[0] == 503)
        assert edges(second) == []
        with connected(first) as publisher:
            assert publisher.get("SEND", "x", destination="/queue/a", persistent="true").startswith("RECEIPT")
            with gone_soon([row["pid"]]):
                first.kill()
            pair.until(lambda: [each for each in edges(second) if each["ready"]])
        with connected(second) as worker:
            worker.send("SUBSCRIBE", id="1", destination="/queue/a")
            assert worker.read().endswith("\n\nx")


async def test_a_node_that_ends_waits_for_no_edge_that_starts(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    settings = Settings(edge_of=[f"{HOST}:{port}"], **Authority(tmp_path).files("edge"))  # type: ignore[arg-type]
    edges = NodeEdges(settings, {}, Leash, follows=True)

    async def run() -> None:
        try:
            await edges.run()
        except* StartError:
            pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        with trio.fail_after(10):
            while (process := edges.all[0].process) is None:  # noqa: ASYNC110 - it is being started
                await trio.sleep(0.01)
        process.send_signal(signal.SIGSTOP)
        with trio.fail_after(settings.drain_timeout / 2):
            await edges.drain(settings)
        assert process.returncode == -signal.SIGKILL
