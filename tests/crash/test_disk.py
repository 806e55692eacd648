"""The store on a disk that is full: durable messages are refused, everything else goes on, and nothing is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from random import Random

import httpx
import pytest
import trio

from .books import Books, Letter, audit
from .client import Client
from .disk import Disk, Limit, file_system
from .drain import look_into, take_all
from .load import Sender
from .logs import Logs
from .plan import POLICIES, QUEUES
from .process import Process, gateway, wait_until_it_listens
from .wire import Frame, Gone, frame

# Seconds for anything.  A store that has failed is tried again each second.
_SOON = 15.0
_ORDERS = QUEUES[0]
_MOST = 5_000


@pytest.fixture(params=["limit", pytest.param("file system", marks=pytest.mark.long)])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """Both kinds; where no file system can be mounted, the limit twice."""
    with ExitStack() as stack:
        found = stack.enter_context(file_system()) if request.param == "file system" else None
        yield found or Limit(tmp_path)


class Scene:
    """A gateway on that disk, and its clients."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self.disk = disk
        self.store = disk.folder / "store.db"
        self.books = Books([_ORDERS.name])
        self.logs = Logs(self.books)
        self._folder = folder
        self._clients: list[Client] = []
        self._sender = Sender("p", self.books, Random(1))
        (folder / "gateway.toml").write_text(POLICIES)

    @asynccontextmanager
    async def life(self) -> AsyncIterator[Process]:
        """One of the gateway, that ends badly; also where it does not come to listen."""
        async with gateway(self._folder, store=f"sqlite:{self.store}", close_linger=1) as process:
            await wait_until_it_listens(process)
            try:
                yield process
            finally:
                for client in self._clients:
                    await client.close()
        self.books.end_of_life()

    async def client(self, process: Process) -> Client:
        client = await Client.open(process.port, self.books)
        self._clients.append(client)
        return client

    async def send(self, client: Client, *, receipt: bool = True) -> None:
        """A durable message; it need not come to its receipt."""
        unit = self.books.begin()
        headers, body = self._sender.letters(unit, [_ORDERS])
        await client.send(client.ask("SEND", headers, body, unit=unit), unit=unit)
        if receipt:
            await _receipts(client)

    async def send_until_refused(self, process: Process) -> Frame:
        """The ERROR of a producer that goes on sending."""
        client = await self.client(process)
        try:
            with trio.fail_after(_SOON):
                for _ in range(_MOST):
                    await self.send(client, receipt=False)
                    while client.outstanding > 16:
                        # The store may have failed for a batch whose receipts wait, before anybody was refused.
                        with trio.move_on_after(0.05):
                            await client.receive()
                            continue
                        break
        except Gone:
            assert client.error is not None, process.text
            return client.error
        raise AssertionError("all was taken")

    async def consume(self, client: Client) -> list[tuple[str, Letter]]:
        """A consumer of the durable queue, with some messages."""
        self.books.consumed.add(_ORDERS.name)
        headers = {"id": "s", "destination": _ORDERS.name, "ack": "client-individual", "prefetch-count": "4"}
        await client.send(frame("SUBSCRIBE", headers))
        held: list[tuple[str, Letter]] = []
        while len(held) < 4:
            for each in await client.receive():
                letter = self.books.delivered(each, client)
                assert letter is not None
                held.append((each.headers["ack"], letter))
        return held

    async def acknowledge(self, client: Client, handle: str, letter: Letter) -> None:
        """With a receipt, which is not waited for."""
        unit = self.books.begin()
        self.books.settle(unit, [letter])
        await client.send(client.ask("ACK", {"id": handle}, unit=unit), unit=unit)

    async def end(self) -> None:
        """The last life: all comes that must, and nothing else."""
        async with gateway(self._folder, store=f"sqlite:{self.store}", close_linger=1) as process:
            assert await wait_until_it_listens(process), process.text
            await take_all(process.port, self.logs)
            await process.stop()
        audit(self.books)
        look_into(self.store, self.logs)
        assert not self.books.complaints


async def _receipts(client: Client) -> None:
    with trio.fail_after(_SOON):
        await client.receipts()


async def _talk(client: Client) -> None:
    """What is in memory only goes round: a queue and a topic."""
    for name in ("/queue/memory", "/topic/news"):
        await client.send(client.ask("SUBSCRIBE", {"id": name, "destination": name}))
        await client.send(client.ask("SEND", {"destination": name}, b"hello"))
        found: list[Frame] = []
        with trio.fail_after(_SOON):
            while not found:
                found = await client.receive()
        assert found[0].body == b"hello"
        await client.send(client.ask("UNSUBSCRIBE", {"id": name}))
        await _receipts(client)


async def _ready(process: Process) -> int:
    answer = await trio.to_thread.run_sync(httpx.get, f"http://127.0.0.1:{process.http}/readyz")
    return answer.status_code


def _says_why(error: Frame, store: Path) -> bool:
    """In words that name nothing of the server's: they are for its log."""
    return error.headers["message"] == "the store cannot be written" and str(store) not in error.body.decode()


@pytest.mark.slow
async def test_a_full_disk(disk: Disk, tmp_path: Path) -> None:
    scene = Scene(disk, tmp_path)
    async with scene.life() as process:
        talker, producer, consumer = [await scene.client(process) for _ in range(3)]
        for _ in range(8):
            await scene.send(producer)
        held = await scene.consume(consumer)
        disk.fill(process.pid)

        error = await scene.send_until_refused(process)
        assert _says_why(error, scene.store), error
        await _talk(talker)
        assert await _ready(process) == 503
        await scene.acknowledge(consumer, *held[0])
        assert _says_why(await scene.send_until_refused(process), scene.store)
        await _talk(talker)

        disk.free(process.pid)
        await _receipts(consumer)
        assert await _ready(process) == 200
        await scene.send(producer)
        await scene.acknowledge(consumer, *held[1])
        await _receipts(consumer)
    await scene.end()
