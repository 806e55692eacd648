"""What the log says of the queue arguments of clients, and how much of it."""

from __future__ import annotations

from typing import Any

import structlog
import trio
from trio.testing import MockClock

from gateway.broker.core.queue_arguments import ArgumentsNotice
from gateway.transports.flow.header_logs import ArgumentsLog

from .harness import Harness


def wish(queue: str = "/queue/a", *, login: str = "ada", heard: bool = True) -> ArgumentsNotice:
    return ArgumentsNotice(queue, {"time_to_live": 0.5}, "s1", login, heard)


def told(wishes: ArgumentsLog, *all_of_them: ArgumentsNotice) -> list[Any]:
    with structlog.testing.capture_logs() as logs:
        for each in all_of_them:
            wishes.tell(each)
    return logs


async def test_in_force() -> None:
    (line,) = told(ArgumentsLog(), wish())
    assert (line["event"], line["log_level"]) == ("queue arguments of a client are in force, for everybody", "info")
    assert (line["queue"], line["values"]) == ("/queue/a", {"time_to_live": 0.5})
    assert (line["session"], line["login"]) == ("s1", "ada")


async def test_not_heard() -> None:
    (line,) = told(ArgumentsLog(), wish(heard=False))
    assert (line["event"], line["log_level"]) == ("queue arguments of a client are not heard", "warning")
    assert "[[policy]]" in line["hint"]


async def test_once_for_each_queue_and_user() -> None:
    wishes = ArgumentsLog()
    assert len(told(wishes, wish(), wish(), wish(login="bob"), wish(heard=False), wish("/queue/b"))) == 4
    assert told(wishes, wish(), wish("/queue/b")) == []


async def test_a_flood(autojump_clock: MockClock) -> None:
    wishes = ArgumentsLog()
    assert len(told(wishes, *(wish(f"/queue/{number}") for number in range(100)))) == 20
    await trio.sleep(60)
    (line,) = told(wishes, wish("/queue/b"))
    assert line["untold"] == 80
    (line,) = told(wishes, wish("/queue/c"))
    assert line["untold"] == 0


async def test_of_a_client(harness: Harness) -> None:
    with structlog.testing.capture_logs() as logs:
        peer = await harness.session("tcp")
        await peer.subscribe("/queue/a", id="1", **{"x-message-ttl": "500"})
    assert [line["values"] for line in logs if line["event"].startswith("queue arguments")] == [{"time_to_live": 0.5}]
