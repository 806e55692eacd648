"""The operator's own authenticator: a Python function, which the setting `authenticator` names.

    from gateway.auth import Credentials, Identity

    async def authenticate(credentials: Credentials) -> Identity | str | None:
        ...

A plain function runs in a worker thread, a few at a time; an `async` one on the loop, where it must not block.  Either
may take as long as `connect_timeout` lets it.  What it raises refuses, and is logged without what the client has shown.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import structlog
import trio

from gateway.auth.claims import user_of
from gateway.broker.errors import LoginRefused
from gateway.broker.identity import Credentials, Identity
from gateway.settings import SettingsError, wrong

THREADS = 8
"""Calls of a plain function at a time: most of them wait for somebody's answer."""

_LEAST_SECRET = 4
"""Characters; what is shorter is not looked for in an error, or it would be blotted out of every word."""

log = structlog.get_logger("gateway.auth")


def load(text: str) -> Callable[[Credentials], Any]:
    """The function that the setting names.

    Args:
        text: `module:attribute`.

    Raises:
        SettingsError: there is none.
    """
    name, _, attribute = text.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(name)
    except Exception as error:
        raise SettingsError(wrong("authenticator", f"cannot import {name}: {_shown(error)}")) from error
    found = getattr(module, attribute, None)
    if not callable(found):
        there = f"{attribute} is a {type(found).__name__}" if hasattr(module, attribute) else f"there is no {attribute}"
        raise SettingsError(wrong("authenticator", f"{there} in {name}, and it should be a function"))
    try:
        inspect.signature(found).bind(None)
    except (TypeError, ValueError) as error:
        reason = f"{attribute} of {name} is called with one argument, the credentials: {error}"
        raise SettingsError(wrong("authenticator", reason)) from None
    return found  # type: ignore[no-any-return]


class Custom:
    """Asks the operator's function."""

    def __init__(self, call: Callable[[Credentials], Any]) -> None:
        self._call = call
        # An object may be called, too.
        self._is_async = any(map(inspect.iscoroutinefunction, (call, getattr(call, "__call__", None))))  # noqa: B004
        self._limiter = trio.CapacityLimiter(THREADS)

    async def identify(self, credentials: Credentials) -> Identity | None:
        """Who it is, or None when the credentials are refused.

        Raises:
            LoginRefused: likewise, on the word of the function.
        """
        try:
            found = await self._answer(credentials)
        except LoginRefused:
            raise
        except Exception as error:  # noqa: BLE001 - the operator's code, which may quote secrets
            log.error("the authenticator failed, so the login is refused", reason=_without(_shown(error), credentials))
            return None
        if isinstance(found, str):
            found = Identity(found, method="custom")
        if isinstance(found, Identity) and user_of(found.user) is not None:
            return found
        if found is not None:
            what = "no user's name" if isinstance(found, Identity) else f"a {type(found).__name__}"
            log.error("the authenticator answered neither a user, nor None, so the login is refused", reason=what)
        return None

    async def _answer(self, credentials: Credentials) -> object:
        if self._is_async:
            return await self._call(credentials)
        return await trio.to_thread.run_sync(self._call, credentials, limiter=self._limiter, abandon_on_cancel=True)


def _shown(error: Exception) -> str:
    """An error in one line, with the line of the operator's code that it came from."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    ours = os.path.dirname(__file__)
    frames = [
        each
        for each in traceback.extract_tb(error.__traceback__)
        if each.filename != importlib.__file__ and not each.filename.startswith(("<frozen", ours))
    ]
    return f"{text} ({frames[-1].filename} line {frames[-1].lineno})" if frames else text


def _without(text: str, credentials: Credentials) -> str:
    """A text without what the client has shown, which others' errors like to quote."""
    upgrade = credentials.upgrade
    fields = [credentials.authorization, *((upgrade.authorization, upgrade.cookie, upgrade.ticket) if upgrade else ())]
    secrets = [credentials.passcode or "", *fields, *[word for field in fields for word in field.split()]]
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _LEAST_SECRET:
            text = text.replace(secret, "(hidden)")
    return text
