"""SIGHUP, sent to real processes: files are read again, sessions go on, and it is never the end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gateway.process import hypercorn_worker
from tests.app.process import SERVE, Server, connect, read_to_end, server
from tests.app.test_processes import WAYS


@pytest.mark.parametrize("way", ["gateway serve", "hypercorn"])
def test_reloads_and_goes_on(tmp_path: Path, way: str) -> None:
    with server(WAYS[way], tmp_path) as running:
        client = connect(running.tcp_port())
        process = running.child() if way.startswith("hypercorn") else running.process.pid
        for _ in range(2):
            os.kill(process, signal.SIGHUP)
        running.await_in_log('"event": "reloaded"')
        client.sendall(b"SEND\ndestination:/topic/a\nreceipt:r\n\n\0")
        assert b"RECEIPT\n" in client.recv(4096)
        running.process.send_signal(signal.SIGTERM)
        assert b"ERROR\n" in read_to_end(client)
        assert running.wait() == 0
        assert "Traceback" not in running.log


def test_secrets_are_changed_while_sessions_go_on(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text('admin_token = "planted-old"\nmax_body = "1MiB"\n')
    with server(SERVE, tmp_path) as running:
        assert ask(running, "planted-old") == 200
        client = connect(running.tcp_port())
        file.write_text('admin_token = "planted-new"\nmax_body = "2MiB"\nlog_level = "debug"\n')
        os.kill(running.process.pid, signal.SIGHUP)
        running.await_in_log('"event": "reloaded"')
        assert [ask(running, token) for token in ("planted-old", "planted-new")] == [401, 200]
        with client:
            client.sendall(b"SEND\ndestination:/topic/a\nreceipt:r\n\n\0")
            assert b"RECEIPT\n" in client.recv(4096)
        connect(running.tcp_port()).close()
        running.await_in_log('"level": "debug"')
        file.write_text("admin_token = planted\n")
        os.kill(running.process.pid, signal.SIGHUP)
        running.await_in_log("what was in force stays after a reload")
        assert ask(running, "planted-new") == 200
        events = {entry["event"]: entry for entry in running.events()}
        assert {*events["settings have changed"]["settings"].split(", ")} == {"admin_token", "log_level"}
        assert events["settings have changed that need a restart"]["settings"] == "max_body"
        assert events["reloaded"]["kept"] == ["rules", "settings"]
        assert "line 1: the value cannot be read" in events["what was in force stays after a reload"]["reason"]
        assert "planted" not in running.log


def ask(running: Server, token: str) -> int:
    status, _ = running.get("/api/v1/overview", headers={"authorization": f"Bearer {token}"})
    return status


class TestHangups:
    async def test_one_and_another(self, nursery: trio.Nursery) -> None:
        hangups = hypercorn_worker.HangupSignals()
        count = 0

        async def reload() -> None:
            nonlocal count
            while True:
                await hangups.wait()
                count += 1

        with hangups.caught():
            os.kill(os.getpid(), signal.SIGHUP)  # before anybody waits
            nursery.start_soon(reload)
            await wait_all_tasks_blocked()
            assert count == 1
            os.kill(os.getpid(), signal.SIGHUP)
            await wait_all_tasks_blocked(0.01)
            assert count == 2

    async def test_afterwards_all_is_as_before_and_in_another_thread_there_are_none(self) -> None:
        def catch() -> object:
            with hypercorn_worker.HangupSignals().caught():
                return signal.getsignal(signal.SIGHUP)

        for handler in (signal.SIG_IGN, signal.default_int_handler):
            before = signal.signal(signal.SIGHUP, handler)
            try:
                assert catch() is not handler
                assert signal.getsignal(signal.SIGHUP) is handler
                assert await trio.to_thread.run_sync(catch) is handler
            finally:
                signal.signal(signal.SIGHUP, before)

    def test_behind_the_end_of_the_loop(self) -> None:
        hangups = hypercorn_worker.HangupSignals()

        async def wait() -> None:
            with trio.move_on_after(0):
                await hangups.wait()

        trio.run(wait)
        with hangups.caught():
            os.kill(os.getpid(), signal.SIGHUP)
