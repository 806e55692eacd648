"""Connection that reconnects, with one line of the log when it is lost and one when it works again.

After a failure there is a pause, which doubles from 0.1 to 30 s, partly random.  It is short again after a connection
that lasted longer than the pause before it, or after the server has confirmed something.

At the first connection a refusal is final: login or destination is wrong.  Later the relay waits, because an operator
may be changing the server.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from gateway.client import Client, ServerError, StompError, StompServer
from gateway.client.errors import PASSING

from .settings import address

log = structlog.get_logger("gateway.relay")

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 30.0


class LinkLost(Exception):
    def __init__(self, link: ServerLink, error: StompError) -> None:
        super().__init__(str(error))
        self.link = link
        self.error = error

    @property
    def is_refusal(self) -> bool:
        """True if the server may have refused a message, and not the connection."""
        return isinstance(self.error, ServerError) and not _is_passing(self.error)


class ServerLink:
    """The connection to one server.  `role`: "source" or "target"."""

    def __init__(self, role: str, server: StompServer) -> None:
        self.client: Client | None = None  # the connection; None: it is lost
        self.opened = 0  # number of connections so far
        self.fault = "it was not reached yet"  # the reason of the last loss
        self.role = role
        self._server = server
        self._name = address(server)
        self._pause = _FIRST_PAUSE
        self._next = 0.0
        self._has_worked = False
        self._away_since = 0.0  # 0: it is connected
        self._open_since = 0.0

    def __str__(self) -> str:
        return f"the {self.role} {self._name}"

    def due(self) -> float:
        """Seconds until the next attempt."""
        return max(0.0, self._next - time.monotonic())

    def open(self, prepare: Callable[[Client], None]) -> None:
        """Connect, if there is no connection and the pause is over.

        `prepare`: sets the connection up, and may raise StompError.  Raises ServerError: the server refuses the first
        connection.
        """
        if self.client is not None or self.due():
            return
        try:
            client = Client(self._server, beat=True)
            try:
                prepare(client)
            except BaseException:
                client.close()
                raise
        except StompError as error:
            if isinstance(error, ServerError) and not self._has_worked and not _is_passing(error):
                raise
            self.lost(error)
        else:
            self.client = client
            self.opened += 1
            self._has_worked = True
            self._open_since = time.monotonic()

    @contextmanager
    def talk(self) -> Iterator[Client]:
        """The connection, which must be there, for the block.  Raises Lost: it broke."""
        assert self.client is not None
        try:
            yield self.client
        except StompError as error:
            raise LinkLost(self, error) from None

    def works(self) -> None:
        if self._away_since:
            seconds = round(time.monotonic() - self._away_since, 1)
            log.info(f"the {self.role} works again", server=self._name, seconds=seconds)
            self._away_since = 0.0

    def has_confirmed(self) -> None:
        """The server has confirmed something: the next pause is short."""
        self._pause = _FIRST_PAUSE
        self.works()

    def lost(self, error: StompError, *, quiet: bool = False) -> None:
        """The connection broke, or could not be opened.  `quiet`: another line of the log tells the reason."""
        if self.client is not None and time.monotonic() - self._open_since > self._pause:
            self._pause = _FIRST_PAUSE
        self.close()
        self.fault = str(error)
        self._next = time.monotonic() + self._pause * random.uniform(0.5, 1.0)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        if not quiet and not self._away_since:
            self._away_since = time.monotonic()
            log.warning(f"the {self.role} is away", server=self._name, reason=str(error))

    def close(self) -> None:
        """End the connection at once, if there is one."""
        if self.client is not None:
            self.client.close()
            self.client = None

    def disconnect(self) -> None:
        """End the session in order, if there is one."""
        if self.client is not None:
            self.client.disconnect()
            self.client = None


def _is_passing(error: StompError) -> bool:
    return any(f"says: {words}" in str(error) for words in PASSING)
