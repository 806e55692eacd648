"""The archiver: the journals of all gateways of a folder, into one archive.

A journal that cannot be used, because it belongs to another user, is reported once and tried again with each step.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Self

from gateway.journal.segments import OPEN, found, reason_of

from . import layout
from .errors import ArchiveError, UnusableError
from .gateway_archiver import ArchiverOptions, GatewayArchiver, unusable


class Archiver:
    """Archives the journals of all gateways of a folder.

    `journal` has a folder for each gateway; `archive` is made if it is missing; for the options see `ArchiverOptions`.
    `ArchiveError`: another archiver is at work, or the journal or the archive cannot be used.
    """

    def __init__(
        self,
        journal: Path,
        archive: Path,
        options: ArchiverOptions | None = None,
    ) -> None:
        self._journal = journal
        self._archive = archive
        self._options = options or ArchiverOptions()
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
        """Archive the due segments, or `everything` that is complete; False: something failed."""
        good = self._find()
        for gateway in self._gateways.values():
            if self._options.stopping():
                break
            good = gateway.step(everything) and good
        return good

    def close(self) -> None:
        for gateway in self._gateways.values():
            gateway.close()
        self._gateways.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
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
        """Take a gateway that is not known yet; raises like `GatewayArchiver`."""
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
