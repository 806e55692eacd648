"""Who may use the admin API and the metrics.

With `admin_token` set: whoever shows it as `Authorization: Bearer <token>`, from wherever.  Without: only
programs on this machine.  "On this machine" is three questions, each with its reason:

* Is the peer's address loopback, or the socket a unix socket?
* Did no proxy forward the request?  A proxy on this machine makes every stranger a loopback peer; its headers
  betray it.
* Does `Host` name this machine?  A web page can rebind its own host name to 127.0.0.1 and so have a browser
  on this machine ask for it; the name in `Host` is still the page's.

A method that changes something is refused when a browser says that another site's page asked for it: a page
may send such a request even where it may not read the answer.
"""

from __future__ import annotations

import hmac
import ipaddress

from starlette.requests import Request

FORWARDING = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
"""Headers by which a proxy makes itself known."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Refused(Exception):
    """The request is not allowed.

    Args:
        status: 401 (no or wrong token) or 403 (no token would help).
        sentence: what the client is told.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def check(request: Request, token: str) -> None:
    """Let the request pass, or raise.

    Args:
        request: the request.
        token: the setting `admin_token`; empty when there is none.

    Raises:
        Refused: the request must not be answered.
    """
    if request.method not in SAFE_METHODS and _is_cross_site(request):
        raise Refused(403, "a page of another site must not change anything here")
    if token:
        if not _shows(request, token):
            raise Refused(401, "this needs the header Authorization: Bearer with the admin token")
    elif not is_local(request):
        raise Refused(403, "this answers to loopback only, unless admin_token (GATEWAY_ADMIN_TOKEN) is set and shown")


def came_through_proxy(request: Request) -> bool:
    """True when a proxy says that it forwarded the request."""
    return any(name in request.headers for name in FORWARDING)


def is_local(request: Request) -> bool:
    """True when a program on this machine asks, and asks this machine."""
    if came_through_proxy(request):
        return False
    # A unix socket has no peer address; hypercorn then leaves it out.
    return (request.client is None or _is_loopback(request.client.host)) and _names_loopback(request)


def _shows(request: Request, token: str) -> bool:
    scheme, _, shown = request.headers.get("authorization", "").partition(" ")
    # Compared in constant time: how long the answer takes does not tell how much of the token was right.
    return scheme.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), token.encode())


def _names_loopback(request: Request) -> bool:
    host = request.headers.get("host", "")
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.lower() in {"", "localhost"} or name.lower().endswith(".localhost") or _is_loopback(name)


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)  # ::ffff:127.0.0.1, a v4 peer on a v6 socket
    return (mapped or address).is_loopback


def _is_cross_site(request: Request) -> bool:
    """True when a browser says so.  Programs that are no browsers send neither header."""
    if request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        return True
    origin = request.headers.get("origin")
    return origin is not None and origin.partition("://")[2] != request.headers.get("host")
