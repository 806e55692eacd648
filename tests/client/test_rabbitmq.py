"""The async client against RabbitMQ, which has other headers, no `dedup-id`, and ERRORs without `receipt-id`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import anyio
import pytest

from gateway.client import AsyncClient, ServerError, connect
from tests.gateway_process import HOST
from tests.pyspark_stomp.rabbitmq import is_installed, running_rabbitmq

from .conftest import Main

Run = Callable[[Main], None]

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    assert is_installed() or not os.environ.get("CI"), "RabbitMQ is missing: tests/install-tools brings it"
    with running_rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as found:
        yield found


def test_there_and_back(run: Run, port: int, name: str) -> None:
    async def answer(client: AsyncClient) -> None:
        async for question in client.subscribe(f"/queue/{name}-squares"):
            async with question:
                await question.reply(str(int(question.text) ** 2))

    async def main() -> None:
        async with connect(f"stomp://guest@{HOST}:{port}", passcode="guest", vhost="/") as client:
            assert client.server.startswith("RabbitMQ")
            async with client.transaction() as work:
                for number in range(10):
                    await work.send(f"/queue/{name}", str(number))
            async with client.subscribe(f"/queue/{name}", prefetch=1) as found:
                for number in range(10):
                    async with await anext(found) as message:
                        assert message.text == str(number)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(answer, client)
                assert (await client.request(f"/queue/{name}-squares", "3")).text == "9"
                tasks.cancel_scope.cancel()

    run(main)


def test_a_refused_send_is_found(run: Run, port: int, name: str) -> None:
    """Among others, which are confirmed."""

    async def main() -> None:
        errors: dict[str, ServerError] = {}

        async def send(destination: str) -> None:
            try:
                await client.send(destination, "tea")
            except ServerError as error:
                errors[destination] = error

        async with connect(f"stomp://guest@{HOST}:{port}", passcode="guest", vhost="/", max_pause=0.2) as client:
            async with anyio.create_task_group() as tasks:
                for destination in (f"/queue/{name}", "/nowhere/a", f"/queue/{name}-b"):
                    tasks.start_soon(send, destination)
            assert list(errors) == ["/nowhere/a"]
            for queue in (name, f"{name}-b"):
                async with await anext(client.subscribe(f"/queue/{queue}")):
                    pass

    run(main)


def test_a_wrong_passcode(run: Run, port: int) -> None:
    async def main() -> None:
        with pytest.raises(ServerError, match="Bad CONNECT"):
            async with connect(f"stomp://guest@{HOST}:{port}", passcode="wrong", vhost="/"):
                pass

    run(main)
