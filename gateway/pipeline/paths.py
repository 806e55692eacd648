"""Paths of the archive and the tables: from the command line, or else from the settings.

The archive may be a Hadoop URI that only Spark can read (`hdfs://...`, `s3a://...`); a command that needs its files
calls `folder`.  The settings are read only if an option is missing.
"""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gateway.files import lock, make_folder, make_private

from .errors import EnvironmentFailure, PipelineFailure, UsageFailure

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def archive(option: str | None) -> str:
    """The archive: an absolute path, or a URI.  `UsageFailure`: neither the option nor the settings name it."""
    told = option or _required("archive")
    return told if is_uri(told) else str(folder("--archive", told))


def tables(option: str | None) -> Path:
    """The folder of the tables.  `UsageFailure`: neither the option nor the settings name it."""
    return folder("--tables", option or _required("tables"))


def is_uri(place: str) -> bool:
    """True if only Spark can read the place; `file:` is on this machine."""
    found = _URI.match(place)
    return found is not None and found[1].lower() != "file"


def folder(option: str, place: str) -> Path:
    """The folder that an option names, absolute.  `UsageFailure`: the option names a URI, or a file."""
    if is_uri(place):
        raise UsageFailure(f"{option} {place} is not on this machine: this command needs a local folder")
    path = Path(os.path.abspath(re.sub("^file:(//(?=/))?", "", place, flags=re.IGNORECASE)))
    if path.exists() and not path.is_dir():
        raise UsageFailure(f"{option} {path} is not a folder")
    return path


def existing(option: str, place: str, maker: str) -> str:
    """The place itself, if it exists as far as this machine can see.  `UsageFailure`: it does not; `maker` makes it."""
    if not is_uri(place) and not Path(place).is_dir():
        raise UsageFailure(f"{option} {place} does not exist; {maker} makes it")
    return place


def make(option: str, path: Path) -> Path:
    """The folder, which is made for its owner alone.  `EnvironmentFailure`: it cannot be made or written."""
    try:
        make_private(path)
    except OSError as error:
        raise EnvironmentFailure(f"{option} {path} cannot be made: {error.strerror}") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise EnvironmentFailure(f"{option} {path} cannot be written")
    return path


def writable(option: str, folder: Path) -> None:
    """Check that files can be made in a folder.  `EnvironmentFailure`: they cannot."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except FileNotFoundError:
        sentence = f"{option}: the folder {folder} does not exist: make it, or name another one"
        if folder.is_dir():  # /proc says so: no files can be made there
            sentence = f"{option}: nothing can be written in {folder}: name another folder"
        raise EnvironmentFailure(sentence) from None
    except OSError as error:
        raise EnvironmentFailure(f"{option}: nothing can be written in {folder}: {error.strerror}") from None


@contextlib.contextmanager
def locked(path: Path, busy: PipelineFailure) -> Iterator[None]:
    """A block with a lock.  `busy`: another process has it.  `EnvironmentFailure`: the file cannot be locked."""
    try:
        make_folder(path.parent)
        descriptor = lock(path)
    except BlockingIOError:
        raise busy from None
    except OSError as error:
        raise EnvironmentFailure(f"{path} cannot be locked: {error.strerror}") from error
    try:
        yield
    finally:
        os.close(descriptor)


def setting(name: str) -> str | None:
    """The setting of a path; None: it is not set.  `UsageFailure`: the settings are wrong."""
    from gateway.config.settings import SettingsError, load

    try:
        told: Path | None = getattr(load(), name)
    except SettingsError as error:
        raise UsageFailure(str(error)) from None
    return None if told is None else str(told)


def _required(name: str) -> str:
    told = setting(name)
    if told is None:
        from gateway.config.toml_file import config_file

        place = f"{config_file()} or GATEWAY_{name.upper()}"
        raise UsageFailure(f"--{name} is missing: give it, or set {name} in {place}")
    return told
