"""The bridge: calls into the Trio thread, messages out of it, and every way in which either side ends first."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import trio

from gateway.process.asyncio_bridge import CRASHED, Bridge
from tests.app.asgi import Lifespan, request, scope_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

Body = Callable[["Scope", "Receive", "Send"], Awaitable[None]]


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "gateway-trio"]


def app_with(call: Body | None = None) -> ASGIApp:
    """An application with a faultless lifespan, and `call` for everything else."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert trio.lowlevel.in_trio_run()
        if scope["type"] != "lifespan":
            assert call is not None
            await call(scope, receive, send)
            return
        assert (await receive())["type"] == "lifespan.startup"
        await send({"type": "lifespan.startup.complete"})
        assert (await receive())["type"] == "lifespan.shutdown"
        await send({"type": "lifespan.shutdown.complete"})

    return app


async def served(app: ASGIApp, during: Callable[[Bridge], Awaitable[Any]]) -> tuple[Lifespan, Any]:
    """Run a whole lifespan on asyncio, and `during` between its start and its stop."""
    bridge = Bridge(app)
    result: Any = None

    async def meanwhile() -> None:
        nonlocal result
        result = await during(bridge)

    lifespan = Lifespan(bridge.lifespan, meanwhile)
    async with asyncio.timeout(10):
        await lifespan.run()
    assert threads() == []
    return lifespan, result


async def nothing(_: object) -> None:
    return


async def receive_nothing() -> Message:
    return {}


async def send_nothing(_: Message) -> None:
    return


