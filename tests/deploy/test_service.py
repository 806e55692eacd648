"""What the gateway tells systemd, and the sockets that it gets of it."""

from __future__ import annotations

import os
import signal
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli import sockets
from gateway.cli.main import main
from gateway.process import systemd
from gateway.process.systemd import InheritedSockets, listed, notify, watchdog
from tests.app.process import BIN, HYPERCORN, SERVE, connect, read_to_end, server
from tests.deploy.manager import Kept, Manager, activated, kept, manager
from tests.gateway_process import HOST, free_ports
from tests.transports.peers import UPGRADE

HANDED = [str(BIN / "hypercorn"), "--config", "python:gateway.cli.sockets.options", "gateway.app:app"]
SERVERS = {"serve": SERVE, "asyncio": HANDED, "trio": [*HANDED, "-k", "trio"]}
PLACE = 900
"""Of descriptors in this process, where 3 is taken."""


@pytest.fixture
def hearing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    """The manager that this process, and those that it starts, tell what they do."""
    with manager(tmp_path) as heard:
        monkeypatch.setenv("NOTIFY_SOCKET", heard.place)
        yield heard


class TestWords:
    def test_to_an_abstract_socket(self, monkeypatch: pytest.MonkeyPatch) -> None:
        name = f"gateway-test-{os.getpid()}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as theirs:
            theirs.bind(f"\0{name}")
            monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
            systemd.alive()
            assert theirs.recv(100) == b"WATCHDOG=1"

    def test_a_socket_where_nothing_hears_holds_nothing_up(
        self, hearing: Manager, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for _ in range(5000):  # its buffer fills up
            notify(WATCHDOG=1)
        assert hearing.next() == {"WATCHDOG": "1"}
        for place in ("", "/nothing/here", "vsock:2:1", "/" + "x" * 200):
            monkeypatch.setenv("NOTIFY_SOCKET", place)
            notify(READY=1)

    @pytest.mark.parametrize(("text", "seconds"), [("", 0), ("x", 0), ("-5", 0), ("30000000", 15)])
    def test_how_often_it_lives(self, monkeypatch: pytest.MonkeyPatch, text: str, seconds: float) -> None:
        monkeypatch.setenv("WATCHDOG_USEC", text)
        assert watchdog() == seconds


class TestSockets:
    @pytest.fixture(autouse=True)
    def _place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(systemd, "FIRST_DESCRIPTOR", PLACE)

    @pytest.mark.parametrize(
        ("names", "expected"), [("tcp:http", ["tcp", "http"]), ("tcp", ["tcp", "unknown"]), ("a:b:c", ["a", "b"])]
    )
    def test_names(self, names: str, expected: list[str]) -> None:
        for place in (PLACE, PLACE + 1):
            with socket.create_server((HOST, 0)) as made:
                os.dup2(made.fileno(), place, inheritable=True)
        found = listed({"LISTEN_PID": "77", "LISTEN_FDS": "2", "LISTEN_FDNAMES": names}, 77)
        assert [name for name, _ in found] == expected
        for place, (_, sock) in enumerate(found, PLACE):
            with sock:
                assert sock.fileno() == place
                assert not sock.get_inheritable(), "programs that the gateway starts have no business with it"

    def test_a_name_is_taken_once_and_known_to_be_local(self) -> None:
        with (
            socket.create_server((HOST, 0)) as here,
            socket.create_server(("0.0.0.0", 0)) as everywhere,
            socket.socket(socket.AF_UNIX) as file,
            socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as other,
        ):
            found = InheritedSockets([("a", here), ("b", here), ("b", everywhere), ("c", file), ("d", other)])
            assert [found.are_local(name) for name in ("a", "b", "c", "d", "e")] == [True, False, True, False, True]
            taken = found.take("b")
            assert (len(taken), found.take("b"), found.names) == (2, [], ["a", "b", "c", "d"])
            # A node of a cluster opens a gateway after the other.
            for each in taken:
                each.close()
            again = found.take("b")
            assert [each.getsockname() for each in again] == [here.getsockname(), everywhere.getsockname()]
            for each in again:
                each.close()


@pytest.mark.parametrize(
    ("command", "edges"),
    [
        pytest.param(
            command, edges, id=f"{name}-{edges}", marks=[pytest.mark.long] if edges == "2" and name != "serve" else []
        )
        for name, command in SERVERS.items()
        for edges in "02"
    ],
)
def test_under_socket_activation(tmp_path: Path, hearing: Manager, command: list[str], edges: str) -> None:
    """The whole life of a service of Type=notify, on sockets that systemd has opened."""
    ports = dict(zip(("tcp", "websocket", "http"), free_ports(3), strict=True))
    start = activated(command, {name: f"{HOST}:{port}" for name, port in ports.items()})
    with server(start, tmp_path, edges=edges, **{name: f"systemd:{name}" for name in ports}) as running:
        running.await_in_log("Listening on")
        client = connect(ports["tcp"])
        assert hearing.heard()["READY"] == "1"
        assert running.tcp_port() == ports["tcp"]
        with socket.create_connection((HOST, ports["websocket"]), timeout=20) as page:
            page.sendall(b"GET /nowhere HTTP/1.1\r\n\r\n")
            assert page.recv(100).startswith(b"HTTP/1.1 ")
        with socket.create_connection((HOST, ports["http"]), timeout=20) as page:
            page.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert page.recv(100).startswith(b"HTTP/1.1 200")
        if command is SERVE:
            os.kill(running.process.pid, signal.SIGHUP)
            assert hearing.heard()["RELOADING"] == "1"
            assert hearing.heard()["READY"] == "1"
        running.process.terminate()
        assert hearing.heard()["STOPPING"] == "1"
        assert b"server is shutting down" in read_to_end(client)
        assert running.wait() == 0


def test_signs_of_life(tmp_path: Path, hearing: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    with server(SERVE, tmp_path) as running:
        running.tcp_port()
        for _ in range(5):
            while hearing.next() != {"WATCHDOG": "1"}:
                pass


@pytest.mark.parametrize("command", [SERVE, HYPERCORN], ids=["serve", "hypercorn"])
def test_a_start_that_fails_is_never_ready(tmp_path: Path, hearing: Manager, command: list[str]) -> None:
    with server(command, tmp_path, tcp="systemd:tcp") as running:
        running.wait()
        assert "cannot listen on systemd:tcp: systemd passed no sockets; enable its .socket units" in running.log
        assert "Traceback" not in running.log
    systemd.alive()
    assert hearing.next() == {"WATCHDOG": "1"}, "that is our own word, and nothing came before it"


@pytest.mark.parametrize("command", SERVERS.values(), ids=SERVERS)
def test_a_client_that_comes_after_a_drain_waits_for_the_restart(tmp_path: Path, command: list[str]) -> None:
    """The sockets are systemd's, which goes on listening while no gateway is there."""
    with kept("tcp", "websocket", "http") as sockets:
        first = sockets.start(command, tmp_path)
        client = connect(sockets.ports["tcp"])
        drain = urllib.request.Request(f"http://{HOST}:{sockets.ports['http']}/api/v1/drain", method="POST")
        urllib.request.urlopen(drain, timeout=20).close()
        assert b"retry-after:2000" in read_to_end(client)
        first.await_in_log('"drained"')
        with socket.create_connection((HOST, sockets.ports["tcp"]), timeout=20) as worker:
            assert b"retry-after:2000" in read_to_end(worker)
        with socket.create_connection((HOST, sockets.ports["websocket"]), timeout=20) as page:
            page.sendall(UPGRADE)
            answer = read_to_end(page)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nRetry-After: 2\r\n" in answer
        first.process.terminate()
        assert first.wait() == 0
        waiting = socket.create_connection((HOST, sockets.ports["tcp"]), timeout=20)
        waiting.sendall(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
        second = sockets.start(command, tmp_path)
        try:
            with waiting:
                assert waiting.recv(4096).startswith(b"CONNECTED\n")
        finally:
            second.kill()


def test_check_config_by_hand_where_systemd_has_opened_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, place in (("TCP", "systemd:tcp"), ("WEBSOCKET", ""), ("HTTP", "127.0.0.1:0")):
        monkeypatch.setenv(f"GATEWAY_{name}", place)
    result = CliRunner().invoke(main, ["check-config", "--bind"])
    assert result.exit_code == 0, result.output
    assert "# Other machines can reach: tcp systemd:tcp if its .socket unit says so.\n" in result.stdout
    assert CliRunner().invoke(main, ["check-config", "--hypercorn"]).stdout.split() == HANDED[1:3]
    # Hypercorn's parent reads the settings for `http` alone; the worker says what is wrong with them.
    assert sockets.options.bind == ["127.0.0.1:0"]
    monkeypatch.setenv("GATEWAY_TCP", "nonsense")
    assert not hasattr(sockets.options, "bind")
    assert not hasattr(sockets, "other")


def refusal(sockets: Kept, folder: Path, **settings: str) -> str:
    """The sentence with which a gateway that has these sockets does not start."""
    running = sockets.start(SERVE, folder, **settings)
    assert running.wait() == 1
    return running.log.strip().splitlines()[-1]


def test_sockets_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    with kept("websocket", "http") as sockets:
        assert refusal(sockets, tmp_path, tcp="systemd:tcp") == (
            "Error: cannot listen on systemd:tcp: systemd passed websocket, http; FileDescriptorName= of the .socket "
            "unit must be tcp; change the setting tcp (GATEWAY_TCP)"
        )
    with kept("tcp", "http") as sockets:
        found = refusal(sockets, tmp_path, websocket="systemd:tcp")
        assert "systemd:tcp: another setting uses that socket; change the setting websocket" in found
    with kept("http") as sockets, socket.create_server(("0.0.0.0", 0)) as world:
        found = refusal(Kept({"tcp": world, **sockets._sockets}), tmp_path, websocket="")
        assert "systemd:tcp can be reached from other machines, so users_file must be set" in found
    with kept("http") as sockets, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind((HOST, 0))
        found = refusal(Kept({"tcp": datagrams, **sockets._sockets}), tmp_path, websocket="")
        assert "systemd passed no stream socket that listens" in found


def test_the_file_of_a_unix_socket_stays(tmp_path: Path) -> None:
    """It is systemd's, which goes on listening there."""
    path = tmp_path / "stomp.sock"
    start = activated(SERVE, {"tcp": str(path), "websocket": f"{HOST}:{free_ports(1)[0]}"})
    with server(start, tmp_path, tcp="systemd:tcp", websocket="systemd:websocket") as running:
        running.await_in_log("Listening on")
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(str(path))
            client.sendall(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
            assert client.recv(4096).startswith(b"CONNECTED\n")
        running.process.terminate()
        assert running.wait() == 0
        assert path.exists()
        assert '"tcp": "systemd:tcp"' in running.log
