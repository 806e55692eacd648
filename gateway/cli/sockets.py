"""Sockets of systemd under hypercorn's own command, which is told `--config python:gateway.cli.sockets.options`.

systemd passes its sockets to the process that it starts.  Of hypercorn that is a parent, which runs no application;
its worker is a child that gets what hypercorn's `Config` holds, and nothing else.  So these options, which the parent
reads, put the sockets into the `Config`: those of the setting `http` as `bind`, all others as they are.
multiprocessing carries them over, and `gateway.process.systemd` finds them there.

Settings that are wrong are no matter of this module: the worker says what is wrong with them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from gateway.config.address import Address
from gateway.process import systemd


class HypercornOptions:
    """What hypercorn reads: each attribute becomes one of its `Config`.

    Args:
        http: the setting.

    Attributes:
        bind: where HTTP is served, in hypercorn's words; without any, where hypercorn's own default is.
        gateway_sockets: of the STOMP listeners; only the gateway knows the name.
    """

    def __init__(self, http: list[str]) -> None:
        self.gateway_sockets = systemd.inherited()
        if http:
            self.bind = [bind for text in http for bind in _binds(Address.parse(text), self.gateway_sockets)]


def _binds(address: Address, sockets: systemd.Sockets) -> Iterator[str]:
    if not address.name:
        yield str(address)
        return
    taken = sockets.take(address.name)
    if not taken:
        # hypercorn would take its own default for it.
        sys.exit(f"gateway: cannot listen on {address}: systemd passed no socket of that name; change the setting http")
    for sock in taken:
        yield f"fd://{sock.detach()}"


def _http() -> list[str]:
    from gateway.config.settings import SettingsError, load

    try:
        return load().http
    except SettingsError:
        return []


def __getattr__(name: str) -> HypercornOptions:
    """`options`, when hypercorn's parent asks; the worker imports this module, too, and must not."""
    if name != "options":
        raise AttributeError(name)
    return HypercornOptions(_http())
