"""Restarts under load: a gateway with a store, behind nginx with TLS, while clients send and come back.

What a RECEIPT promised is there at the end, and once; clients are told when to come again, where there was time to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import trio

from tests.clients.nginx import Public, start_nginx_tls
from tests.clients.worker import Worker
from tests.deploy.senders import QUEUE, Books, over_websocket, with_stomp_py
from tests.gateway_process import HOST, GatewayProcess, start_gateway
from tests.shared import write_users

BOUND = 200.0
ENOUGH = 20
"""Messages of each client between two restarts."""


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    users = write_users(tmp_path / "users.txt", {"ada": "engine"})
    behind = {"tcp_proxy_protocol": "true", "trusted_proxies": HOST, "users_file": users, "heartbeat_margin": 5}
    with start_gateway(store=f"sqlite:{tmp_path}/store.db", **behind) as process:
        yield process


@pytest.fixture
def public(gateway: GatewayProcess) -> Iterator[Public]:
    with start_nginx_tls(gateway.ws_port, gateway.http_port, gateway.tcp_port) as ports:
        yield ports


async def all_go_on(every: Sequence[Books]) -> None:
    """Wait until each client was promised some more."""
    for books in every:
        await books.more(ENOUGH)


def crash(gateway: GatewayProcess) -> None:
    gateway.kill()
    gateway.start()


def left(public: Public, count: int) -> list[str]:
    """The bodies of what is in the queue, in their order, up to a message that is sent last of all."""
    worker = Worker("1.2", public.stomp)
    worker.connection.set_ssl([(HOST, public.stomp)], ca_certs=str(public.authority))
    worker.connection.connect("ada", "engine", wait=True)
    worker.send(QUEUE, "the end")
    worker.subscribe(QUEUE, headers={"prefetch-count": "0"})
    bodies = list(iter(worker.body, "the end"))
    worker.connection.disconnect(receipt="farewell")
    worker.losses.get(timeout=BOUND)
    assert len(bodies) >= count
    return bodies


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_nothing_that_was_promised_is_lost(gateway: GatewayProcess, public: Public) -> None:
    page, python = every = [Books("page"), Books("python")]
    with trio.fail_after(BOUND):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(over_websocket, public, page)
            nursery.start_soon(with_stomp_py, public, python)
            try:
                await all_go_on(every)
                await trio.to_thread.run_sync(gateway.restart)
                await all_go_on(every)
                await trio.to_thread.run_sync(crash, gateway)
                await all_go_on(every)
            finally:
                for books in every:
                    books.over.set()
    for books in every:
        assert books.logins == 3, books.name
        assert books.hints == ["2000"], "the restart told it, the kill could not"
    assert page.closes == [1012, 1006]
    bodies = await trio.to_thread.run_sync(left, public, sum(len(books.promised) for books in every))
    for books in every:
        own = [body for body in bodies if body.startswith(f"{books.name}-")]
        assert own[: len(books.promised)] == books.promised, "in their order, and each once"
        assert len(own) - len(books.promised) <= 1, "at most the one whose RECEIPT nobody waited for"
