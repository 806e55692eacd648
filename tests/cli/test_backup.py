"""`gateway store backup` against a gateway that works, and what it refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.stores import tools
from tests.cli.conftest import Terminal
from tests.gateway_process import GatewayProcess
from tests.stores.batches import opened

DURABLE = '[[policy]]\nmatch = "/queue/#"\ndurable = true\n'


@pytest.fixture
def stored(tmp_path: Path) -> GatewayProcess:
    folder = tmp_path / "gateway"
    folder.mkdir()
    (folder / "gateway.toml").write_text(DURABLE)
    return GatewayProcess(folder, {"store": "sqlite:store.db"})


def test_a_copy_under_load_is_whole_and_has_each_receipt_before_it(
    terminal: Terminal, stored: GatewayProcess, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    with stored.running() as gateway:
        url = f"stomp://127.0.0.1:{gateway.tcp_port}"
        terminal.run("send", "/queue/a", "--url", url, stdin=b"before\n" * 500)
        command = [sys.executable, "-m", "gateway", "send", "/queue/b", "--url", url]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as load:
            assert load.stdin is not None
            load.stdin.write(b"meanwhile\n" * 5_000)
            load.stdin.flush()
            status, out, told = terminal.run("store", "backup", str(copy), "--url", gateway.http_url)
            load.stdin.close()
        assert (status, told) == (0, "")
        assert out.decode() == f"made {copy}: {copy.stat().st_size} bytes, whole\n"
        assert copy.stat().st_mode & 0o777 == 0o600
        again = terminal.run("store", "backup", str(copy), "--url", gateway.http_url)
        assert (again[0], again[2]) == (1, f"Error: {copy} is there: name another file\n")
    assert tools.check(copy) == []
    store = opened(copy)
    found = store.load()
    names = {each.number: each.name for each in found.places}
    places = [row.place for row in found.rows]
    store.close(clean=False)
    assert [names[place] for place in places].count("/queue/a") == 500


def test_a_gateway_starts_with_a_copy(terminal: Terminal, stored: GatewayProcess, tmp_path: Path) -> None:
    with stored.running() as gateway:
        url = f"stomp://127.0.0.1:{gateway.tcp_port}"
        terminal.run("send", "/queue/a", "tea", "--url", url)
        assert terminal.run("store", "backup", "copy.db", "--url", gateway.http_url)[0] == 0
        gateway.kill()
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "gateway.toml").write_text(DURABLE)
    (tmp_path / "copy.db").rename(folder / "store.db")
    with GatewayProcess(folder, {"store": "sqlite:store.db"}).running() as gateway:
        url = f"stomp://127.0.0.1:{gateway.tcp_port}"
        assert terminal.run("subscribe", "/queue/a", "--count", "1", "--url", url)[1] == b"tea\n"


def test_every_so_often(terminal: Terminal, stored: GatewayProcess, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    (copies / "other.db").write_text("stays")
    with stored.running() as gateway:
        command = [sys.executable, "-m", "gateway", "store", "backup", str(copies), "--every", "1s", "--keep", "2"]
        with subprocess.Popen([*command, "--url", gateway.http_url], stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout is not None
            lines = [run.stdout.readline() for _ in range(4)]
            run.send_signal(signal.SIGTERM)
            assert run.wait(20) != 0
    assert all(each.endswith("bytes, whole\n") for each in lines)
    found = sorted(os.listdir(copies))
    assert found[0] == "other.db"
    assert 2 <= len(found) - 1 <= 3  # the signal may come behind a copy, and before the oldest is deleted


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["copy.db", "--url", "http://127.0.0.1:1"], 1, "does not answer: no server listens there"),
        (["no/copy.db", "--url", "http://127.0.0.1:1"], 1, "no/copy.db cannot be made: there is no folder no"),
        (["no", "--every", "1h", "--url", "http://127.0.0.1:1"], 2, "no is no folder: with --every each copy"),
        (["copies", "--every", "1ms", "--url", "http://127.0.0.1:1"], 2, "it must be 1 s or longer"),
    ],
)
def test_what_is_refused(terminal: Terminal, words: list[str], status: int, sentence: str) -> None:
    found, out, told = terminal.run("store", "backup", *words)
    assert (found, out) == (status, b"")
    assert sentence in " ".join(told.split())


def test_a_gateway_without_a_store(terminal: Terminal, gateway: GatewayProcess, tmp_path: Path) -> None:
    status, _, told = terminal.run("store", "backup", "copy.db", "--url", gateway.http_url)
    assert status == 1
    assert "says 409: this gateway has no store: messages are in memory only" in told
    assert not [each for each in tmp_path.iterdir() if "copy" in each.name]
