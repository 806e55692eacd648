"""File permissions: warnings on secret files that other users of the machine could read or change.

users_file     a reader of its hashes can guess passcodes, a writer can add users
jwt_keys       a secret key signs tokens; a public key may be read by all, but a writer can replace it
cookie_keys    a reader can make cookies
tls_key        a reader can pose as the server; without this setting, tls_certificate has the key

A file counts only if other users may pass all folders above it.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from gateway.config.settings import Settings

_FILES = ("users_file", "jwt_keys", "cookie_keys", "tls_key")


def warnings(settings: Settings) -> Iterator[str]:
    """A sentence for each file that other users can read or write."""
    for name in _FILES:
        path = getattr(settings, name)
        if name == "tls_key" and path is None:
            name, path = "tls_certificate", settings.tls_certificate
        found = _open_to_others(name, path) if path is not None else ""
        if found:
            yield f"{name}: every user of this machine can {found} {path}: run `chmod o-rwx {path}`"


def _open_to_others(setting: str, path: Path) -> str:
    """Access of other users: `read`, `write` or both; empty: none."""
    try:
        mode = path.stat().st_mode
        if not all(folder.stat().st_mode & stat.S_IXOTH for folder in path.resolve().parents):
            return ""
    except OSError:  # reading the setting reports it
        return ""
    found = ["read"] if mode & stat.S_IROTH and not _may_be_read(setting, path) else []
    if mode & stat.S_IWOTH:
        found.append("write")
    return " and ".join(found)


def _may_be_read(setting: str, path: Path) -> bool:
    if setting != "jwt_keys":
        return False
    from gateway.auth.keys import read_keys
    from gateway.files import FileFault

    try:
        return not any(isinstance(each.key, bytes) for each in read_keys(path))
    except FileFault:
        return True  # reported elsewhere
