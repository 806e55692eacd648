"""Users of a file: `login` and `passcode`, verified against argon2 hashes.

A verification is slow by design, so it runs in `SlowThreads`, two at a time.  A verified passcode is remembered by a
digest with a key of this process: the thousand pages of one login cost one verification.  The digest covers the stored
hash, so a changed passcode is never accepted from memory.

After the file is read again, `review` ends the session of a user that is removed or has another passcode, and gives the
others their groups of now.  An unknown user's passcode is verified against another user's hash and then refused: the
time of the answer must not tell which users exist.
"""

import hashlib
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import trio

from gateway.auth import passwords
from gateway.auth.claims import login_of
from gateway.auth.failed_logins import FailedLogins, LoginQueue
from gateway.auth.file_watch import WatchedFile
from gateway.auth.passwords import StoredUser
from gateway.broker.errors import SessionEnded
from gateway.broker.model.identity import Credentials, Identity

THREADS = 2  # verifications at a time: each takes a core for some 22 ms, and 19 MiB

MAX_REMEMBERED = 10_000
"""Verified logins that are remembered, at some 150 bytes each.  All are forgotten when there are more."""

NICENESS = 10  # of a slow thread, on top of the process's: a tenth of an equal's share where the cores are busy

_UNKNOWN = StoredUser("")

T = TypeVar("T")


class UsersFile:
    """The authenticator of a users file; raises SettingsError, which names the setting and the line."""

    def __init__(self, path: Path, failed: FailedLogins | None = None) -> None:
        self._users: dict[str, StoredUser] = {}
        self.file = WatchedFile("users_file", path, self._read)  # which keeps the users for the next reading
        self._queue = LoginQueue(failed or FailedLogins())
        self._threads = SlowThreads(THREADS)
        self._key = os.urandom(32)
        self._verified: set[bytes] = set()

    def knows(self, login: str | None) -> bool:
        """True if the file, when it was last read, had a user of that name."""
        return bool(login) and login in self.file.value

    async def authenticate(self, credentials: Credentials) -> Identity | None:
        """The user, or None when the credentials are refused; raises TooManyFailedLogins."""
        self._queue.check(credentials.address, login_of(credentials))
        login, passcode = credentials.login, credentials.passcode
        if login is None or passcode is None or passwords.is_too_long(login) or passwords.is_too_long(passcode):
            return None
        # A remembered login, which costs microseconds, does not queue behind a flood of wrong passcodes.
        user = self.file.value.get(login, _UNKNOWN)
        if self.file.is_current and self._digest(login, user.hashed, passcode) in self._verified:
            return self._identity(login, user)
        async with self._queue.place(credentials.address, login):
            found = await self._threads.run(self._check, login, passcode)
        return None if found is None else self._identity(login, found)

    def _identity(self, login: str, user: StoredUser) -> Identity:
        return Identity(login, user.groups, review=self.review, hashed=user.hashed)

    def review(self, identity: Identity) -> Identity:
        """The identity by the file as it is now; raises SessionEnded where user or hash have gone."""
        user = self.file.value.get(identity.user)
        if user is None:
            raise SessionEnded(
                "user removed",
                f"users_file of this server no longer has the user {identity.user[:80]!r}; ask its operator",
            )
        if user.hashed != identity.hashed:
            raise SessionEnded(
                "passcode changed", f"the passcode of {identity.user[:80]!r} has been changed; log in with the new one"
            )
        return identity if identity.groups == user.groups else replace(identity, groups=user.groups)

    def _read(self, path: Path) -> dict[str, StoredUser]:
        self._users = users = passwords.read_users(path, self._users)
        return users

    def _check(self, login: str, passcode: str) -> StoredUser | None:
        """Verify in a worker thread.  Two may run at once; each assignment is one step, so at worst both verify."""
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
            data = passwords.encoded(part)
            digest.update(len(data).to_bytes(4) + data)  # without lengths ("a", "bc") would equal ("ab", "c")
        return digest.digest()


class SlowThreads:
    """Threads for slow work, with a lower priority than all other threads of the machine.

    Two threads that verify passcodes leave the loop no core of two.  With a lower priority they are preempted at once
    (2 spinning threads on 2 cores: a waking thread waits 2 ms beside equals at the 99th percentile, 0.1 ms beside
    these). They are not trio's: the store's writer shares those, and an unprivileged thread cannot raise its priority
    again.
    """

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(count, "gateway-slow", _lower_priority)

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Call a function in one of the threads; a cancelled call leaves the queue, or its result is dropped."""
        token = trio.lowlevel.current_trio_token()
        done = trio.Event()

        def tell(_: Future[T]) -> None:
            with suppress(trio.RunFinishedError):  # the loop has ended meanwhile
                token.run_sync_soon(done.set)

        future = self._pool.submit(function, *arguments)
        future.add_done_callback(tell)
        try:
            await done.wait()
        finally:
            future.cancel()  # no effect if it is done
        return future.result()


def _lower_priority() -> None:
    # Elsewhere than on Linux this would change the priority of the process, or of another one.
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):  # a sandbox may not allow even this
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + NICENESS)
