"""What `gateway top` shows: figures, and the table."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console, RenderableType

from gateway.cli import dashboard

OVERVIEW: dict[str, Any] = {
    "version": "1.2.3",
    "uptime": 93_784,
    "ready": True,
    "reason": None,
    "complaints": {},
    "sessions": {"total": 3, "tcp": 2, "websocket": 1},
    "subscriptions": 4,
    "destinations": 5,
    "messages": {"waiting": 6_000, "delayed": 7, "retained": 0, "unacknowledged": 8, "octets": 1536},
    "memory": {"process": 64 * 1024**2, "mark": 256 * 1024**2, "messages": 0, "messages_limit": 0, "pressed": False},
    "held": 9,
    "store": None,
    "journal": None,
    "latency": {"turn_ms": {"p50": 0.123, "p95": 1, "p99": 2.5}, "queue_ms": None, "ack_ms": None},
    "samples": [{"published": 10, "delivered": 1200, "acknowledged": 12, "errors": 0, "cpu": 0.256, "lag_ms": 1.2}],
}


def shown(what: RenderableType) -> str:
    console = Console(width=100, color_system=None, file=io.StringIO())
    with console.capture() as captured:
        console.print(what)
    return captured.get()


def test_the_head() -> None:
    text = shown(dashboard.head(OVERVIEW))
    words = " ".join(text.split())
    assert words.startswith("stomp-gateway 1.2.3 up 1d 02:03:04 ready in/s 10 out/s 1.2k acks/s 12 errors/s 0")
    assert "p50 0.123 ms p99 2.5 ms cpu 26 % lag 1 ms" in words
    assert "sessions 3 tcp 2 websocket 1 held 9" in words
    assert "messages 1.5 KiB memory 64 MiB of 256 MiB scheduled 7" in words
    assert len(text.splitlines()) == dashboard.HEAD - 5  # the fault, two ends of the table, the table's head, the keys


def test_what_is_wrong_is_told() -> None:
    wrong = {
        **OVERVIEW,
        "ready": False,
        "reason": "the store has failed",
        "complaints": {"certificate": "it ends tomorrow"},
        "memory": {**OVERVIEW["memory"], "pressed": True, "mark": None},
        "journal": {"failing": "no room"},
        "latency": {"turn_ms": None, "queue_ms": None, "ack_ms": None},
        "samples": [],
    }
    text = shown(dashboard.head(wrong))
    for sentence in ("not ready: the store has failed", "certificate: it ends tomorrow", "journal: no room", "short"):
        assert sentence in text
    assert "p50 -" in text


def test_the_table() -> None:
    row = {"name": "/queue/\x1b[2Ja", "kind": "queue", "waiting": 7, "unacknowledged": 0, "delayed": 0}
    ages = {"oldest_age": 93_784.5, "oldest_age_is_least": True}
    text = shown(
        dashboard.table(dashboard.DESTINATIONS, [{**row, **ages, "subscriptions": 1, "octets": 2048}], 9, "-waiting")
    )
    assert "WAITING *" in text
    assert "IN BACK-OFF" in text
    assert "≥ 1d 02:03:04" in text
    assert r"/queue/\x1b[2Ja" in text
    assert "2 KiB" in text
    assert "1 of 9 destinations" in text
