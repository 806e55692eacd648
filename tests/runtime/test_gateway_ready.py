"""When the gateway says that no new session should be sent to it, and when again it may."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.admin import site
from gateway.runtime.gateway import Gateway
from gateway.stores import SQLiteStore, StoreFull, writer

from ..app.asgi import request
from ..transports.peers import until
from .gateways import connected, running, settings

WHY = "store.db cannot grow: No space left on device"


@pytest.fixture(autouse=True)
def _nothing_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(writer, "RETRY_AFTER", 0.001)


async def answers(gateway: Gateway) -> tuple[int, int, object]:
    app = site.build(gateway, settings())
    live, ready = await request(app, "/healthz"), await request(app, "/readyz")
    return live.status, ready.status, ready.json.get("error")


async def test_a_store_that_fails_and_works_again(monkeypatch: pytest.MonkeyPatch) -> None:
    write = SQLiteStore.write

    def fail(*_: object) -> None:
        raise StoreFull(WHY)

    async with running(store="sqlite:store.db") as gateway:
        peer = await connected(gateway, "tcp")
        assert await answers(gateway) == (200, 200, None)
        monkeypatch.setattr(SQLiteStore, "write", fail)
        await peer.send_frame("SEND", b"x", destination="/queue/a", persistent="true", receipt="1")
        await until(lambda: gateway.not_ready() is not None)
        assert await answers(gateway) == (200, 503, f"the store has failed: {WHY}")
        monkeypatch.setattr(SQLiteStore, "write", write)
        assert (await peer.frame("RECEIPT"))["receipt-id"] == "1"
        assert await answers(gateway) == (200, 200, None)
        await gateway.drain()
        assert await answers(gateway) == (200, 503, "the gateway is shutting down")
        await peer.aclose()


async def test_full_memory() -> None:
    """Short memory keeps nobody away: it would be those who make room."""
    async with running() as gateway:
        broker = gateway.broker
        broker.memory.keep(broker.quotas.memory_limit - 1)
        assert broker.memory.pressed
        assert await answers(gateway) == (200, 200, None)
        broker.memory.keep(1)
        limit = broker.quotas.memory_limit
        why = f"memory is full: kept messages cost {limit:,} bytes, {limit:,} may (memory_limit)"
        assert await answers(gateway) == (200, 503, why)
        broker.memory.release(1)
        assert await answers(gateway) == (200, 200, None)
        broker.memory.release(limit - 1)


async def test_a_complaint_keeps_no_client_away(tmp_path: Path) -> None:
    endpoint = "http://127.0.0.1:9/v1/traces"
    async with running(journal=tmp_path / "journal", trace_endpoint=endpoint, trace_ratio=0.0) as gateway:
        assert gateway.journal is not None
        assert gateway.tracing is not None
        assert gateway.complaints() == {}
        gateway.journal.failure, gateway.tracing.failure = "the disk is full", "the collector is away"
        told = {"journal": "the disk is full", "tracing": "the collector is away"}
        assert (gateway.not_ready(), gateway.complaints()) == (None, told)
        assert (await request(site.build(gateway, settings()), "/readyz")).json == {"status": "ready", **told}
        gateway.journal.failure = ""


def test_the_page_has_every_reason_and_every_complaint() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "alerts.md").read_text()
    reasons = set(re.findall(r"^\* `([a-z ]+)(?:: \.\.\.)?`: ", page, re.MULTILINE))
    words = _words(Gateway.not_ready)
    assert {each for each in words if each.partition(":")[0].rstrip() not in reasons} == set()
    assert {name for name in _words(Gateway.complaints) if name} <= reasons


def _words(function: Callable[..., object]) -> set[str]:
    """The texts of a method, but for its docstring and what only joins them."""
    (method,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(method, ast.FunctionDef)
    texts = [node.value for each in method.body[1:] for node in ast.walk(each) if isinstance(node, ast.Constant)]
    return {text for text in texts if isinstance(text, str) and any(letter.isalpha() for letter in text)}
