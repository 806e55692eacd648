"""Files of secrets: how they are read, and what is wrong with one that cannot be used."""

from __future__ import annotations

from pathlib import Path


class FileFault(Exception):
    """A file cannot be used; `str()` is one sentence that names the file."""


def read_octets(path: Path, most: int, what: str) -> bytes:
    """All of a file.

    Args:
        most: octets; a wrong path (a log, a device) is not read to its end.
        what: it should be, with its article.

    Raises:
        FileFault: it cannot be read, or is larger.
    """
    try:
        with path.open("rb") as file:
            octets = file.read(most + 1)
    except OSError as error:
        raise FileFault(f"{path} cannot be read: {error.strerror}") from None
    if len(octets) > most:
        raise FileFault(f"{path} is larger than {most} octets and so hardly {what}")
    return octets


def read_text(path: Path, most: int, what: str) -> str:
    """The same, of a text.

    Raises:
        FileFault: likewise, or it is no text.
    """
    try:
        return read_octets(path, most, what).decode()
    except UnicodeDecodeError:
        raise FileFault(f"{path} is not UTF-8 text") from None
