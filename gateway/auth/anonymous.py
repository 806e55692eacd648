"""Anonymous sessions: whoever connects is let in, under the name they give.

`gateway.config.settings` sees to it that this happens only while every listener is bound to loopback.
"""

from __future__ import annotations

from gateway.auth.tickets import Tickets
from gateway.broker.core.ports import ANONYMOUS
from gateway.broker.model.identity import Credentials, Identity


class Anonymous:
    """Lets everybody in.

    Attributes:
        name, tickets: see `gateway.auth.guard.Entrance`; nobody needs any tickets.
    """

    name = "users"
    tickets: Tickets | None = None

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        """The name given, or `anonymous`; the passcode is not looked at."""
        return Identity(credentials.login or ANONYMOUS, method="anonymous")

    def reload(self) -> str | None:
        """There is nothing to read."""
        return None
