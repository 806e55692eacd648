"""The operator's own authenticator: a Python function that the setting `authenticator` names.

    from gateway.auth import Credentials, Identity

    async def authenticate(credentials: Credentials) -> Identity | str | None:
        ...

A plain function runs in a worker thread, a few at a time; an `async` function runs on the loop and must not block it.
Either may take `connect_timeout`.  The credentials may be guesses, so a few of one address are checked at a time
(`failed_logins.LoginQueue`).  An exception refuses the login, and is logged without the client's secrets.
"""

import base64
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import structlog
import trio

from gateway import plugins
from gateway.auth.claims import login_of, user_of
from gateway.auth.failed_logins import FailedLogins, LoginQueue
from gateway.broker.core.ports import ANONYMOUS
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Credentials, Identity
from gateway.config.settings import SettingsError, wrong

THREADS = 8  # calls of a plain function at a time: most of them wait for another service
_SHORTEST_SECRET = 4  # characters. Hiding shorter ones in an error would blot out most words.

_BETWEEN = re.compile(r"""[\s;,"]+""")

log = structlog.get_logger("gateway.auth")


def load(text: str) -> Callable[[Credentials], Any]:
    """The function that the setting names, as `module:attribute`; raises SettingsError."""
    try:
        found = plugins.load(text, callable, "a function")
    except plugins.PluginError as error:
        raise SettingsError(wrong("authenticator", error)) from error
    try:
        inspect.signature(found).bind(None)
    except (TypeError, ValueError) as error:
        name, _, attribute = text.partition(":")
        reason = f"{attribute} of {name} is called with one argument, the credentials: {error}"
        raise SettingsError(wrong("authenticator", reason)) from None
    return found  # type: ignore[no-any-return]


class CustomAuthenticator:
    """Asks the operator's function; of a plain function `threads` calls run at a time."""

    def __init__(
        self, call: Callable[[Credentials], Any], failed: FailedLogins | None = None, threads: int = THREADS
    ) -> None:
        self._call = call
        self._queue = LoginQueue(failed or FailedLogins(), threads)
        # An object may have an async __call__.
        self._is_async = any(map(inspect.iscoroutinefunction, (call, getattr(call, "__call__", None))))  # noqa: B004
        self._limiter = trio.CapacityLimiter(threads)

    async def identify(self, credentials: Credentials) -> Identity | None:
        """The user, or None; raises LoginRefused as the function does, or after too many failures."""
        try:
            async with self._queue.place(credentials.address, login_of(credentials)):
                found = await self._answer(credentials)
        except LoginRefused:
            raise
        except Exception as error:  # noqa: BLE001 - the operator's code, which may quote secrets
            reason = _without_secrets(plugins.error_line(error), credentials)
            log.error("the authenticator failed, so the login is refused", reason=reason)
            return None
        if isinstance(found, str):
            found = Identity(found, method="custom")
        if found is None:
            return None
        try:
            return _checked(found)
        except ValueError as error:
            log.error("the authenticator answered neither a user, nor None, so the login is refused", reason=str(error))
            return None

    async def _answer(self, credentials: Credentials) -> object:
        if self._is_async:
            return await self._call(credentials)
        return await trio.to_thread.run_sync(self._call, credentials, limiter=self._limiter, abandon_on_cancel=True)


def _checked(found: object) -> Identity:
    """The identity that the function returned, with the groups as a set; ValueError says why it cannot be used."""
    if not isinstance(found, Identity):
        raise ValueError(f"a {type(found).__name__}")
    # The function may return `anonymous`, for guests.
    if not isinstance(found.user, str) or (found.user != ANONYMOUS and user_of(found.user) is None):
        raise ValueError("no user's name")
    if isinstance(found.groups, str) or not isinstance(found.groups, Collection):
        raise ValueError(f"groups that are a {type(found.groups).__name__}, and should be a set of names")
    if not all(isinstance(group, str) for group in found.groups):
        raise ValueError("groups that are no names")
    if isinstance(found.expires, bool) or not isinstance(found.expires, (int, float)):
        raise ValueError(f"expires that is a {type(found.expires).__name__}, and should be seconds since the epoch")
    return replace(found, groups=frozenset(found.groups))


def _without_secrets(text: str, credentials: Credentials) -> str:
    """The text of an exception without the client's secrets, which libraries like to quote."""
    upgrade = credentials.upgrade
    fields = [credentials.authorization, *((upgrade.authorization, upgrade.cookie, upgrade.ticket) if upgrade else ())]
    secrets = [credentials.passcode or "", *fields, *_parts(fields)]
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "(hidden)")
    return text


def _parts(fields: Iterable[str]) -> Iterator[str]:
    """The parts that a function may take out of a field: a token, the value of a cookie, the passcode of Basic."""
    for field in fields:
        for word in _BETWEEN.split(field):
            yield word
            with suppress(ValueError):
                yield from base64.b64decode(word, validate=True).decode().split(":", 1)[1:]
        for pair in field.split(";"):
            yield pair.partition("=")[2].strip()
