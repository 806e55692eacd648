"""`gateway doctor` as users type it: options, output, exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

from gateway.cli.main import main
from gateway.doctor import examine
from gateway.doctor.model import HTTP, TCP, WEBSOCKET, CheckOptions, Target
from tests.doctor.scene import environment, spoiled
from tests.gateway_process import HOST, GatewayProcess


def doctor(gateway: GatewayProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "gateway", "doctor", *arguments]
    return subprocess.run(call, env=environment(gateway), capture_output=True, text=True, timeout=60, check=False)


def test_a_gateway_without_faults_exits_with_0(gateway: GatewayProcess) -> None:
    told = doctor(gateway, "--idle", "0")
    assert (told.returncode, told.stderr) == (0, "")
    lines = told.stdout.splitlines()
    assert {line.split()[0] for line in lines} <= {"ok", "warn"}
    for target in (f"stomp://{HOST}:{gateway.tcp_port}", f"{gateway.ws_url}", gateway.http_url):
        assert f"ok   {target}: the port is open" in lines


def test_a_proxy_with_a_fault_exits_with_1(guarded: GatewayProcess, tmp_path: Path) -> None:
    passcode = tmp_path / "passcode.txt"
    passcode.write_text("engine\n")
    with spoiled(guarded, {"proxy_read_timeout 60s;": "proxy_read_timeout 1s;"}) as port:
        url = f"http://{HOST}:{port}"
        options = ["--url", url, "--login", "ada", "--passcode-file", str(passcode), "--idle", "4", "--json"]
        told = doctor(guarded, *options)
    assert (told.returncode, told.stderr) == (1, "")
    found = [json.loads(line) for line in told.stdout.splitlines()]
    assert all(list(each) == ["level", "what", "detail", "remedy"] for each in found)
    faults = {each["what"].partition("/ws ")[2]: f"{each}" for each in found if each["level"] == "FAIL"}
    assert faults.keys() == {"silence", "heart-beats"}
    assert "before the server's ping (websocket_ping, 25 s)" in faults["silence"]
    assert "proxy_read_timeout 60s" in faults["silence"]
    assert "heart-beats of 1.3 s were agreed" in faults["heart-beats"]
    assert "engine" not in told.stdout
    assert "a-token" not in told.stdout


class Read:
    """The options as the checks get them, which are not run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.options = CheckOptions()
        monkeypatch.setattr(examine, "examine", self._examine)

    async def _examine(self, options: CheckOptions, report: object) -> None:
        await trio.lowlevel.checkpoint()
        self.options = options

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["doctor", *arguments])

    def of(self, *arguments: str) -> CheckOptions:
        result = self.run(*arguments)
        assert result.exit_code == 0, result.output
        return self.options


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    return Read(monkeypatch)


def test_only_named_targets_are_examined(read: Read) -> None:
    options = read.of("--url", "https://stomp.example.org")
    assert options.url == Target(HTTP, "stomp.example.org", 443, tls=True)
    assert options.websocket == (Target(WEBSOCKET, "stomp.example.org", 443, tls=True, path="/ws"),)
    assert (options.tcp, options.settings) == ((), None)
    assert read.of("--tcp", "a.example:61613").tcp == (Target(TCP, "a.example", 61613),)
    options = read.of("--websocket", "ws://a.example/stomp")
    assert (options.websocket[0].path, options.url) == ("/stomp", None)


def test_without_targets_the_settings_name_them(read: Read, tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text('tcp = ["0.0.0.0:7000"]\nwebsocket_path = "/stomp"\nusers_file = "users.txt"\n')
    options = read.of("--config", str(file), "--idle", "1")
    assert options.settings is not None
    assert options.tcp == (Target(TCP, "127.0.0.1", 7000),)
    assert options.websocket[0].path == "/stomp"
    assert read.of("--config", str(file), "--url", "https://a.example").websocket[0].path == "/stomp"


def test_the_wait_is_announced(read: Read) -> None:
    for arguments, words in [
        (["--idle", "5m"], "at the end, connections are held for 300 s; --idle 0 leaves that out\n"),
        *((["--idle", "0"], ""), (["--json"], "")),
    ]:
        assert read.run("--tcp", "a.example:61613", *arguments).stderr == words


def test_wrong_settings_are_a_fault(read: Read, tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text("tpc = 1\n")
    result = read.run()
    assert result.exit_code == 1
    assert result.output.startswith("FAIL settings: gateway.toml line 1: there is no setting 'tpc'; did you mean tcp?")


def test_secrets_come_from_files(read: Read, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("engine\n")
    options = read.of("--login", "ada", "--passcode-file", str(secret))
    assert options.login_headers == {"login": "ada", "passcode": "engine"}
    assert "engine" not in repr(options)
    assert read.of("--token-file", str(secret)).login_headers == {"passcode": "engine"}


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
def test_wrong_options_are_refused(tmp_path: Path, read: Read, arguments: list[str], words: str) -> None:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "secret.txt").write_text("engine")
    (tmp_path / "binary").write_bytes(b"\xff")
    result = read.run(*arguments)
    assert result.exit_code in (1, 2)
    assert words in result.output
    assert "engine" not in result.output
