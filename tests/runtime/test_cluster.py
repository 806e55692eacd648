"""Turns of a node: each gateway ends in order, also when the process stops."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from gateway.auth.authenticator import Anonymous
from gateway.cluster.directory import Primary
from gateway.cluster.node import NodeOptions
from gateway.cluster.term import Term
from gateway.config.errors import StartError
from gateway.config.values import Address
from gateway.runtime.cluster import turns
from gateway.runtime.gateway import open_gateway
from tests.gateway_process import HOST, free_ports

from .gateways import refused, settings


class ANode:
    """A node that becomes primary at once, or never, and then decides until it is stopped."""

    def __init__(self, *, wins: bool) -> None:
        self.term = Term(cast(Any, None), Primary("a", "", 1), 0, 0.0)
        self.term.store = cast(Any, None)
        self.options = NodeOptions("c", "a", "", "", Path(), 0)
        self.took = None
        self.ended: list[object] = []
        self._wins = wins

    def where(self) -> str:
        return ""

    async def follow(self) -> object:
        if not self._wins:
            await trio.sleep_forever()
        self._wins = False
        return self.term

    def opened(self, term: object) -> None:
        pass

    def why_ended(self, term: object) -> str:
        return "the node stops"

    async def decide(self, term: object) -> None:
        await trio.sleep_forever()

    async def end(self, term: object) -> None:
        self.ended.append(term)


class Openings:
    """Gateways that were opened: what they are, and how they ended."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.abandoned = trio.Event()
        self.drained = trio.Event()

    @asynccontextmanager
    async def open(self, **part: Any) -> AsyncIterator[SimpleNamespace]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)  # like the task that writes to the store
            yield SimpleNamespace(
                abandon=self.abandoned.set,
                broker=SimpleNamespace(storage=object()),
                connection_limits=None,
                finish=self.drained.wait,
                is_written=False,
                journal=None,
                recovered=0.0,
                tracing=None,
            )
            await trio.lowlevel.checkpoint_if_cancelled()
            self.told.append(", ".join(part))
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("wins", "told"), [(False, ["standby"]), (True, ["standby", "store, lease"])], ids=["standby", "primary"]
)
async def test_a_stop_lets_the_gateway_drain(
    wins: bool, told: list[str], autojump_clock: trio.testing.MockClock
) -> None:
    node, openings, stopping = ANode(wins=wins), Openings(), trio.Event()
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(turns, node, openings.open, stopping))  # type: ignore[arg-type]
            await trio.testing.wait_all_tasks_blocked()
            stopping.set()
            openings.drained.set()
    assert openings.told == told
    assert node.ended == ([node.term] if wins else [])


async def test_a_standby_that_does_not_listen() -> None:
    values = settings(tcp=f"{HOST}:{free_ports(1)[0]}", cluster_standby_listens=False)
    async with open_gateway(values, authenticator=Anonymous(), standby=lambda: "") as gateway:
        assert gateway.addresses == {"tcp": [], "websocket": []}
        assert await refused(values.tcp[0])
    with (
        socket.create_server((HOST, Address.parse(values.tcp[0]).port)),
        pytest.raises(StartError, match="in use by another program"),
    ):
        async with open_gateway(values, authenticator=Anonymous(), standby=lambda: ""):
            raise AssertionError("it could not listen when it is primary")


async def test_the_last_words_end_when_another_node_is_primary(autojump_clock: trio.testing.MockClock) -> None:
    node, openings, stopping = ANode(wins=True), Openings(), trio.Event()
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(turns, node, openings.open, stopping))  # type: ignore[arg-type]
            await trio.testing.wait_all_tasks_blocked()
            stopping.set()
            await trio.testing.wait_all_tasks_blocked()
            assert not openings.abandoned.is_set()
            node.term.lose("another node writes to the log")
            assert openings.abandoned.is_set()
            openings.drained.set()
    assert node.term.reason == "another node writes to the log"


async def test_a_term_that_was_lost_while_its_gateway_opened(autojump_clock: trio.testing.MockClock) -> None:
    node, openings, stopping = ANode(wins=True), Openings(), trio.Event()
    node.term.lose("the lease was lost")
    openings.drained.set()
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(turns, node, openings.open, stopping))  # type: ignore[arg-type]
            await openings.abandoned.wait()
            stopping.set()
