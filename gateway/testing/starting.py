"""Gateways inside a test: in its Trio loop, or in a thread for everything else.

They end at once, without a drain: connections that a test has left open are cut, so that no test waits for another.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import trio

from gateway import auth
from gateway.config.settings import Settings
from gateway.runtime.gateway import open_gateway as open_real_gateway
from gateway.transports.flow.broker_clock import BrokerClock

from .chosen import Given, settings_for
from .http import LocalHttp
from .local import LocalGateway

T = TypeVar("T")

_LONGEST_CALL = 30.0
_LONGEST_START = 60.0


@asynccontextmanager
async def open_gateway(settings: Given | None = None, **own: Any) -> AsyncIterator[LocalGateway]:
    """A gateway in this Trio loop, for the time of the block.

    Args:
        settings: by their names, as in `gateway.toml`; or the path of such a file.
        own: settings that are put over these.

    Raises SettingsError, StartError: a setting is wrong, or names something that cannot be used.
    """
    async with _opened(settings_for(settings or {}, own), LocalGateway) as gateway:
        yield gateway


@asynccontextmanager
async def _opened(settings: Settings, kind: Callable[..., T]) -> AsyncIterator[T]:
    authenticator, clock = auth.for_settings(settings), BrokerClock()
    failure: BaseException | None = None
    async with (
        trio.open_nursery() as nursery,
        open_real_gateway(settings, authenticator=authenticator, clock=clock) as gateway,
    ):
        try:
            yield kind(gateway, clock, LocalHttp(gateway, settings, authenticator, nursery))
        except BaseException as error:  # noqa: BLE001 - raised below: a nursery would make a group of it
            failure = error
        gateway.abandon()
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


class ThreadGateway(LocalGateway):
    """A gateway in a thread of its own; its methods may be called from any other."""

    _token: trio.lowlevel.TrioToken

    def _call(self, work: Callable[[], T]) -> T:
        done: Future[T] = Future()

        def carry_out() -> None:
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
                done.set_exception(error)

        self._token.run_sync_soon(carry_out)
        return done.result(_LONGEST_CALL)


@contextmanager
def start_gateway(settings: Given | None = None, **own: Any) -> Iterator[ThreadGateway]:
    """A gateway in a thread, for the time of the block; for tests without a loop, or with asyncio's.

    Arguments and errors are those of `open_gateway`.
    """
    chosen = settings_for(settings or {}, own)
    answers: queue.SimpleQueue[tuple[ThreadGateway, trio.Event] | BaseException] = queue.SimpleQueue()
    thread = threading.Thread(target=_run, args=(chosen, answers), name="gateway-of-test", daemon=True)
    thread.start()
    started = answers.get(timeout=_LONGEST_START)
    if isinstance(started, BaseException):
        thread.join()
        raise started
    gateway, ending = started
    try:
        yield gateway
    finally:
        gateway._token.run_sync_soon(ending.set)
        thread.join(_LONGEST_CALL)
        if thread.is_alive():
            raise RuntimeError(f"the gateway of this test does not end within {_LONGEST_CALL:g} seconds")


def _run(settings: Settings, answers: queue.SimpleQueue[tuple[ThreadGateway, trio.Event] | BaseException]) -> None:
    """The thread: tells how it started, and serves until the event is set."""

    async def serve() -> None:
        async with _opened(settings, ThreadGateway) as gateway:
            gateway._token = trio.lowlevel.current_trio_token()
            ending = trio.Event()
            answers.put((gateway, ending))
            await ending.wait()

    try:
        trio.run(serve)
    except BaseException as error:  # noqa: BLE001 - raised in the thread of the test
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        answers.put(error)
