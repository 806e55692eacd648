"""Consumer: the messages of one source, from the STOMP server to the endpoint.

    taken       ACK
    refused     NACK with requeue:false: a dead letter, with the endpoint's answer as its reason
    failed      at a gateway: NACK, and the queue's policy decides (`backoff`, `max_attempts`)
                elsewhere: it stays here, and is tried again after a pause that doubles
    later       it stays here until the time that the endpoint has named
    away        it stays here until there is a connection

What stays here is tried `ATTEMPTS` times, but for `away`; then it has failed, and elsewhere it is refused.

There are as many workers as requests at the same time, and each has one message, because the subscription's prefetch is
their number.  While a message stays here, the gateway is told that it is in progress (policy `ack_timeout`).

A message whose connection to the server has ended comes again, also if its request is under way: then the endpoint gets
it twice, with the same `webhook-id`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import anyio
import structlog

from gateway.client import ServerError, StompError
from gateway.client.asynchronous import connect
from gateway.client.connection import Backoff
from gateway.client.messages import Message, Subscription

from .endpoint import EndpointClient
from .monitoring import PushStatus
from .request import Answer, Verdict, id_of
from .settings import PushPlan, PushServer

log = structlog.get_logger("gateway.push")

ATTEMPTS = 10
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0  # seconds, where the server has no back-off
# Seconds between two words that a message is in progress; `ack_timeout` should be three times as long.
IN_PROGRESS_EVERY = 5.0
_TIMEOUT = 10.0
MAX_PAUSE = 30.0
"""Seconds between two attempts to reach the server."""
_OURS = "stomp-gateway"


class PushConsumer:
    """Messages of one plan.  `stop`: set when the process is to end."""

    def __init__(self, server: PushServer, plan: PushPlan, stop: anyio.Event) -> None:
        self.endpoint = EndpointClient(plan.endpoint)
        self.status = PushStatus(plan, self.endpoint)
        self._server = server
        self._plan = plan
        self._stop = stop
        self._is_ours = self._has_worked = False
        self._away_since = 0.0  # 0: it is connected, or was not tried
        self._in_hand: set[Message] = set()
        self._waits: dict[anyio.CancelScope, Message | None] = {}

    async def run(self) -> None:
        """Push until `stop`.  Raises ServerError: the server refuses login or source at the start."""
        backoff = Backoff(MAX_PAUSE)
        try:
            while not self._stop.is_set():
                began = anyio.current_time()
                try:
                    await self._serve()
                except ServerError as error:
                    if not self._has_worked:
                        raise
                    self._lost(error)
                except StompError as error:
                    self._lost(error)
                backoff.lasted(anyio.current_time() - began)
                with anyio.move_on_after(backoff.next()):
                    await self._stop.wait()
        finally:
            self.status.client = None
            await self.endpoint.aclose()

    def _lost(self, error: StompError) -> None:
        self.status.client, self.status.fault = None, str(error)
        self._tell_away()

    def look(self) -> None:
        """Tell the log once that the server is away, and once that it works again; called every second or so."""
        if self.status.is_connected:
            if self._away_since:
                seconds = round(anyio.current_time() - self._away_since, 1)
                log.info("the server works again", source=self._plan.source, seconds=seconds)
                self._away_since = 0.0
        elif self._has_worked and not self._stop.is_set():
            self._tell_away()

    def _tell_away(self) -> None:
        if not self._away_since:
            self._away_since = anyio.current_time()
            log.warning("the server is away", source=self._plan.source, reason=self.status.reason)

    async def _serve(self) -> None:
        """Push over one client, which reconnects by itself.  Raises StompError: it has ended."""
        server, plan = self._server, self._plan
        async with connect(
            server.url,
            passcode=server.passcode,
            vhost=server.vhost,
            ca=server.ca,
            cert=server.cert,
            key=server.key,
            timeout=_TIMEOUT,
            max_pause=MAX_PAUSE,
        ) as client:
            self._is_ours = client.server.startswith(_OURS)
            subscription = client.subscribe(
                plan.source,
                ack="client-individual",
                prefetch=plan.endpoint.concurrency,
                selector=plan.selector,
                resume=plan.resume,
            )
            async with subscription:
                self.status.client = client
                self._has_worked = True
                await self._work(subscription)

    async def _work(self, subscription: Subscription) -> None:
        """Run the workers until `stop`, or until the subscription ends.  Raises StompError."""
        failures: list[StompError] = []

        async def work(scope: anyio.CancelScope) -> None:
            try:
                await self._deliver_all(subscription)
            except StompError as error:
                failures.append(error)
                scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_in_progress)
            tasks.start_soon(self._end_waits)
            async with anyio.create_task_group() as workers:
                for _ in range(self._plan.endpoint.concurrency):
                    workers.start_soon(work, workers.cancel_scope)
            tasks.cancel_scope.cancel()
        if failures:
            raise failures[0]

    async def _end_waits(self) -> None:
        await self._stop.wait()
        for scope in list(self._waits):
            scope.cancel()

    async def _keep_in_progress(self) -> None:
        """Tell the gateway of messages that stay here, and let go of those that it delivers again."""
        before: set[Message] = set()
        while True:
            await anyio.sleep(IN_PROGRESS_EVERY)
            for message in before & self._in_hand:
                await message.in_progress()
            before = set(self._in_hand)
            for scope, waiting in list(self._waits.items()):
                if waiting is not None and waiting.is_lost:
                    scope.cancel()

    @contextmanager
    def _waiting(self, message: Message | None = None) -> Iterator[None]:
        """A wait that ends with the process, or when the message has gone back to the server."""
        with anyio.CancelScope() as scope:
            self._waits[scope] = message
            if self._stop.is_set():
                scope.cancel()
            try:
                yield
            finally:
                del self._waits[scope]

    async def _deliver_all(self, subscription: Subscription) -> None:
        while not self._stop.is_set():
            message: Message | None = None
            with self._waiting(), suppress(StopAsyncIteration):
                message = await anext(subscription)
            if message is None:
                return
            self._in_hand.add(message)
            self.status.held = len(self._in_hand)
            try:
                await self._deliver(message)
            finally:
                self._in_hand.discard(message)
                self.status.held = len(self._in_hand)

    async def _deliver(self, message: Message) -> None:
        """Try until the message is settled, or lost, or the process is to end."""
        pause, tries = _FIRST_PAUSE, 0
        while True:
            has_turn = False
            with self._waiting(message):
                await self.endpoint.turn()
                has_turn = True
            if not has_turn:
                return
            answer = Answer(Verdict.AWAY)
            try:
                if message.is_lost:
                    return
                began = anyio.current_time()
                answer = await self.endpoint.post(message, is_ours=self._is_ours)
                self.status.answered(answer, anyio.current_time() - began, len(message.body))
            finally:
                if answer.reason or answer.verdict is Verdict.TAKEN:
                    self.endpoint.came(message, answer)
                else:
                    self.endpoint.gave_up()
            tries += answer.verdict is not Verdict.AWAY
            if await self._settle(message, answer, tries):
                return
            if answer.verdict is Verdict.FAILED:  # the server has no back-off
                with self._waiting(message):
                    await anyio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _settle(self, message: Message, answer: Answer, tries: int) -> bool:
        """Settle a message as its answer says; False: it stays here."""
        verdict = answer.verdict
        if verdict is Verdict.TAKEN:
            await message.ack()
            return True
        is_last = tries >= ATTEMPTS and verdict is not Verdict.AWAY
        if verdict is Verdict.REFUSED or (is_last and not self._is_ours):
            self._tell(message, answer)
            await message.nack(requeue=False, reason=answer.reason)
            return True
        if self._is_ours and (is_last or verdict is Verdict.FAILED):
            await message.nack(reason=answer.reason)
            return True
        return False

    def _tell(self, message: Message, answer: Answer) -> None:
        log.warning(
            "a message is refused",
            destination=message.destination,
            message_id=message.id,
            webhook_id=id_of(message, is_ours=self._is_ours),
            url=self._plan.endpoint.name,
            reason=answer.reason,
        )
