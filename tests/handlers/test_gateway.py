"""Functions in a whole gateway: defaults, the start that fails, and the drain; `test_example` has a process."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import trio

from gateway.auth.authenticator import Anonymous
from gateway.config.settings import load
from gateway.runtime.gateway import Gateway, StartError, open_gateway
from tests.transports.peers import Peer, dial

MODULE = """
import trio
from gateway.handlers import Handlers, Request, Reject

app = Handlers()
begun = trio.Event()
go_on = trio.Event()

@app.send("/app/reject/{reason}")
async def reject(request: Request, reason: str) -> None:
    raise Reject(reason)

@app.send("/app/wait", concurrency=1)
async def wait(request: Request) -> None:
    begun.set()
    await go_on.wait()
    request.send("/queue/done", request.body)
"""

Opening = Callable[..., AbstractAsyncContextManager[Gateway]]


@pytest.fixture
def opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opening:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "functions.py").write_text(MODULE)

    @asynccontextmanager
    async def open_one(handlers: str = "functions:app", **values: object) -> AsyncIterator[Gateway]:
        settings = load(tcp="127.0.0.1:0", websocket="127.0.0.1:0", close_linger=0.2, handlers=handlers, **values)
        async with open_gateway(settings, authenticator=Anonymous()) as gateway:
            yield gateway

    return open_one


async def connected(gateway: Gateway, kind: str = "tcp") -> Peer:
    peer = await dial(kind, gateway.addresses[kind][0])
    await peer.connect(login="ann")
    return peer


async def test_dead_letters_have_a_queue_unless_a_policy_says_otherwise(opening: Opening, tmp_path: Path) -> None:
    policy = '[[policy]]\nmatch = "/handlers/send/reject/*"\ndead_letter = "/queue/of-mine"\n'
    for text, queue in (("", "/queue/dlq.app"), (policy, "/queue/of-mine")):
        (tmp_path / "gateway.toml").write_text(text)
        async with opening() as gateway:
            peer = await connected(gateway)
            await peer.publish("/app/reject/unwanted", b"x")
            (letter,) = await peer.subscribe_and_read(queue, 1)
            assert (letter.body, letter["reason"], letter["user-id"]) == (b"x", "unwanted", "ann")
            assert letter["dlq-source"] == "/handlers/send/reject/{reason}"
            await peer.aclose()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"handlers": "functions:nobody"}, "is wrong: there is no nobody in functions, and it should be a "),
        ({"max_subscriptions": 1}, "is wrong: it has too many functions: a session may have 1 (max_subscriptions)"),
        ({"max_destinations": 1}, "is wrong: it has too many functions: the server may have 1 (max_destinations)"),
    ],
)
async def test_a_start_that_is_refused(opening: Opening, values: dict[str, object], sentence: str) -> None:
    with pytest.raises(StartError) as refusal:
        async with opening(**values):
            raise AssertionError("it has started")
    assert str(refusal.value).startswith(f"handlers (GATEWAY_HANDLERS) {sentence}")
    assert refusal.value.__suppress_context__


async def test_a_drain_finishes_what_has_begun(opening: Opening) -> None:
    """One message is at work, another one waits, and the client has left."""
    async with opening() as gateway:
        peer = await connected(gateway)
        for body in (b"1", b"2"):
            await peer.publish("/app/wait", body)
        await peer.settled()
        await sys.modules["functions"].begun.wait()
        await peer.aclose()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(gateway.drain)
            await trio.testing.wait_all_tasks_blocked()
            assert gateway.not_ready()
            sys.modules["functions"].go_on.set()
        assert gateway.broker.destinations["/queue/done"].waiting == 1  # type: ignore[union-attr]
    assert not gateway.broker.sessions
    assert gateway.broker.context.waiting == 2
