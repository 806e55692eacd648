"""stompman and FastStream on it (faststream-stomp), unedited: asyncio clients that speak STOMP 1.2 over TCP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import stompman
from faststream_stomp import StompBroker
from pydantic import BaseModel

from gateway.testing import LocalGateway, start_gateway
from tests.clients.forwarder import Forwarder, start_forwarder

PATIENCE = 20.0
Messages = asyncio.Queue[stompman.AckableMessageFrame]


@pytest.fixture
def started() -> Iterator[LocalGateway]:
    with start_gateway(policy=[{"match": "/queue/#", "backoff": 60, "max_attempts": 3}]) as found:
        yield found


@pytest.fixture
def relay(started: LocalGateway) -> Iterator[Forwarder]:
    with start_forwarder(started.port) as relay:
        yield relay


def run(program: Callable[..., Awaitable[None]], *arguments: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await program(*arguments)

    asyncio.run(bounded())


@asynccontextmanager
async def client_at(port: int, **options: Any) -> AsyncIterator[stompman.Client]:
    server = stompman.ConnectionParameters(host="127.0.0.1", port=port, login="", passcode="")
    async with stompman.Client([server], **options) as client:
        yield client


async def subscribed(client: stompman.Client, destination: str, **options: Any) -> tuple[Messages, Any]:
    messages: Messages = asyncio.Queue()
    options.setdefault("receipt_timeout", PATIENCE)
    return messages, await client.subscribe_with_manual_ack(destination, messages.put, **options)


def texts(messages: list[Any]) -> list[str]:
    return [each.text for each in messages]


class TestStompman:
    def test_bodies_and_headers_arrive_unchanged(self, started: LocalGateway) -> None:
        async def program() -> None:
            headers = {"ключ": "a:b\nc\\d €"}
            async with client_at(started.port) as client:
                messages, subscription = await subscribed(client, "/topic/news")
                for body in ("grüße 👋".encode(), bytes(range(256)) * 4096, b""):
                    await client.send(body, "/topic/news", headers=headers)
                    message = await messages.get()
                    assert (message.body, message.headers["destination"]) == (body, "/topic/news")
                    assert headers.items() <= message.headers.items()
                await subscription.unsubscribe()

        run(program)

    def test_ack_nack_and_a_dead_letter(self, started: LocalGateway) -> None:
        async def program() -> None:
            async with client_at(started.port) as client:
                messages, subscription = await subscribed(client, "/queue/work")
                await client.send(b"tea", "/queue/work", receipt_timeout=PATIENCE)
                await (await messages.get()).ack()
                await started.async_wait_until(lambda: not started.unacknowledged("/queue/work"))
                assert not started.messages("/queue/work")
                await client.send(b"milk", "/queue/work", receipt_timeout=PATIENCE)
                for _ in range(3):
                    await (await messages.get()).nack()
                    await started.async_wait_until(lambda: not started.unacknowledged("/queue/work"))
                    started.advance(3600)
                assert texts(started.messages("/queue/dlq.work")) == ["milk"]
                await subscription.unsubscribe()

        run(program)

    def test_transactions(self, started: LocalGateway) -> None:
        async def program() -> None:
            async with client_at(started.port) as client:
                async with client.begin() as transaction:
                    await transaction.send(b"1", "/queue/work")
                    await transaction.send(b"2", "/queue/work")
                await started.async_wait_until(lambda: texts(started.messages("/queue/work")) == ["1", "2"])
                with suppress(ZeroDivisionError):
                    async with client.begin() as transaction:
                        await transaction.send(b"3", "/queue/work")
                        raise ZeroDivisionError
                await client.send(b"4", "/queue/work", receipt_timeout=PATIENCE)
                assert texts(started.messages("/queue/work")) == ["1", "2", "4"]

        run(program)

    def test_redelivery_and_subscriptions_over_a_lost_connection(self, started: LocalGateway, relay: Forwarder) -> None:
        async def program() -> None:
            async with client_at(relay.port, connect_retry_attempts=20) as client:
                messages, subscription = await subscribed(client, "/queue/work")
                started.send("/queue/work", "tea")
                first = await messages.get()
                relay.cut()
                await started.async_wait_until(lambda: started.messages("/queue/work"))
                await started.async_wait_until(lambda: started.subscribers("/queue/work"), PATIENCE)
                started.advance(61)
                again = await messages.get()
                assert (again.body, again.headers["message-id"]) == (b"tea", first.headers["message-id"])
                assert again.headers["redelivered"] == "true"  # type: ignore[typeddict-item]
                await again.ack()
                await started.async_wait_until(lambda: not started.unacknowledged("/queue/work"))
                await subscription.unsubscribe()

        run(program)

    def test_a_refusal_is_told(self, started: LocalGateway) -> None:
        async def program() -> None:
            errors: list[stompman.ErrorFrame] = []
            async with client_at(started.port, on_error_frame=errors.append) as client:
                with pytest.raises(stompman.SendReceiptError) as refused:
                    await client.send(b"tea", "/nowhere/work", receipt_timeout=PATIENCE)
                assert refused.value.reason == "rejected"
                await self.sent_again(client, b"milk")  # on a new connection
            assert len(errors) == 1
            assert texts(started.messages("/queue/work")) == ["milk"]

        run(program)


    @staticmethod
    async def sent_again(client: stompman.Client, body: bytes) -> None:
        """Send until it is confirmed, as a program must, which may meet the connection that ends."""
        while True:
            try:
                await client.send(body, "/queue/work", headers={"dedup-id": "1"}, receipt_timeout=PATIENCE)
                return
            except stompman.SendReceiptError as error:
                if error.reason != "connection_lost":
                    raise
                await asyncio.sleep(0.01)


class Order(BaseModel):
    cups: int


class TestFastStream:
    @staticmethod
    def broker_at(started: LocalGateway) -> StompBroker:
        server = stompman.ConnectionParameters(host="127.0.0.1", port=started.port, login="", passcode="")
        return StompBroker(stompman.Client([server]), receipt_timeout=PATIENCE)

    def test_from_handler_to_handler(self, started: LocalGateway) -> None:
        async def program() -> None:
            broker, bills = self.broker_at(started), asyncio.Queue[str]()

            @broker.subscriber("/queue/orders")
            @broker.publisher("/queue/bills")
            async def brew(order: Order) -> str:
                return f"{order.cups} cups"

            @broker.subscriber("/queue/bills")
            async def bill(text: str) -> None:
                await bills.put(text)

            async with broker:
                await broker.start()
                await broker.publish(Order(cups=2), "/queue/orders")
                assert await bills.get() == "2 cups"
                queues = ("/queue/orders", "/queue/bills")
                await started.async_wait_until(lambda: not any(map(started.unacknowledged, queues)))
                assert not any(map(started.messages, queues))

        run(program)

    def test_a_body_that_is_no_order_becomes_a_dead_letter(self, started: LocalGateway) -> None:
        async def program() -> None:
            broker = self.broker_at(started)

            @broker.subscriber("/queue/orders")
            async def brew(order: Order) -> None:
                raise AssertionError

            async with broker:
                await broker.start()
                await broker.publish({"cups": "many"}, "/queue/orders")
                for _ in range(3):
                    await started.async_wait_until(
                        lambda: [*started.messages("/queue/orders"), *started.messages("/queue/dlq.orders")]
                    )
                    started.advance(3600)
                (dead,) = await started.async_wait_until(lambda: started.messages("/queue/dlq.orders"))
                assert dead.json() == {"cups": "many"}
                assert int(dead.headers["dlq-attempts"]) == 3

        run(program)
