"""A broker for taskiq: its tasks are messages in a queue of the gateway.  Copy it; `taskiq_tasks.py` shows it.

    .kicker().with_labels(delay=60)           in a minute, though no worker runs until then (seconds)
    .with_labels(priority=9)                  before the others; 0 to 9, and 4 without it
    .with_labels(expiration=3600)             not any more after an hour (seconds)

A task is acknowledged when it has ended, so a worker that is killed loses none: another one gets it.  A task that fails
is rejected: it comes again after the back-off of the queue's policy, and after `max_attempts` it is a dead letter, with
the exception as its reason.  A message that is no task of this worker is one at once.

`kiq` returns when the gateway has the task; over a lost connection it is sent again, and taken once.  Workers go on
after an outage.  Results are none of a broker's business: give it a result backend, if they are wanted.

Needs the gateway's Python client, and taskiq 0.13 or newer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial
from typing import Any

from taskiq import AckableMessage, AsyncBroker, BrokerMessage, TaskiqMessage, TaskiqMiddleware, TaskiqResult

from gateway.client import AsyncClient, Message, connect


class Failures(TaskiqMiddleware):
    """Remembers why tasks have failed, until they are settled: taskiq settles them all alike."""

    def __init__(self) -> None:
        super().__init__()
        self._reasons: dict[str, str] = {}

    def on_error(self, message: TaskiqMessage, result: TaskiqResult[Any], exception: BaseException) -> None:
        self._reasons[message.task_id] = f"{type(exception).__name__}: {exception}"

    def take(self, task: str) -> str:
        """The reason of a task that has failed, once; "": it has not."""
        return self._reasons.pop(task, "")


class StompBroker(AsyncBroker):
    """Tasks in one queue of a STOMP server.

    Args:
        url: as in `gateway.client.connect`, like stomp://127.0.0.1:61613.
        queue: the destination of the tasks.
        prefetch: tasks that a worker may have and not have ended; few, so that priorities count.
        options: more of `connect`: login, passcode.
    """

    def __init__(self, url: str, queue: str = "/queue/tasks", *, prefetch: int = 10, **options: Any) -> None:
        super().__init__()
        self._url, self._queue, self._prefetch, self._options = url, queue, prefetch, options
        self._client: AsyncClient | None = None
        self._connection: asyncio.Task[None] | None = None
        self._failures = Failures()
        self.add_middlewares(self._failures)

    async def startup(self) -> None:
        """Connect.  Raises ConnectionLost, ServerError: no server is there, or it refuses the login."""
        await super().startup()
        connected: asyncio.Future[AsyncClient] = asyncio.get_running_loop().create_future()
        # A task of its own has the connection: taskiq calls `startup` and `shutdown` from different ones.
        self._connection = asyncio.create_task(self._stay_connected(connected))
        self._client = await connected

    async def _stay_connected(self, connected: asyncio.Future[AsyncClient]) -> None:
        try:
            async with connect(self._url, **self._options) as client:
                connected.set_result(client)
                await asyncio.Event().wait()  # until `shutdown`
        except Exception as error:
            if connected.done():
                raise
            connected.set_exception(error)

    async def shutdown(self) -> None:
        """Disconnect; what is not settled goes to other workers."""
        await super().shutdown()
        if self._connection is not None:
            self._connection.cancel()
            with suppress(asyncio.CancelledError):
                await self._connection
        self._client = self._connection = None

    def _connected(self) -> AsyncClient:
        if self._client is None:
            raise RuntimeError("the broker is not connected: call `await broker.startup()` first")
        return self._client

    async def kick(self, message: BrokerMessage) -> None:
        """Send a task, and wait until the gateway has it."""
        labels = message.labels
        headers = {"task-id": message.task_id, "task-name": message.task_name, "persistent": "true"}
        if "delay" in labels:
            headers["x-delay"] = str(round(float(labels["delay"]) * 1000))
        if "priority" in labels:
            headers["priority"] = str(int(labels["priority"]))
        if "expiration" in labels:
            headers["expiration"] = str(round(float(labels["expiration"]) * 1000))
        await self._connected().send(self._queue, message.message, headers)

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        """The tasks of this worker, as they come."""
        async with self._connected().subscribe(self._queue, prefetch=self._prefetch) as messages:
            async for message in messages:
                name = message.headers.get("task-name", "")
                if self.find_task(name) is None:
                    await message.nack(requeue=False, reason=f"no task of this worker: {name}")
                else:
                    yield AckableMessage(data=message.body, ack=partial(self._settle, message))

    async def _settle(self, message: Message) -> None:
        reason = self._failures.take(message.headers["task-id"])
        if reason:
            await message.nack(reason=reason)
        else:
            await message.ack()
