"""Errors of the archive."""

from __future__ import annotations


class ArchiveError(Exception):
    """Archive or journal cannot be used; `str()` is one sentence that names the file or folder."""


class BusyError(ArchiveError):
    """Another process is at work."""


class UnusableError(ArchiveError):
    """The journal of one gateway cannot be used; those of others can."""
