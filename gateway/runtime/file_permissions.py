"""Files with secrets that other users of the machine could read or change: what an operator should know of them.

users_file     hashes of passcodes: whoever reads them can guess at leisure, whoever writes comes in
jwt_keys       a secret signs tokens; a public key may be read by all, but who writes it signs them
cookie_keys    whoever reads them makes cookies
tls_key        whoever reads it can be the server; where it is not set, tls_certificate has the key

A file counts as within reach only where all folders above it let others through.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from gateway.config.settings import Settings

_FILES = ("users_file", "jwt_keys", "cookie_keys", "tls_key")


def warnings(settings: Settings) -> Iterator[str]:
    """A sentence for each file that others can read or write."""
    for name in _FILES:
        path = getattr(settings, name)
        if name == "tls_key" and path is None:
            name, path = "tls_certificate", settings.tls_certificate
        found = _open_to_others(name, path) if path is not None else ""
        if found:
            yield f"{name}: every user of this machine can {found} {path}: end that by `chmod o-rwx {path}`"


def _open_to_others(setting: str, path: Path) -> str:
    """What others can do with it: `read`, `write` or both; empty: nothing."""
    try:
        mode = path.stat().st_mode
        if not all(folder.stat().st_mode & stat.S_IXOTH for folder in path.resolve().parents):
            return ""
    except OSError:  # whoever reads the file says what is wrong
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
        return True  # and said elsewhere
