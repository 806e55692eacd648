"""Who may connect: authenticators, asked at the handshake, and when a session is to be renewed.

They implement `gateway.broker.core.ports.Authenticator` and may take their time: nothing else waits for them.

    guard        failed logins: slow, and only so many of each address
      chain      which authenticator decides
        certificates, tokens (keys), tickets, users (passwords), cookies, custom
    anonymous    in place of all that where nothing is set

What an operator's own authenticator needs is `Credentials` and `Identity`, which can be imported from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Certificate, Credentials, Identity, Upgrade

if TYPE_CHECKING:
    from gateway.auth.cookies import Cookies
    from gateway.auth.guard import Entrance
    from gateway.auth.tokens import Tokens
    from gateway.config.settings import Settings

__all__ = ["Certificate", "Credentials", "Identity", "LoginRefused", "Upgrade", "for_settings"]


def for_settings(settings: Settings) -> Entrance:
    """The authenticator that the settings ask for.

    Raises:
        SettingsError: a file, or the operator's function, cannot be used; the sentence names the setting and what is
            wrong.
    """
    # Imported only where needed: a gateway that lets everybody in loads neither argon2 nor cryptography.
    if settings.anonymous:
        from gateway.auth.anonymous import Anonymous

        return Anonymous()
    from gateway.auth.certificates import Certificates
    from gateway.auth.chain import Chain
    from gateway.auth.custom import Custom, load
    from gateway.auth.failures import Failures
    from gateway.auth.guard import Guard
    from gateway.auth.tickets import Tickets
    from gateway.auth.users import UsersFile

    failures = Failures(settings.login_attempts)
    chain = Chain(
        tickets=Tickets(settings.ticket_lifetime, settings.max_tickets),
        users=None if settings.users_file is None else UsersFile(settings.users_file, failures),
        tokens=_tokens(settings),
        cookies=_cookies(settings),
        certificates=Certificates(settings.tls_user) if settings.certificates_are_users else None,
        custom=Custom(load(settings.authenticator), failures) if settings.authenticator else None,
    )
    return Guard(chain, failures, settings.login_delay)


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
