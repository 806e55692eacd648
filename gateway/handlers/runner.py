"""The functions at work: a client of the broker that has a session, and no connection.

    queue --MESSAGE--> outbox --flush--> decoder --> post --> worker task: the function
                                                                  |  returned: what it sent, and ACK
                                                                  '  failed:   NACK

There is one subscription for each function, in mode client-individual, with a `prefetch-count` of as many messages as
may be at work.  So back-off, attempts, dead letters, limits and order are those of every queue.

A worker goes on with the next message only when all that the last one caused is written, or was waited for
(`settle`, as at the end of each turn of a connection): functions that write more than others read are held back.

Should the session end, because an operator ends it, or because something here is broken, then the functions at work are
cancelled, their messages go back to the queues, and after a pause there is a new session.
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
from gateway.broker.model.identity import Renewal
from gateway.broker.session.subscribe import INTERNAL
from gateway.codec import V12, Decoder, Frame, Head, Limits, ProtocolError

from .registry import SUBSCRIBE, Function, Handlers
from .request import Reject, Request

log = structlog.get_logger("gateway.handlers")

# Seconds before a new session; a fault that comes again with each of them must not take all the time there is.
_PAUSE = 1.0
_LONGEST_REASON = 1_000
_FAILED = "a function failed"
_BROKEN = "the session of the functions broke, and a new one follows"
# What the broker sends was checked when it came in.
_LIMITS = Limits(2**31, 2**31, 2**31)


class _Post:
    """A function, the messages that wait for it, and how many tasks work on them."""

    __slots__ = ("function", "waiting", "workers")

    def __init__(self, function: Function) -> None:
        self.function = function
        self.waiting: deque[Frame] = deque()
        self.workers = 0


class _Failure(NamedTuple):
    """What the NACK says of a request that failed."""

    reason: str
    requeue: bool = True


class Runner:
    """Runs functions for one broker: `gateway.broker.core.ports.Carrier`.

    Attributes:
        session: in the broker; there is a new one after it has ended.
        failures: requests that a function failed at, or refused, or took too long for.
        must_read: to `settle` it is a connection that holds messages of others, so its waits are bounded.

    Args:
        settle: flushes what a turn caused, and waits as long as a connection would have to.

    Raises:
        ProtocolError: the broker's limits do not allow so many functions.
    """

    must_read = True

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
        self.failures = 0
        self.session = self._open()
        broker.application = handlers

    # the session

    def _open(self) -> Session:
        self._ended = trio.Event()
        self._lost = False
        self._decoder = Decoder(_LIMITS)
        self._decoder.begin(V12, _LIMITS)
        self._posts: dict[str, _Post] = {}
        session = self._broker.open_session(
            V12, "gateway", peer=INTERNAL, transport=INTERNAL, connected_at=time.time(), carrier=self
        )
        try:
            for number, function in enumerate(self._handlers.functions()):
                self._posts[str(number)] = _Post(function)
                session.handle(_subscribe(str(number), function))
        except ProtocolError:
            session.close()
            raise
        return session

    async def run(self) -> None:
        """Run what comes, until cancelled."""
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
            self._nursery = None  # what comes now goes back with the session

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
        """See `Carrier`: functions send for themselves, never through their session."""
        raise NotImplementedError

    def _break(self) -> None:
        """Something here is wrong."""
        self._lost = True
        self._ended.set()

    async def finish(self) -> None:
        """Start no function any more, and wait for those at work."""
        self._stopping = True
        if self._at_work:
            await self._finished.wait()

    # messages

    def flush(self) -> None:
        """See `Carrier`: messages go to their functions."""
        if self._nursery is None or self._stopping:
            return
        outbox = self.session.outbox
        try:
            self._decoder.feed(b"".join(outbox.take()))
            outbox.written(outbox.size)
            for frame in self._decoder.frames():
                self._post(self._posts[frame.headers["subscription"]], frame, self._nursery)
        except Exception:  # not the fault of whoever flushes
            log.exception(_BROKEN)
            self._break()

    def _post(self, post: _Post, frame: Frame, nursery: trio.Nursery) -> None:
        post.waiting.append(frame)
        if post.workers < post.function.concurrency:
            post.workers += 1
            self._at_work += 1
            nursery.start_soon(self._work, post)

    async def _work(self, post: _Post) -> None:
        try:
            while post.waiting and not self._stopping:
                await self._perform(post.function, post.waiting.popleft())
        except Exception:
            log.exception(_BROKEN)
            self._break()
        finally:
            post.workers -= 1
            self._at_work -= 1
            if self._stopping and not self._at_work:
                self._finished.set()

    async def _perform(self, function: Function, frame: Frame) -> None:
        request = Request(self._broker, frame, is_subscribe=function.kind == SUBSCRIBE)
        try:
            failure = await _call(function, request)
            self._broker.take_strained()  # by others, and they wait for it
            if failure is None:
                request.carry_out()
            else:
                self.failures += 1
        finally:
            request.close()
        self.session.handle(_settlement(frame.headers["ack"], failure))
        await self._settle(self)
        await trio.lowlevel.checkpoint()  # neither the function nor `settle` must have waited

    # what `settle` asks of a connection

    def held(self) -> AbstractContextManager[None]:
        """It has no heart-beats to stop."""
        return nullcontext()

    def peer_has_gone(self) -> bool:
        """It is always there."""
        return False


async def _call(function: Function, request: Request) -> _Failure | None:
    """Call a function; None: it has returned, and what it sent can be carried out."""
    try:
        with trio.move_on_after(function.timeout) as scope:
            fields = function.template.values(request.destination) if function.template.fields else {}
            answer = await function.call(request, **fields)
            if answer is not None:
                request.reply(answer)
            request.check()
        if not scope.cancelled_caught:
            return None
        failure = _Failure(f"timeout after {function.timeout:g} s")
    except Reject as refusal:
        failure = _Failure(_in_a_header(str(refusal)), requeue=False)
    except Exception as error:
        # Others may read it in a dead letter: the kind of the error, and nothing of what it says.
        failure = _Failure(type(error).__name__)
        if request.attempt == 1:  # the traceback once, and not with each attempt
            log.exception(_FAILED, reason=failure.reason, **_shown(function, request))
            return failure
    log.warning(_FAILED, reason=failure.reason, **_shown(function, request))
    return failure


def _in_a_header(text: str) -> str:
    """A text of an operator's function as every client can read it."""
    line = " ".join(text[:_LONGEST_REASON].split())
    return line.encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def _shown(function: Function, request: Request) -> dict[str, object]:
    """A request, for the log."""
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
