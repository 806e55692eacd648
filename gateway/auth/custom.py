"""The operator's own authenticator: a Python function, which the setting `authenticator` names.

    from gateway.auth import Credentials, Identity

    async def authenticate(credentials: Credentials) -> Identity | str | None:
        ...

A plain function runs in a worker thread, a few at a time; an `async` one on the loop, where it must not block.  Either
may take as long as `connect_timeout` lets it.  What it is asked may be guesses, so of one address it is asked a few
at once (`turns`).  What it raises refuses, and is logged without what the client has shown.
"""

from __future__ import annotations

import base64
import importlib
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import structlog
import trio

from gateway.auth.basic import login_of
from gateway.auth.claims import user_of
from gateway.auth.failures import Failures
from gateway.auth.turns import Turns
from gateway.broker.core.ports import ANONYMOUS
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Credentials, Identity
from gateway.config.settings import SettingsError, wrong

THREADS = 8
"""Calls of a plain function at a time: most of them wait for somebody's answer."""

_LEAST_SECRET = 4
"""Characters; what is shorter is not looked for in an error, or it would be blotted out of every word."""

_BETWEEN = re.compile(r"""[\s;,"]+""")

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
    """Asks the operator's function.

    Args:
        failures: of addresses; None: nobody counts them.
    """

    def __init__(self, call: Callable[[Credentials], Any], failures: Failures | None = None) -> None:
        self._call = call
        self._turns = Turns(failures, THREADS)
        # An object may be called, too.
        self._is_async = any(map(inspect.iscoroutinefunction, (call, getattr(call, "__call__", None))))  # noqa: B004
        self._limiter = trio.CapacityLimiter(THREADS)

    async def identify(self, credentials: Credentials) -> Identity | None:
        """Who it is, or None when the credentials are refused.

        Raises:
            LoginRefused: likewise, on the word of the function, or as the address has failed too often.
        """
        try:
            async with self._turns.of(credentials.address, login_of(credentials)):
                found = await self._answer(credentials)
        except LoginRefused:
            raise
        except Exception as error:  # noqa: BLE001 - the operator's code, which may quote secrets
            log.error("the authenticator failed, so the login is refused", reason=_without(_shown(error), credentials))
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
    """What the function says, in the form that the broker relies on: some write a list of groups, or their names.

    Raises:
        ValueError: it cannot be used; `str()` names what it is.
    """
    if not isinstance(found, Identity):
        raise ValueError(f"a {type(found).__name__}")
    # Of nobody's name it may make as much use as it likes: guests, whom it knows no better.
    if not isinstance(found.user, str) or (found.user != ANONYMOUS and user_of(found.user) is None):
        raise ValueError("no user's name")
    if isinstance(found.groups, str) or not isinstance(found.groups, Collection):
        raise ValueError(f"groups that are a {type(found.groups).__name__}, and should be a set of names")
    if not all(isinstance(group, str) for group in found.groups):
        raise ValueError("groups that are no names")
    if isinstance(found.expires, bool) or not isinstance(found.expires, (int, float)):
        raise ValueError(f"expires that is a {type(found.expires).__name__}, and should be seconds since the epoch")
    return replace(found, groups=frozenset(found.groups))


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
    secrets = [credentials.passcode or "", *fields, *_parts(fields)]
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _LEAST_SECRET:
            text = text.replace(secret, "(hidden)")
    return text


def _parts(fields: Iterable[str]) -> Iterator[str]:
    """What somebody may have taken out of a field: a token, the value of a cookie, the passcode that Basic hides."""
    for field in fields:
        for word in _BETWEEN.split(field):
            yield word
            with suppress(ValueError):
                yield from base64.b64decode(word, validate=True).decode().split(":", 1)[1:]
        for pair in field.split(";"):
            yield pair.partition("=")[2].strip()
