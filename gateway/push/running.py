"""Process of `gateway push`.  One loop has a task for each table; pages for the monitoring have threads.

At the end, requests under way are finished; their messages are safe at the server, because none is acknowledged too
early.
"""

from __future__ import annotations

import logging
import signal

import anyio

from gateway.client import StompError
from gateway.observe.slim import structlog
from gateway.process import systemd
from gateway.process.pages import HttpError

from .consumer import PushConsumer
from .monitoring import LoopWatch, serving
from .settings import PushConfig

log = structlog.get_logger("gateway.push")

LAST_WORDS = 20.0  # seconds for requests under way
_LINE_EVERY = 60.0
_TURN = 1.0
_STATUS = {signal.SIGTERM: 0, signal.SIGINT: 130}


class PushFailed(Exception):
    """The process cannot do its work; the text is one sentence."""


def run(orders: PushConfig) -> int:
    """Push until a signal; returns the exit status.  Raises PushFailed."""
    # It tells of each attempt to reconnect; `PushConsumer.look` tells of an outage once.
    logging.getLogger("gateway.client").setLevel(logging.CRITICAL)
    return anyio.run(_run, orders, backend="trio")


async def _run(orders: PushConfig) -> int:
    stop = anyio.Event()
    watch = LoopWatch()
    consumers = [PushConsumer(orders.server, plan, stop) for plan in orders.plans]
    try:
        with serving(orders.http, [each.status for each in consumers], watch):
            return await _until_signal(orders, consumers, stop, watch)
    except HttpError as error:
        raise PushFailed(str(error)) from None


async def _until_signal(
    orders: PushConfig, consumers: list[PushConsumer], stop: anyio.Event, watch: LoopWatch
) -> int:
    failures: list[str] = []
    status = 0

    async def consume(consumer: PushConsumer, scope: anyio.CancelScope) -> None:
        try:
            await consumer.run()
        except StompError as error:
            failures.append(f"cannot push: {error}")
            scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_report, consumers, watch)
        with anyio.open_signal_receiver(*_STATUS) as signals:
            async with anyio.create_task_group() as pushing:
                for consumer in consumers:
                    plan = consumer.status.plan
                    log.info("pushing", source=plan.source, url=plan.endpoint.name, server=str(orders.server.address))
                    pushing.start_soon(consume, consumer, pushing.cancel_scope)
                systemd.ready("pushing")
                status = _STATUS[await anext(signals)]
                systemd.stopping()
                stop.set()
                pushing.cancel_scope.deadline = anyio.current_time() + LAST_WORDS
        tasks.cancel_scope.cancel()
    _tell(consumers)
    if failures:
        raise PushFailed(failures[0])
    return status


async def _report(consumers: list[PushConsumer], watch: LoopWatch) -> None:
    """Tell the service manager each second that the loop turns, and the log each minute what was pushed."""
    while True:
        deadline = anyio.current_time() + _LINE_EVERY
        while anyio.current_time() < deadline:
            watch.turns()
            for each in consumers:
                each.look()
            systemd.alive()
            await anyio.sleep(_TURN)
        _tell(consumers)


def _tell(consumers: list[PushConsumer]) -> None:
    for each in consumers:
        plan, news = each.status.plan, each.status.news()
        log.info("pushed", **news, held=each.status.held, source=plan.source, url=plan.endpoint.name)
