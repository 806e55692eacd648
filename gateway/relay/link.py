"""A connection that comes back: it is told once when it goes and once when it works again.

After a failure there is a pause, which doubles from 0.1 to 30 s; a part of it is chance, so that many relays do not
come at the same moment.  It is short again once a connection has lasted longer than the pause before it, or the server
has confirmed something: one that takes connections and ends them at once is not asked more and more often.

Before it has worked for the first time, a refusal is final: login or destination is wrong, and waiting mends nothing.
Later an operator may be at work, and it is waited for.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from gateway.client import Client, ServerError, StompError, StompServer

from .settings import address

log = structlog.get_logger("gateway.relay")

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 30.0
# So servers say that they have no room, or end; it is not the message's fault, nor the login's.
_PASSING = (
    "says: the store cannot be written",
    "says: memory limit reached",
    "says: memory is full",
    "says: server is shutting down",
    "says: session ended",
    "says: slow consumer",
    "says: too many connections",
    "says: too many delayed messages",
)


class LinkLost(Exception):
    """A link is gone, for the reason that the error tells."""

    def __init__(self, link: ServerLink, error: StompError) -> None:
        super().__init__(str(error))
        self.link = link
        self.error = error

    @property
    def is_refusal(self) -> bool:
        """The server may have refused what it was sent, and not the connection."""
        return isinstance(self.error, ServerError) and not _is_passing(self.error)


class ServerLink:
    """One side.

    Args:
        role: "source" or "target".

    Attributes:
        client: the connection; None: there is none.
        opened: how often there was one.
        fault: why there is none.
    """

    def __init__(self, role: str, server: StompServer) -> None:
        self.client: Client | None = None
        self.opened = 0
        self.fault = "it was not reached yet"
        self.role = role
        self._server = server
        self._name = address(server)
        self._pause = _FIRST_PAUSE
        self._next = 0.0
        self._has_worked = False
        self._away_since = 0.0  # 0: it is not
        self._open_since = 0.0

    def __str__(self) -> str:
        return f"the {self.role} {self._name}"

    def due(self) -> float:
        """Seconds until the next attempt."""
        return max(0.0, self._next - time.monotonic())

    def open(self, prepare: Callable[[Client], None]) -> None:
        """Connect, if there is no connection and the pause is over.

        Args:
            prepare: what the connection needs besides; it may raise, too.

        Raises:
            ServerError: the server refuses, and has not worked before.
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
        """The connection, which must be there, for the block.

        Raises:
            Lost: it broke.
        """
        assert self.client is not None
        try:
            yield self.client
        except StompError as error:
            raise LinkLost(self, error) from None

    def works(self) -> None:
        """It is not away."""
        if self._away_since:
            log.info(f"the {self.role} works again", server=self._name, seconds=self._away())
            self._away_since = 0.0

    def has_confirmed(self) -> None:
        """It does what it is asked to."""
        self._pause = _FIRST_PAUSE
        self.works()

    def lost(self, error: StompError, *, quiet: bool = False) -> None:
        """There is no connection any more, or still none.

        Args:
            quiet: another line says why.
        """
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

    def _away(self) -> float:
        return round(time.monotonic() - self._away_since, 1)


def _is_passing(error: StompError) -> bool:
    return any(words in str(error) for words in _PASSING)
