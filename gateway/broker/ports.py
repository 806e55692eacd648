"""What the broker and the connection loop need from outside, as protocols."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from gateway.codec import ProtocolError


class Authenticator(Protocol):
    """Says who a client is.  Called once per connection, at the handshake, under the connect timeout."""

    def authenticate(self, login: str | None, passcode: str | None) -> Awaitable[str | None]:
        """The user's name, or None when the credentials are refused.  May take long; must not block the loop."""
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
