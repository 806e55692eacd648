"""Runner of the functions: a client of the broker with a session but without a connection.

    queue --MESSAGE--> outbox --flush--> decoder --> waiting --> worker task: the function
                                                                  |  returned: its messages, and ACK
                                                                  '  failed:   NACK

Each function has one subscription, in mode client-individual, with its concurrency as `prefetch-count`.  A worker takes
the next message only after all output of the last one is written, or was waited for (`settle`): so a function that
writes more than its consumers read is blocked like any publisher.

If the session ends, the running functions are cancelled, their messages are requeued, and a new session begins.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import structlog
import trio

from gateway.broker import Broker, Session
from gateway.broker.core.ports import INTERNAL
from gateway.broker.model.identity import Renewal
from gateway.codec import V12, Decoder, Frame, Head, Limits, ProtocolError

from .registry import SUBSCRIBE, Function, Handlers
from .request import Reject, Request
from .typed import encoded

log = structlog.get_logger("gateway.handlers")

# Seconds before a new session, so that a fault that ends every session does not take all CPU.
_PAUSE = 1.0
_LONGEST_REASON = 1_000
_FAILED = "a function failed"
_BROKEN = "the session of the functions broke, and a new one follows"
# The broker has checked all that it sends.
_LIMITS = Limits(2**31, 2**31, 2**31)


class _Backlog:
    """A function, its waiting messages, and the number of its worker tasks."""

    __slots__ = ("function", "waiting", "workers")

    def __init__(self, function: Function) -> None:
        self.function = function
        self.waiting: deque[Frame] = deque()
        self.workers = 0


class _Failure(NamedTuple):
    reason: str
    requeue: bool = True


class Runner:
    """Runs functions for one broker: `gateway.broker.core.ports.Carrier`.

    `settle`: flushes the output of a turn, and waits as a connection does.  Raises ProtocolError: the broker's limits
    do not allow so many functions.
    """

    must_read = True  # for `settle`: the runner holds messages of other clients, so its waits are bounded

    def __init__(self, broker: Broker, handlers: Handlers, settle: Callable[[Runner], Awaitable[None]]) -> None:
        self._broker = broker
        self._handlers = handlers
        self._settle = settle
        self._nursery: trio.Nursery | None = None
        self._ended = trio.Event()
        self._lost = False
        self._stopping = False
        self._at_work = 0
        self._finished = trio.Event()
        self.failures = 0  # requests that failed, were rejected, or took too long
        self.session = self._open()  # the session in the broker; a new one follows when it ends
        broker.context.application = handlers

    # the session

    def _open(self) -> Session:
        self._ended = trio.Event()
        self._lost = False
        self._decoder = Decoder(_LIMITS)
        self._decoder.begin(V12, _LIMITS)
        self._backlogs: dict[str, _Backlog] = {}
        session = self._broker.open_session(
            V12, "gateway", peer=INTERNAL, transport=INTERNAL, connected_at=time.time(), carrier=self
        )
        try:
            for number, function in enumerate(self._handlers.functions()):
                self._backlogs[str(number)] = _Backlog(function)
                session.handle(_subscribe(str(number), function))
        except ProtocolError:
            session.close()
            raise
        return session

    async def run(self) -> None:
        while True:
            try:
                async with trio.open_nursery() as nursery:
                    await self._converse(nursery)
                    nursery.cancel_scope.cancel()
            finally:
                self._close()
            while not await self._reopened():
                pass

    async def _converse(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        try:
            self.flush()
            await self._settle(self)
            await self._ended.wait()
        finally:
            self._nursery = None  # later messages are requeued with the session

    def _close(self) -> None:
        if not self._lost:
            self.session.depart()
        self.session.close()

    async def _reopened(self) -> bool:
        await trio.sleep(_PAUSE)
        try:
            self.session = self._open()
        except ProtocolError as error:
            log.error("functions cannot be run", reason=str(error), detail=error.detail)
            return False
        return True

    def end(self, error: ProtocolError) -> None:
        """See `Carrier`."""
        log.warning("the session of the functions ends, and a new one follows", reason=str(error), detail=error.detail)
        self._ended.set()

    def renew(self, renewal: Renewal) -> None:
        """See `Carrier`: functions never send through the session."""
        raise NotImplementedError

    def _break(self) -> None:
        # A fault of the runner: the session is in an unknown state.
        self._lost = True
        self._ended.set()

    async def finish(self) -> None:
        """Start no more functions, and wait for those that run."""
        self._stopping = True
        if self._at_work:
            await self._finished.wait()

    # messages

    def flush(self) -> None:
        """See `Carrier`: hand the messages to their functions."""
        if self._nursery is None or self._stopping:
            return
        outbox = self.session.outbox
        try:
            self._decoder.feed(b"".join(outbox.take()))
            outbox.written(outbox.size)
            for frame in self._decoder.frames():
                self._receive(self._backlogs[frame.headers["subscription"]], frame, self._nursery)
        except Exception:  # must not reach the task that flushes
            log.exception(_BROKEN)
            self._break()

    def _receive(self, backlog: _Backlog, frame: Frame, nursery: trio.Nursery) -> None:
        backlog.waiting.append(frame)
        if backlog.workers < backlog.function.concurrency:
            backlog.workers += 1
            self._at_work += 1
            nursery.start_soon(self._work, backlog)

    async def _work(self, backlog: _Backlog) -> None:
        try:
            while backlog.waiting and not self._stopping:
                await self._perform(backlog.function, backlog.waiting.popleft())
        except Exception:
            log.exception(_BROKEN)
            self._break()
        finally:
            backlog.workers -= 1
            self._at_work -= 1
            if self._stopping and not self._at_work:
                self._finished.set()

    async def _perform(self, function: Function, frame: Frame) -> None:
        request = Request(self._broker, frame, is_subscribe=function.kind == SUBSCRIBE)
        try:
            failure = await _call(function, request)
            self._broker.context.slow_consumers.take_strained()  # other connections may have left it, and wait for it
            if failure is None:
                request.carry_out()
            else:
                self.failures += 1
        finally:
            request.close()
        self.session.handle(_settlement(frame.headers["ack"], failure))
        await self._settle(self)
        await trio.lowlevel.checkpoint()  # the function and `settle` may not have waited

    # for `settle`, which takes a connection

    def held(self) -> AbstractContextManager[None]:
        """No heart-beats to suspend."""
        return nullcontext()

    def peer_has_gone(self) -> bool:
        """Never: it has no connection."""
        return False


async def _call(function: Function, request: Request) -> _Failure | None:
    """Call a function; None: it has returned, and its messages can be sent."""
    try:
        with trio.move_on_after(function.timeout) as scope:
            fields = function.template.values(request.destination) if function.template.fields else {}
            answer = await function.call(request, **function.arguments.of(request, fields))
            if answer is not None:
                request.reply(*encoded(answer))
            request.check()
        if not scope.cancelled_caught:
            return None
        failure = _Failure(f"timeout after {function.timeout:g} s")
    except Reject as refusal:
        failure = _Failure(_in_a_header(str(refusal)), requeue=False)
    except Exception as error:
        # Only the type of the exception, because other clients may read dead letters.
        failure = _Failure(type(error).__name__)
        if request.attempt == 1:  # a traceback at the first attempt only
            log.exception(_FAILED, reason=failure.reason, **_shown(function, request))
            return failure
    log.warning(_FAILED, reason=failure.reason, **_shown(function, request))
    return failure


def _in_a_header(text: str) -> str:
    """A text of a function as one header value."""
    line = " ".join(text[:_LONGEST_REASON].split())
    return line.encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def _shown(function: Function, request: Request) -> dict[str, object]:
    return {
        "function": f"{function.kind} {function.template.text}",
        "destination": request.destination,
        "user": request.user,
        "message_id": request.message_id,
        "attempt": request.attempt,
    }


def _subscribe(number: str, function: Function) -> Frame:
    headers = {
        "destination": function.queue,
        "id": number,
        "ack": "client-individual",
        "prefetch-count": str(function.concurrency),
    }
    return Frame(Head.of("SUBSCRIBE", headers), b"")


def _settlement(handle: str, failure: _Failure | None) -> Frame:
    if failure is None:
        return Frame(Head.of("ACK", {"id": handle}), b"")
    headers = {"id": handle, "reason": failure.reason, "requeue": "true" if failure.requeue else "false"}
    return Frame(Head.of("NACK", headers), b"")
