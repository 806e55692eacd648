"""Listeners: opened as the settings say, each with its handler of new connections.

setting         transport   before STOMP
tcp             tcp         PROXY header, if tcp_proxy_protocol
tcp_tls         tcp         PROXY header, then TLS
websocket       websocket   PROXY header, if websocket_proxy_protocol; then the HTTP upgrade
websocket_tls   websocket   PROXY header, then TLS, then the HTTP upgrade

Settings that leave a listener or a key too open have warnings.  Secret files that other users of the machine could read
or change, if they may pass all folders above:

users_file     a reader of its hashes can guess passcodes, a writer can add users
jwt_keys       a secret key signs tokens; a public key may be read by all, but a writer can replace it
cookie_keys    a reader can make cookies
tls_key        a reader can pose as the server; without this setting, tls_certificate has the key
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.config.errors import StartError, unusable, wrong
from gateway.config.settings import Settings
from gateway.config.values import Address
from gateway.process import systemd
from gateway.transports import (
    AddressError,
    ConnectionHandler,
    Listening,
    Server,
    Trusted,
    close,
    inherit_listeners,
    open_listeners,
)

if TYPE_CHECKING:
    from gateway.transports.wire.certificates import TlsCertificates

_TLS = ("tcp_tls", "websocket_tls")
KINDS = ("tcp", "websocket", *_TLS)


def addresses_of(settings: Settings) -> Iterator[tuple[str, list[str]]]:
    """Settings of STOMP listeners with their addresses; those of TLS only if they have addresses."""
    for kind in KINDS:
        texts = getattr(settings, kind)
        if texts or kind not in _TLS:
            yield kind, texts


def read_certificates(settings: Settings) -> TlsCertificates | None:
    """The certificates of the TLS listeners; None: there are no such listeners.

    Raises StartError: the setting of a file is missing, or the file cannot be used.
    """
    kinds = [kind for kind in _TLS if getattr(settings, kind)]
    if settings.tls_client_certificates == "required" and settings.tls_client_ca is None:
        raise StartError(wrong("tls_client_certificates", "it is required, and tls_client_ca names no authorities"))
    if not kinds:
        return None
    from gateway.transports.wire.certificates import CertificateError, CertificateFiles, TlsCertificates

    if settings.tls_certificate is None:
        raise StartError(wrong(kinds[0], "it needs a certificate and its key: set tls_certificate and tls_key"))
    files = CertificateFiles(
        settings.tls_certificate,
        settings.tls_key,
        settings.tls_client_ca,
        settings.tls_client_certificates == "required",
        settings.tls_min_version,
    )
    try:
        return TlsCertificates(files)
    except CertificateError as error:
        raise StartError(unusable(error.setting, error)) from None


def handler_of(
    kind: str, server: Server, settings: Settings, certificates: TlsCertificates | None, trusted: Trusted
) -> ConnectionHandler:
    """The handler of new connections of a kind of listener."""
    transport = kind.removesuffix("_tls")
    return ConnectionHandler(
        server,
        transport,
        certificates if kind in _TLS else None,
        proxied=bool(getattr(settings, f"{transport}_proxy_protocol")),
        trusted=trusted,
    )


def warnings(settings: Settings, certificates: TlsCertificates | None) -> Iterator[str]:
    """Warnings on listeners and keys, a sentence each: the problem, a colon, the remedy."""
    expired = certificates.warning() if certificates is not None else None
    if expired:
        yield expired
    # A trusted proxy in front may do TLS; without one these addresses are the public ones.
    open_ones = [str(each) for each in map(Address.parse, [*settings.tcp, *settings.websocket]) if not each.is_loopback]
    if open_ones and not settings.trusted_proxies:
        yield (
            f"{', '.join(open_ones)} can be reached from other machines without TLS, so passcodes and messages can be "
            "read on the way: use tcp_tls and websocket_tls, or a proxy with TLS (trusted_proxies)"
        )
    if settings.trusted_proxies and settings.anonymous:
        yield (
            "trusted_proxies is set and no authenticator is, so every client that comes through a proxy is let in, "
            "under any name: set users_file (GATEWAY_USERS_FILE), or another authenticator"
        )
    if not (settings.anonymous or settings.admin_token or settings.admin_groups):
        yield (
            "clients must log in, but every program on this machine may use the admin API without a login"
            ": set admin_token (GATEWAY_ADMIN_TOKEN), or admin_groups"
        )
    if not settings.rule and (reached := _for_pages_elsewhere(settings)):
        yield (
            f"pages can reach {', '.join(reached)} from other machines, and there are no rules, so every client may "
            "do everything: write [[rule]] tables, and the gateway refuses all that they do not allow"
        )
    yield from settings.cluster_warnings([*settings.tcp, *settings.websocket])
    yield from warnings_of_files(settings)
    yield from settings.old_names
    for transport in ("tcp", "websocket"):
        if getattr(settings, f"{transport}_proxy_protocol") and not settings.trusted_proxies:
            yield (
                f"{transport}_proxy_protocol is on and trusted_proxies is empty, so no client can connect there: "
                "name the proxy there, or turn it off"
            )


def _for_pages_elsewhere(settings: Settings) -> list[str]:
    """The WebSocket addresses that browsers on other machines can reach, directly or through a proxy."""
    every = list(map(Address.parse, [*settings.websocket, *settings.websocket_tls]))
    return [str(each) for each in every if settings.trusted_proxies or not each.is_loopback]


async def open_all(setting: str, texts: list[str]) -> Listening:
    """Open the addresses of one setting; if one fails, close the others."""
    all_of_them = Listening([], [])
    for text in texts:
        address = Address.parse(text)
        try:
            if address.name:
                listening = _inherit(address.name)
            else:
                listening = await open_listeners(address.host, address.port, address.path)
        except AddressError as error:
            await close(all_of_them)
            variable = f"GATEWAY_{setting.upper()}"
            raise StartError(f"cannot listen on {error}; change the setting {setting} ({variable})") from None
        all_of_them.listeners.extend(listening.listeners)
        all_of_them.addresses.extend(listening.addresses)
        all_of_them.inherited.extend(listening.inherited)
    return all_of_them


def _inherit(name: str) -> Listening:
    sockets = systemd.inherited()
    taken = sockets.take(name)
    if not taken:
        raise AddressError(f"systemd:{name}: {_why_none(name, sockets.names)}")
    return inherit_listeners(f"systemd:{name}", taken)


def _why_none(name: str, names: list[str]) -> str:
    if name in names:
        return "another setting uses that socket"
    if names:
        return f"systemd passed {', '.join(names)}; FileDescriptorName= of the .socket unit must be {name}"
    return (
        "systemd passed no sockets; enable its .socket units, and where hypercorn is started, give it --config "
        "python:gateway.cli.sockets.options"
    )


_FILES = ("users_file", "jwt_keys", "cookie_keys", "tls_key")


def warnings_of_files(settings: Settings) -> Iterator[str]:
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
