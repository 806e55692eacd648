"""The upgrade to a WebSocket, as a browser asks for it: the path, the subprotocol, the origin.

What is refused is told apart by status, by the words of the refusal, and by whether somebody who is not the gateway has
answered: its WebSocket port never says `Server`, `Date` or `Via`.
"""

from __future__ import annotations

import json

from . import doors
from .dial import Dialler
from .finding import Finding, Tell, Trouble, fail, ok, warn
from .http import Answer, NoHttp
from .orders import Orders
from .places import HTTP, Place
from .websocket import SUBPROTOCOLS, upgrade

_STRANGER = "https://doctor.invalid"
_UPGRADE = (
    "nginx, in the location of the WebSocket: `proxy_http_version 1.1;`, "
    '`proxy_set_header Upgrade $http_upgrade;` and `proxy_set_header Connection "upgrade";`'
)
_SENDS_PROXY = (
    "what stands in front of the gateway seems to send a PROXY header, which it does not expect",
    "Write websocket_proxy_protocol = true and name it in trusted_proxies, or switch the header off there",
)
_PROXYS = ("server", "date", "via")
_BAD_REQUEST, _LOGIN, _FORBIDDEN, _NOT_FOUND, _WANTS_UPGRADE, _TOO_MANY = 400, 401, 403, 404, 426, 429


async def examine(dialler: Dialler, place: Place, orders: Orders, tell: Tell) -> bool:
    """Ask for the upgrade as a page does; returns whether programs, at least, can get it."""
    what = f"{place} upgrade"
    origin = orders.page_origin(place)
    try:
        answer, channel = await upgrade(dialler, place, fields={"Origin": origin})
    except NoHttp as trouble:
        tell((await doors.explain(dialler, place) or trouble).finding(what))
        return False
    except Trouble as trouble:
        tell(trouble.finding(what))
        return False
    if channel is None:
        why = await doors.explain(dialler, place) if answer.status == _BAD_REQUEST else None
        tell(why.finding(what) if why is not None else _refused(answer, place, origin, what))
        return answer.status == _FORBIDDEN and await _programs_get_it(dialler, place)
    await channel.aclose()
    chosen = answer.fields.get("sec-websocket-protocol")
    if chosen in SUBPROTOCOLS:
        tell(ok(what, f"a page of {origin} gets it, with {chosen}"))
    else:
        detail = f"the subprotocols {', '.join(SUBPROTOCOLS)} were offered and none was answered: browsers hang up"
        tell(fail(what, detail, "Let the proxy pass Sec-WebSocket-Protocol on, both ways"))
    await _of_strangers(dialler, place, tell)
    return True


async def _programs_get_it(dialler: Dialler, place: Place) -> bool:
    try:
        _, channel = await upgrade(dialler, place)
    except Trouble:
        return False
    if channel is None:
        return False
    await channel.aclose()
    return True


async def _of_strangers(dialler: Dialler, place: Place, tell: Tell) -> None:
    """A page of any site asks."""
    what = f"{place} origin"
    try:
        _, channel = await upgrade(dialler, place, fields={"Origin": _STRANGER})
    except Trouble as trouble:
        tell(trouble.finding(what))
        return
    if channel is None:
        tell(ok(what, "pages of other sites are refused"))
        return
    await channel.aclose()
    remedy = 'Name the sites one by one: allowed_origins = ["https://app.example.org"], without "*"'
    tell(warn(what, "pages of every site may open it", remedy))


def _refused(answer: Answer, place: Place, origin: str, what: str) -> Finding:
    """Why, as far as it can be told."""
    is_proxy = not answer.fields.keys().isdisjoint(_PROXYS)
    if answer.status == _FORBIDDEN and b"allowed_origins" in answer.body:
        remedy = (
            f"If that page is yours, write allowed_origins = [{json.dumps(origin)}]; if it comes from {place.host} "
            "itself, let nginx pass its name on: `proxy_set_header Host $http_host;`"
        )
        return fail(what, f"pages of {origin} are not let in", remedy)
    if answer.status in (_BAD_REQUEST, _WANTS_UPGRADE):
        if answer.status == _BAD_REQUEST and not is_proxy and not answer.body:
            return fail(what, *_SENDS_PROXY)
        return fail(what, f"the request for it does not come through: {answer}", _UPGRADE)
    if answer.status == _NOT_FOUND or answer.status == 200:
        if b"STOMP over WebSocket is at" in answer.body:
            return fail(what, f"the path is wrong: {answer}", "Dial that path, or change websocket_path")
        remedy = (
            f"nginx: `location = {place.path or '/ws'} {{ proxy_pass http://127.0.0.1:15674; ... }}`, with the path of "
            "websocket_path; or dial that"
        )
        return fail(what, f"there is no WebSocket at {place.path or '/'}: {answer}", remedy)
    return _refused_otherwise(answer, place, what)


def _refused_otherwise(answer: Answer, place: Place, what: str) -> Finding:
    if 300 <= answer.status < 400:
        remedy = f"Dial what it names; browsers do not follow that. For TLS dial wss://{place.host}{place.path}"
        return fail(what, f"it is sent elsewhere ({answer.status})", remedy)
    if answer.status in (_LOGIN, _FORBIDDEN):
        return fail(what, f"the proxy refuses it: {answer}", f"Take `auth_basic`, `allow` and `deny` from {place.path}")
    if answer.status == _TOO_MANY:
        return fail(what, f"{answer}", "Raise max_connections_per_address, or set trusted_proxies")
    if answer.status in (502, 504):
        remedy = "nginx: let proxy_pass name where the gateway listens (`websocket`), and see that it runs"
        return fail(what, f"the proxy does not reach the gateway ({answer.status})", remedy)
    return fail(what, f"it was refused: {answer}", f"Look into the logs of gateway and proxy ({HTTP} {answer.status})")
