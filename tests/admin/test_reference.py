"""`docs/api.md`: its examples do what they say, and each is answered as its schema says."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import trio

from docs.generate import api
from gateway.admin.endpoint import Endpoint
from gateway.admin.openapi import document
from gateway.auth.passwords import hash_passcode
from tests.app.asgi import Answer
from tests.gateway_process import HOST, GatewayProcess, start_gateway
from tests.transports.peers import Peer, dial

from .running import check

DOCUMENT = document(api.table())


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    (tmp_path / "users").write_text(f"alice:{hash_passcode('right')}\n")
    folder = tmp_path / "tables" / "_console"
    folder.mkdir(parents=True)
    (folder / "metrics.json").write_text("{}")
    policies = '[[policy]]\nmatch = "/topic/log.#"\nlog_messages = 100\n'
    policies += '[[policy]]\nmatch = "/topic/room.*"\npresence = true\n'
    (tmp_path / "gateway.toml").write_text(policies)
    with start_gateway(
        config=tmp_path / "gateway.toml",
        users_file=tmp_path / "users",
        admin_token="sesame",
        tables=tmp_path / "tables",
        login_delay=0,
    ) as running:
        yield running


@pytest.fixture
def table() -> list[Endpoint]:
    return api.table()


class Shell:
    """A reader of the page, with its variables."""

    def __init__(self, gateway: GatewayProcess, folder: Path) -> None:
        self._gateway = gateway
        # The page's commands as they stand, but that curl also says how it went.
        (folder / ".curlrc").write_text('fail-with-body\nwrite-out = "\\n%{http_code} %{content_type}"\n')
        self._folder = folder
        self.peers: list[Peer] = []
        self.session = ""

    async def prepare(self) -> dict[str, str]:
        orphan = await self.peer(client_id=f"desk-{len(self.peers)}")
        await orphan.subscribe("/topic/news", durable="true")
        await orphan.subscribe("/topic/log.news", 2, "client", resume="reader")
        await orphan.send_frame("DISCONNECT", receipt="end")
        await orphan.frame("RECEIPT")
        peer = await self.peer()
        for name in ("/queue/orders", "/queue/dlq.orders"):
            await peer.publish(name, b"an order", size="11")
            await peer.settled()
        await peer.publish("/queue/orders", b"an order", x_delay=3_600_000)
        await peer.publish("/topic/prices", b"the last", retain="set")
        await peer.settled()
        messages = self.get("messages?destination=/queue/orders")["messages"]
        durable_subscriptions = self.get("destinations?q=/dsub/")["destinations"]
        return {
            **os.environ,
            "CURL_HOME": str(self._folder),
            "GATEWAY": self._gateway.http_url,
            "ADMIN_TOKEN": "sesame",
            "PASSCODE": "right",
            "SESSION": self.session,
            "MESSAGE": messages[0]["id"],
            "DURABLE": durable_subscriptions[0]["name"],
            "SCHEDULED": self.get("scheduled")["scheduled"][0]["id"],
            "OFFSET": self.get("cursors")["cursors"][0]["name"],
        }

    async def peer(self, **headers: str) -> Peer:
        peer = await dial("tcp", f"{HOST}:{self._gateway.tcp_port}")
        connected = await peer.connect(login="alice", passcode="right", **headers)
        self.session = connected["session"]
        self.peers.append(peer)
        return peer

    def get(self, path: str) -> Any:
        request = Request(f"{self._gateway.http_url}/api/v1/{path}", headers={"Authorization": "Bearer sesame"})
        with urlopen(request) as answer:
            return json.load(answer)

    async def run(self, endpoint: Endpoint) -> None:
        variables = await self.prepare()
        command = f"{api.SHELL}\n{api.example_of(endpoint)}"
        if endpoint.media_type == "text/event-stream":
            await self.watch(command.replace("curl", "exec curl"), variables)
            return
        done = await trio.run_process(["bash", "-c", command], env=variables, capture_stdout=True, check=False)
        body, _, told = done.stdout.rpartition(b"\n")
        status, _, media_type = told.decode().partition(" ")
        assert (done.returncode, status) == (0, str(endpoint.status)), f"{command}\n{body!r}"
        check(DOCUMENT, endpoint.method, endpoint.path, Answer(int(status), {"content-type": media_type}, body))

    async def watch(self, command: str, variables: dict[str, str]) -> None:
        async def chat(peer: Peer) -> None:
            while True:
                await peer.settled()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(chat, self.peers[-1])
            process = await trio.lowlevel.open_process(["bash", "-c", command], env=variables, stdout=subprocess.PIPE)
            assert process.stdout is not None
            seen = b""
            with trio.fail_after(20):
                while not {b"event: frame", b"data: the last"} & {*seen.splitlines()}:
                    seen += await process.stdout.receive_some()
            process.kill()
            await process.wait()
            await process.stdout.aclose()
            nursery.cancel_scope.cancel()


@pytest.mark.slow
async def test_examples(gateway: GatewayProcess, table: list[Endpoint], tmp_path: Path) -> None:
    shell = Shell(gateway, tmp_path)
    # A handover needs a cluster (tests/admin/test_cluster.py), a backup a store (tests/cli/test_backup.py).
    others = ("/handover", "/backup")
    endpoints = [each for each in table if each.method != "OPTIONS" and not each.path.endswith(others)]
    endpoints.sort(key=lambda each: each.path.endswith("/drain"))  # nothing goes after it
    try:
        for each in endpoints:
            await shell.run(each)
    finally:
        for peer in shell.peers:
            await peer.aclose()
