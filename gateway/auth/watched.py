"""A file that is read again when it changes: users, keys of tokens, secrets of cookies.

Whoever logs in looks whether it did, which costs one `stat`.  A file that is damaged by then changes nothing: what was
read last stays in force, and the log says so once for each change.

Several threads may read at once, and the loop as well, on SIGHUP.  Who begins later reads what is newer; so who began
before the one whose value is there has come too late, and changes nothing back: a user who is gone stays gone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

import structlog
import trio

from gateway.auth.files import FileFault
from gateway.config.settings import SettingsError, wrong

log = structlog.get_logger("gateway.auth")

T = TypeVar("T")
Stamp = tuple[int, int, int]


class Watched(Generic[T]):
    """What a file says.

    Attributes:
        value: of the last good reading.

    Args:
        setting: the one that names the file.
        read: may raise `FileFault`; called in a worker thread, too.

    Raises:
        SettingsError: the file cannot be used.
    """

    def __init__(self, setting: str, path: Path, read: Callable[[Path], T]) -> None:
        self._setting = setting
        self._path = path
        self._read = read
        self._lock = Lock()
        self._begun = 0  # readings
        self._taken = 0  # the one that `value` is of
        self._stamp: Stamp | None = self._look()
        try:
            self.value = read(path)
        except FileFault as error:
            raise SettingsError(wrong(setting, error)) from None

    @property
    def is_current(self) -> bool:
        """The file is as it was when it was last looked at."""
        return self._look() == self._stamp

    def refresh(self) -> T:
        """What it says now.  Reads, if it changed: not for the loop."""
        if not self.is_current:
            self.reload()
        return self.value

    async def fresh(self) -> T:
        """The same, for the loop."""
        return self.value if self.is_current else await trio.to_thread.run_sync(self.refresh)

    def reload(self) -> str | None:
        """Read it again; of several who do so at once the last to begin decides.

        Returns:
            What is wrong with it, as a sentence; what was read before stays in force then.
        """
        with self._lock:  # else who looks later might begin before
            self._begun = reading = self._begun + 1
            self._stamp = self._look()
        try:
            self._take(reading, self._read(self._path))
        except FileFault as error:
            log.error(f"{self._setting} cannot be used, what it said before stays in force", reason=str(error))
            return wrong(self._setting, error)
        log.info(f"{self._setting} read again", file=str(self._path))
        return None

    def _take(self, reading: int, value: T) -> None:
        with self._lock:
            if reading > self._taken:
                self._taken, self.value = reading, value

    def _look(self) -> Stamp | None:
        """What changes when the file does: time, size, and inode (a rename within one tick of the clock)."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
