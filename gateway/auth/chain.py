"""All authenticators that the settings ask for, in one order.

    1  the client's certificate                       unless tls_user is `none`
    2  `Authorization: Bearer` of the CONNECT         a token, or a ticket
    3  `passcode` of the CONNECT                      a token, a ticket, or with `login` the passcode of a user
    4  `Authorization` of the upgrade                 Bearer as above; Basic as login and passcode
    5  the parameter `ticket` of the upgrade
    6  the signed cookie of the upgrade               only where a page said where it comes from (`Origin`)
    7  the operator's own authenticator               all of it

The first that knows the kind of what is shown decides.  What it refuses nobody else is asked about: who shows a wrong
passcode is not let in by the cookie that his browser sends along.

`login` beside anything but a passcode must be the user's name, or empty.  Beside a token in `passcode`, which may
have `Bearer` in front, it may be anything, as with RabbitMQ: clients that insist on a login put a fixed word there.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

from gateway.auth.basic import basic_of
from gateway.auth.certificates import Certificates
from gateway.auth.cookies import Cookies
from gateway.auth.custom import Custom
from gateway.auth.tickets import PREFIX, Tickets
from gateway.auth.tokens import Tokens, looks_like_token
from gateway.auth.users import UsersFile
from gateway.auth.watched import Watched
from gateway.broker.errors import NOT_A_USER, LoginRefused, SessionEnded
from gateway.broker.model.identity import Credentials, Identity

Answer = Awaitable[Identity]

# Said where the passcode may have been meant as a token, to clients of a server that takes some.
_NO_TOKEN = ", and the passcode does not look like a token"


class Chain:
    """Authenticators, each where there is one.

    Attributes:
        name, tickets: see `gateway.auth.guard.Entrance`.
    """

    name = "users and keys"

    def __init__(
        self,
        *,
        tickets: Tickets,
        users: UsersFile | None = None,
        tokens: Tokens | None = None,
        cookies: Cookies | None = None,
        certificates: Certificates | None = None,
        custom: Custom | None = None,
    ) -> None:
        self.tickets: Tickets | None = tickets
        self._tickets = tickets
        self._users = users
        self._tokens = tokens
        self._cookies = cookies
        self._certificates = certificates
        self._custom = custom

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        """The user.

        Raises:
            LoginRefused: the credentials are refused; with what the log may say of that.
        """
        try:
            return _as_of_now(await self._decide(credentials))
        except LoginRefused as error:
            if not error.user and self._users is not None and self._users.knows(credentials.login):
                error.user = credentials.login or ""
            raise

    async def _decide(self, credentials: Credentials) -> Identity:
        passcode, address = credentials.passcode, credentials.address
        answer = self._by_certificate(credentials) or self._by_bearer(credentials.authorization, address)
        if answer is None and passcode:
            # Who can show a token or a ticket need not know whose it is; everybody else must.
            answer = self._by_text(passcode, address) or self._by_bearer(passcode, address)
            if answer is not None:
                return await answer
            answer = None if self._users is None else self._by_passcode(self._users, credentials, _NO_TOKEN)
        if answer is None:
            answer = self._by_upgrade(credentials)
        if answer is not None:
            return _agreeing(await answer, credentials.login)
        if self._custom is not None:
            return await self._by_custom(self._custom, credentials)
        raise LoginRefused(
            f"the server lets in who shows {', or '.join(self._kinds())}",
            is_guess=False,
            method="none",
            why="nothing was shown that is known here",
        )

    def reload(self) -> str | None:
        """Read all files again; what is wrong with them, as a sentence, or None."""
        faults = [each.reload() for each in self._files()]
        return "; ".join(filter(None, faults)) or None

    def _files(self) -> list[Watched[object]]:
        found = [
            self._users and self._users.file,
            self._tokens and self._tokens.keys,
            self._cookies and self._cookies.secrets,
        ]
        return [each for each in found if each is not None]  # type: ignore[misc]

    # Each of these is None where nobody knows the kind.

    def _by_certificate(self, credentials: Credentials) -> Answer | None:
        if self._certificates is None or credentials.certificate is None:
            return None
        return self._certificates.identify(credentials.certificate)

    def _by_bearer(self, authorization: str, address: str) -> Answer | None:
        scheme, _, text = authorization.strip().partition(" ")
        return self._by_text(text.strip(), address) if scheme.lower() == "bearer" else None

    def _by_text(self, text: str, address: str) -> Answer | None:
        if text.startswith(PREFIX):
            return _redeemed(self._tickets, text)
        if self._tokens is None or not looks_like_token(text):
            return None
        return self._tokens.identify(text, address)

    async def _by_passcode(self, users: UsersFile, credentials: Credentials, else_said: str = "") -> Identity:
        identity = await users.authenticate(credentials)
        if identity is not None:
            return identity
        login = credentials.login or ""
        is_user = users.knows(login)
        raise LoginRefused(
            NOT_A_USER if self._tokens is None else NOT_A_USER + else_said,
            method="passcode",
            why="wrong passcode" if is_user else "unknown user" if login else "a passcode without a login",
            user=login if is_user else "",
        )

    async def _by_custom(self, custom: Custom, credentials: Credentials) -> Identity:
        try:
            identity = await custom.identify(credentials)
        except LoginRefused as error:
            error.method = "custom"
            raise
        if identity is None:
            raise LoginRefused(method="custom", why="the authenticator names no user")
        return identity

    def _by_upgrade(self, credentials: Credentials) -> Answer | None:
        upgrade = credentials.upgrade
        if upgrade is None:
            return None
        answer = self._by_bearer(upgrade.authorization, credentials.address)
        basic = None if answer is not None or self._users is None else basic_of(upgrade.authorization)
        if self._users is not None and basic is not None:
            answer = self._by_passcode(self._users, replace(credentials, login=basic[0], passcode=basic[1]))
        if answer is None and upgrade.ticket:
            answer = _redeemed(self._tickets, upgrade.ticket)
        if answer is None and self._cookies is not None and upgrade.origin and self._cookies.is_shown(upgrade.cookie):
            answer = self._cookies.identify(upgrade.cookie)
        return answer

    def _kinds(self) -> list[str]:
        known = {
            "login and passcode": self._users,
            "a token (JWT) in passcode or Authorization": self._tokens,
            "a cookie of the application": self._cookies,
            "a client certificate": self._certificates,
        }
        return [kind for kind, there in known.items() if there is not None]


async def _redeemed(tickets: Tickets, ticket: str) -> Identity:
    return tickets.redeem(ticket)


def _as_of_now(identity: Identity) -> Identity:
    """The user as the files know him now: a ticket may be older, and a passcode takes a while to be verified."""
    if identity.review is None:
        return identity
    try:
        return identity.review(identity)
    except SessionEnded as error:
        why = str(error)
        raise LoginRefused(error.detail, is_guess=False, method=identity.method, why=why, user=identity.user) from None


def _agreeing(identity: Identity, login: str | None) -> Identity:
    """Refuse a login that names somebody else than what came with it."""
    if login and login != identity.user:
        what = {"passcode": "Authorization of the upgrade"}.get(identity.method, identity.method)
        why = f"login is not the user that the {what} names"
        raise LoginRefused(f"{why}; leave it out", is_guess=False, method=identity.method, why=why)
    return identity