class TestLifespan:
    @pytest.mark.parametrize("last", ["startup.failed", "shutdown.complete"])
    def test_last_messages_wait_for_the_end_of_the_thread(self, last: str) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            if last == "shutdown.complete":
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": f"lifespan.{last}", "message": "why"})
            await trio.sleep(0.01)

        running: dict[str, list[str]] = {}

        async def main() -> None:
            types = iter(("lifespan.startup", "lifespan.shutdown"))

            async def receive() -> Message:
                return {"type": next(types)}

            async def send(message: Message) -> None:
                running[message["type"].removeprefix("lifespan.")] = threads()

            await Bridge(app).lifespan({"type": "lifespan"}, receive, send)

        asyncio.run(main())
        assert running.pop("startup.complete", ["gateway-trio"]) == ["gateway-trio"]
        assert running == {last: []}

    def test_failing_after_the_start_ends_the_process(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.failed", "message": "why"})

        sent: list[str] = []

        async def main() -> None:
            lifespan = Lifespan(Bridge(app).lifespan, lambda: nothing(None))
            await lifespan.run()
            sent.extend(lifespan.types)
            await asyncio.sleep(10)  # a server that goes on

        with pytest.raises(SystemExit) as ended:
            asyncio.run(main())
        assert ended.value.code == CRASHED
        assert sent == ["startup.complete", "shutdown.failed"]

    def test_a_server_that_gives_up_waits_for_the_drain(self) -> None:
        drained: list[str] = []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            await send({"type": "lifespan.startup.complete"})
            try:
                await receive()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(0.02)
                    drained.append("drained")

        async def main() -> None:
            started = asyncio.Event()

            async def stop() -> None:
                started.set()
                await asyncio.Event().wait()

            task = asyncio.create_task(Lifespan(Bridge(app).lifespan, stop).run())
            await started.wait()
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()  # impatient
            with pytest.raises(asyncio.CancelledError):
                await task
            assert drained == ["drained"]
            assert threads() == []

        asyncio.run(asyncio.wait_for(main(), 10))

    def test_a_server_that_gives_up_before_the_thread_has_begun(self, monkeypatch: pytest.MonkeyPatch) -> None:
        go = threading.Event()
        trio_run = trio.run

        def late(*args: Any) -> None:
            go.wait(10)
            trio_run(*args)

        monkeypatch.setattr(trio, "run", late)

        async def main() -> None:
            task = asyncio.create_task(Lifespan(Bridge(app_with()).lifespan, asyncio.Event().wait).run())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.sleep(0)
            go.set()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(asyncio.wait_for(main(), 10))
        assert threads() == []


class TestCalls:
    def test_exceptions_of_the_server_reach_the_application(self) -> None:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            with pytest.raises(BrokenPipeError):
                await send({})

        async def during(bridge: Bridge) -> None:
            async def send(_: Message) -> None:
                raise BrokenPipeError

            await bridge.call(scope_of("GET", "/", {}), receive_nothing, send)

        asyncio.run(served(app_with(answer), during))

    def test_a_cancelled_call_waits_for_its_task(self) -> None:
        order: list[str] = []

        async def wait(scope: Scope, receive: Receive, send: Send) -> None:
            await send({})
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(0.01)
                order.append("cleaned up")

        async def during(bridge: Bridge) -> None:
            begun = asyncio.Event()

            async def send(_: Message) -> None:
                begun.set()

            task = asyncio.create_task(bridge.call(scope_of("GET", "/", {}), receive_nothing, send))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            order.append("cancelled")

        asyncio.run(served(app_with(wait), during))
        assert order == ["cleaned up", "cancelled"]

    def test_a_cancelled_task_cancels_what_it_waits_for(self) -> None:
        order: list[str] = []

        async def wait(scope: Scope, receive: Receive, send: Send) -> None:
            with trio.move_on_after(0.01):
                await receive()
            order.append("went on")

        async def during(bridge: Bridge) -> None:
            async def receive() -> Message:
                try:
                    await asyncio.Event().wait()
                finally:
                    await asyncio.sleep(0.01)
                    order.append("cleaned up")
                raise AssertionError

            await bridge.call(scope_of("GET", "/", {}), receive, send_nothing)

        asyncio.run(served(app_with(wait), during))
        assert order == ["cleaned up", "went on"]

    def test_a_message_that_came_first_is_not_lost(self) -> None:
        async def wait(scope: Scope, receive: Receive, send: Send) -> None:
            with trio.CancelScope() as cancelling:
                cancelling.cancel()
                assert (await receive()) == {"type": "there"}
                await trio.lowlevel.checkpoint()
            assert cancelling.cancelled_caught

        async def during(bridge: Bridge) -> None:
            async def receive() -> Message:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0)
                return {"type": "there"}

            await bridge.call(scope_of("GET", "/", {}), receive, send_nothing)

        asyncio.run(served(app_with(wait), during))

    def test_a_server_that_cancels_its_own_receive(self) -> None:
        async def wait(scope: Scope, receive: Receive, send: Send) -> None:
            with pytest.raises(ConnectionResetError, match="the server has cancelled the call"):
                await receive()

        async def during(bridge: Bridge) -> None:
            async def receive() -> Message:
                raise asyncio.CancelledError

            await bridge.call(scope_of("GET", "/", {}), receive, send_nothing)

        asyncio.run(served(app_with(wait), during))

    def test_calls_that_are_open_at_the_end_are_cancelled(self) -> None:
        async def wait(scope: Scope, receive: Receive, send: Send) -> None:
            await send({})
            await trio.sleep_forever()

        calls: list[asyncio.Task[None]] = []

        async def during(bridge: Bridge) -> None:
            begun = asyncio.Event()

            async def send(_: Message) -> None:
                begun.set()

            calls.append(asyncio.create_task(bridge.call(scope_of("GET", "/", {}), receive_nothing, send)))
            await begun.wait()

        async def main() -> None:
            await served(app_with(wait), during)
            await calls[0]

        asyncio.run(asyncio.wait_for(main(), 10))

    def test_a_call_handed_over_in_the_last_moment(self) -> None:
        async def main() -> None:
            bridge = Bridge(app_with())
            await Lifespan(bridge.lifespan, lambda: nothing(None)).run()
            with pytest.raises(trio.RunFinishedError):
                await request(bridge.call, "/")
            # Handed over, and the thread ended before it looked:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            settled.set_result(None)
            bridge._open_calls |= {done, settled}
            bridge._fail_open_calls()
            with pytest.raises(ConnectionResetError, match="the gateway has ended"):
                await done
            bridge._in_trio(lambda: None)  # cancelling such a call is no error

        asyncio.run(asyncio.wait_for(main(), 10))
