"""HTTP: a gateway answers there, it is ready, its clock is right, and the admin API is closed to strangers."""

import base64
import json
from email.utils import parsedate_to_datetime

from gateway.config.toml_file import config_file

from .clients import Connector, HttpResponse, NotHttp, http_get
from .connection_checks import explain
from .model import CheckOptions, CheckReport, Problem, Target, printable

_CLOCK_ERROR = 2.0  # seconds: a Date has no fractions, and the answer takes time
_CLOCK_REMEDY = "Switch on the time service of the machine with the wrong clock (`timedatectl set-ntp true`)"
STANDBY = "this node is a standby"
DRAINED = "this node is drained"
_FORWARDED_FOR = "nginx: `proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;`"


async def check_http(connector: Connector, target: Target, options: CheckOptions, report: CheckReport) -> None:
    """All that the pages of the gateway tell."""
    with report.check(f"{target}"):
        await _check_health(connector, target)
        await _check_ready(connector, target, options, report)
        await _check_forwarding(connector, target, options, report)
        for path in ("/api/v1/sessions", "/metrics"):
            await _check_admin(connector, target, path, options, report)


async def _check_health(connector: Connector, target: Target) -> None:
    try:
        health = await http_get(connector, target, "/healthz")
    except NotHttp as problem:
        raise await explain(connector, target) or problem from None
    if health.status == 400 and (reason := await explain(connector, target)) is not None:
        raise reason
    if 300 <= health.status < 400:
        location = printable(health.headers.get("location", "an unnamed place"))
        raise Problem(f"pages are elsewhere ({health.status}, {location})", "Connect to that, without the path")
    if health.status != 200 or _json(health).get("status") != "alive":
        remedy = "Let nginx pass it on (`location / { proxy_pass http://127.0.0.1:8000; }`), or name the gateway's port"
        raise Problem(f"/healthz is not answered by a gateway: {health}", remedy)


async def _check_ready(connector: Connector, target: Target, options: CheckOptions, report: CheckReport) -> None:
    check = report.check(f"{target} ready")
    before = options.now()
    response = await http_get(connector, target, "/readyz")
    now = (before + options.now()) / 2
    answer = _json(response)
    if response.status == 200:
        check.ok("clients may connect")
    elif is_of_standby(response):
        sentence = printable(str(answer["error"]))
        if sentence.startswith(f"{STANDBY}:"):
            check.ok(sentence)
        else:
            check.warn(sentence, "Restart it if it is drained; else see its log")
    elif response.status == 503 and "error" in answer:
        check.fail(f"not ready: {printable(str(answer['error']))}", "See /readyz in docs/operations.md")
    else:
        check.fail(f"/readyz answers {response}", "Let the proxy pass it on to the gateway's `http`")
    for name in ("journal", "certificate"):
        if name in answer:
            report.check(f"{target} {name}").warn(printable(str(answer[name])), "Look into the gateway's log")
    check = report.check(f"{target} clock")
    try:
        # The seconds are cut off: half a second is the mean of what is missing.
        ahead = parsedate_to_datetime(response.headers.get("date", "")).timestamp() + 0.5 - now
    except ValueError:
        check.ok("the server does not tell its time")
        return
    leeway = options.setting("jwt_leeway")
    detail = f"the server's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
    if abs(ahead) > max(leeway, 1.0) + _CLOCK_ERROR:
        effect = f"beyond jwt_leeway ({leeway:g} s) tokens are refused, and certificates may be"
        check.fail(detail, f"{_CLOCK_REMEDY}; {effect}")
    else:
        check.ok(detail if abs(ahead) > _CLOCK_ERROR else "the server's clock agrees with this machine's")


def is_of_standby(response: HttpResponse) -> bool:
    """True if the answer of /readyz is that of a standby of a cluster, also a drained one: it refuses all clients."""
    return response.status == 503 and str(_json(response).get("error", "")).startswith((STANDBY, DRAINED))


async def _check_forwarding(connector: Connector, target: Target, options: CheckOptions, report: CheckReport) -> None:
    """Compare the WebSocket's path; and the gateway tells its own WebSocket port only where it sees no proxy."""
    answer = _json(await http_get(connector, target, "/config.json"))
    path = answer.get("websocket_path")
    for websocket in options.websocket:
        if isinstance(path, str) and path != websocket.path:
            remedy = f"Connect to {path}, or write websocket_path = {json.dumps(websocket.path)}"
            report.check(f"{websocket}").warn(f"the gateway has its WebSocket at {printable(path)}", remedy)
    if not options.is_direct(target) and answer.get("websocket_port") is not None:
        detail = "the proxy does not name its clients, so they look like programs of its own machine"
        remedy = f'{_FORWARDED_FOR}, and trusted_proxies = ["127.0.0.1"] in {config_file()}'
        report.check(f"{target} forwarding").fail(detail, remedy)


async def _check_admin(
    connector: Connector, target: Target, path: str, options: CheckOptions, report: CheckReport
) -> None:
    check = report.check(f"{target}{path}")
    response = await http_get(connector, target, path)
    if response.status != 200:
        check.ok(f"closed without a token ({response.status})")
    elif options.is_direct(target) and target.is_loopback:
        check.ok("open without a token, to this machine only")
    else:
        remedy = f"Set admin_token, and let the proxy name its clients ({_FORWARDED_FOR})"
        check.fail("open to every client, without a token", remedy)


def check_token(options: CheckOptions, report: CheckReport) -> None:
    """Compare the dates of the token with this machine's clock.  Only the gateway can check its signature."""
    with report.check("token") as check:
        try:
            payload = options.token.split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))).items()
            dates = {name: float(value) for name, value in claims if name in ("iat", "nbf", "exp")}
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
            remedy = "Give the file of a token, which has three parts with dots between them"
            raise Problem("the file has no JWT that can be read", remedy) from None
        now, leeway = options.now(), options.setting("jwt_leeway")
        early = max(dates.get("iat", 0.0), dates.get("nbf", 0.0)) - now
        if early > leeway:
            detail = f"it is valid in {early:.0f} s only (iat, nbf): the clock of its issuer is ahead"
            raise Problem(detail, _CLOCK_REMEDY)
        if dates.get("exp", now) + leeway < now:
            raise Problem(f"it expired {now - dates['exp']:.0f} s ago (exp)", "Get a new one")
        check.ok("its dates fit this machine's clock" + ("" if "exp" in dates else "; it never expires"))


def _json(response: HttpResponse) -> dict[str, object]:
    """The JSON object of a page; empty: it has none."""
    try:
        found = json.loads(response.body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
