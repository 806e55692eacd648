"""Authenticators as operators write them: good ones and bad ones."""

from __future__ import annotations

import trio

from gateway.auth import Credentials, Identity, LoginRefused

word = "no function"


async def waiting(credentials: Credentials) -> Identity | str | None:
    await trio.lowlevel.checkpoint()
    return plain(credentials)


def plain(credentials: Credentials) -> Identity | str | None:
    if credentials.passcode == "identity":
        return Identity("alice", frozenset({"ops"}), 5e9, "ldap")
    return "alice" if credentials.passcode == "name" else None


class Callable:
    async def __call__(self, credentials: Credentials) -> str:
        return "object"


asked = Callable()


def lazy(credentials: Credentials) -> object:
    """A plain function that returns a coroutine."""
    return waiting(credentials)


def raising(credentials: Credentials) -> None:
    upgrade = credentials.upgrade
    shown = [credentials.passcode, credentials.authorization]
    raise RuntimeError(
        f"cannot ask about {shown} {upgrade and (upgrade.authorization, upgrade.cookie, upgrade.ticket)}"
    )


async def refusing(credentials: Credentials) -> None:
    raise LoginRefused("the account is closed", is_guess=False)


def of_two(credentials: Credentials, other: str) -> None:
    """Has a parameter too many."""
