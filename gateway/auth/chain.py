"""The chain of authenticators that the settings ask for, in one order.

    1  the client's certificate                       unless tls_user is `none`
    2  `Authorization: Bearer` of the CONNECT         a token, or a ticket
    3  `passcode` of the CONNECT                      a token, a ticket, or with `login` the passcode of a user
    4  `Authorization` of the upgrade                 Bearer as above; Basic as login and passcode
    5  the parameter `ticket` of the upgrade
    6  the signed cookie of the upgrade               only from a page (`Origin`)
    7  the operator's own authenticator               all of it

The first authenticator that knows the kind of the credentials decides.  If it refuses, no other is asked: a wrong
passcode is not made good by the cookie that the browser sends along.

`login` beside anything but a passcode must be the user's name, or empty.  Beside a token in `passcode`, which may
begin with `Bearer`, it may be anything, as with RabbitMQ: clients that insist on a login send a fixed word.
"""

from collections.abc import Awaitable
from dataclasses import dataclass, replace

from gateway.auth.claims import CertificateUsers, basic_of
from gateway.auth.cookies import Cookies
from gateway.auth.custom import CustomAuthenticator
from gateway.auth.file_watch import WatchedFile
from gateway.auth.tickets import PREFIX, Tickets
from gateway.auth.tokens import Tokens, looks_like_token
from gateway.auth.users import UsersFile
from gateway.broker.errors import NOT_A_USER, LoginRefused, SessionEnded
from gateway.broker.model.identity import Credentials, Identity

Answer = Awaitable[Identity]

# Added where the gateway accepts tokens, because the passcode may have been meant as one.
_NO_TOKEN = ", and the passcode does not look like a token"


@dataclass(eq=False, kw_only=True)
class Chain:
    """Authenticators in the order above; None: the settings do not ask for it."""

    name = "users and keys"

    tickets: Tickets
    users: UsersFile | None = None
    tokens: Tokens | None = None
    cookies: Cookies | None = None
    certificates: CertificateUsers | None = None
    custom: CustomAuthenticator | None = None

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        """The user.  Raises LoginRefused: the credentials are refused; it has the fields for the log."""
        try:
            return _as_of_now(await self._decide(credentials))
        except LoginRefused as error:
            if not error.user and self.users is not None and self.users.knows(credentials.login):
                error.user = credentials.login or ""
            raise

    async def _decide(self, credentials: Credentials) -> Identity:
        passcode, address = credentials.passcode, credentials.address
        answer = self._by_certificate(credentials) or self._by_bearer(credentials.authorization, address)
        if answer is None and passcode:
            # The login beside a token or ticket in the passcode need not agree with it.
            answer = self._by_text(passcode, address) or self._by_bearer(passcode, address)
            if answer is not None:
                return await answer
            answer = None if self.users is None else self._by_passcode(self.users, credentials, _NO_TOKEN)
        if answer is None:
            answer = self._by_upgrade(credentials)
        if answer is not None:
            return _agreeing(await answer, credentials.login)
        if self.custom is not None:
            return await self._by_custom(self.custom, credentials)
        raise LoginRefused(
            f"the client sent no credentials that this server knows; send {', or '.join(self._kinds())}",
            is_guess=False,
            method="none",
            why="no credentials that this server knows",
        )

    def reload(self) -> str | None:
        files: list[WatchedFile[object]] = [
            each  # type: ignore[misc]
            for each in (
                self.users and self.users.file,
                self.tokens and self.tokens.keys,
                self.cookies and self.cookies.secrets,
            )
            if each is not None
        ]
        return "; ".join(filter(None, [each.reload() for each in files])) or None

    # Each of these returns None where no authenticator knows the kind.

    def _by_certificate(self, credentials: Credentials) -> Answer | None:
        if self.certificates is None or credentials.certificate is None:
            return None
        return self.certificates.identify(credentials.certificate)

    def _by_bearer(self, authorization: str, address: str) -> Answer | None:
        scheme, _, text = authorization.strip().partition(" ")
        return self._by_text(text.strip(), address) if scheme.lower() == "bearer" else None

    def _by_text(self, text: str, address: str) -> Answer | None:
        if text.startswith(PREFIX):
            return self._by_ticket(text)
        if self.tokens is None or not looks_like_token(text):
            return None
        return self.tokens.identify(text, address)

    async def _by_passcode(self, users: UsersFile, credentials: Credentials, hint: str = "") -> Identity:
        identity = await users.authenticate(credentials)
        if identity is not None:
            return identity
        login = credentials.login or ""
        is_user = users.knows(login)
        raise LoginRefused(
            NOT_A_USER if self.tokens is None else NOT_A_USER + hint,
            method="passcode",
            why="wrong passcode" if is_user else "unknown user" if login else "a passcode without a login",
            user=login if is_user else "",
        )

    async def _by_ticket(self, ticket: str) -> Identity:
        identity = await self.tickets.identify(ticket)
        if identity.review is None and identity.hashed and self.users is not None:
            return replace(identity, review=self.users.review)  # it comes from another process
        return identity

    async def _by_custom(self, custom: CustomAuthenticator, credentials: Credentials) -> Identity:
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
        basic = None if answer is not None or self.users is None else basic_of(upgrade.authorization)
        if self.users is not None and basic is not None:
            answer = self._by_passcode(self.users, replace(credentials, login=basic[0], passcode=basic[1]))
        if answer is None and upgrade.ticket:
            answer = self._by_ticket(upgrade.ticket)
        if answer is None and self.cookies is not None and upgrade.origin and self.cookies.is_shown(upgrade.cookie):
            answer = self.cookies.identify(upgrade.cookie)
        return answer

    def _kinds(self) -> list[str]:
        known = {
            "login and passcode": self.users,
            "a token (JWT) in passcode or Authorization": self.tokens,
            "a cookie of the application": self.cookies,
            "a client certificate": self.certificates,
        }
        return [kind for kind, authenticator in known.items() if authenticator is not None]


def _as_of_now(identity: Identity) -> Identity:
    """The identity by the files as they are now: a ticket may be older, and verifying a passcode takes a while."""
    if identity.review is None:
        return identity
    try:
        return identity.review(identity)
    except SessionEnded as error:
        why = str(error)
        raise LoginRefused(error.detail, is_guess=False, method=identity.method, why=why, user=identity.user) from None


def _agreeing(identity: Identity, login: str | None) -> Identity:
    """Refuse a login that is not the user of the credentials beside it."""
    if login and login != identity.user:
        source = {"passcode": "Authorization of the upgrade"}.get(identity.method, identity.method)
        why = f"login is not the user that the {source} names"
        raise LoginRefused(f"{why}; leave it out", is_guess=False, method=identity.method, why=why)
    return identity
