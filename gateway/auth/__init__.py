"""Authentication and authorization: which clients may connect, and what each may do.

    authenticator    the authenticator of a gateway: `RateLimited`, or `Anonymous` where no setting asks for credentials
      chain          which of claims (certificates), tokens (keys), tickets, users (passwords), cookies, custom decides
      failed_logins  how many guesses an address has
    rules            the `[[rule]]` tables in force (rule_index)

Authenticators implement `gateway.broker.core.ports.Authenticator`.  They may take long: only their client waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Certificate, Credentials, Identity, Upgrade

if TYPE_CHECKING:
    from gateway.auth.authenticator import ServerAuthenticator
    from gateway.auth.cookies import Cookies
    from gateway.auth.tokens import Tokens
    from gateway.config.settings import Settings

__all__ = ["Certificate", "Credentials", "Identity", "LoginRefused", "Upgrade", "for_settings"]


def for_settings(settings: Settings) -> ServerAuthenticator:
    """The authenticator that the settings ask for; raises SettingsError, which names the setting."""
    from gateway.auth.authenticator import Anonymous, RateLimited

    # The rest is imported only where it is needed: a gateway without users loads neither argon2 nor cryptography.
    if settings.anonymous:
        return Anonymous()
    from gateway.auth.chain import Chain
    from gateway.auth.claims import CertificateUsers
    from gateway.auth.custom import CustomAuthenticator, load
    from gateway.auth.failed_logins import FailedLogins
    from gateway.auth.tickets import Tickets
    from gateway.auth.users import UsersFile

    failed = FailedLogins(settings.login_attempts)
    chain = Chain(
        tickets=Tickets(settings.ticket_lifetime, settings.max_tickets),
        users=None if settings.users_file is None else UsersFile(settings.users_file, failed),
        tokens=_tokens(settings),
        cookies=_cookies(settings),
        certificates=CertificateUsers(settings.tls_user) if settings.certificates_are_users else None,
        custom=CustomAuthenticator(load(settings.authenticator), failed) if settings.authenticator else None,
    )
    return RateLimited(chain, failed, settings.login_delay)


def _tokens(settings: Settings) -> Tokens | None:
    if settings.jwt_keys is None:
        return None
    from gateway.auth.tokens import Tokens

    return Tokens(
        settings.jwt_keys,
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
        user_claim=settings.jwt_user_claim,
        groups_claim=settings.jwt_groups_claim,
        leeway=settings.jwt_leeway,
    )


def _cookies(settings: Settings) -> Cookies | None:
    if settings.cookie_keys is None:
        return None
    from gateway.auth.cookies import Cookies

    return Cookies(settings.cookie_keys, name=settings.cookie_name, age=settings.cookie_age, user=settings.cookie_user)
