"""Where the archive and the tables are: what the command line says, else what the settings say.

The archive may be a Hadoop URI, which Spark alone can read (`hdfs://...`, `s3a://...`); whoever needs its files asks
for a folder (`folder`).  The settings are read only when an option is missing.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from gateway.files import make_private

from .errors import EnvironmentFailure, UsageFailure

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def archive(option: str | None) -> str:
    """The archive: an absolute path, or a URI.

    Raises:
        UsageFailure: it is not known.
    """
    told = option or _setting("archive")
    return told if is_uri(told) else str(folder("--archive", told))


def tables(option: str | None) -> Path:
    """The folder of the tables.

    Raises:
        UsageFailure: it is not known.
    """
    return folder("--tables", option or _setting("tables"))


def is_uri(place: str) -> bool:
    """Whether it is somewhere that only Spark can read; `file:` is here."""
    found = _URI.match(place)
    return found is not None and found[1].lower() != "file"


def folder(option: str, place: str) -> Path:
    """The folder that an option names, absolute.

    Raises:
        UsageFailure: it names a URI, or a file.
    """
    if is_uri(place):
        raise UsageFailure(f"{option} {place} is not on this machine, and this command needs a folder that is")
    path = Path(os.path.abspath(re.sub("^file:(//(?=/))?", "", place, flags=re.IGNORECASE)))
    if path.exists() and not path.is_dir():
        raise UsageFailure(f"{option} {path} is not a folder")
    return path


def existing(option: str, place: str, whence: str) -> str:
    """The same place, which is there, as far as this machine can see.

    Args:
        whence: what makes such a folder.

    Raises:
        UsageFailure: there is no such folder.
    """
    if not is_uri(place) and not Path(place).is_dir():
        raise UsageFailure(f"{option} {place} does not exist; {whence} makes it")
    return place


def make(option: str, path: Path) -> Path:
    """The same folder, which is there now; one that had to be made is its owner's alone.

    Raises:
        EnvironmentFailure: it cannot be made, or nothing can be written there.
    """
    try:
        make_private(path)
    except OSError as error:
        raise EnvironmentFailure(f"{option} {path} cannot be made: {error.strerror}") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise EnvironmentFailure(f"{option} {path} cannot be written")
    return path


def writable(option: str, folder: Path) -> None:
    """See that files can be made in a folder, before the work for them is done.

    Raises:
        EnvironmentFailure: they cannot.
    """
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except FileNotFoundError:
        sentence = f"{option}: the folder {folder} does not exist: make it, or name another one"
        if folder.is_dir():  # what /proc says where nobody can make files
            sentence = f"{option}: nothing can be written in {folder}: name another folder"
        raise EnvironmentFailure(sentence) from None
    except OSError as error:
        raise EnvironmentFailure(f"{option}: nothing can be written in {folder}: {error.strerror}") from None


def settings(name: str) -> str | None:
    """What the settings say of a place; None: nothing.

    Raises:
        UsageFailure: the settings are wrong.
    """
    from gateway.config.settings import SettingsError, load

    try:
        told: Path | None = getattr(load(), name)
    except SettingsError as error:
        raise UsageFailure(str(error)) from None
    return None if told is None else str(told)


def _setting(name: str) -> str:
    told = settings(name)
    if told is None:
        raise UsageFailure(
            f"where is the {'folder of the ' if name == 'tables' else ''}{name}? "
            f"Give --{name}, or set {name} in gateway.toml or GATEWAY_{name.upper()}"
        )
    return told
