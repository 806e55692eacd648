"""What the broker and the connection loop need from outside, as protocols."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from gateway.codec import ProtocolError

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
