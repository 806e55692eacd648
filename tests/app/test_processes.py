"""Real server processes: each way to start the gateway serves STOMP and HTTP, drains, and refuses as it should."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from gateway.auth import passwords
from tests.app.process import BIN, DEADLINE, HYPERCORN, SERVE, Server, connect, read_to_end, server

ROOT = Path(__file__).parent.parent.parent

WAYS = {
    "hypercorn": HYPERCORN,
    "hypercorn -k trio": [*HYPERCORN, "-k", "trio"],
    "hypercorn -k uvloop": [*HYPERCORN, "-k", "uvloop"],
    "hypercorn -w 0": [*HYPERCORN, "-w", "0"],
    "gateway serve": SERVE,
    "python -m gateway serve": [str(BIN / "python"), "-m", "gateway", "serve"],
}
SPAWNING = [name for name in WAYS if name.startswith("hypercorn") and "-w" not in name]

every_way = pytest.mark.parametrize("way", WAYS)
every_spawning_way = pytest.mark.parametrize("way", SPAWNING)


def assert_farewell(client: socket.socket) -> None:
    farewell = read_to_end(client)
    assert b"ERROR\n" in farewell
    assert b"retry-after:" in farewell


@every_way
def test_serves_and_drains(tmp_path: Path, way: str) -> None:
    with server(WAYS[way], tmp_path) as running:
        client = connect(running.tcp_port())
        assert running.get("/healthz") == (200, {"status": "alive"})
        assert running.get("/readyz") == (200, {"status": "ready"})
        status, listed = running.get("/api/v1/sessions")
        assert (status, [row["version"] for row in listed["sessions"]]) == (200, ["1.2"])
        running.process.send_signal(signal.SIGTERM)
        assert_farewell(client)
        assert running.wait() == 0
        assert "Traceback" not in running.log
        hints = [event for event in running.events() if "hypercorn -k trio" in event["event"]]
        assert len(hints) == (way in {"hypercorn", "hypercorn -k uvloop", "hypercorn -w 0"})


def test_admin_api_of_a_running_gateway(tmp_path: Path) -> None:
    with server(SERVE, tmp_path) as running:
        client = connect(running.tcp_port())
        client.sendall(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nreceipt:r\n\n\0")
        assert b"RECEIPT\n" in client.recv(4096)
        _, listed = running.get("/api/v1/destinations")
        assert [(row["name"], row["subscriptions"]) for row in listed["destinations"]] == [("/queue/a", 1)]
        _, listed = running.get("/api/v1/sessions")
        session_id = listed["sessions"][0]["id"]
        assert running.get("/metrics")[1].count(b'gateway_sessions_connected{transport="tcp"} 1.0') == 1
        assert running.get(f"/api/v1/sessions/{session_id}", "DELETE", {"sec-fetch-site": "cross-site"})[0] == 403
        assert running.get(f"/api/v1/sessions/{session_id}", "DELETE")[0] == 204
        assert b"ERROR\n" in read_to_end(client)
        assert running.get(f"/api/v1/sessions/{session_id}", "DELETE")[0] == 404
        assert running.get("/metrics", headers={"X-Forwarded-For": "192.0.2.1"})[0] == 403


def test_a_stop_says_what_is_lost(tmp_path: Path) -> None:
    with server(SERVE, tmp_path) as running:
        client = connect(running.tcp_port())
        client.sendall(b"SEND\ndestination:/queue/a\n\n\0SEND\ndestination:/queue/b\nx-delay:60000\nreceipt:r\n\n\0")
        assert b"RECEIPT\n" in client.recv(4096)
        running.process.send_signal(signal.SIGTERM)
        assert_farewell(client)
        assert running.wait() == 0
    draining, lost, stopped = running.events()[-3:]
    assert (draining["event"], stopped["event"]) == ("draining", "stopped")
    assert (lost["level"], lost["waiting"], lost["queues"], lost["delayed"]) == ("warning", 1, 1, 1)


def test_token_of_a_running_gateway(tmp_path: Path) -> None:
    with server(SERVE, tmp_path, admin_token="sesame") as running:
        assert running.get("/metrics")[0] == 401
        headers = {"X-Forwarded-For": "192.0.2.1", "Host": "gateway.example", "Authorization": "Bearer sesame"}
        assert running.get("/metrics", headers=headers)[0] == 200
        assert "sesame" not in running.log


def test_users_of_a_running_gateway(tmp_path: Path) -> None:
    passwords.write_user(tmp_path / "users.txt", "alice", passwords.hash_passcode("open sesame"))
    with server(SERVE, tmp_path, users_file="users.txt") as running:
        for passcode, answer in (("open sesame", b"CONNECTED\n"), ("open", b"ERROR\n")):
            with socket.create_connection(("127.0.0.1", running.tcp_port()), timeout=DEADLINE) as client:
                frame = f"CONNECT\naccept-version:1.2\nhost:x\nlogin:alice\npasscode:{passcode}\n\n\0"
                client.sendall(frame.encode())
                assert client.recv(4096).startswith(answer)
        assert "sesame" not in running.log


class TestMake:
    """`make run`, as its recipe has it."""

    def recipe(self) -> list[str]:
        """The last line of it: what comes before only brings what is missing."""
        command = ["make", "--dry-run", "--old-file=.venv/runtime", "--no-print-directory", "run", f"BIN={BIN}"]
        lines = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
        return ["sh", "-c", lines[-1]]

    def test_it_listens_where_the_setting_says(self, tmp_path: Path) -> None:
        with server(self.recipe(), tmp_path, http=f"127.0.0.2:0,unix:{tmp_path}/a b") as running:
            running.tcp_port()
            running.await_in_log("Running on http://127.0.0.2:")
            running.await_in_log(f"Running on http://unix:{tmp_path}/a b")
            running.process.send_signal(signal.SIGTERM)
            assert running.wait() == 0

    def test_a_port_that_is_taken(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            with server(self.recipe(), tmp_path, http=address) as running:
                assert running.wait() == 1
        assert running.log == (
            f"Error: cannot listen on {address}: the address is in use by another program; change the setting http "
            "(GATEWAY_HTTP)\n"
        )


class TestRefusals:
    """One sentence, no traceback.  hypercorn itself ends with 0 after its worker failed; ours ends with 1."""

    def refusal(self, running: Server, status: int) -> str:
        assert running.wait() == status
        assert "Traceback" not in running.log
        lines = [line for line in running.log.splitlines() if line.startswith(("gateway: ", "Error: "))]
        assert len(lines) == 1, running.log
        return lines[0].partition(": ")[2]

    @every_spawning_way
    def test_wrong_settings_under_hypercorn(self, tmp_path: Path, way: str) -> None:
        with server(WAYS[way], tmp_path, tcp="foo") as running:
            assert self.refusal(running, 0).startswith("tcp (GATEWAY_TCP) is wrong: 'foo' is not an address")

    @pytest.mark.parametrize(
        ("variables", "sentence"),
        [
            ({"tcp": "foo"}, "tcp (GATEWAY_TCP) is wrong: 'foo' is not an address"),
            ({"max_body": "-1"}, "max_body (GATEWAY_MAX_BODY) is wrong: input should be greater than or equal"),
            ({"tcpp": "x"}, "there is no setting GATEWAY_TCPP"),
            (
                {"tcp": "0.0.0.0:0"},
                "tcp (GATEWAY_TCP): 0.0.0.0:0 can be reached from other machines, so users_file must be set",
            ),
            ({"users_file": "nowhere"}, "users_file (GATEWAY_USERS_FILE) is wrong: nowhere cannot be read"),
            ({"config": "nowhere.toml"}, "GATEWAY_CONFIG names nowhere.toml, but there is no such file"),
        ],
    )
    def test_wrong_settings(self, tmp_path: Path, variables: dict[str, str], sentence: str) -> None:
        with server(SERVE, tmp_path, **variables) as running:
            assert self.refusal(running, 1).startswith(sentence)

    @pytest.mark.parametrize("setting", ["tcp", "websocket"])
    @every_spawning_way
    def test_port_taken_under_hypercorn(self, tmp_path: Path, way: str, setting: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            with server(WAYS[way], tmp_path, **{setting: address}) as running:
                sentence = self.refusal(running, 0)
        assert address in sentence
        assert f"GATEWAY_{setting.upper()}" in sentence

    @pytest.mark.parametrize("setting", ["tcp", "websocket", "http"])
    def test_port_taken(self, tmp_path: Path, setting: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            with server(SERVE, tmp_path, **{setting: address}) as running:
                sentence = self.refusal(running, 1)
        assert address in sentence
        assert f"GATEWAY_{setting.upper()}" in sentence

    @every_spawning_way
    def test_two_workers(self, tmp_path: Path, way: str) -> None:
        with server([*WAYS[way], "-w", "2"], tmp_path) as running:
            assert "start the server with one worker (hypercorn: -w 1)" in self.refusal(running, 0)


class TestWorkers:
    @every_spawning_way
    def test_a_worker_drains_though_its_group_gets_sigterm(self, tmp_path: Path, way: str) -> None:
        with server(WAYS[way], tmp_path) as running:
            client = connect(running.tcp_port())
            running.http_port()
            os.killpg(running.process.pid, signal.SIGTERM)
            assert_farewell(client)
            assert running.wait() == 0
            assert "stopped" in [event["event"] for event in running.events()]

    @every_spawning_way
    def test_a_worker_whose_parent_was_killed_drains_and_ends(self, tmp_path: Path, way: str) -> None:
        with server(WAYS[way], tmp_path) as running:
            client = connect(running.tcp_port())
            running.http_port()
            worker = running.child()
            running.process.kill()
            assert_farewell(client)
            self.wait_for_end(worker, running)
            assert "the gateway failed" in [event["event"] for event in running.events()]

    def wait_for_end(self, pid: int, running: Server) -> None:
        deadline = time.monotonic() + DEADLINE
        while Path(f"/proc/{pid}").exists() and "State:\tZ" not in Path(f"/proc/{pid}/status").read_text():
            assert time.monotonic() < deadline, running.log
            time.sleep(0.02)


class TestUnixSockets:
    def test_all_three_ports(self, tmp_path: Path) -> None:
        names = {setting: tmp_path / setting for setting in ("tcp", "websocket", "http")}
        with server(SERVE, tmp_path, **{setting: f"unix:{path}" for setting, path in names.items()}) as running:
            deadline = time.monotonic() + DEADLINE
            while not names["tcp"].exists():
                assert time.monotonic() < deadline, running.log
                time.sleep(0.02)
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(DEADLINE)
                client.connect(str(names["tcp"]))
                client.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
                assert client.recv(4096).startswith(b"CONNECTED\n")
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(DEADLINE)
                client.connect(str(names["http"]))
                client.sendall(b"GET /api/v1/sessions HTTP/1.0\r\nhost: localhost\r\n\r\n")
                assert client.recv(4096).startswith(b"HTTP/1.1 200 "), "a unix socket is loopback"
            running.process.send_signal(signal.SIGTERM)
            assert running.wait() == 0
            assert not [path for path in names.values() if path.exists()]
