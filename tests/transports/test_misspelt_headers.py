"""The log line about a SUBSCRIBE header that has no effect."""

from __future__ import annotations

import structlog

from .harness import Harness

EVENT = "a header of SUBSCRIBE has no effect"


async def test_of_a_client(harness: Harness) -> None:
    with structlog.testing.capture_logs() as logs:
        peer = await harness.session("tcp")
        await peer.subscribe("/queue/a", id="1", prefetch="5")
        await peer.subscribe("/queue/b", id="2", prefetch="5", selektor="a = 1")
    (line,) = [line for line in logs if line["event"] == EVENT]
    assert (line["log_level"], line["header"], line["login"]) == ("warning", "prefetch", "anonymous")
    assert (line["hint"], line["untold"]) == ("it is not known; did you mean prefetch-count?", 0)


async def test_once_for_each_header_and_user(harness: Harness) -> None:
    with structlog.testing.capture_logs() as logs:
        peer = await harness.session("tcp")
        for id, header in enumerate(["prefetch", "Selector", "prefetch"]):
            await peer.subscribe("/queue/a", id=str(id), **{header: "a"})
    assert [line["header"] for line in logs if line["event"] == EVENT] == ["prefetch", "Selector"]
