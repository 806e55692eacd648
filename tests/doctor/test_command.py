"""`gateway doctor` as it is typed: options, output, exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from gateway.cli.main import main
from gateway.doctor import command
from gateway.doctor.finding import Finding
from gateway.doctor.orders import Orders
from gateway.doctor.places import HTTP, TCP, WEBSOCKET, Place
from tests.doctor.scene import environment, spoiled, users
from tests.gateway_process import HOST, GatewayProcess


def doctor(gateway: GatewayProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, in a process of its own, with that gateway's settings."""
    call = [sys.executable, "-m", "gateway", "doctor", *arguments]
    return subprocess.run(call, env=environment(gateway), capture_output=True, text=True, timeout=60, check=False)


def test_a_gateway_that_is_well(gateway: GatewayProcess) -> None:
    told = doctor(gateway, "--idle", "0")
    assert (told.returncode, told.stderr) == (0, "")
    lines = told.stdout.splitlines()
    assert {line.split()[0] for line in lines} <= {"ok", "warn"}
    for place in (f"stomp://{HOST}:{gateway.tcp_port}", f"{gateway.ws_url}", gateway.http_url):
        assert f"ok   {place}: somebody listens" in lines


def test_a_proxy_that_is_not(guarded: GatewayProcess, tmp_path: Path) -> None:
    passcode = tmp_path / "passcode.txt"
    passcode.write_text("engine\n")
    with spoiled(guarded, {"proxy_read_timeout 60s;": "proxy_read_timeout 1s;"}) as port:
        url = f"http://{HOST}:{port}"
        options = ["--url", url, "--login", "ada", "--passcode-file", str(passcode), "--idle", "4", "--json"]
        told = doctor(guarded, *options)
    assert (told.returncode, told.stderr) == (1, "")
    found = [json.loads(line) for line in told.stdout.splitlines()]
    assert all(set(each) == {"level", "what", "detail", "remedy"} for each in found)
    assert {each["what"] for each in found if each["level"] == "FAIL"} == {
        f"ws://{HOST}:{port}/ws silence",
        f"ws://{HOST}:{port}/ws heart-beats",
    }
    assert "engine" not in told.stdout
    assert "a-token" not in told.stdout


class _Given:
    """What the command would have looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.orders = Orders()

        async def examine(orders: Orders, tell: object) -> None:
            await trio.lowlevel.checkpoint()
            self.orders = orders

        monkeypatch.setattr(command, "examine", examine)

    def of(self, *arguments: str) -> Orders:
        result = CliRunner().invoke(main, ["doctor", *arguments])
        assert result.exit_code == 0, result.output
        return self.orders


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> _Given:
    return _Given(monkeypatch)


def test_the_websocket_is_where_the_pages_are(given: _Given) -> None:
    orders = given.of("--url", "https://stomp.example.org")
    assert orders.http == Place(HTTP, "stomp.example.org", 443, tls=True)
    assert orders.websocket == (Place(WEBSOCKET, "stomp.example.org", 443, tls=True, path="/ws"),)
    assert (orders.tcp, orders.settings) == ((), None)


def test_what_is_named_alone(given: _Given) -> None:
    assert given.of("--tcp", "a.example:61613").tcp == (Place(TCP, "a.example", 61613),)
    orders = given.of("--websocket", "ws://a.example/stomp")
    assert (orders.websocket[0].path, orders.http) == ("/stomp", None)


def test_the_settings_of_this_machine(given: _Given, tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text('tcp = ["0.0.0.0:7000"]\nwebsocket_path = "/stomp"\nusers_file = "users.txt"\n')
    orders = given.of("--config", str(file), "--idle", "1")
    assert orders.settings is not None
    assert orders.tcp == (Place(TCP, "127.0.0.1", 7000),)
    assert orders.websocket[0].path == "/stomp"
    assert given.of("--config", str(file), "--url", "https://a.example").websocket[0].path == "/stomp"


def test_settings_that_are_wrong(given: _Given, tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text("tpc = 1\n")
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 1
    assert result.output.startswith("FAIL settings: gateway.toml line 1: there is no setting 'tpc'; did you mean tcp?")


def test_what_is_shown(given: _Given, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("engine\n")
    shown = given.of("--login", "ada", "--passcode-file", str(secret)).credentials
    assert shown.headers() == {"login": "ada", "passcode": "engine"}
    assert "engine" not in repr(shown)
    assert given.of("--token-file", str(secret)).credentials.headers() == {"passcode": "engine"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--url", "stomp.example.org"], "is no address of http: write https://stomp.example.org"),
        (["--tcp", "stomps://ada:engine@a.example"], "use --passcode-file"),
        (["--passcode-file", "empty.txt"], "empty.txt is empty"),
        (["--passcode-file", "secret.txt", "--token-file", "secret.txt"], "exclude each other"),
        (["--token-file", "binary"], "cannot be read as text"),
    ],
)
def test_what_is_refused(tmp_path: Path, given: _Given, arguments: list[str], words: str) -> None:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "secret.txt").write_text("engine")
    (tmp_path / "binary").write_bytes(b"\xff")
    result = CliRunner().invoke(main, ["doctor", *arguments])
    assert result.exit_code in (1, 2)
    assert words in result.output
    assert "engine" not in result.output


def test_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    async def examine(orders: Orders, tell: object) -> None:
        await trio.lowlevel.checkpoint()
        raise BaseExceptionGroup("", [KeyboardInterrupt()])

    monkeypatch.setattr(command, "examine", examine)
    result = CliRunner().invoke(main, ["doctor"])
    assert (result.exit_code, result.output.splitlines()[-1]) == (1, "Aborted!")


def test_a_certificate_that_the_settings_cannot_use(given: _Given, tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text(f'tcp_tls = ["{HOST}:7001"]\nusers_file = "{users(tmp_path)}"\n')
    assert given.of("--idle", "0").tcp[1] == Place(TCP, HOST, 7001, tls=True)


def test_a_line() -> None:
    assert str(Finding(command.Level.FAIL, "a", "b", "c")) == "FAIL a: b. c"
    assert str(Finding(command.Level.OK, "a", "b")) == "ok   a: b"
