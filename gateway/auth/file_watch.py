"""Watched files, which are read again when they change: users, keys of tokens, secrets of cookies.

Each login looks whether its file changed, which costs one `stat`.  A damaged file changes nothing: the last good
contents stay in force, and the log says so once for each change.
"""

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

import structlog
import trio

from gateway.config.settings import SettingsError, wrong
from gateway.files import FileFault

log = structlog.get_logger("gateway.auth")

T = TypeVar("T")
Stamp = tuple[int, int, int]


class WatchedFile(Generic[T]):
    """A file and its contents; raises SettingsError, with the name of the setting, if it cannot be used."""

    def __init__(self, setting: str, path: Path, read: Callable[[Path], T]) -> None:
        self._setting = setting
        self._path = path
        self._read = read  # also in a worker thread
        # Worker threads and the loop (on SIGHUP) may read at once.  The reading that began last wins, whichever ends
        # last: else a slow reading of the file before would bring a removed user back.
        self._lock = Lock()
        self._begun = 0  # number of the last reading that began
        self._taken = 0  # number of the reading that `value` comes from
        self._stamp: Stamp | None = self._look()
        try:
            self.value = read(path)  # the last good contents
        except FileFault as error:
            raise SettingsError(wrong(setting, error)) from None

    @property
    def is_current(self) -> bool:
        """True if the file has not changed since the last reading began."""
        return self._look() == self._stamp

    def refresh(self) -> T:
        """The contents now.  Reads a changed file, so it must not be called on the loop."""
        if not self.is_current:
            self.reload()
        return self.value

    async def fresh(self) -> T:
        """The contents now, read in a worker thread."""
        return self.value if self.is_current else await trio.to_thread.run_sync(self.refresh)

    def reload(self) -> str | None:
        """Read the file again.  Returns the fault as a sentence, or None; with a fault the contents stay."""
        with self._lock:  # a reading that looks later must not begin before
            self._begun = reading = self._begun + 1
            self._stamp = self._look()
        try:
            value = self._read(self._path)
        except FileFault as error:
            log.error(f"{self._setting} cannot be used, what it said before stays in force", reason=str(error))
            return wrong(self._setting, error)
        with self._lock:
            if reading > self._taken:
                self._taken, self.value = reading, value
        log.info(f"{self._setting} read again", file=str(self._path))
        return None

    def _look(self) -> Stamp | None:
        """Time, size and inode of the file; the inode shows a rename within one tick of the clock."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
