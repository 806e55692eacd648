"""Requests to an endpoint, and the pauses while it fails; the clock jumps."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
import trustme
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.push import endpoint as module
from gateway.push.endpoint import LONGEST_PAUSE, EndpointClient
from gateway.push.request import Answer, Verdict
from gateway.push.settings import PushEndpoint
from tests.gateway_process import HOST, free_ports

from .endpoint import EndpointServer, running

AWAY = Answer(Verdict.AWAY, "away")
FAILED = Answer(Verdict.FAILED, "failed")
TAKEN = Answer(Verdict.TAKEN)


def message(name: str = "a", body: bytes = b"tea") -> Any:
    return SimpleNamespace(id=name, headers={"message-id": name}, body=body)


@pytest.fixture
async def client() -> AsyncIterator[EndpointClient]:
    made = EndpointClient(PushEndpoint("http://shop.example/hook"))
    yield made
    await made.aclose()


async def waited(client: EndpointClient) -> float:
    """Seconds until the next turn."""
    began = anyio.current_time()
    await client.turn()
    return anyio.current_time() - began


class TestPauses:
    async def test_none_while_it_works(self, client: EndpointClient, autojump_clock: MockClock) -> None:
        for _ in range(5):
            assert await waited(client) == 0.0
            client.came(message(), TAKEN)

    async def test_one_message_that_always_fails(self, client: EndpointClient, autojump_clock: MockClock) -> None:
        for _ in range(20):
            assert await waited(client) == 0.0
            client.came(message(), FAILED)
        assert client.fault == ""

    async def test_they_grow(self, client: EndpointClient, autojump_clock: MockClock) -> None:
        for name in "abc":
            client.came(message(name), FAILED)
        assert client.fault == "failed"
        pauses = []
        for _ in range(12):
            pauses.append(await waited(client))
            client.came(message(), FAILED)
        assert 0 < pauses[0] <= 0.5
        assert pauses[4] > pauses[0]
        assert all(pause <= LONGEST_PAUSE for pause in pauses)
        assert pauses[-1] >= LONGEST_PAUSE / 2
        await client.turn()
        client.came(message(), TAKEN)
        assert client.fault == ""
        assert await waited(client) == 0.0

    async def test_no_connection(self, client: EndpointClient, autojump_clock: MockClock) -> None:
        client.came(message(), AWAY)
        assert client.fault == "away"
        assert await waited(client) > 0

    async def test_the_time_that_it_names(self, client: EndpointClient, autojump_clock: MockClock) -> None:
        client.came(message(), Answer(Verdict.LATER, "busy", 100.0))
        assert 100.0 <= await waited(client) <= 111.0

    async def test_failures_that_were_under_way_together(
        self, client: EndpointClient, autojump_clock: MockClock
    ) -> None:
        for number in range(100):
            client.came(message(str(number)), FAILED)
        assert await waited(client) <= 0.5, "they are one failure"

    async def test_one_request_tries(self, client: EndpointClient, autojump_clock: MockClock) -> None:
        client.came(message(), AWAY)
        turns: list[int] = []

        async def ask(number: int) -> None:
            await client.turn()
            turns.append(number)

        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(ask, number)
            await anyio.sleep(5)
            assert len(turns) == 1
            client.gave_up()
            await wait_all_tasks_blocked()
            assert len(turns) == 2
            client.came(message(), TAKEN)
        assert len(turns) == 3


async def posted(server: EndpointServer, **fields: Any) -> Answer:
    client = EndpointClient(PushEndpoint(server.url, allow_private=True, **fields))
    try:
        return await client.post(message(), is_ours=True)
    finally:
        await client.aclose()


class TestRequests:
    async def test_taken(self) -> None:
        with running() as server:
            assert await posted(server) == TAKEN
        assert server.bodies == [b"tea"]
        assert server.requests[0].headers["content-length"] == "3"

    async def test_connections_are_used_again(self) -> None:
        with running() as server:
            peers = set()
            handler: Any = server.RequestHandlerClass
            setup = handler.setup

            def counted(self: Any) -> None:
                peers.add(self.client_address)
                setup(self)

            server.RequestHandlerClass = type("Counted", (handler,), {"setup": counted})
            client = EndpointClient(PushEndpoint(server.url, allow_private=True))
            for _ in range(3):
                assert await client.post(message(), is_ours=True) == TAKEN
            await client.aclose()
        assert len(peers) == 1

    async def test_a_redirect_is_not_followed(self) -> None:
        with running() as other, running(lambda got: (302, {"Location": other.url}, b"")) as server:
            found = await posted(server)
        assert found.verdict is Verdict.FAILED
        assert other.requests == []

    async def test_a_long_answer(self) -> None:
        with running(lambda got: (400, {"Content-Type": "text/plain"}, b"x" * 1_000_000)) as server:
            found = await posted(server)
        assert found.verdict is Verdict.REFUSED
        assert len(found.reason) < 200

    async def test_no_answer(self) -> None:
        with running(lambda got: 0) as server:
            found = await posted(server)
        assert found.verdict is Verdict.FAILED
        assert found.reason.startswith("the connection to the endpoint broke: ")

    async def test_too_late(self) -> None:
        def never(got: object) -> int:
            import threading

            threading.Event().wait(2)
            return 204

        with running(never) as server:
            found = await posted(server, timeout=0.2)
        assert found == Answer(Verdict.FAILED, "the endpoint did not answer within 0.2 s")

    async def test_nothing_listens(self) -> None:
        (port,) = free_ports(1)
        client = EndpointClient(PushEndpoint(f"http://{HOST}:{port}/", allow_private=True))
        found = await client.post(message(), is_ours=True)
        assert found.verdict is Verdict.AWAY
        assert found.reason.startswith(f"cannot connect to http://{HOST}:{port}/: ")
        await client.aclose()

    async def test_a_private_address(self) -> None:
        """The name is checked where it is looked up, also if the URL passed the settings."""
        with running() as server:
            client = EndpointClient(PushEndpoint(server.url.replace(HOST, "localhost")))
            found = await client.post(message(), is_ours=True)
            await client.aclose()
        assert found.verdict is Verdict.AWAY
        assert "which is no public address (allow_private)" in found.reason
        assert server.requests == []


class TestTls:
    @pytest.fixture
    def authority(self) -> trustme.CA:
        return trustme.CA()

    def context(self, authority: trustme.CA, name: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(name).configure_cert(context)
        return context

    async def answer(self, tmp_path: Path, authority: trustme.CA, name: str, *, trusts: bool) -> Answer:
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        with running(context=self.context(authority, name)) as server:
            url = server.url.replace("http:", "https:").replace(HOST, "localhost")
            fields = {"ca": str(tmp_path / "ca.pem")} if trusts else {}
            client = EndpointClient(PushEndpoint(url, allow_private=True, **fields))  # type: ignore[arg-type]
            try:
                return await client.post(message(), is_ours=True)
            finally:
                await client.aclose()

    async def test_a_certificate_that_is_trusted(self, tmp_path: Path, authority: trustme.CA) -> None:
        assert await self.answer(tmp_path, authority, "localhost", trusts=True) == TAKEN

    @pytest.mark.parametrize(("name", "trusts"), [("localhost", False), ("other.example", True)])
    async def test_one_that_is_not(self, tmp_path: Path, authority: trustme.CA, name: str, trusts: bool) -> None:
        found = await self.answer(tmp_path, authority, name, trusts=trusts)
        assert found.verdict is Verdict.AWAY
        assert "CERTIFICATE_VERIFY_FAILED" in found.reason

    async def test_a_file_that_is_gone(self, tmp_path: Path) -> None:
        client = EndpointClient(PushEndpoint("https://shop.example/", ca=str(tmp_path / "none.pem")))
        found = await client.post(message(), is_ours=True)
        assert found.verdict is Verdict.AWAY
        assert "none.pem cannot be read" in found.reason


def test_the_bounds() -> None:
    assert module.FAILURES >= 2, "one message must not stop the others"
