"""The authenticator of a gateway: anonymous, or rate limited in front of the chain of authenticators.

`RateLimited` counts the failed logins of each address and delays their answers, for every fault alike.  An address with
too many failures is refused by the users file and by the operator's own authenticator (`failed_logins.LoginQueue`).  A
valid token, ticket, cookie or certificate, which cannot be guessed, is accepted from any address: otherwise ten wrong
passcodes a minute would lock out all clients behind the same address.
"""

import time
from typing import Protocol

import trio

from gateway.auth.claims import login_of
from gateway.auth.failed_logins import FailedLogins, TooManyFailedLogins
from gateway.auth.tickets import Tickets
from gateway.broker.core.ports import ANONYMOUS, Authenticator
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Credentials, Identity

_NOT_GUESSED = ("certificate", "cookie", "ticket", "token")


class ServerAuthenticator(Authenticator, Protocol):
    """An authenticator with all that the gateway needs of it."""

    name: str  # what `reload` reads again, for the log

    @property
    def tickets(self) -> Tickets | None:
        """The tickets of this gateway; None: clients need no login and so no ticket."""

    def reload(self) -> str | None:
        """Read all files again.  Returns the faults as one sentence, or None."""
        ...


class Anonymous:
    """Accepts every client under the login that it gives; allowed while every listener is on loopback."""

    name = "users"
    tickets: Tickets | None = None

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        return Identity(credentials.login or ANONYMOUS, method="anonymous")

    def reload(self) -> str | None:
        return None


class RateLimited:
    """Counts and delays the refusals of another authenticator.  `delay`: seconds until a failed login is answered."""

    def __init__(self, inner: ServerAuthenticator, failed: FailedLogins, delay: float = 1.0) -> None:
        self.name = inner.name
        self.tickets = inner.tickets
        self.reload = inner.reload
        self._inner = inner
        self.failed = failed
        self._delay = delay

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        """The user.  Raises LoginRefused: the credentials are refused."""
        refusal = LoginRefused()
        try:
            identity = await self._inner.authenticate(credentials)
        except TooManyFailedLogins:
            raise
        except LoginRefused as error:
            identity, refusal = None, error
        if identity is not None:
            if identity.expires > time.time():
                # A client may write any login beside a token, so only the login beside a passcode is remembered.
                login = login_of(credentials)
                if login and login == identity.user and identity.method not in _NOT_GUESSED:
                    self.failed.succeed(credentials.address, login)
                return identity
            refusal = LoginRefused(
                "the credentials have expired; log in with new ones",
                is_guess=False,
                method=identity.method,
                why="expired",
                user=identity.user,
            )
        if refusal.is_guess:
            self.failed.count(credentials.address, login_of(credentials))
        await trio.sleep(self._delay)
        raise refusal
