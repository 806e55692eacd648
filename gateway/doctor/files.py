"""The files and folders that the settings name: may the gateway use them, and is there room on their disks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from gateway.config.settings import Settings
from gateway.stores import StoreError, preflight
from gateway.stores.disk_space import RESERVE

from .finding import Finding, Trouble, fail, ok, warn
from .rights import ENTER, READ, WRITE, User, refuse_to

_READ = ("users_file", "jwt_keys", "cookie_keys", "tls_certificate", "tls_key", "tls_client_ca")
_FOLDERS = ("journal", "archive", "tables")
_FULL = 0.1  # of a disk that should be free


def examine(settings: Settings, user: User) -> Iterator[Finding]:
    """Each of them."""
    for name in _READ:
        path = getattr(settings, name)
        if path is not None:
            yield _usable(name, path, user, READ)
    yield from _store(settings, user)
    for name in _FOLDERS:
        path = getattr(settings, name)
        if path is not None:
            yield _usable(name, _existing(path), user, READ | WRITE | ENTER)
            yield _room(name, _existing(path))


def store_path(settings: Settings) -> Path | None:
    """The store's file; None: there is none."""
    kind, _, name = settings.store.partition(":")
    return Path(name).absolute() if kind == "sqlite" else None


def _existing(path: Path) -> Path:
    """A folder, or where it would be made."""
    path = path.absolute()
    return path if path.exists() or not path.parent.exists() else path.parent


def _usable(name: str, path: Path, user: User, rights: int) -> Finding:
    try:
        refuse_to(user, path, rights)
    except Trouble as trouble:
        return trouble.finding(name)
    return ok(name, f"{path}, usable by {user.name}")


def _store(settings: Settings, user: User) -> Iterator[Finding]:
    path = store_path(settings)
    if path is None:
        yield ok("store", "memory: messages end with the process")
        return
    try:
        refuse_to(user, path.parent, READ | WRITE | ENTER)
        for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            if each.exists():
                refuse_to(user, each, READ | WRITE)
        preflight.look(settings.store)
    except Trouble as trouble:
        yield trouble.finding("store")
        return
    except StoreError as error:
        yield fail("store", str(error), "See docs/durability.md; `gateway store check` reads all of it")
        return
    yield ok("store", f"{path}, usable by {user.name}")
    yield _room("store", path.parent)


def _room(name: str, folder: Path) -> Finding:
    """How much is free on its disk."""
    what = f"{name} room"
    try:
        disk = os.statvfs(folder)
    except OSError as error:
        return warn(what, f"the disk of {folder} does not say: {(error.strerror or '').lower()}", "Run it as root")
    free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    detail = f"{free >> 20} MiB of {size >> 20} MiB are free on the disk of {folder}"
    if free < min(RESERVE, size // 4):
        remedy = f"Free {RESERVE >> 20} MiB at least, or put {name} on another disk: below that messages are refused"
        return fail(what, detail, remedy)
    if free < size * _FULL:
        return warn(what, detail, f"Free some, or put {name} on another disk, before messages are refused")
    return ok(what, detail)
