"""A schedule in a real store: it goes on behind a kill,."""

from __future__ import annotations

from pathlib import Path

from gateway.stores import tools
from tests.cli.conftest import Terminal
from tests.gateway_process import GatewayProcess


def test_it_goes_on_behind_a_kill(tmp_path: Path) -> None:
    folder = tmp_path / "gateway"
    folder.mkdir()
    terminal = Terminal("", tmp_path)
    schedule = ("AMQ_SCHEDULED_PERIOD:100", "AMQ_SCHEDULED_REPEAT:-1", "persistent:true")
    headers = [word for each in schedule for word in ("-H", each)]
    with GatewayProcess(folder, {"store": "sqlite:store.db"}).running() as gateway:
        url = f"stomp://127.0.0.1:{gateway.tcp_port}"
        assert terminal.run("send", "/queue/a", "tea", *headers, "--url", url)[0] == 0
        assert terminal.run("subscribe", "/queue/a", "--count", "3", "--url", url)[1] == b"tea\n" * 3
        gateway.kill()
        gateway.start()
        assert terminal.run("subscribe", "/queue/a", "--count", "3", "--url", url)[1] == b"tea\n" * 3
    assert tools.check(folder / "store.db") == []
