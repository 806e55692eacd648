"""Users of a file: `login` and `passcode` against argon2 hashes.

Verification is made to be slow, so it runs in worker threads, at most two at a time: a storm of CONNECT
frames then waits in line, and routing goes on.  The whole check runs there, the look at the file too.

What was verified once is remembered by a keyed digest (the key lives and dies with this process), so that a
client that comes back, or the thousand pages of one login, cost one verification and not a thousand.  The
digest covers the stored hash: a changed passcode is never accepted from memory.

An unknown user is verified against somebody else's hash, and the result thrown away: how long the answer
takes does not tell which users exist.

The file is read again when it changes.  A file that is damaged by then changes nothing: the last good one
stays in force, and the log says so once.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import structlog
import trio

from gateway.auth import passwords
from gateway.broker.identity import Credentials, Identity
from gateway.settings import SettingsError, wrong

THREADS = 2
"""Verifications at a time: each takes a core for some 22 ms, and 19 MiB."""

MAX_REMEMBERED = 10_000
"""Logins remembered as verified; at some 150 octets each.  All are forgotten when there are more."""

log = structlog.get_logger()

Stamp = tuple[int, int, int]


class UsersFile:
    """Authenticates against a users file.

    Raises:
        SettingsError: the file cannot be used; the sentence names the setting and the line.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: Stamp | None = self._look()
        try:
            self._users = passwords.read_users(path)
        except passwords.UsersFileError as error:
            raise SettingsError(wrong("users_file", error)) from None
        self._limiter = trio.CapacityLimiter(THREADS)
        self._key = os.urandom(32)
        self._verified: set[bytes] = set()

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        """The user, or None when the credentials are refused."""
        login, passcode = credentials.login, credentials.passcode
        if login is None or passcode is None or passwords.is_too_long(login) or passwords.is_too_long(passcode):
            return None
        # Who logged in before shall not stand in line behind a flood of wrong passcodes: this costs microseconds.
        if self._look() == self._stamp and self._digest(login, self._users.get(login, ""), passcode) in self._verified:
            return Identity(login)
        # A client that hangs up, or whose connect timeout ends, does not wait for the thread; the thread
        # holds its place with the limiter until it is done all the same.
        allowed = await trio.to_thread.run_sync(
            self._check, login, passcode, limiter=self._limiter, abandon_on_cancel=True
        )
        return Identity(login) if allowed else None

    def _check(self, login: str, passcode: str) -> bool:
        """In a worker thread.  Two may run at once: each assignment is one step, so the worst is work done twice."""
        self._read_again_if_changed()
        users = self._users
        if not users:
            return False
        hashed = users.get(login)
        digest = self._digest(login, hashed or "", passcode)
        if digest in self._verified:
            return True
        right = passwords.verify(hashed or next(iter(users.values())), passcode)
        if hashed is None or not right:
            return False
        if len(self._verified) >= MAX_REMEMBERED:
            self._verified = set()
        self._verified.add(digest)
        return True

    def _digest(self, *parts: str) -> bytes:
        digest = hashlib.blake2b(key=self._key, digest_size=32)
        for part in parts:
            octets = passwords.octets_of(part)
            digest.update(len(octets).to_bytes(4) + octets)  # lengths, or ("a", "bc") would equal ("ab", "c")
        return digest.digest()

    def _read_again_if_changed(self) -> None:
        stamp = self._look()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._users = passwords.read_users(self._path)
        except passwords.UsersFileError as error:
            log.error("users file not usable, the last good one stays in force", reason=str(error))
        else:
            log.info("users file read again", users=len(self._users))

    def _look(self) -> Stamp | None:
        """What changes when the file does: time, size, and inode (a rename within one tick of the clock)."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
