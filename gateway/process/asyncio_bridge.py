"""Bridge from an asyncio server to the gateway, which runs on trio.

hypercorn's default worker, its uvloop worker and uvicorn call ASGI applications on an asyncio loop.  Then the whole
application runs in ONE Trio thread beside that loop.

    asyncio loop, main thread                       Trio thread
    lifespan(scope, receive, send)  -- starts -->   trio.run: app(scope, receive', send') in a nursery
    call(scope, receive, send)      -- hands -->    app(scope, receive', send') in a task of that nursery
        receive(), send(message)    <-- asks --     receive'(), send'(message)

* The thread starts with the lifespan, never at import: `--reload` imports the application in the parent too.
* Messages after which a server regards the application as ended are held back until the thread has ended: otherwise the
  server goes on without a gateway, or closes its loop under the thread.
* A gateway that fails after its start ends the process: asyncio servers would go on serving HTTP without it.
* A cancelled Trio task cancels the asyncio task that it waits for, and goes on when that has ended; and vice versa.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import outcome
import trio

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CRASHED = 70  # exit status of a gateway that failed: EX_SOFTWARE of sysexits.h

SERVER_GONE = "the server has cancelled the call"

LAST = frozenset({"lifespan.startup.failed", "lifespan.shutdown.complete", "lifespan.shutdown.failed"})
"""Messages after which a server regards the application as ended."""


class Bridge:
    """One Trio thread and the calls into it.  Created on the asyncio loop; serves one lifespan."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._loop = asyncio.get_running_loop()
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._given_up = False
        self._last: Message | None = None
        self._open_calls: set[asyncio.Future[Any]] = set()

    # ---- on the asyncio side

    async def lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application's lifespan, and with it the Trio thread, to the end of both."""
        ended: asyncio.Future[outcome.Outcome[None]] = self._loop.create_future()
        # A daemon, so that the process ends even if a server closes its loop without ending the lifespan.
        arguments = (ended, scope, receive, send)
        thread = threading.Thread(target=self._thread, args=arguments, name="gateway-trio", daemon=True)
        thread.start()
        try:
            result = await _to_the_end(ended, self._cancel)
        finally:
            thread.join()
            self._fail_open_calls()
        if self._last is None or self._last["type"] == "lifespan.shutdown.failed":
            self._loop.call_soon(sys.exit, CRASHED)
        result.unwrap()
        if self._last is not None:
            await send(self._last)

    async def call(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.run(self._app, scope, partial(self._in_asyncio, receive), partial(self._in_asyncio, send))

    async def run(self, function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """Await `function(*args)` in the Trio thread."""
        assert self._token is not None, "a server calls after startup.complete only"
        assert self._nursery is not None
        done: asyncio.Future[Any] = self._loop.create_future()
        scope_of_call = trio.CancelScope()
        self._open_calls.add(done)
        try:
            call = partial(self._run_call, scope_of_call, done, function, *args)
            self._token.run_sync_soon(self._nursery.start_soon, call)
            return await _to_the_end(done, lambda: self._in_trio(scope_of_call.cancel))
        finally:
            self._open_calls.discard(done)

    def _cancel(self) -> None:
        """The server cancels the lifespan: end the Trio thread, now or as soon as it has begun."""
        self._given_up = True
        if self._nursery is not None:
            self._in_trio(self._nursery.cancel_scope.cancel)

    def _in_trio(self, function: Callable[[], object]) -> None:
        assert self._token is not None, "a call to cancel has been in the thread"
        with suppress(trio.RunFinishedError):  # then there is nothing left to cancel
            self._token.run_sync_soon(function)

    def _fail_open_calls(self) -> None:
        """End the calls that were handed over while the thread ended: they would wait for ever."""
        for done in self._open_calls:
            if not done.done():
                done.set_exception(ConnectionResetError("the gateway has ended"))

    # ---- in the Trio thread

    def _thread(self, ended: asyncio.Future[outcome.Outcome[None]], *call: Any) -> None:
        result = outcome.capture(trio.run, self._main, *call)
        self._loop.call_soon_threadsafe(ended.set_result, result)

    async def _main(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def hold_back_last(message: Message) -> None:
            if message["type"] in LAST:
                self._last = message
            else:
                await self._in_asyncio(send, message)

        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as self._nursery:
            if self._given_up:
                self._nursery.cancel_scope.cancel()
            await self._app(scope, partial(self._in_asyncio, receive), hold_back_last)
            self._nursery.cancel_scope.cancel()

    async def _run_call(
        self,
        cancel_scope: trio.CancelScope,
        done: asyncio.Future[Any],
        function: Callable[..., Awaitable[Any]],
        *args: Any,
    ) -> None:
        result: outcome.Outcome[Any] = outcome.Value(None)
        try:
            with cancel_scope:
                result = outcome.Value(await function(*args))
        except Exception as error:  # noqa: BLE001 - it belongs to the server, which logs it
            result = outcome.Error(error)
        finally:
            self._loop.call_soon_threadsafe(_settle, done, result)

    async def _in_asyncio(self, function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """Await `function(*args)` on the asyncio loop."""
        waiting = trio.lowlevel.current_task()
        token = trio.lowlevel.current_trio_token()
        running: asyncio.Task[Any] | None = None
        raise_cancel: trio.lowlevel.RaiseCancelT | None = None

        def start() -> None:
            nonlocal running
            running = self._loop.create_task(_as_coroutine(function, *args))
            running.add_done_callback(finish)

        def finish(task: asyncio.Task[Any]) -> None:
            token.run_sync_soon(wake, _outcome_of(task))

        def wake(result: outcome.Outcome[Any] | None) -> None:
            if result is None and raise_cancel is not None:
                result = outcome.capture(raise_cancel)
            trio.lowlevel.reschedule(waiting, result or outcome.Error(ConnectionResetError(SERVER_GONE)))

        def abort(raise_cancelled: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            nonlocal raise_cancel
            raise_cancel = raise_cancelled
            self._loop.call_soon_threadsafe(lambda: running is not None and running.cancel())
            return trio.lowlevel.Abort.FAILED

        self._loop.call_soon_threadsafe(start)
        return await trio.lowlevel.wait_task_rescheduled(abort)


async def _to_the_end(future: asyncio.Future[Any], cancel: Callable[[], object]) -> Any:
    """Wait for work in the other thread; when cancelled, cancel the work and still wait for its end."""
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        cancel()
        while not future.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([future])
        raise


async def _as_coroutine(function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    return await function(*args)


def _outcome_of(task: asyncio.Task[Any]) -> outcome.Outcome[Any] | None:
    """None for a task that was cancelled: asyncio's CancelledError must not run through Trio."""
    if task.cancelled():
        return None
    error = task.exception()
    return outcome.Value(task.result()) if error is None else outcome.Error(error)


def _settle(done: asyncio.Future[Any], result: outcome.Outcome[Any]) -> None:
    if isinstance(result, outcome.Error):
        done.set_exception(result.error)
    else:
        done.set_result(result.unwrap())
