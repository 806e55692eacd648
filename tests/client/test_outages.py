"""Outages of the async client's server: killed, drained, cut off, silent, and servers that refuse."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.to_thread import run_sync

from gateway.client import AsyncClient, ConnectionLost, Message, ServerError, TimedOut, connect
from gateway.client.connection import Backoff
from tests.clients.forwarder import Forwarder, start_forwarder
from tests.gateway_process import HOST, GatewayProcess, start_gateway
from tests.shared import write_users

from .conftest import Main
from .scripted import Peer, scripted

Run = Callable[[Main], None]
Trouble = Callable[[GatewayProcess, Forwarder], None]

QUICK: dict[str, Any] = {"max_pause": 0.2}


def cut(_: GatewayProcess, forwarder: Forwarder) -> None:
    forwarder.cut()


def kill(process: GatewayProcess, _: Forwarder) -> None:
    process.kill()
    process.start()


def drain(process: GatewayProcess, _: Forwarder) -> None:
    process.restart()


async def until_dry(client: AsyncClient, queue: str) -> list[str]:
    """Consume until nothing comes for a while."""
    found: list[str] = []
    async with client.subscribe(queue, prefetch=100) as messages:
        while True:
            with anyio.move_on_after(0.5) as scope:
                async with await anext(messages) as message:
                    found.append(message.text)
            if scope.cancelled_caught:
                return found


class Load:
    """Numbered messages of some tasks, until they are told to stop; `sent` are confirmed."""

    def __init__(self, client: AsyncClient, queue: str) -> None:
        self._client = client
        self._queue = queue
        self.sent: list[str] = []
        self.stop = False

    async def send(self, task: int) -> None:
        number = 0
        while not self.stop:
            number += 1
            body = f"{task}.{number}"
            await self._client.send(self._queue, body)
            self.sent.append(body)

    async def send_two(self, task: int) -> None:
        """The same, two in a transaction."""
        number = 0
        while not self.stop:
            number += 1
            bodies = [f"{task}.{number}.{part}" for part in "ab"]
            async with self._client.transaction() as work:
                for body in bodies:
                    await work.send(self._queue, body)
            self.sent += bodies


async def trouble_amid_sends(process: GatewayProcess, troubles: Sequence[Trouble], queue: str) -> None:
    with start_forwarder(process.tcp_port) as forwarder:
        async with connect(f"stomp://{HOST}:{forwarder.port}", **QUICK) as client:
            load = Load(client, queue)
            async with anyio.create_task_group() as tasks:
                for task, job in enumerate((load.send, load.send, load.send_two)):
                    tasks.start_soon(job, task)
                for trouble in troubles:
                    await anyio.sleep(random.uniform(0.0, 0.1))
                    await run_sync(trouble, process, forwarder)
                    before = len(load.sent)
                    while len(load.sent) < before + 10:  # noqa: ASYNC110 - until it works again
                        await anyio.sleep(0.01)
                load.stop = True
            assert sorted(await until_dry(client, queue)) == sorted(load.sent)


@pytest.mark.parametrize("trouble", [cut, kill, drain])
def test_nothing_is_lost_and_nothing_doubled(run: Run, store: GatewayProcess, name: str, trouble: Trouble) -> None:
    run(lambda: trouble_amid_sends(store, [trouble], f"/queue/{name}"))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_hundred_rounds(store: GatewayProcess, name: str) -> None:
    kinds: list[Trouble] = [cut, kill, drain]
    troubles = random.sample(kinds, 100, counts=[70, 25, 5])
    anyio.run(lambda: trouble_amid_sends(store, troubles, f"/queue/{name}"), backend="trio")


@pytest.mark.parametrize("trouble", [cut, kill])
def test_every_job_is_done(run: Run, store: GatewayProcess, name: str, trouble: Trouble) -> None:
    """By consumers that lose their connection amid their jobs."""
    jobs = {str(number) for number in range(60)}
    done: set[str] = set()

    async def work(client: AsyncClient, tasks: anyio.CancelScope) -> None:
        async for message in client.subscribe(f"/queue/{name}", prefetch=5):
            async with message:
                await anyio.sleep(0.01)
                done.add(message.text)
            if done == jobs:
                tasks.cancel()

    async def main() -> None:
        with start_forwarder(store.tcp_port) as forwarder:
            async with connect(f"stomp://{HOST}:{forwarder.port}", **QUICK) as client:
                for job in sorted(jobs):
                    await client.send(f"/queue/{name}", job)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(work, client, tasks.cancel_scope)
                    tasks.start_soon(work, client, tasks.cancel_scope)
                    for _ in range(3 if trouble is cut else 1):
                        await anyio.sleep(random.uniform(0.05, 0.15))
                        await run_sync(trouble, store, forwarder)

    run(main)
    assert done == jobs


@asynccontextmanager
async def behind(process: GatewayProcess) -> AsyncIterator[tuple[AsyncClient, Forwarder]]:
    """A client whose connection can be cut."""
    with start_forwarder(process.tcp_port) as forwarder:
        async with connect(f"stomp://{HOST}:{forwarder.port}", **QUICK) as client:
            yield client, forwarder


class TestStreams:
    @pytest.fixture(scope="class")
    @staticmethod
    def streams(tmp_path_factory: pytest.TempPathFactory) -> object:
        folder = tmp_path_factory.mktemp("streams")
        (folder / "gateway.toml").write_text('[[policy]]\nmatch = "/topic/#"\nlog_messages = 5\n')
        with GatewayProcess(folder, {}).running() as process:
            yield process

    @pytest.mark.parametrize("options", [{}, {"from_seq": 0}, {"resume": "reader"}])
    def test_what_was_missed_comes(self, run: Run, streams: GatewayProcess, name: str, options: dict[str, Any]) -> None:
        async def main() -> None:
            async with (
                connect(f"stomp://{HOST}:{streams.tcp_port}") as publisher,
                behind(streams) as (client, forwarder),
                client.subscribe(f"/topic/{name}", **options) as found,
            ):
                await publisher.send(f"/topic/{name}", "1")
                async with await anext(found) as message:
                    assert message.text == "1"
                    assert message.seq is not None
                forwarder.cut()
                await publisher.send(f"/topic/{name}", "2")
                texts: list[str] = []
                while "2" not in texts:
                    async with await anext(found) as message:
                        texts.append(message.text)
                # The ACK of the first may have been lost, too.
                assert texts == ["2"] or (options.get("resume") and texts == ["1", "2"])

        run(main)

    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_gap_is_told_first(self, run: Run, streams: GatewayProcess, name: str, is_async: bool) -> None:
        told: list[str] = []

        def on_gap(message: Message) -> None:
            told.append(message.text)

        async def on_gap_async(message: Message) -> None:
            on_gap(message)

        async def main() -> None:
            async with connect(f"stomp://{HOST}:{streams.tcp_port}") as publisher:
                for number in range(9):
                    await publisher.send(f"/topic/{name}", str(number))
                messages = publisher.subscribe(
                    f"/topic/{name}", from_seq=1, on_gap=on_gap_async if is_async else on_gap
                )
                assert (await anext(messages)).text == "4"
                assert told == ["4"]

        run(main)

    def test_an_empty_stream_says_so(self, run: Run, caplog: pytest.LogCaptureFixture) -> None:
        """By a message that is none, and is acknowledged."""

        async def emptied(peer: Peer) -> None:
            await peer.until(b"\0")
            await peer.say(b"CONNECTED\nversion:1.2\nserver:stomp-gateway/1\n\n\0")
            await peer.until(b"from-seq:1\n")
            await peer.say(b"MESSAGE\nsubscription:a\nmessage-id:1\nack:1\ngap:true\nfirst-seq:9\n\n\0")
            await peer.until(b"ACK\nid:1\n")
            await peer.say(b"MESSAGE\nsubscription:a\nmessage-id:2\nack:2\nseq:9\n\ntea\0")
            await anyio.sleep_forever()

        async def main() -> None:
            async with scripted(emptied) as url, connect(url, close_timeout=0.1) as client:
                found = client.subscribe("/topic/a", ack="client", from_seq=1, headers={"id": "a"})
                assert (await anext(found)).text == "tea"

        run(main)
        assert "messages of /topic/a are gone from its stream" in caplog.text


class TestLogin:
    def test_a_wrong_passcode_is_told_at_once(self, run: Run, tmp_path: Path) -> None:
        async def main() -> None:
            for scheme, port in (("stomp", process.tcp_port), ("ws", process.ws_port)):
                with pytest.raises(ServerError, match="login refused"):
                    async with connect(f"{scheme}://alice@{HOST}:{port}/ws".replace("/ws", "/ws" * (scheme == "ws"))):
                        pass

        with start_gateway(users_file=write_users(tmp_path / "users.txt", {"alice": "wonderland"})) as process:
            run(main)

    def test_a_fresh_passcode_for_each_connection(self, run: Run, tmp_path: Path) -> None:
        """And the end, when one is refused."""
        tokens: list[str] = []

        async def passcode() -> str:
            await anyio.lowlevel.checkpoint()
            return tokens.pop()

        async def main() -> None:
            tokens[:] = ["stale", "wonderland", "wonderland"]
            with start_forwarder(process.tcp_port) as forwarder:
                async with connect(f"stomp://alice@{HOST}:{forwarder.port}", passcode=passcode, **QUICK) as client:
                    await client.send("/queue/a", "tea")
                    forwarder.cut()
                    await client.send("/queue/a", "tea")
                    forwarder.cut()
                    for _ in range(2):
                        with pytest.raises(ServerError, match="login refused"):
                            async for _ in client.subscribe("/queue/none"):
                                pass
                    assert not client.is_connected

        with start_gateway(users_file=write_users(tmp_path / "users.txt", {"alice": "wonderland"})) as process:
            run(main)

    def test_a_passcode_that_cannot_be_had(self, run: Run, store: GatewayProcess) -> None:
        def passcode() -> str:
            raise LookupError("no token")

        async def main() -> None:
            with pytest.raises(ConnectionLost, match=r"passcode\(\) failed: LookupError\('no token'\)"):
                async with connect(f"stomp://{HOST}:{store.tcp_port}", passcode=passcode):
                    pass

        run(main)

    def test_two_programs_of_one_client_id_do_not_end_each_other_for_ever(
        self, run: Run, store: GatewayProcess
    ) -> None:
        async def main() -> None:
            url, headers = f"stomp://{HOST}:{store.tcp_port}", {"client-id": "a"}
            async with connect(url, headers=headers) as first, connect(url, headers=headers) as second:
                with pytest.raises(ServerError, match="client-id taken over"):
                    await anext(first.subscribe("/queue/none"))
                await second.send("/queue/a", "tea")

        run(main)


async def silent(peer: Peer) -> None:
    await peer.accept(b"50,50")
    await anyio.sleep_forever()


async def confirming(peer: Peer) -> None:
    await peer.accept()
    while True:
        frame = await peer.until(b"\0")
        receipt = frame.partition(b"receipt:")[2].partition(b"\n")[0]
        await peer.say(b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt)


class TestServers:
    def test_a_silent_one_is_left(self, run: Run) -> None:
        async def main() -> None:
            async with scripted(silent, confirming) as url, connect(url, heartbeat=0.05, **QUICK) as client:
                await client.send("/queue/a", "tea")

        run(main)

    def test_heart_beats_reach_a_silent_one(self, run: Run) -> None:
        beats: list[bytes] = []

        async def listening(peer: Peer) -> None:
            await peer.accept(b"0,50")
            beats.extend([await peer.until(b"\n") for _ in range(3)])
            await peer.say(b"MESSAGE\nsubscription:a\nmessage-id:1\n\n\0")
            await anyio.sleep_forever()

        async def main() -> None:
            async with scripted(listening) as url, connect(url, heartbeat=0.05, close_timeout=0.1) as client:
                await anext(client.subscribe("/topic/a", headers={"id": "a"}))

        run(main)
        assert len(beats) == 3

    def test_retry_after_is_heeded(self, run: Run) -> None:
        async def drained(peer: Peer) -> None:
            await peer.accept()
            await peer.until(b"\0")
            await peer.say(b"ERROR\nmessage:server is shutting down\nretry-after:400\n\n\0")

        async def main() -> None:
            async with scripted(drained, confirming) as url, connect(url) as client:
                start = anyio.current_time()
                await client.send("/queue/a", "tea")
                assert 0.4 <= anyio.current_time() - start < 5

        run(main)

    def test_none_confirms_in_time(self, run: Run) -> None:
        async def main() -> None:
            async with scripted(silent) as url, connect(url, timeout=0.1, close_timeout=0.1, heartbeat=0) as client:
                with pytest.raises(TimedOut, match=r"did not confirm SEND in 0\.1 s"):
                    await client.send("/queue/a", "tea")
                with pytest.raises(TimedOut, match=r"did not confirm SUBSCRIBE in 0\.1 s"):
                    async with client.subscribe("/queue/a"):
                        pass

        run(main)

    def test_none_answers_connect(self, run: Run) -> None:
        async def mute(peer: Peer) -> None:
            await anyio.sleep_forever()

        async def closing(peer: Peer) -> None:
            await peer.until(b"\0")

        async def main() -> None:
            async with scripted(mute) as url:
                with pytest.raises(ConnectionLost, match=r"does not answer CONNECT within 0\.1 s"):
                    async with connect(url, connect_timeout=0.1):
                        pass
            async with scripted(closing) as url:
                with pytest.raises(ConnectionLost, match="does it expect TLS, or a PROXY header first"):
                    async with connect(url):
                        pass

        run(main)

    def test_an_outage_may_last_so_long(self, run: Run) -> None:
        async def once(peer: Peer) -> None:
            await peer.accept()

        async def never(peer: Peer) -> None:
            return

        async def main() -> None:
            async with scripted(once, never) as url, connect(url, reconnect_for=0.3, **QUICK) as client:
                with pytest.raises(ConnectionLost):
                    await client.send("/queue/a", "tea")
                with pytest.raises(ConnectionLost):
                    await client.send("/queue/a", "tea")

        run(main)


def test_pauses_grow_and_are_short_again() -> None:
    backoff = Backoff(1.0)
    pauses = [backoff.next() for _ in range(8)]
    for pause, most in zip(pauses, (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0), strict=True):
        assert most / 2 <= pause <= most
    backoff.lasted(0.9)
    assert backoff.next() >= 0.5
    backoff.lasted(1.1)
    assert backoff.next() <= 0.1
    assert 2.0 <= backoff.next(2.0) <= 2.5
    assert backoff.next(1e9) <= 375
