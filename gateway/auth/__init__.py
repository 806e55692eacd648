"""Who may connect: authenticators, asked once per session, at the handshake.

They implement `gateway.broker.ports.Authenticator` and may take their time: nothing else waits for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.broker.ports import Authenticator
    from gateway.settings import Settings


def for_settings(settings: Settings) -> Authenticator:
    """The authenticator that the settings ask for.

    Raises:
        gateway.settings.SettingsError: the users file cannot be used; the sentence names the setting and the
        line.
    """
    # Imported only where needed: a gateway without users never loads argon2.
    if settings.users_file is None:
        from gateway.auth.anonymous import Anonymous

        return Anonymous()
    from gateway.auth.users import UsersFile

    return UsersFile(settings.users_file)
