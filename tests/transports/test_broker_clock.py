"""The clock of a test's broker: what falls due while it is set forward, and what comes after that."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from gateway.auth.authenticator import Anonymous
from gateway.transports import Server
from gateway.transports.flow.broker_clock import BrokerClock


@pytest.fixture
async def clock() -> BrokerClock:
    return BrokerClock()


@pytest.fixture
async def server(clock: BrokerClock, nursery: trio.Nursery) -> AsyncIterator[Server]:
    server = Server(Anonymous(), clock=clock)
    nursery.start_soon(server.run)
    yield server
    nursery.cancel_scope.cancel()


async def test_each_thing_at_its_own_time(
    server: Server, clock: BrokerClock, autojump_clock: MockClock
) -> None:
    scheduler, done = server.broker.scheduler, list[int]()

    def note() -> None:
        done.append(round(scheduler.clock() - began))
        if len(done) < 4:
            scheduler.at(scheduler.clock() + 10, note)

    began = scheduler.clock()
    scheduler.at(began + 10, note)
    clock.advance(server.broker, 35)
    assert done == [10, 20, 30]
    assert round(scheduler.clock() - began) == 35
    assert abs(scheduler.epoch() - time.time() - 35) < 1
    await trio.sleep(6)  # the rest by trio's clock, which jumps here
    assert done == [10, 20, 30, 40]


async def test_slices_of_long_work(server: Server, clock: BrokerClock) -> None:
    done: list[int] = []

    def slices() -> Iterator[None]:
        for number in range(3):
            done.append(number)
            yield None

    scheduler = server.broker.scheduler
    scheduler.at(scheduler.clock() + 1, partial(scheduler.run, slices()))
    clock.advance(server.broker, 1)
    assert done == [0, 1, 2]


async def test_the_present(server: Server, clock: BrokerClock) -> None:
    clock.advance(server.broker, 0)
    assert clock.now() == pytest.approx(trio.current_time())
