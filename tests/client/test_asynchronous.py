"""The async client against a real gateway, by both backends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import anyio
import anyio.lowlevel
import pytest

from gateway.client import (
    Client,
    ConnectionLost,
    Message,
    NoAnswer,
    ServerError,
    StompServer,
    TimedOut,
    connect,
)
from tests.gateway_process import HOST, GatewayProcess

from .conftest import Main, Place

Run = Callable[[Main], None]


@pytest.fixture
def url(gateway: GatewayProcess) -> str:
    return f"stomp://{HOST}:{gateway.tcp_port}"


async def until(predicate: Callable[[], bool]) -> None:
    """Wait until it holds; the test has a bound."""
    while not predicate():  # noqa: ASYNC110 - the client tells nobody of its unread bytes
        await anyio.sleep(0.001)


async def waiting(url: str, queue: str) -> list[str]:
    """Bodies of the messages that wait in a queue."""
    bodies = []
    async with connect(url) as client, client.subscribe(queue, ack="auto", headers={"browser": "true"}) as found:
        async for message in found:
            if message.headers.get("browser") == "end":
                break
            bodies.append(message.text)
    return bodies


@pytest.mark.parametrize("transport", ["tcp", "unix", "websocket", "tls", "wss"])
def test_there_and_back(run: Run, places: dict[str, Place], name: str, transport: str) -> None:
    place = places[transport]

    async def main() -> None:
        async with connect(place.url, **place.files) as client:
            assert client.server.startswith("stomp-gateway")
            assert client.version == "1.2"
            assert client.is_connected
            bodies: list[bytes | str] = ["tea for two", b"one\0two", "", "ü" * 100_000]
            for body in bodies:
                await client.send(f"/queue/{name}", body, {"colour": "red: dark"})
            async with client.subscribe(f"/queue/{name}", prefetch=2) as found:
                for body in bodies:
                    async with await anext(found) as message:
                        assert message.body == (body.encode() if isinstance(body, str) else body)
                        assert message.headers["colour"] == "red: dark"
                        assert message.destination == f"/queue/{name}"
            assert client.unread == 0
        async with connect(place.url, **place.files) as client, client.subscribe(f"/queue/{name}") as found:
            with anyio.move_on_after(0.2):
                raise AssertionError(f"{await anext(found)} was acknowledged")

    run(main)


class TestMessages:
    def test_a_block_that_raises_rejects_and_goes_on_raising(self, run: Run, url: str, name: str) -> None:
        async def main() -> None:
            async with connect(url) as client:
                await client.send(f"/queue/{name}", '{"a": 1}')
                async with client.subscribe(f"/queue/{name}") as found:
                    with pytest.raises(KeyError):
                        async with await anext(found) as message:
                            message.json()["b"]
                    async with await anext(found) as again:
                        assert again.is_redelivered
                        assert again.id == message.id

        run(main)

    def test_a_dead_letter_has_the_reason(self, run: Run, url: str, name: str) -> None:
        async def main() -> None:
            async with connect(url) as client:
                await client.send(f"/queue/{name}", "tea")
                async for message in client.subscribe(f"/queue/{name}"):
                    await message.nack(requeue=False, reason="cold\ntea")
                    await message.ack()  # it is settled
                    break
                async for letter in client.subscribe(f"/queue/dlq.{name}"):
                    assert letter.headers["reason"] == "cold tea"
                    break

        run(main)

    def test_a_cancelled_block_settles_nothing(self, run: Run, url: str, name: str) -> None:
        async def main() -> None:
            async with connect(url) as client:
                await client.send(f"/queue/{name}", "tea")
                async with client.subscribe(f"/queue/{name}") as found:
                    with anyio.move_on_after(0.01):
                        async with await anext(found):
                            await anyio.sleep_forever()
            async with connect(url) as client, client.subscribe(f"/queue/{name}") as found:
                message = await anext(found)
                assert message.headers.get("delivery-count") in (None, "2")  # delivered twice, failed never
                await message.ack()

        run(main)

    def test_leaving_a_subscription_gives_back_what_is_not_acknowledged(self, run: Run, url: str, name: str) -> None:
        async def main() -> None:
            async with connect(url) as client:
                for body in ("1", "2", "3"):
                    await client.send(f"/queue/{name}", body)
                async with client.subscribe(f"/queue/{name}") as found:
                    async with await anext(found):
                        pass
                    await anext(found)
                assert await waiting(url, f"/queue/{name}") == ["2", "3"]

        run(main)

    def test_several_tasks_share_a_subscription(self, run: Run, url: str, name: str) -> None:
        async def main() -> None:
            done: list[str] = []
            async with connect(url) as client:
                for number in range(20):
                    await client.send(f"/queue/{name}", str(number))
                async with client.subscribe(f"/queue/{name}", prefetch=3) as found, anyio.create_task_group() as tasks:

                    async def work() -> None:
                        async for message in found:
                            async with message:
                                await anyio.lowlevel.checkpoint()
                                done.append(message.text)
                            if len(done) == 20:
                                tasks.cancel_scope.cancel()

                    for _ in range(3):
                        tasks.start_soon(work)
            assert sorted(done, key=int) == [str(number) for number in range(20)]

        run(main)


class TestTransactions:
    def test_together(self, run: Run, url: str, name: str) -> None:
        async def main() -> None:
            async with connect(url) as client:
                await client.send(f"/queue/{name}", "tea")
                message = await anext(client.subscribe(f"/queue/{name}"))
                async with message, client.transaction() as work:
                    await work.send(f"/queue/{name}-done", message.body)
                    await work.send(f"/queue/{name}-done", "more")
                    await work.ack(message)
                assert await waiting(url, f"/queue/{name}") == []
                assert await waiting(url, f"/queue/{name}-done") == ["tea", "more"]

        run(main)

    def test_or_not_at_all(self, run: Run, url: str, name: str) -> None:
        async def main() -> None:
            async with connect(url) as client:
                with suppress(KeyError):
                    async with client.transaction() as work:
                        await work.send(f"/queue/{name}", "tea")
                        raise KeyError
                async with client.transaction():
                    pass
                assert await waiting(url, f"/queue/{name}") == []

        run(main)

    def test_a_large_one_is_refused(self, run: Run, url: str, name: str) -> None:
        async def main() -> None:
            async with connect(url, max_unread=1000) as client:
                with pytest.raises(ValueError, match="more than 1000 bytes: divide it"):
                    async with client.transaction() as work:
                        await work.send(f"/queue/{name}", bytes(1001))

        run(main)


class TestQuestions:
    def test_the_answer(self, run: Run, url: str, name: str) -> None:
        async def main() -> None:
            async with connect(url) as client, anyio.create_task_group() as tasks:

                async def answer() -> None:
                    async for question in client.subscribe(f"/queue/{name}"):
                        async with question:
                            await question.reply(question.text.upper())

                tasks.start_soon(answer)
                answers = [await client.request(f"/queue/{name}", body) for body in ("tea", "milk")]
                assert [each.text for each in answers] == ["TEA", "MILK"]
                tasks.cancel_scope.cancel()

        run(main)

    def test_no_consumer_is_there(self, run: Run, url: str, name: str) -> None:
        async def main() -> None:
            async with connect(url) as client:
                with pytest.raises(NoAnswer, match=f"^/queue/{name} has no consumer$"):
                    await client.request(f"/queue/{name}", "tea", {"mandatory": "true"})

        run(main)

    def test_none_in_time(self, run: Run, url: str, name: str) -> None:
        async def main() -> None:
            async with connect(url) as client:
                with pytest.raises(TimedOut, match=f"did not answer at /queue/{name} in 0.1 s"):
                    await client.request(f"/queue/{name}", "tea", {"expiration": "60000"}, timeout=0.1)
                message = await anext(client.subscribe(f"/queue/{name}"))
                assert "expires" in message.headers
                del message.headers["reply-to"]
                with pytest.raises(ValueError, match="has no header reply-to"):
                    await message.reply("x")

        run(main)


class TestRefusals:
    def test_of_a_send(self, run: Run, url: str, name: str) -> None:
        """It alone fails, and the client goes on."""

        async def main() -> None:
            async with connect(url) as client:
                with pytest.raises(ServerError, match="says: unsupported kind of destination"):
                    await client.send("/nowhere/a", "tea")
                await client.send(f"/queue/{name}", "tea")
                assert await waiting(url, f"/queue/{name}") == ["tea"]

        run(main)

    def test_of_a_subscription(self, run: Run, url: str, name: str) -> None:
        async def main() -> None:
            async with connect(url) as client:
                with pytest.raises(ServerError, match="unsupported kind of destination"):
                    await anext(client.subscribe("/nowhere/a"))
                with pytest.raises(ServerError, match="replay is for topics"):
                    async with client.subscribe(f"/queue/{name}", from_seq=1):
                        pass
                await client.send(f"/queue/{name}", "tea")

        run(main)

    def test_a_prefetch_of_nothing(self, run: Run, url: str) -> None:
        async def main() -> None:
            async with connect(url) as client:
                with pytest.raises(ValueError, match="at least one message"):
                    client.subscribe("/queue/a", prefetch=0)

        run(main)


def test_an_exception_of_the_block_comes_out_alone(run: Run, url: str) -> None:
    """Without a group around it."""

    async def main() -> None:
        with pytest.raises(KeyError):
            async with connect(url):
                raise KeyError

    run(main)


def test_a_cancelled_client_ends(run: Run, url: str, name: str) -> None:
    async def main() -> None:
        with anyio.move_on_after(0.1) as scope:
            async with connect(url) as client:
                async for _ in client.subscribe(f"/queue/{name}"):
                    pass
        assert scope.cancelled_caught

    run(main)


def test_a_message_tells_what_it_is(run: Run, url: str, name: str) -> None:
    async def main() -> None:
        async with connect(url) as client, client.subscribe(f"/topic/{name}") as found:
            await client.send(f"/topic/{name}", "secret")
            message: Message = await anext(found)
            assert repr(message) == f"<Message {message.id} of /topic/{name}, 6 bytes>"
            assert message.seq is None
            assert not message.is_lost

    run(main)


def test_a_slow_consumer_holds_back_the_server(run: Run, gateway: GatewayProcess, url: str, name: str) -> None:
    """Unread bytes stay below the limit, RECEIPTs come through, and nothing is lost."""
    most = 256 * 1024

    def publish() -> None:
        publisher = Client(StompServer(HOST, gateway.tcp_port))
        frame = publisher.encode("SEND", {"destination": f"/topic/{name}"}, bytes(10_000))
        publisher.send(frame * 400)
        publisher.disconnect()

    async def main() -> None:
        async with (
            connect(url, max_unread=most) as client,
            client.subscribe(f"/topic/{name}") as found,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(anyio.to_thread.run_sync, publish)
            for number in range(400):
                await anext(found)
                assert client.unread < most // 4 + 100_000
                if number == 0:
                    await until(lambda: client.unread >= most // 4)

    run(main)


def test_a_receipt_comes_through_unread_messages(run: Run, url: str, name: str) -> None:
    async def main() -> None:
        async with connect(url, max_unread=1024**2) as client, client.subscribe(f"/topic/{name}") as found:
            for _ in range(50):
                await client.send(f"/topic/{name}", bytes(10_000))  # more than a quarter of the limit, to itself
            for _ in range(50):
                await anext(found)

    run(main)


def test_unread_messages_beyond_the_limit_are_named(run: Run, url: str, name: str) -> None:
    async def main() -> None:
        async with connect(url, max_unread=100_000, timeout=0.5) as client, client.subscribe(f"/topic/{name}"):
            await client.send(f"/topic/{name}", bytes(100_000))
            await until(lambda: client.unread >= 100_000)
            with pytest.raises(TimedOut, match="the program does not take its messages"):
                await client.send(f"/topic/{name}", bytes(100_000))

    run(main)


@pytest.mark.parametrize("scheme", ["stomp", "ws"])
def test_no_server(run: Run, scheme: str) -> None:
    async def main() -> None:
        with pytest.raises(ConnectionLost, match=f"cannot connect to {HOST}:1: no server listens there"):
            async with connect(f"{scheme}://{HOST}:1"):
                pass

    run(main)


def test_a_websocket_where_there_is_none(run: Run, gateway: GatewayProcess) -> None:
    async def main() -> None:
        with pytest.raises(ServerError, match="answered the upgrade of /nowhere with status 404"):
            async with connect(f"ws://{HOST}:{gateway.ws_port}/nowhere"):
                pass
        with pytest.raises(ServerError, match="does not answer as a WebSocket"):
            async with connect(f"ws://{HOST}:{gateway.tcp_port}/ws"):
                pass

    run(main)


def test_tls_that_does_not_hold(run: Run, places: dict[str, Place]) -> None:
    async def main() -> None:
        tls = places["tls"]
        for files, sentence in (
            ({}, "the system does not vouch for its certificate"),
            ({"ca": tls.files["ca"]}, "it demands a client certificate"),
            ({"ca": "/nowhere.pem"}, "the file of authorities /nowhere.pem cannot be read"),
        ):
            with pytest.raises(ConnectionLost, match=sentence):
                async with connect(tls.url, **files):
                    pass
        with pytest.raises(ServerError, match="TLS only"):
            async with connect(tls.url.replace("stomps:", "stomp:")):
                pass

    run(main)
