"""docs/push.md: its program gets what its commands send, its files are read, and what it shows of events is so."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gateway.config.settings import Settings
from gateway.push import settings
from gateway.push.monitoring import PushMetrics
from tests.docs.page import blocks, listed
from tests.gateway_process import free_ports, start_gateway
from tests.push.test_signature import SECRET

PAGE = "docs/push.md"
TEXT = (Path(__file__).parents[2] / PAGE).read_text()
FILES = {block.file: block.text for block in blocks(PAGE)}


def test_the_program(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    (tmp_path / "hook.py").write_text(FILES["hook.py"].replace("9000", str(port)))
    with start_gateway() as gateway:
        typed = [line.replace("61613", str(gateway.tcp_port)).replace("9000", str(port)) for line in listed(PAGE)[:3]]
        hook, push, send = [shlex.split(line.removesuffix(" &")) for line in typed]
        send += ["--url", f"stomp://127.0.0.1:{gateway.tcp_port}"]
        with subprocess.Popen([sys.executable, *hook[1:]], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
            with subprocess.Popen([sys.executable, "-m", *push], cwd=tmp_path, stderr=subprocess.DEVNULL) as pushing:
                try:
                    subprocess.run([sys.executable, "-m", *send], check=True, timeout=60, cwd=tmp_path)
                    assert server.stdout is not None
                    name, body = server.stdout.readline().rstrip("\n").split(" ", 1)
                finally:
                    pushing.terminate()
                    server.kill()
            assert pushing.wait(60) == 0
    assert body == "tea for two"
    assert name


def test_the_file(tmp_path: Path) -> None:
    (tmp_path / "push.toml").write_text(FILES["push.toml"])
    (tmp_path / "push.passcode").write_text("geheim")
    (tmp_path / "orders.secret").write_text(SECRET)
    found = settings.read(tmp_path / "push.toml")
    (plan,) = found.plans
    assert (plan.endpoint.concurrency, plan.endpoint.timeout) == (settings.CONCURRENCY, settings.TIMEOUT)
    files = listed("docs/operations.md", "Webhooks")[0].split()
    assert {"push.toml", "push.passcode", "orders.secret"} <= set(files)
    others = {"selector", "resume", "allow_private", "ca", "cert", "key"}
    assert others | tomllib.loads(FILES["push.toml"])["push"][0].keys() == settings._KEYS
    assert all(f"`{key}`" in TEXT for key in others)


def test_the_command_for_a_secret(tmp_path: Path) -> None:
    (line,) = [line for line in listed(PAGE, "Headers and signature") if line.startswith("echo")]
    subprocess.run(["bash", "-c", line], cwd=tmp_path, check=True, timeout=60)
    assert settings.make_endpoint("https://a.example/", secret_file=tmp_path / "orders.secret").secrets is not None


def test_events() -> None:
    given = Settings(**tomllib.loads(FILES["gateway.toml"]))
    assert given.events == "/queue/events"
    assert "/topic/room.>" in given.events_of
    (shown,) = listed(PAGE, "Events")
    assert json.loads(shown).keys() == {"type", "timestamp", "data"}


@pytest.mark.parametrize("name", [each.name for each in PushMetrics([]).collect()] + ["gateway_push_request_seconds"])
def test_metrics(name: str) -> None:
    assert f"`{name.removeprefix('gateway_push_')}" in TEXT
