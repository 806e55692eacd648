"""Log lines about headers of clients, and how many there are."""

from __future__ import annotations

from typing import Any

import structlog
import trio
from trio.testing import MockClock

from gateway.broker.core.arguments_check import ArgumentsNotice
from gateway.transports.flow.header_logs import HeaderLogs

from .harness import Harness


def notice(queue: str = "/queue/a", *, login: str = "ada", in_force: bool = True) -> ArgumentsNotice:
    return ArgumentsNotice(queue, {"time_to_live": 0.5}, "s1", login, in_force)


def lines_of(log: HeaderLogs, *notices: ArgumentsNotice) -> list[Any]:
    with structlog.testing.capture_logs() as logs:
        for each in notices:
            log.tell_arguments(each)
    return logs


async def test_arguments_in_force_and_too_late() -> None:
    log = HeaderLogs()
    in_force, too_late = lines_of(log, notice(), notice(in_force=False))
    event = "queue arguments of a client are in force, for everybody"
    assert (in_force["event"], in_force["log_level"]) == (event, "info")
    assert (in_force["queue"], in_force["values"]) == ("/queue/a", {"time_to_live": 0.5})
    assert (in_force["session"], in_force["login"]) == ("s1", "ada")
    assert (too_late["event"], too_late["log_level"]) == ("queue arguments of a client are not heard", "warning")
    assert "[[policy]]" in too_late["hint"]
    assert len(lines_of(log, notice(), notice(login="bob"), notice("/queue/b"), notice("/queue/b"))) == 2


async def test_a_flood_of_arguments(autojump_clock: MockClock) -> None:
    log = HeaderLogs()
    assert len(lines_of(log, *(notice(f"/queue/{number}") for number in range(100)))) == 20
    await trio.sleep(60)
    assert [line["untold"] for line in lines_of(log, notice("/queue/b"), notice("/queue/c"))] == [80, 0]


async def test_misspelt_headers_once_for_each_header_and_user(harness: Harness) -> None:
    with structlog.testing.capture_logs() as logs:
        peer = await harness.session("tcp")
        for id, header in enumerate(["prefetch", "Selector", "prefetch"]):
            await peer.subscribe("/queue/a", id=str(id), **{header: "a"})
    lines = [line for line in logs if line["event"] == "a header of SUBSCRIBE has no effect"]
    assert [line["header"] for line in lines] == ["prefetch", "Selector"]
    assert (lines[0]["log_level"], lines[0]["login"], lines[0]["untold"]) == ("warning", "anonymous", 0)
    assert lines[0]["hint"] == "it is not known; did you mean prefetch-count?"
