"""`gateway top` against the real gateway, printed and on a terminal; and what it shows of given figures."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from gateway.cli import top
from tests.cli.conftest import Terminal
from tests.gateway_process import HOST, GatewayProcess, start_gateway


def test_printed(terminal: Terminal, gateway: GatewayProcess, queue: str) -> None:
    terminal.run("send", queue, stdin=b"1\n" * 1_234)
    status, out, told = terminal.run("top", "--once", "--url", gateway.http_url)
    assert (status, told) == (0, "")
    assert re.search(rf"{queue} +[\d.]+ +0 +0 +0 +1\.23k +0", out.decode())
    assert " ready" in out.decode().splitlines()[0]


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["--url", "localhost:8000"], 2, "names no gateway: write http://host:port"),
        (["--url", f"http://{HOST}:1"], 1, f"http://{HOST}:1 does not answer: no server listens there"),
        (["--url", f"https://{HOST}:1"], 1, "does not answer"),
    ],
)
def test_nothing_there(terminal: Terminal, words: list[str], status: int, sentence: str) -> None:
    found, out, told = terminal.run("top", *words)
    assert (found, out) == (status, b"")
    assert sentence in told


def test_tokens(terminal: Terminal, tmp_path: Path) -> None:
    with start_gateway(admin_token="wonderland-of-tokens") as gateway:
        status, _, told = terminal.run("top", "--url", gateway.http_url)
        assert (status, told.count("\n")) == (1, 1)
        assert "says 401" in told
        assert "--token-file" in told
        (tmp_path / "token").write_text("wonderland-of-tokens\n")
        assert terminal.run("top", "--url", gateway.http_url, "--token-file", "token")[0] == 0
        terminal.environment["GATEWAY_ADMIN_TOKEN"] = "wonderland-of-tokens"
        assert terminal.run("top", "--url", gateway.http_url)[0] == 0


class Screen:
    """A terminal of 100 columns and 25 lines with `gateway top` in it."""

    def __init__(self, process: subprocess.Popen[bytes], controller: int) -> None:
        self.process = process
        self._controller = controller

    def press(self, keys: str) -> None:
        os.write(self._controller, keys.encode())

    def left(self) -> int:
        """Leave it by a key, and read on meanwhile, for a full terminal would hold it up; the exit status."""
        self.press("q")
        deadline = time.monotonic() + 60
        while (status := self.process.poll()) is None:
            assert time.monotonic() < deadline
            if select.select([self._controller], [], [], 0.05)[0]:
                with suppress(OSError):  # it has ended
                    os.read(self._controller, 65_536)
        return status

    def wait_for(self, pattern: str) -> None:
        text, deadline = "", time.monotonic() + 20
        while not re.search(pattern, text):
            assert select.select([self._controller], [], [], max(0.0, deadline - time.monotonic()))[0], text
            text += os.read(self._controller, 65_536).decode(errors="replace")


@contextmanager
def screen(terminal: Terminal, *words: str) -> Iterator[Screen]:
    controller, end = pty.openpty()
    termios.tcsetwinsize(end, (25, 100))
    terminal.environment["TERM"] = "xterm"
    with terminal.start("top", "--interval", "0.2", *words, stdin=end, stdout=end) as process:
        os.close(end)
        try:
            yield Screen(process, controller)
        finally:
            process.kill()
            os.close(controller)


def test_on_a_terminal(terminal: Terminal, gateway: GatewayProcess) -> None:
    with screen(terminal, "--url", gateway.http_url) as seen:
        seen.wait_for(r"WAITING\*")
        seen.press(">")
        seen.wait_for(r"UNACKED\*")
        seen.press("s")
        seen.wait_for(r"of \d+ sessions")
        assert seen.left() == 0


def test_a_gateway_that_goes_away_and_comes_back(terminal: Terminal) -> None:
    with start_gateway() as gateway, screen(terminal, "--url", gateway.http_url) as seen:
        seen.wait_for("ready")
        gateway.stop()
        seen.wait_for("does not answer")
        gateway.start()
        seen.wait_for(r"up 00:0\d:\d\d")
        assert seen.left() == 0


OVERVIEW: dict[str, Any] = {
    "version": "1.2.3",
    "uptime": 93_784,
    "ready": True,
    "reason": None,
    "losses": {"dropped": 64_708, "dead_lettered": 3, "expired": 0, "conflated": 1},
    "problems": [],
    "edges": [],
    "sessions": {"total": 3, "tcp": 2, "websocket": 1},
    "subscriptions": 4,
    "destinations": 5,
    "messages": {"waiting": 6_000, "delayed": 7, "retained": 0, "unacknowledged": 8, "octets": 1536},
    "memory": {"process": 64 * 1024**2, "mark": 256 * 1024**2, "messages": 0, "messages_limit": 0},
    "held": 9,
    "latency": {"turn_ms": {"p50": 0.123, "p95": 1, "p99": 2.5}, "queue_ms": None, "ack_ms": None},
    "samples": [
        {"published": 10, "delivered": 1200, "acknowledged": 12, "errors": 0, "cpu": 0.256, "lag_ms": 1.2}
        | {"dropped": 1.5, "dead_lettered": 0.5, "expired": 1.0, "conflated": 9.0}
    ],
}


def shown(what: RenderableType, width: int = 80) -> str:
    console = Console(width=width, color_system=None, file=io.StringIO())
    with console.capture() as captured:
        console.print(what)
    return captured.get()


def test_the_head() -> None:
    text = shown(top.head(OVERVIEW))
    words = " ".join(text.split())
    assert words.startswith("stomp-gateway 1.2.3 up 1d 02:03:04 ready in/s 10 out/s 1.2k acks/s 12 errors/s 0")
    assert "p50 0.123 ms p99 2.5 ms cpu 26 % lag 1 ms" in words
    assert "sessions 3 tcp 2 websocket 1 held 9" in words
    assert "messages 1.5 KiB memory 64 MiB of 256 MiB scheduled 7" in words
    assert "lost/s 3 dropped 64.7k dead letters 3 expired 0" in words
    assert len(text.splitlines()) == top.HEAD - 5  # the fault, two ends of the table, the table's head, the keys


def test_what_is_wrong_is_told() -> None:
    wrong = {
        **OVERVIEW,
        "ready": False,
        "reason": "the store has failed",
        "problems": [
            {"severity": severity, "title": f"Problem {number}", "what": "it is so" * 20}
            for number, severity in enumerate(("critical", "warning", "info", "info", "info", "info", "info"))
        ],
        "memory": {**OVERVIEW["memory"], "mark": None},
        "latency": {"turn_ms": None, "queue_ms": None, "ack_ms": None},
        "samples": [],
    }
    text = shown(top.head(wrong))
    for sentence in ("not ready: the store has failed", "p50 -", "Problem 4: it is so", "and 2 more problems"):
        assert sentence in text
    assert len(text.splitlines()) == top.HEAD - 5 + top.MOST_PROBLEMS + 1


def test_each_edge_has_a_line() -> None:
    row = {"edge": "1", "ready": True, "since": 100.0, "sessions": 7, "cpu_seconds": 5.0}
    row |= {"link_received": 1024, "link_sent": 9 * 1024}
    away = {**row, "edge": "west", "ready": False}
    before = {**OVERVIEW, "at": 110.0, "edges": [row, away]}
    now = {**before, "at": 120.0, "edges": [{**row, "cpu_seconds": 9.0, "link_sent": 1033 * 1024}, away]}
    assert "edge 1 cpu 50 % sessions 7 link 1 KiB/s" in " ".join(shown(top.head(before)).split())
    words = " ".join(shown(top.head(now, before)).split())
    assert "edge 1 cpu 40 % sessions 7 link 102 KiB/s edge west serves no clients" in words
    again = {**now, "edges": [{**row, "since": 115.0}]}
    assert "cpu 100 %" in shown(top.head(again, before)), "it was started again meanwhile"
    many = {**before, "edges": [row] * (top.MOST_EDGES + 2)}
    assert "and 2 more edges" in shown(top.head(many))
    assert len(shown(top.head(many)).splitlines()) == top.HEAD - 5 + top.MOST_EDGES + 1


def test_a_standby_is_no_fault() -> None:
    standby = {"node": "b", "primary": "a", "address": "10.0.0.1:61613", "url": None}
    reason = "this node is a standby: the primary is a"
    text = shown(top.head({**OVERVIEW, "ready": False, "reason": reason, "standby": standby}))
    assert reason in text
    assert "not ready" not in text


ROW: dict[str, Any] = {
    "name": "/queue/\x1b[2Ja",
    "kind": "queue",
    "waiting": 64_708,
    "unacknowledged": 0,
    "delayed": 0,
    "oldest_age": 93_784.5,
    "oldest_age_is_least": True,
    "subscriptions": 1,
    "octets": 2048,
    "published_rate": 1234.5,
    "delivered_rate": 0.2,
    "acknowledged_rate": 0.0,
    "lost_rate": 400.0,
    "lost": 12,
    "series": {"published": [0.0, 5.0, 0.0, 10.0]},
}


def test_the_table_on_a_small_screen() -> None:
    """It has 80 columns; a name is cut in its middle."""
    long = {**ROW, "name": "/queue/orders.of.customers.in.europe.west"}
    text = shown(top.table(top.DESTINATIONS, [ROW, long], 9, "-waiting", 80))
    head, first, second, foot = text.splitlines()
    assert head.split() == "DESTINATION IN/s OUT/s ACK/s LOST/s WAITING* UNACKED OLDEST SUBS".split()
    assert first.split() == r"/queue/\x1b[2Ja 1.23k 0.2 0 400 64.7k 0 ≥ 1d 02h 1".split()
    assert second.startswith("/queue/orde….europe.west 1.23k")
    assert foot == "2 of 9 destinations"
    assert max(map(len, text.splitlines())) == 80


def test_a_durable_subscription_has_the_name_that_people_gave_it() -> None:
    row = {**ROW, "name": "/dsub/ledger//led/%2Ftopic", "title": "ledger: /topic/prices.#"}
    assert (
        shown(top.table(top.DESTINATIONS, [row], 1, "name", 80)).splitlines()[1].startswith("ledger: /topic/prices.#")
    )


def test_a_wide_screen_shows_more() -> None:
    text = shown(top.table(top.DESTINATIONS, [ROW, {**ROW, "series": None}], 9, "name", 150), 150)
    head, row, _, _ = text.splitlines()
    for title in ("DESTINATION*", "KIND", "5 MINUTES", "IN BACK-OFF", "SIZE"):
        assert title in head
    assert " queue ▁█ " in row
    assert "2 KiB" in row


def test_short_ages() -> None:
    assert [top.age(each) for each in (None, 0.5, 61, 3_725, 90_000)] == ["-", "0s", "1m 01s", "1h 02m", "1d 01h"]
