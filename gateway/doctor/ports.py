"""The ports of the settings: who has them, and how many files that one may open.

The gateway is whoever listens at the HTTP port and answers there as a gateway does.  Whoever else has one of its ports
has taken it.  Under hypercorn its own `--bind` decides where HTTP is; then `http` must say the same.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator

from gateway.config.address import Address
from gateway.config.settings import LISTENERS, Settings

from .finding import Finding, fail, ok, warn
from .processes import Process, listeners, most_files

# As in gateway/transports/flow/connection_limits.py: listeners, store, journal, HTTP, and those that are turned away.
_OTHER_FILES = 512


def examine(settings: Settings, is_alive: bool) -> Iterator[Finding]:
    """Each address of the settings.

    Args:
        is_alive: a gateway answers at its HTTP port.
    """
    gateway = gateway_of(settings) if is_alive else []
    found = [(name, Address.parse(text)) for name in LISTENERS for text in getattr(settings, name)]
    found = [(name, address) for name, address in found if address.port or address.path]
    if "http" not in [name for name, _ in found]:
        yield ok("ports", "not looked at: systemd has the one of http")
        return
    there = {address: listeners(address) for _, address in found}
    if not is_alive and not any(there.values()):
        yield fail(
            "gateway",
            f"it does not run here: nobody listens at {', '.join(map(str, there))}",
            "Start it (`gateway serve`, `systemctl start stomp-gateway`); `gateway check-config --bind` looks first",
        )
        return
    used = frozenset(address.port for _, address in found)
    for name, address in found:
        yield _of_address(name, address, there[address], gateway, _another(address, used), is_alive)


def gateway_of(settings: Settings) -> list[Process]:
    """Whoever listens where the settings have HTTP."""
    return [each for text in settings.http for each in listeners(Address.parse(text))]


def _of_address(
    name: str, address: Address, there: list[Process], gateway: list[Process], another: str, is_alive: bool
) -> Finding:
    what = f"port {name} {address}"
    if not there and is_alive:
        remedy = f"Restart the gateway, whose settings were others when it started; or change {name}"
        return fail(what, "nobody listens there", remedy)
    if not there:
        return fail(what, "nobody listens there", "Start the gateway, once all its ports are free")
    who = " and ".join(sorted({str(each) for each in there}))
    if {(each.pid, each.user) for each in there} & {(each.pid, each.user) for each in gateway}:
        return ok(what, f"the gateway has it: {who}")
    remedy = f'Stop that program, or write {name} = ["{another}"]'
    if is_alive:
        return fail(what, f"it is taken by {who}, which is not the gateway", remedy)
    remedy += "; if that is the gateway, `http` does not say where it answers (hypercorn: `--bind`)"
    return fail(what, f"it is taken by {who}, and no gateway answers at `http`", remedy)


def _another(address: Address, used: frozenset[int] = frozenset()) -> str:
    """An address beside it, and no other one of the settings; whether it is free the start will tell."""
    if address.path:
        return f"unix:{address.path}.new"
    port = address.port
    while port in used | {address.port}:
        port = port + 1 if port < 65_535 else 1024
    return str(Address(address.host, port))


def files(settings: Settings, gateway: list[Process]) -> Finding:
    """Whether as many files may be open as there may be connections."""
    what = "open files"
    needed = settings.max_connections + _OTHER_FILES
    pid = next((each.pid for each in gateway if each.pid), 0)
    limits = most_files(pid) if pid else None
    soft, hard = limits or resource.getrlimit(resource.RLIMIT_NOFILE)
    # The gateway raises its own limit at the start, as far as it may; whoever is running has done so.
    most = soft if limits else hard
    whose = f"the gateway (process {pid})" if limits else "a program started from here"
    if most in (resource.RLIM_INFINITY, 1 << 62) or most >= needed:
        return ok(what, f"{whose} may open enough for {settings.max_connections} connections (max_connections)")
    detail = f"{whose} may open {most}, and max_connections = {settings.max_connections} needs {needed}"
    remedy = f"systemd: LimitNOFILE={needed}; or write max_connections = {max(most - _OTHER_FILES, 1)}"
    # Without a wish it takes as many as there is room for, and says so in its log.
    is_optional = "max_connections" in settings.model_fields_set or most < 2 * _OTHER_FILES
    return (fail if is_optional else warn)(what, detail, remedy)
