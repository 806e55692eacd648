"""Sockets of systemd under hypercorn's own command, with `--config python:gateway.cli.sockets.options`.

systemd passes its sockets to hypercorn's parent; the worker is a child that gets only hypercorn's `Config`.  So these
options, which the parent reads, put the sockets into the `Config`, where `gateway.process.systemd` finds them.  Wrong
settings are reported by the worker.
"""

import sys
from collections.abc import Iterator

from gateway.config.values import Address
from gateway.process import systemd


class HypercornOptions:
    """Options of hypercorn for the setting `http`: each attribute goes into its `Config`."""

    def __init__(self, http: list[str]) -> None:
        self.gateway_sockets = systemd.inherited()
        if http:
            self.bind = [bind for text in http for bind in _binds(Address.parse(text), self.gateway_sockets)]


def _binds(address: Address, sockets: systemd.InheritedSockets) -> Iterator[str]:
    if not address.name:
        yield str(address)
        return
    taken = sockets.take(address.name)
    if not taken:
        # hypercorn would use its own default.
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
    """`options`, for hypercorn's parent only; the worker imports this module, too."""
    if name != "options":
        raise AttributeError(name)
    return HypercornOptions(_http())
