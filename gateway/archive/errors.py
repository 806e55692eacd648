"""What the archive says when it cannot do what it is asked for."""

from __future__ import annotations


class ArchiveError(Exception):
    """It cannot be done, and trying again would not help; `str()` is one sentence that names the file or folder."""


class BusyError(ArchiveError):
    """Another process is at it."""


class UnusableError(ArchiveError):
    """The journal of one gateway cannot be used; those of others can."""
