"""The archiver: the journals of all gateways of a folder, into one archive.

`gateway_archiver` archives the segments of one gateway, each row once.  A journal that cannot be used, because it
belongs to another user, is reported once and tried again with each step; the others are archived.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from gateway.journal.segments import OPEN, found, reason_of

from . import layout
from .config import ArchivedFile, ArchiverOptions
from .errors import ArchiveError, UnusableError
from .gateway_archiver import GatewayArchiver, unusable

_MIB = 1024 * 1024


class Archiver:
    """Archives the journals of all gateways of a folder.

    Args:
        journal: the folder, with one in it for each gateway.
        archive: made if it is missing.
        roll, max_bytes, tell, warn, stopping: see `ArchiverOptions`.
        at, clock: for tests.

    Raises:
        ArchiveError: another archiver is at work, or the journal or the archive cannot be used.
    """

    def __init__(
        self,
        journal: Path,
        archive: Path,
        *,
        roll: float = 60.0,
        max_bytes: int = 64 * _MIB,
        tell: Callable[[ArchivedFile], None] = lambda _: None,
        warn: Callable[[str], None] = lambda _: None,
        stopping: Callable[[], bool] = lambda: False,
        at: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._journal = journal
        self._archive = archive
        self._options = ArchiverOptions(roll, max_bytes, tell, warn, stopping, at, clock)
        self._gateways: dict[str, GatewayArchiver] = {}
        self._said: set[str] = set()
        try:
            for folder in self._folders():
                with contextlib.suppress(UnusableError):  # the first step reports it
                    self._take(folder)
        except ArchiveError:
            self.close()
            raise

    def step(self, *, everything: bool = False) -> bool:
        """Archive the due segments; True if nothing failed.  The next step tries again what failed.

        Args:
            everything: all complete segments are due, however young.
        """
        good = self._find()
        for gateway in self._gateways.values():
            if self._options.stopping():
                break
            good = gateway.step(everything) and good
        return good

    def close(self) -> None:
        """Release the locks."""
        for gateway in self._gateways.values():
            gateway.close()
        self._gateways.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _find(self) -> bool:
        """Take new gateways; True if that succeeded."""
        sentences: list[str] = []
        try:
            for folder in self._folders():
                try:
                    self._take(folder)
                except ArchiveError as error:
                    sentences.append(str(error))
        except ArchiveError as error:
            sentences.append(str(error))
        for sentence in sentences:
            if sentence not in self._said:
                self._options.warn(sentence)
        self._said = set(sentences)
        return not sentences

    def _take(self, folder: Path) -> None:
        """Take a gateway that is not known yet.

        `UnusableError`: its journal cannot be used.  `ArchiveError`: another archiver has it, or the archive cannot be
        used.
        """
        try:
            is_new = folder.name not in self._gateways and _is_journal(folder)
        except OSError as error:
            raise UnusableError(unusable(folder, reason_of(error))) from error
        if is_new:
            self._gateways[folder.name] = GatewayArchiver(folder, self._archive, self._options)

    def _folders(self) -> list[Path]:
        """Folders that may belong to gateways."""
        try:
            folders = sorted([each for each in self._journal.iterdir() if each.is_dir()])
        except OSError as error:
            raise ArchiveError(f"the journal {self._journal} cannot be read: {reason_of(error)}") from error
        return [each for each in folders if layout.is_gateway(each.name)]


def _is_journal(folder: Path) -> bool:
    """True if a gateway has written there.  `OSError`: the folder cannot be read."""
    return "lock" in os.listdir(folder) or bool(found(folder) or found(folder, OPEN))
