"""As whom the gateway sees clients that come through a proxy.

A session is opened whose upgrade claims to be forwarded for an address that nobody has (RFC 5737).  The gateway's list
of sessions then has our own address, the proxy's, or the claim:

    ours        the proxy names its clients, and the gateway believes it
    the proxy's X-Forwarded-For is not set, or trusted_proxies does not name the proxy
    the claim   the proxy passes on what a client makes up

On loopback everybody has the same address, so we take one that nobody else takes: the whole of 127.0.0.0/8 is ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_address
from urllib.parse import quote

from gateway.config.settings import Settings

from . import sessions
from .dial import Dialler
from .finding import Finding, Tell, Trouble, fail, ok, warn
from .http import get
from .orders import Orders
from .places import HTTP, TCP, Place

_CLAIM = "192.0.2.99"
_LOOPBACK = "127.0.0.77"
_DIRECTIVE = "nginx: `proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;`"


async def examine(
    dialler: Dialler, place: Place, admin: Place, orders: Orders, headers: Mapping[str, str], tell: Tell
) -> None:
    """Come through the proxy, and look at the gateway's list.

    Args:
        admin: the gateway's own HTTP port.
        headers: with which one can log in.
    """
    what = f"{place} our address"
    assert orders.settings is not None  # whoever knows of `admin` has read them
    fields = {} if place.kind == TCP else {"X-Forwarded-For": _CLAIM}
    try:
        own = await _own(dialler, place)
        source = replace(dialler, source=own) if own == _LOOPBACK else dialler
        talk, connected = await sessions.begin(source, place, headers, fields)
        try:
            peer = await _peer(dialler, admin, orders.settings, connected.headers.get("session", ""))
        finally:
            await talk.channel.aclose()
    except Trouble as trouble:
        tell(warn(what, f"not known: {trouble.detail}", trouble.remedy))
        return
    tell(_judged(peer, own, orders.settings, place, what))


async def _own(dialler: Dialler, place: Place) -> str:
    """The address that we dial from, or the one of loopback that is ours."""
    host = await dialler.own_address(place)
    return _LOOPBACK if host.startswith("127.") else host


async def _peer(dialler: Dialler, admin: Place, settings: Settings, session: str) -> str:
    """The address of a session at the gateway.

    Raises:
        Trouble: it does not say.
    """
    shown = {"Authorization": f"Bearer {settings.admin_token}"} if settings.admin_token else {}
    answer = await get(dialler, admin, f"/api/v1/sessions/{quote(session, safe='')}", shown)
    if answer.status == 404:
        raise Trouble(f"the gateway at {admin} does not know our session", "Is that the gateway behind the proxy?")
    if answer.status != 200:
        raise Trouble(f"the API at {admin} answers {answer.status}", "Run it on the gateway's machine")
    try:
        return _without_port(str(json.loads(answer.body)["peer"]))
    except (ValueError, LookupError, TypeError, RecursionError):
        raise Trouble(f"the API at {admin} says nothing of it", "Is that the gateway behind the proxy?") from None


def _without_port(peer: str) -> str:
    """An address out of `host:port`, `[v6]:port`, or an address alone."""
    try:
        return str(ip_address(peer))
    except ValueError:
        return peer.rpartition(":")[0].strip("[]") or peer


def _judged(peer: str, own: str, settings: Settings, place: Place, what: str) -> Finding:
    if peer == own:
        return ok(what, f"the gateway sees it behind the proxy ({own})")
    if peer == _CLAIM:
        detail = "a client can make up its address: the proxy passes its X-Forwarded-For on"
        return fail(what, detail, f"{_DIRECTIVE}, which adds the client's own")
    is_near = peer == "unix" or ip_address(peer).is_private
    detail = f"all clients are {peer} to the gateway, the proxy: limits, logs and the journal take them for one"
    if not is_near:
        return warn(what, f"the gateway sees {peer}, and we dial from {own}", "Fine if a NAT is in between")
    network = json.dumps([*settings.trusted_proxies, peer])
    if place.kind == TCP:
        remedy = f"Write tcp_proxy_protocol = true and trusted_proxies = {network}, and `proxy_protocol on;` in nginx"
    elif peer in settings.trusted_proxies:
        remedy = f"{_DIRECTIVE} in the location of the WebSocket"
    else:
        remedy = f"Write trusted_proxies = {network} in gateway.toml, and in {_DIRECTIVE}"
    return fail(what, detail, remedy)


def needed(place: Place, orders: Orders) -> bool:
    """Whether there is a proxy to be looked at."""
    return orders.settings is not None and not orders.is_direct(place) and place.kind != HTTP
