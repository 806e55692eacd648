"""Clients of this process: they are sessions like others, with their login, their refusals and their end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path

import pytest
import trio

from gateway import auth
from gateway.auth.passwords import hash_passcode
from gateway.broker.model.identity import Upgrade
from gateway.config.settings import load
from gateway.runtime.gateway import Gateway, open_gateway
from gateway.runtime.local_client import SessionRefused
from gateway.transports.wire.link import Remote
from tests.transports.peers import until

HERE = Remote("127.0.0.1")
PEER = "127.0.0.1:50000"

Opening = Callable[..., AbstractAsyncContextManager[Gateway]]


@pytest.fixture
def opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opening:
    monkeypatch.chdir(tmp_path)

    @asynccontextmanager
    async def open_one(**values: object) -> AsyncIterator[Gateway]:
        settings = load(tcp="127.0.0.1:0", websocket="127.0.0.1:0", close_linger=0.2, **values)
        async with open_gateway(settings, authenticator=auth.for_settings(settings)) as gateway:
            yield gateway

    return open_one


async def test_it_is_a_session_for_the_block(opening: Opening) -> None:
    async with opening() as gateway:
        with closing(await gateway.connect_local(HERE, PEER)) as client:
            (session,) = gateway.broker.sessions.values()
            assert (session.peer, session.transport) == (PEER, "websocket")
            await client.perform("SUBSCRIBE", {"destination": "/queue/a", "id": "1"})
            await client.perform("SEND", {"destination": "/queue/a"}, b"one")
            await client.perform("SEND", {"destination": "/queue/a"}, b"two")
            assert [(await client.receive()).body for _ in range(2)] == [b"one", b"two"]
            assert client.waiting() == []
        await until(lambda: not gateway.broker.sessions)


async def test_messages_go_back_to_their_queue(opening: Opening) -> None:
    async with opening() as gateway:
        with closing(await gateway.connect_local(HERE, PEER)) as client:
            await client.perform("SEND", {"destination": "/queue/a"}, b"one")
            client.send("SUBSCRIBE", {"destination": "/queue/a", "id": "1", "ack": "client"})
            assert (await client.receive()).body == b"one"
        await until(lambda: not gateway.broker.sessions)
        with closing(await gateway.connect_local(HERE, PEER)) as client:
            client.send("SUBSCRIBE", {"destination": "/queue/a", "id": "1"})
            assert (await client.receive()).headers["redelivered"] == "true"


async def test_a_frame_that_is_refused(opening: Opening) -> None:
    async with opening() as gateway:
        client = await gateway.connect_local(HERE, PEER)
        with pytest.raises(SessionRefused, match="unsupported kind of destination") as refusal:
            await client.perform("SEND", {"destination": "/nowhere"})
        assert refusal.value.receipt == "local-1"
        assert refusal.value.error is not None
        with pytest.raises(SessionRefused):
            await client.receive()


async def test_a_login(opening: Opening, tmp_path: Path) -> None:
    (tmp_path / "users.txt").write_text(f"ada:{hash_passcode('secret')}\n")
    rule = [{"destination": "/queue/a", "users": ["ada"], "allow": ["send"]}]
    async with opening(users_file="users.txt", rule=rule) as gateway:
        with pytest.raises(SessionRefused) as refusal:
            await gateway.connect_local(Remote("127.0.0.1", upgrade=Upgrade()), PEER)
        assert refusal.value.error is not None
        assert refusal.value.error.cause == "login-refused"
        shown = Remote("127.0.0.1", upgrade=Upgrade(authorization="Basic YWRhOnNlY3JldA=="))
        with closing(await gateway.connect_local(shown, PEER)) as client:
            await client.perform("SEND", {"destination": "/queue/a"})
            with pytest.raises(SessionRefused) as refusal:
                await client.perform("SEND", {"destination": "/queue/b"})
        assert refusal.value.error is not None
        assert refusal.value.error.cause == "access-refused"
        assert "/queue/b" in refusal.value.detail


async def test_a_limit_of_connections(opening: Opening) -> None:
    async with opening(max_connections=1) as gateway:
        await gateway.connect_local(HERE, PEER)
        with pytest.raises(SessionRefused) as refusal:
            await gateway.connect_local(HERE, PEER)
        assert refusal.value.error is not None
        assert refusal.value.error.cause == "too-many"


async def test_a_drain_ends_it(opening: Opening) -> None:
    async with opening() as gateway:
        client = await gateway.connect_local(HERE, PEER)
        gateway.begin_drain()
        with trio.fail_after(10), pytest.raises(SessionRefused, match="shutting down"):
            await client.receive()
