"""What the HTTP side says through a proxy: is it the gateway, is it ready, what time is it, who may ask for what."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

from . import doors
from .dial import Dialler
from .finding import Finding, Tell, Trouble, fail, ok, shown, warn
from .http import Answer, NoHttp, get
from .orders import Orders
from .places import Place

_ADMIN = ("/api/v1/sessions", "/metrics")
_LEEWAY = 10.0  # seconds; the default of jwt_leeway
_TICK = 2.0  # a Date has seconds, and the way takes time
_CLOCK = "Switch on the time service of the machine whose clock is wrong (`timedatectl set-ntp true`)"
_BAD_REQUEST, _UNAVAILABLE = 400, 503


async def examine(dialler: Dialler, place: Place, orders: Orders, tell: Tell) -> None:
    """Everything that the HTTP side can tell."""
    what = f"{place}"
    try:
        health = await get(dialler, place, "/healthz")
    except NoHttp as trouble:
        tell((await doors.explain(dialler, place) or trouble).finding(what))
        return
    except Trouble as trouble:
        tell(trouble.finding(what))
        return
    if health.status == _BAD_REQUEST and (why := await doors.explain(dialler, place)) is not None:
        tell(why.finding(what))
        return
    if 300 <= health.status < 400:
        where = shown(health.fields.get("location", "nowhere"))
        tell(fail(what, f"pages are elsewhere ({health.status}, {where})", "Dial that, without the path"))
        return
    if health.status != 200 or _object(health).get("status") != "alive":
        remedy = "Let nginx pass it on (`location / { proxy_pass http://127.0.0.1:8000; }`), or dial the gateway"
        tell(fail(what, f"/healthz is not answered by a gateway: {health}", remedy))
        return
    for check in (_ready, _forwarding, _admin):
        try:
            await check(dialler, place, orders, tell)
        except Trouble as trouble:
            tell(trouble.finding(what))


async def _ready(dialler: Dialler, place: Place, orders: Orders, tell: Tell) -> None:
    before = orders.now()
    answer = await get(dialler, place, "/readyz")
    said = _object(answer)
    what = f"{place} ready"
    if answer.status == 200:
        tell(ok(what, "clients may come"))
    elif answer.status == _UNAVAILABLE and "error" in said:
        tell(fail(what, f"not ready: {shown(str(said['error']))}", "See /readyz in docs/operations.md"))
    else:
        tell(fail(what, f"/readyz answers {answer}", "Let the proxy pass it on to the gateway's `http`"))
    for name in ("journal", "certificate"):
        if name in said:
            tell(warn(f"{place} {name}", shown(str(said[name])), "Look into the gateway's log"))
    tell(_clock(answer, (before + orders.now()) / 2, orders, f"{place} clock"))


def _clock(answer: Answer, now: float, orders: Orders, what: str) -> Finding:
    """The server's clock by ours."""
    try:
        # It is cut to seconds: half of one is what that takes away.
        ahead = parsedate_to_datetime(answer.fields.get("date", "")).timestamp() + 0.5 - now
    except ValueError:
        return ok(what, "the server does not say what time it is")
    leeway = _LEEWAY if orders.settings is None else orders.settings.jwt_leeway
    detail = f"the server's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
    if abs(ahead) <= max(leeway, 1.0) + _TICK:
        return ok(what, detail if abs(ahead) > _TICK else "the server's clock is that of this machine")
    return fail(what, detail, f"{_CLOCK}; tokens are refused beyond jwt_leeway ({leeway:g} s), and certificates may be")


def token(orders: Orders) -> Iterator[Finding]:
    """Whether a token's dates fit this machine's clock.  Its signature is the gateway's business."""
    what = "token"
    try:
        payload = orders.credentials.token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))).items()
        dates = {name: float(number) for name, number in claims if name in ("iat", "nbf", "exp")}
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        yield fail(what, "it is no JWT that can be read", "Give the file of a token, three parts with dots between")
        return
    leeway = _LEEWAY if orders.settings is None else orders.settings.jwt_leeway
    now = orders.now()
    early = max([dates.get("iat", 0.0), dates.get("nbf", 0.0)]) - now
    if early > leeway:
        yield fail(what, f"it is good in {early:.0f} s only (iat, nbf): its issuer's clock is ahead", _CLOCK)
    elif dates.get("exp", now) + leeway < now:
        yield fail(what, f"it has expired {now - dates['exp']:.0f} s ago (exp)", "Get a new one")
    else:
        yield ok(what, "its dates fit this machine's clock" + ("" if "exp" in dates else "; it never expires"))


async def _forwarding(dialler: Dialler, place: Place, orders: Orders, tell: Tell) -> None:
    """The gateway tells its own WebSocket port to whoever comes without a word of a proxy."""
    said = _object(await get(dialler, place, "/config.json"))
    path = said.get("websocket_path")
    for socket in orders.websocket:
        if isinstance(path, str) and path != socket.path:
            remedy = f"Dial {path}, or write websocket_path = {json.dumps(socket.path)}"
            tell(warn(f"{socket}", f"the gateway has its WebSocket at {shown(path)}", remedy))
    if orders.is_direct(place) or said.get("websocket_port") is None:
        return
    remedy = (
        "nginx: `proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;`, and "
        'trusted_proxies = ["127.0.0.1"] in gateway.toml'
    )
    detail = "the proxy does not say that it is one, so its clients look like programs on its own machine"
    tell(fail(f"{place} forwarding", detail, remedy))


async def _admin(dialler: Dialler, place: Place, orders: Orders, tell: Tell) -> None:
    """Whether strangers get what is for operators."""
    for path in _ADMIN:
        what = f"{place}{path}"
        answer = await get(dialler, place, path)
        if answer.status != 200:
            tell(ok(what, f"not for everybody ({answer.status})"))
        elif orders.is_direct(place) and place.is_loopback:
            tell(ok(what, "answers without a token, to this machine only"))
        else:
            remedy = (
                "Set admin_token, and let the proxy say that it is one "
                "(nginx: `proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;`)"
            )
            tell(fail(what, "answers everybody, without a token", remedy))


def _object(answer: Answer) -> dict[str, object]:
    """The answer's JSON, if it is an object."""
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
