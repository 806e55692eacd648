"""The guard before all authenticators: failed logins are slow, and each address has only so many of them.

Who has failed too often, the users file and the operator's own authenticator do not hear (`turns`).  What nobody can
guess is heard all the same: a right token, ticket, cookie or certificate is let in from anywhere.  Else whoever fails
ten times a minute would shut out all others of his address, and end their sessions when they renew them.

Nothing is held while a failure waits for its answer but the connection, of which there are only so many before login.
The delay is the same whatever was wrong.  A fault of an authenticator is a refusal, and no end of the gateway.
"""

from __future__ import annotations

import time
from typing import Protocol

import trio

from gateway.auth.basic import login_of
from gateway.auth.failures import Failures, TooManyFailures
from gateway.auth.tickets import Tickets
from gateway.broker.core.ports import Authenticator
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Credentials, Identity


class Entrance(Authenticator, Protocol):
    """What `for_settings` makes: an authenticator with all that the rest of the gateway must have of it.

    Attributes:
        name: what is read again, for the log.
        tickets: of this gateway; None: nobody has to log in, so nobody needs one.
    """

    name: str

    @property
    def tickets(self) -> Tickets | None:
        """See above."""
        ...

    def reload(self) -> str | None:
        """Read all files again; what is wrong with them, as a sentence, or None."""
        ...


class Guard:
    """Asks an authenticator, and counts and delays what it refuses.

    Attributes:
        name, tickets: see `Entrance`.

    Args:
        delay: seconds after which a failure is answered.
    """

    def __init__(self, inner: Entrance, failures: Failures, delay: float = 1.0) -> None:
        self.name = inner.name
        self.tickets = inner.tickets
        self.reload = inner.reload
        self._inner = inner
        self._failures = failures
        self._delay = delay

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        """The user, or None when the credentials are refused.

        Raises:
            LoginRefused: likewise.
        """
        refusal = LoginRefused()
        try:
            identity = await self._inner.authenticate(credentials)
        except TooManyFailures:
            raise
        except LoginRefused as error:
            identity, refusal = None, error
        if identity is not None:
            if identity.expires > time.time():
                self._remember(credentials, identity)
                return identity
            refusal = LoginRefused(
                "what was shown has expired; log in with a new one",
                is_guess=False,
                method=identity.method,
                why="it has expired",
                user=identity.user,
            )
        if refusal.is_guess:
            self._failures.count(credentials.address, login_of(credentials))
        await trio.sleep(self._delay)
        raise refusal

    def _remember(self, credentials: Credentials, identity: Identity) -> None:
        """That a name was let in: not beside a token, where it may be anybody's."""
        login = login_of(credentials)
        if login and login == identity.user and identity.method not in ("certificate", "cookie", "ticket", "token"):
            self._failures.succeed(credentials.address, login)
