"""Users of a file: `login` and `passcode` against argon2 hashes.

Verification is made to be slow, so it runs in threads that give way to all else (`threads`), at most two at a
time: a storm of CONNECT frames then waits in line, and routing goes on.  The whole check runs there, the look
at the file too.  In that line each address has a few places only (`turns`), and whoever has failed too often
meanwhile leaves it unheard.

What was verified once is remembered by a keyed digest (the key lives and dies with this process), so that a
client that comes back, or the thousand pages of one login, cost one verification and not a thousand.  The
digest covers the stored hash: a changed passcode is never accepted from memory.

Whoever was let in stays known by the hash that let him in.  When the file has been read again, his session can be asked
whether that is still his (`review`): it ends when he is gone, or has another passcode, and gets the groups that he has
now.

An unknown user is verified against somebody else's hash, and the result thrown away: how long the answer
takes does not tell which users exist.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from functools import partial
from pathlib import Path

from gateway.auth import passwords
from gateway.auth.basic import login_of
from gateway.auth.failures import Failures
from gateway.auth.passwords import User
from gateway.auth.threads import SlowThreads
from gateway.auth.turns import Turns
from gateway.auth.watched import Watched
from gateway.broker.errors import SessionEnded
from gateway.broker.model.identity import Credentials, Identity

THREADS = 2
"""Verifications at a time: each takes a core for some 22 ms, and 19 MiB."""

MAX_REMEMBERED = 10_000
"""Logins remembered as verified; at some 150 octets each.  All are forgotten when there are more."""

_NOBODY = User("")


class UsersFile:
    """Authenticates against a users file.

    Args:
        failures: of addresses; None: nobody counts them.

    Raises:
        SettingsError: the file cannot be used; the sentence names the setting and the line.
    """

    def __init__(self, path: Path, failures: Failures | None = None) -> None:
        self._users: dict[str, User] = {}
        self.file = Watched("users_file", path, self._read)
        self._turns = Turns(failures)
        self._threads = SlowThreads(THREADS)
        self._key = os.urandom(32)
        self._verified: set[bytes] = set()

    def knows(self, login: str | None) -> bool:
        """Whether that is the name of a user, as the file was when it was last looked at."""
        return bool(login) and login in self.file.value

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        """The user, or None when the credentials are refused.

        Raises:
            TooManyFailures: the address, or the login there, has failed too often.
        """
        self._turns.check(credentials.address, login_of(credentials))
        login, passcode = credentials.login, credentials.passcode
        if login is None or passcode is None or passwords.is_too_long(login) or passwords.is_too_long(passcode):
            return None
        # Who logged in before shall not stand in line behind a flood of wrong passcodes: this costs microseconds.
        user = self.file.value.get(login, _NOBODY)
        if self.file.is_current and self._digest(login, user.hashed, passcode) in self._verified:
            return self._identity(login, user)
        async with self._turns.of(credentials.address, login):
            found = await self._threads.run(self._check, login, passcode)
        return None if found is None else self._identity(login, found)

    def _identity(self, login: str, user: User) -> Identity:
        return Identity(login, user.groups, review=partial(self.review, user.hashed))

    def review(self, hashed: str, identity: Identity) -> Identity:
        """The same user as the file knows him now.

        Args:
            hashed: what let him in.

        Raises:
            SessionEnded: the file has no such user any more, or another hash of his.
        """
        user = self.file.value.get(identity.user)
        if user is None:
            raise SessionEnded(
                "user removed",
                f"users_file of this server has no user {identity.user[:80]!r} any more; ask its operator",
            )
        if user.hashed != hashed:
            raise SessionEnded(
                "passcode changed",
                f"{identity.user[:80]!r} was let in by a passcode that has been changed since; log in with the new one",
            )
        return identity if identity.groups == user.groups else replace(identity, groups=user.groups)

    def _read(self, path: Path) -> dict[str, User]:
        self._users = users = passwords.read_users(path, self._users)
        return users

    def _check(self, login: str, passcode: str) -> User | None:
        """In a worker thread.  Two may run at once: each assignment is one step, so the worst is work done twice."""
        users = self.file.refresh()
        if not users:
            return None
        user = users.get(login)
        digest = self._digest(login, "" if user is None else user.hashed, passcode)
        if digest in self._verified:
            return user
        right = passwords.verify((user or next(iter(users.values()))).hashed, passcode)
        if user is None or not right:
            return None
        if len(self._verified) >= MAX_REMEMBERED:
            self._verified = set()
        self._verified.add(digest)
        return user

    def _digest(self, *parts: str) -> bytes:
        digest = hashlib.blake2b(key=self._key, digest_size=32)
        for part in parts:
            octets = passwords.octets_of(part)
            digest.update(len(octets).to_bytes(4) + octets)  # lengths, or ("a", "bc") would equal ("ab", "c")
        return digest.digest()
