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
from gateway.process.systemd import InheritedSockets, inherited, listed, notify, watchdog
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
    def test_what_is_said(self, hearing: Manager) -> None:
        systemd.ready("serving")
        assert hearing.heard() == {"READY": "1", "STATUS": "serving"}
        systemd.stopping()
        assert hearing.heard() == {"STOPPING": "1", "STATUS": "draining"}

    def test_a_reload_says_when(self, hearing: Manager) -> None:
        """systemd ignores what is older than its own signal."""
        systemd.reloading()
        words = hearing.heard()
        assert words.pop("RELOADING") == "1"
        assert int(words.pop("MONOTONIC_USEC")) > 0
        assert not words

    def test_to_an_abstract_socket(self, monkeypatch: pytest.MonkeyPatch) -> None:
        name = f"gateway-test-{os.getpid()}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as theirs:
            theirs.bind(f"\0{name}")
            monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
            systemd.alive()
            assert theirs.recv(100) == b"WATCHDOG=1"

    @pytest.mark.parametrize("place", ["", "/nobody/here", "relative", "vsock:2:1", "/" + "x" * 200])
    def test_to_nobody(self, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
        monkeypatch.setenv("NOTIFY_SOCKET", place)
        notify(READY=1)

    def test_to_somebody_who_does_not_listen(self, hearing: Manager) -> None:
        """Its buffer fills up; that must hold nobody up."""
        for _ in range(5000):
            notify(WATCHDOG=1)
        assert hearing.next() == {"WATCHDOG": "1"}

    @pytest.mark.parametrize(("text", "seconds"), [("", 0), ("x", 0), ("-5", 0), ("0", 0), ("30000000", 15)])
    def test_how_often_it_lives(self, monkeypatch: pytest.MonkeyPatch, text: str, seconds: float) -> None:
        monkeypatch.setenv("WATCHDOG_USEC", text)
        assert watchdog() == seconds


class TestSockets:
    @pytest.fixture(autouse=True)
    def _place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(systemd, "_FIRST", PLACE)

    def passed(self, names: str | None, count: int = 2) -> list[tuple[str, socket.socket]]:
        """What is found where systemd has left two sockets."""
        for place in range(PLACE, PLACE + count):
            with socket.create_server((HOST, 0)) as made:
                os.dup2(made.fileno(), place, inheritable=True)
        variables = {"LISTEN_PID": "77", "LISTEN_FDS": str(count)} | (
            {} if names is None else {"LISTEN_FDNAMES": names}
        )
        return listed(variables, 77)

    @pytest.mark.parametrize(
        ("names", "expected"),
        [
            ("tcp:http", ["tcp", "http"]),
            ("tcp:tcp", ["tcp", "tcp"]),
            ("tcp", ["tcp", "unknown"]),
            (None, ["unknown", "unknown"]),
            ("a:b:c", ["a", "b"]),
        ],
    )
    def test_names(self, names: str | None, expected: list[str]) -> None:
        found = self.passed(names)
        assert [name for name, _ in found] == expected
        for place, (_, sock) in enumerate(found, PLACE):
            with sock:
                assert sock.fileno() == place
                assert not sock.get_inheritable(), "programs that the gateway starts have no business with it"

    @pytest.mark.parametrize(
        "variables",
        [
            {},
            {"LISTEN_PID": "78", "LISTEN_FDS": "2"},
            {"LISTEN_PID": "77"},
            {"LISTEN_PID": "x", "LISTEN_FDS": "2"},
            {"LISTEN_PID": "77", "LISTEN_FDS": "0"},
        ],
    )
    def test_none(self, variables: dict[str, str]) -> None:
        """Those of a parent process, which its child knows of by the variables alone."""
        assert listed(variables, 77) == []

    def test_taken_once(self) -> None:
        found = InheritedSockets(self.passed("tcp:tcp"))
        taken = found.take("tcp")
        assert len(taken) == 2
        assert found.take("tcp") == []
        assert found.names == ["tcp"], "it came, all the same"
        for sock in taken:
            sock.close()

    def test_who_reaches_them(self, tmp_path: Path) -> None:
        with (
            socket.create_server((HOST, 0)) as here,
            socket.create_server(("0.0.0.0", 0)) as everywhere,
            socket.socket(socket.AF_UNIX) as file,
            socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as other,
        ):
            pairs = [("a", here), ("b", here), ("b", everywhere), ("c", file), ("d", other)]
            found = InheritedSockets(pairs)
            assert [found.are_local(name) for name in ("a", "b", "c", "d", "e")] == [True, False, True, False, True]

    def test_this_process_has_none(self) -> None:
        assert inherited().names == []


@pytest.mark.parametrize("command", SERVERS.values(), ids=SERVERS)
def test_under_socket_activation(tmp_path: Path, hearing: Manager, command: list[str]) -> None:
    """The whole life of a service of Type=notify, on sockets that systemd has opened."""
    ports = dict(zip(("tcp", "websocket", "http"), free_ports(3), strict=True))
    start = activated(command, {name: f"{HOST}:{port}" for name, port in ports.items()})
    with server(start, tmp_path, **{name: f"systemd:{name}" for name in ports}) as running:
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


def test_hypercorn_without_a_socket_for_http(tmp_path: Path) -> None:
    """It would listen at its own default."""
    with server(HANDED, tmp_path, http="systemd:http") as running:
        assert running.wait() == 1
        assert running.log == (
            "gateway: cannot listen on systemd:http: systemd passed no socket of that name; change the setting http\n"
        )


def test_who_comes_during_a_restart_waits(tmp_path: Path) -> None:
    """The socket is systemd's: nobody is refused while no gateway is there."""
    with kept("tcp", "http") as sockets:
        first = sockets.start(SERVE, tmp_path, websocket="")
        client = connect(sockets.ports["tcp"])
        first.process.terminate()
        assert b"retry-after:2000" in read_to_end(client)
        assert first.wait() == 0
        waiting = socket.create_connection((HOST, sockets.ports["tcp"]), timeout=20)
        waiting.sendall(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
        second = sockets.start(SERVE, tmp_path, websocket="")
        try:
            with waiting:
                assert waiting.recv(4096).startswith(b"CONNECTED\n")
        finally:
            second.kill()


def post(port: int, path: str) -> None:
    """Ask the admin API for something."""
    request = urllib.request.Request(f"http://{HOST}:{port}{path}", method="POST")
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.status == 202


@pytest.mark.parametrize("command", SERVERS.values(), ids=SERVERS)
def test_who_comes_after_a_drain_by_the_api(tmp_path: Path, command: list[str]) -> None:
    """The sockets are systemd's, which goes on listening: nobody waits there for ever, and the restart is for all."""
    with kept("tcp", "websocket", "http") as sockets:
        first = sockets.start(command, tmp_path)
        client = connect(sockets.ports["tcp"])
        post(sockets.ports["http"], "/api/v1/drain")
        assert b"retry-after:2000" in read_to_end(client)
        first.await_in_log('"drained"')
        for _ in range(2):
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


class TestCheckConfig:
    """By hand, where systemd has opened nothing."""

    @pytest.fixture(autouse=True)
    def _settings(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("GATEWAY_TCP", "systemd:tcp")
        monkeypatch.setenv("GATEWAY_WEBSOCKET", "")
        monkeypatch.setenv("GATEWAY_HTTP", "127.0.0.1:0")

    def test_ports_of_systemd_are_not_tried(self) -> None:
        result = CliRunner().invoke(main, ["check-config", "--bind"])
        assert result.exit_code == 0, result.output
        assert "# Other machines can reach: tcp systemd:tcp if its .socket unit says so.\n" in result.stdout

    def test_how_hypercorn_gets_them(self) -> None:
        result = CliRunner().invoke(main, ["check-config", "--hypercorn"])
        assert result.stdout == "--config python:gateway.cli.sockets.options\n"
        assert HANDED[1:3] == result.stdout.split()

    def test_hypercorn_without_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its parent reads the settings for `http` alone; the worker says what is wrong with them."""
        assert sockets.options.bind == ["127.0.0.1:0"]
        monkeypatch.setenv("GATEWAY_TCP", "nonsense")
        assert not hasattr(sockets.options, "bind")
        assert not hasattr(sockets, "other")


def refusal(sockets: Kept, folder: Path, **settings: str) -> str:
    """The sentence with which a gateway that has these sockets does not start."""
    running = sockets.start(SERVE, folder, **settings)
    assert running.wait() == 1
    return running.log.strip().splitlines()[-1]


def test_a_socket_of_another_name(tmp_path: Path) -> None:
    with kept("websocket", "http") as sockets:
        found = refusal(sockets, tmp_path, tcp="systemd:tcp")
    assert found == (
        "Error: cannot listen on systemd:tcp: systemd passed websocket, http; FileDescriptorName= of the .socket "
        "unit must be tcp; change the setting tcp (GATEWAY_TCP)"
    )


def test_a_socket_of_two_settings(tmp_path: Path) -> None:
    with kept("tcp", "http") as sockets:
        found = refusal(sockets, tmp_path, websocket="systemd:tcp")
    assert "systemd:tcp: another setting uses that socket; change the setting websocket" in found


def test_a_socket_that_others_reach_needs_users(tmp_path: Path) -> None:
    with kept("http") as sockets, socket.create_server(("0.0.0.0", 0)) as world:
        sockets = Kept({"tcp": world, **sockets._sockets})
        found = refusal(sockets, tmp_path, websocket="")
    assert "systemd:tcp can be reached from other machines, so users_file must be set" in found


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


def test_a_socket_that_does_not_listen(tmp_path: Path) -> None:
    with kept("http") as sockets, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind((HOST, 0))
        found = refusal(Kept({"tcp": datagrams, **sockets._sockets}), tmp_path, websocket="")
    assert "systemd passed no stream socket that listens" in found
