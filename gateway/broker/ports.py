"""What the broker and the connection loop need from outside, as protocols."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from gateway.codec import ProtocolError

from .batch import Batch, Stored

ANONYMOUS = "anonymous"
"""The name of a user who gave none, where that is allowed."""


class Authenticator(Protocol):
    """Says who a client is.  Called once per connection, at the handshake, under the connect timeout."""

    def authenticate(self, login: str | None, passcode: str | None) -> Awaitable[str | None]:
        """The user's name, or None when the credentials are refused.  May take long; must not block the loop."""
        ...


class Application(Protocol):
    """The operator's own functions, which handle what is sent to `/app/`.  Called for each frame that names one."""

    def queue_of_send(self, name: str) -> str | None:
        """The queue (`/handlers/...`) in which what is sent to `/app/...` waits for its function; None: no function."""
        ...

    def queue_of_subscribe(self, name: str) -> str | None:
        """The queue in which the request waits that a SUBSCRIBE to `/app/...` is; None: no function."""
        ...


class StoreError(Exception):
    """The store cannot do what it should; `str()` is one sentence that names the file and the reason.

    Attributes:
        public: what a client may read of the reason: nothing of the server's inside.
        is_damage: the store does not hold what it must; to try again is no use.
        place: the name of the place where a single damaged message stands; empty: that cannot be told.
    """

    public = "the log of the server says why"
    is_damage = False
    place = ""


class Store(Protocol):
    """Keeps messages beyond the process.  Its calls block: they come from one worker thread, one at a time."""

    def write(self, batch: Batch) -> None:
        """Write all of a batch, or nothing.

        Raises:
            StoreError: nothing was written; the same batch may be written again.
        """
        ...

    def read(self, rows: Sequence[int]) -> list[Stored]:
        """Rows with their contents, in that order; those that are not there are left out.

        Raises:
            StoreError: it cannot be read; where that is damage, one of these rows is damaged, or several are.
        """
        ...


class TendedStore(Store, Protocol):
    """What is done for a store beside that; in the same thread."""

    def shortage(self) -> str:
        """Why no more messages should come for now; empty: they may.  What is under way can still be written.

        Raises:
            StoreError: the disk does not say, or the store is not where it was: nothing can be written.
        """
        ...

    def notice(self) -> str:
        """What has happened to the store since this was last asked, for the operator; empty: nothing of note."""
        ...

    def tidy(self) -> bool:
        """Do some of what can wait until nobody else does, mostly nothing; True: there is more of it.

        Raises:
            StoreError: it cannot be done.
        """
        ...


class Carrier(Protocol):
    """The connection below a session, as far as the broker knows it."""

    def flush(self) -> None:
        """Write what lies in the session's outbox, as far as that needs no waiting."""
        ...

    def end(self, error: ProtocolError) -> None:
        """End the connection from outside its own reader: an operator, a shutdown, a full outbox.

        Returns at once and changes nothing in the broker yet, for it is called from within its loops.
        """
        ...
