"""Endpoint: requests to one URL, and pauses while it fails.

    works --some messages fail, none is taken--> down --pause--> one request tries --taken--> works
                                                   '---------------- fails: a longer pause --'

One message that always fails leaves the others alone.  While the endpoint is down, all other messages wait with their
consumers, so an outage of an hour costs the attempts of a few messages, and not of thousands.  Where no connection can
be made at all, or the endpoint asks for time (Retry-After), it is down at once.

A connection is used again, for as many requests at the same time as the settings allow.  Of an answer the beginning is
read, for the reason of a dead letter.
"""

from __future__ import annotations

import random
import ssl
import time
from collections.abc import Callable

import anyio
import httpcore
import structlog

from gateway.client.messages import Message
from gateway.client.server import FileError, context_of

from .dialing import CheckedBackend
from .request import Answer, Verdict, headers_of, read_answer
from .settings import PushEndpoint

log = structlog.get_logger("gateway.push")

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds
FAILURES = 3
"""Messages that have failed, with none taken between them, after which an endpoint is down."""
_KEEPALIVE = 30.0  # seconds for which an unused connection stays
_MOST_ANSWER = 16 * 1024  # bytes of an answer; a longer one costs the connection


class EndpointClient:
    """The requests to one endpoint.

    Attributes:
        fault: why it is down; "": it is not.
    """

    def __init__(self, endpoint: PushEndpoint, clock: Callable[[], float] = anyio.current_time) -> None:
        self.endpoint = endpoint
        self.fault = ""
        self._clock = clock
        self._failed: set[str] = set()  # ids of messages, since one was taken
        self._pause = FIRST_PAUSE
        self._until = 0.0  # of the clock: the next request
        self._is_tried = False  # a request is under way while it is down
        self._down_since = 0.0
        self._changed = anyio.Event()
        self._pool: httpcore.AsyncConnectionPool | None = None

    # Pauses.

    async def turn(self) -> None:
        """Wait until a request may be made; `came` must follow it, or `gave_up`."""
        while self.fault:
            wait = self._until - self._clock()
            if wait <= 0 and not self._is_tried:
                self._is_tried = True
                return
            changed = self._changed
            with anyio.move_on_after(wait if wait > 0 else LONGEST_PAUSE):
                await changed.wait()

    def came(self, message: Message, answer: Answer) -> None:
        """The request of a message has got its answer, or failed."""
        self._is_tried = False
        if answer.verdict in (Verdict.TAKEN, Verdict.REFUSED):
            self._works()
        else:
            self._failed.add(message.id)
            # Of requests that were under way together, the first failure counts for the pause.
            is_over = self._clock() >= self._until
            if answer.retry_after:
                self._down(answer, answer.retry_after * random.uniform(1.0, 1.1))
            elif is_over and (answer.verdict is Verdict.AWAY or len(self._failed) >= FAILURES):
                self._down(answer, self._pause * random.uniform(0.5, 1.0))
                self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._wake()

    def gave_up(self) -> None:
        """A turn was not used."""
        self._is_tried = False
        self._wake()

    def _works(self) -> None:
        self._failed.clear()
        self._pause, self._until = FIRST_PAUSE, 0.0
        if self.fault:
            seconds = round(self._clock() - self._down_since, 1)
            log.info("the endpoint works again", url=self.endpoint.name, seconds=seconds)
            self.fault = ""

    def _down(self, answer: Answer, seconds: float) -> None:
        self._until = max(self._until, self._clock() + seconds)
        if not self.fault:
            self._down_since = self._clock()
            log.warning("the endpoint is down", url=self.endpoint.name, reason=answer.reason)
        self.fault = answer.reason

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    # Requests.

    async def post(self, message: Message, *, is_ours: bool) -> Answer:
        """POST a message; takes no longer than the time-out.  `is_ours`: it is of a gateway."""
        with anyio.move_on_after(self.endpoint.timeout):
            return await self._post(message, is_ours=is_ours)
        return Answer(Verdict.FAILED, f"the endpoint did not answer within {self.endpoint.timeout:g} s")

    async def _post(self, message: Message, *, is_ours: bool) -> Answer:
        endpoint = self.endpoint
        secrets = () if endpoint.secrets is None else endpoint.secrets.secrets()
        headers = headers_of(message, secrets, endpoint.headers, int(time.time()), is_ours=is_ours)
        try:
            pool = self._pool or self._open()
            async with pool.stream("POST", endpoint.url, headers=headers, content=message.body) as response:
                body = b""
                # Cancelled, because httpcore leaves its generators behind when the loop is left.
                with anyio.CancelScope() as reading:
                    async for part in response.aiter_stream():
                        body += part[: _MOST_ANSWER - len(body)]
                        if len(body) >= _MOST_ANSWER:
                            reading.cancel()
                known = {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in response.headers}
                return read_answer(response.status, known, body)
        except (httpcore.ConnectError, httpcore.ConnectTimeout, FileError) as error:
            return Answer(Verdict.AWAY, f"cannot connect to {endpoint.name}: {error or 'it does not answer'}")
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, ssl.SSLError) as error:
            return Answer(Verdict.FAILED, f"the connection to the endpoint broke: {error or type(error).__name__}")

    def _open(self) -> httpcore.AsyncConnectionPool:
        """Raises FileError: certificates cannot be used any more."""
        endpoint = self.endpoint
        self._pool = httpcore.AsyncConnectionPool(
            context_of(endpoint.ca, endpoint.cert, endpoint.key),
            max_connections=endpoint.concurrency,
            keepalive_expiry=_KEEPALIVE,
            network_backend=CheckedBackend(allow_private=endpoint.allow_private),
        )
        return self._pool

    async def aclose(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            with anyio.CancelScope(shield=True):
                await self._pool.aclose()
            self._pool = None
