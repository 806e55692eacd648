"""What becomes of a message: by the answer, the number of tries, and the server."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from gateway.push.consumer import ATTEMPTS, PushConsumer
from gateway.push.monitoring import LoopWatch, not_ready
from gateway.push.request import Answer, Verdict
from gateway.push.settings import PushEndpoint, PushPlan, PushServer

PLAN = PushPlan("/queue/a", PushEndpoint("https://shop.example/hook?key=1"))


class Given:
    """A message that notes what becomes of it."""

    id, destination, headers, body = "a-1", "/queue/a", {"message-id": "a-1"}, b""

    def __init__(self) -> None:
        self.settled: tuple[Any, ...] = ()

    async def ack(self) -> None:
        self.settled = ("ack",)

    async def nack(self, *, requeue: bool | None = None, reason: str = "") -> None:
        self.settled = ("nack", requeue, reason)


@pytest.fixture
async def consumer() -> PushConsumer:
    return PushConsumer(PushServer("stomp://127.0.0.1"), PLAN, anyio.Event())


@pytest.mark.parametrize(
    ("verdict", "tries", "is_ours", "expected"),
    [
        (Verdict.TAKEN, 1, True, ("ack",)),
        (Verdict.REFUSED, 1, True, ("nack", False, "why")),
        (Verdict.REFUSED, 1, False, ("nack", False, "why")),
        (Verdict.FAILED, 1, True, ("nack", None, "why")),
        (Verdict.FAILED, 1, False, ()),
        (Verdict.FAILED, ATTEMPTS, False, ("nack", False, "why")),
        (Verdict.LATER, 1, True, ()),
        (Verdict.LATER, ATTEMPTS, True, ("nack", None, "why")),
        (Verdict.LATER, 1, False, ()),
        (Verdict.LATER, ATTEMPTS, False, ("nack", False, "why")),
        (Verdict.AWAY, ATTEMPTS, True, ()),
        (Verdict.AWAY, ATTEMPTS, False, ()),
    ],
)
async def test_each_answer(
    consumer: PushConsumer, verdict: Verdict, tries: int, is_ours: bool, expected: tuple[Any, ...]
) -> None:
    consumer._is_ours, message = is_ours, Given()
    is_over = await consumer._settle(message, Answer(verdict, "why"), tries)  # type: ignore[arg-type]
    assert message.settled == expected
    assert is_over == bool(expected)


async def test_what_is_away(consumer: PushConsumer) -> None:
    """The query of the URL may hold a secret, and is not shown."""
    consumer.endpoint.fault = "the endpoint answered 500"
    assert not_ready([consumer.status]) == (
        "the server of /queue/a is away: it was not reached yet; "
        "https://shop.example/hook is down: the endpoint answered 500"
    )


def test_a_loop_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = LoopWatch()
    watch.turns()
    assert watch.not_alive() == ""
    monkeypatch.setattr("gateway.push.monitoring.STILL", -1.0)
    assert watch.not_alive() == "the loop has stood still for 0 s"
