"""Restarts under load: a gateway with a store, behind nginx with TLS, while a page sends and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio_websocket import ConnectionClosed, HandshakeError, WebSocketConnection, wrap_client_stream

from tests.clients.nginx import Public, start_nginx_tls
from tests.clients.worker import Worker
from tests.gateway_process import HOST, GatewayProcess, start_gateway
from tests.shared import write_users

BOUND = 200.0
QUEUE = "/queue/orders"
CONNECT = "CONNECT\naccept-version:1.2\nhost:x\nlogin:ada\npasscode:engine\n\n\0"
# Between two attempts; clients are told to wait longer, but so the test is not.
PAUSE = 0.05


class Page:
    """Sends durable messages; one whose RECEIPT did not come is sent again, with the same `dedup-id`."""

    def __init__(self, public: Public) -> None:
        self.promised: list[str] = []  # bodies of the messages whose RECEIPT came
        self.hints: list[str] = []  # values of `retry-after` that came
        self.closes: list[int] = []  # WebSocket close codes of connections that ended
        self.logins = 0
        self._public = public
        self._changed = trio.Event()

    async def run(self) -> None:
        """Come back for ever."""
        public = self._public
        while True:
            try:
                async with await trio.open_tcp_stream(HOST, public.https) as plain, trio.open_nursery() as tasks:
                    stream = trio.SSLStream(plain, public.trust, server_hostname=HOST, https_compatible=True)
                    page = await wrap_client_stream(tasks, stream, HOST, "/ws", extra_headers=[("Origin", public.url)])
                    try:
                        await self._converse(page)
                    except ConnectionClosed as closed:
                        self.closes.append(closed.reason.code if closed.reason else 1006)
                    tasks.cancel_scope.cancel()
            except* (OSError, HandshakeError, trio.BrokenResourceError):
                pass  # nginx says 502 while no gateway runs
            await trio.sleep(PAUSE)

    async def _converse(self, page: WebSocketConnection) -> None:
        await page.send_message(CONNECT)
        assert (await page.get_message()).startswith("CONNECTED\n")
        self.logins += 1
        while True:
            body = f"page-{len(self.promised)}"
            head = f"SEND\ndestination:{QUEUE}\npersistent:true\ndedup-id:{body}\nreceipt:{body}"
            await page.send_message(f"{head}\n\n{body}\0")
            answer = await page.get_message()
            headers = dict(line.split(":", 1) for line in answer.split("\n\n", 1)[0].split("\n")[1:])
            if answer.startswith("ERROR\n"):
                self.hints.append(headers["retry-after"])
                await page.get_message()  # nothing more: this is the end
            assert headers["receipt-id"] == body
            self.promised.append(body)
            self._changed.set()
            self._changed = trio.Event()

    async def more(self) -> None:
        """Wait until some more were promised."""
        goal = len(self.promised) + 20
        while len(self.promised) < goal:
            await self._changed.wait()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    users = write_users(tmp_path / "users.txt", {"ada": "engine"})
    behind = {"tcp_proxy_protocol": "true", "trusted_proxies": HOST, "users_file": users, "heartbeat_margin": 5}
    with start_gateway(store=f"sqlite:{tmp_path}/store.db", **behind) as process:
        yield process


def crash(gateway: GatewayProcess) -> None:
    gateway.kill()
    gateway.start()


def left(public: Public) -> list[str]:
    """The bodies of what is in the queue, in their order, up to a message that is sent last of all."""
    worker = Worker("1.2", public.stomp)
    worker.connection.set_ssl([(HOST, public.stomp)], ca_certs=str(public.authority))
    worker.connection.connect("ada", "engine", wait=True)
    worker.send(QUEUE, "the end")
    worker.subscribe(QUEUE, headers={"prefetch-count": "0"})
    bodies = list(iter(worker.body, "the end"))
    worker.connection.disconnect(receipt="farewell")
    worker.losses.get(timeout=BOUND)
    return bodies


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_nothing_that_was_promised_is_lost(gateway: GatewayProcess) -> None:
    """It is there at the end, and once; clients are told when to come again, where there was time to."""
    with start_nginx_tls(gateway.ws_port, gateway.http_port, gateway.tcp_port) as public:
        page = Page(public)
        with trio.fail_after(BOUND):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(page.run)
                await page.more()
                await trio.to_thread.run_sync(gateway.restart)
                await page.more()
                await trio.to_thread.run_sync(crash, gateway)
                await page.more()
                nursery.cancel_scope.cancel()
        assert (page.logins, page.hints) == (3, ["2000"]), "the restart told it, the kill could not"
        assert page.closes == [1012, 1006]
        bodies = await trio.to_thread.run_sync(left, public)
    assert bodies[: len(page.promised)] == page.promised, "in their order, and each once"
    assert len(bodies) - len(page.promised) <= 1, "at most the one whose RECEIPT was not waited for"
