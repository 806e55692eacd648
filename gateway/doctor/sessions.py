"""A session: who is let in, how long a message takes, whether a large one passes, and as whom the gateway sees us.

All of it goes through one temporary topic of the session's own, which needs no rule and ends with it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

import trio

from . import doors
from .dial import Dialler, HungUp
from .finding import Tell, Trouble, fail, ok, shown, warn
from .http import NoHttp
from .orders import Orders
from .places import TCP, Place
from .stomp import NotStomp, Reply, Talk, TcpChannel
from .websocket import upgrade

TOPIC = "/temp-topic/doctor"
_SLOW = 1.0  # seconds that a small message may take; the gateway takes some milliseconds
_LOGIN = frozenset(["login refused", "too many failed logins"])
_PROXIES = frozenset(["malformed header line", "NUL byte among the headers", "this is not STOMP"])
_SENDS_PROXY = (
    "what stands in front of the gateway sends something before the CONNECT, a PROXY header most likely",
    "Write tcp_proxy_protocol = true and name it in trusted_proxies, or write `proxy_protocol off;` there (nginx)",
)


class Refused(Trouble):
    """The answer to CONNECT is an ERROR.

    Attributes:
        is_login: because of who one is.
    """

    def __init__(self, reply: Reply, place: Place) -> None:
        message = reply.headers.get("message", "")
        words = f"ERROR {shown(message)}" + (f": {shown(reply.body)}" if reply.body else "")
        super().__init__(words, "Do what it says")
        self.is_login = message in _LOGIN
        if message in _PROXIES:
            self.detail, self.remedy = _SENDS_PROXY
            self.detail += f" ({words})"
        elif message == "TLS only":
            self.remedy = f"Dial {replace(place, tls=True)}"


async def begin(
    dialler: Dialler,
    place: Place,
    headers: Mapping[str, str],
    fields: Mapping[str, str] | None = None,
) -> tuple[Talk, Reply]:
    """Open a session.

    Args:
        headers: of CONNECT, beside those that every one has.
        fields: of the upgrade.

    Returns:
        the conversation, and CONNECTED.

    Raises:
        Refused: the server says why not.
        Trouble: it does not say.
    """
    talk = await _channel(dialler, place, fields)
    try:
        with trio.fail_after(dialler.patience):
            reply = await talk.connect({"accept-version": "1.2", "host": place.host, **headers})
    except trio.TooSlowError:
        await talk.channel.aclose()
        remedy = "Whatever is there takes octets and says nothing: look into its log, and into the gateway's"
        raise Trouble(f"no answer to CONNECT within {dialler.patience:g} s", remedy) from None
    except (HungUp, NotStomp) as end:
        await talk.channel.aclose()
        raise await _strange(dialler, place, end.octets, talk.channel.ending) from None
    if reply.command != "CONNECTED":
        await talk.channel.aclose()
        raise Refused(reply, place)
    return talk, reply


async def _channel(dialler: Dialler, place: Place, fields: Mapping[str, str] | None) -> Talk:
    if place.kind == TCP:
        return Talk(TcpChannel(await dialler.open(place)))
    try:
        answer, channel = await upgrade(dialler, place, fields=fields)
    except NoHttp as trouble:
        raise await doors.explain(dialler, place) or trouble from None
    if channel is None:
        raise Trouble(f"the upgrade is refused: {answer}", "See the line on the upgrade")
    return Talk(channel)


async def _strange(dialler: Dialler, place: Place, octets: bytes, ending: str) -> Trouble:
    """What to say of an answer to CONNECT that is no frame."""
    why = await doors.explain(dialler, place)
    if why is not None:
        return why
    if octets:
        detail = f"it answers CONNECT with {shown(octets[:80])!r}, which is no STOMP"
        return Trouble(detail, "Another program has this port: stop it, or dial where the gateway listens")
    detail = f"it closed at CONNECT without a word{f' ({ending})' if ending else ''}"
    remedy = (
        "The gateway's log says why. With tcp_proxy_protocol = true it closes on whoever is not one of "
        "trusted_proxies, or sends no PROXY header"
    )
    return Trouble(detail, remedy)


async def examine(dialler: Dialler, place: Place, orders: Orders, tell: Tell) -> Mapping[str, str] | None:
    """Log in, with nothing and with what the operator shows, and send messages.

    Returns:
        headers with which one can log in; None: there are none.
    """
    what = f"{place} login"
    headers = await _way_in(dialler, place, orders, tell, what)
    if headers is None:
        return None
    talk, connected = await begin(dialler, place, headers)
    try:
        if headers:
            who = connected.headers.get("user-name") or orders.credentials.login
            tell(ok(what, f"let in as {shown(who)}" if who else "let in"))
        await _passage(talk, place, orders, tell)
    finally:
        await talk.channel.aclose()
    return headers


async def _way_in(dialler: Dialler, place: Place, orders: Orders, tell: Tell, what: str) -> Mapping[str, str] | None:
    try:
        talk, _ = await begin(dialler, place, {})
    except Refused as refusal:
        if not refusal.is_login:
            raise
        tell(ok(f"{place} strangers", "nobody comes in without a login"))
    else:
        await talk.channel.aclose()
        if place.is_loopback and orders.is_direct(place):
            tell(ok(f"{place} strangers", "everybody comes in without a login, but from this machine only"))
        else:
            remedy = "Set users_file (`gateway passwd users.txt NAME`), jwt_keys or another authenticator"
            tell(
                fail(
                    f"{place} strangers", "everybody comes in without a login, and not from this machine alone", remedy
                )
            )
        if not orders.credentials:
            return {}
    if not orders.credentials:
        tell(warn(what, "not tried", "Give --login NAME --passcode-file FILE, or --token-file FILE"))
        return None
    if not place.is_verified:
        tell(warn(what, "not tried, for the certificate does not hold", "Mend that first"))
        return None
    try:
        talk, _ = await begin(dialler, place, orders.credentials.headers())
    except Refused as refusal:
        remedy = "Give the right passcode, or a fresh token; the gateway's log says why (`login refused`)"
        raise Trouble(refusal.detail, remedy) from None
    await talk.channel.aclose()
    return orders.credentials.headers()


async def _passage(talk: Talk, place: Place, orders: Orders, tell: Tell) -> None:
    """There and back, a small message and a large one."""
    what = f"{place} message"
    small = "Something on the way collects octets: nginx `proxy_buffering off;`, and no scanner of traffic in between"
    try:
        await talk.send("SUBSCRIBE", id="doctor", destination=TOPIC)
        seconds = await _there_and_back(talk, place, b"doctor", orders.patience)
    except (trio.TooSlowError, HungUp, NotStomp, Refused) as end:
        tell(_lost(end, talk, place, what, "a message of 6 octets", small, orders.patience).finding(what))
        return
    if seconds > _SLOW:
        tell(warn(what, f"a small one takes {seconds:.1f} s, there and back", small))
    else:
        tell(ok(what, f"a small one takes {seconds * 1000:.0f} ms, there and back"))
    what = f"{place} large message"
    large = (
        "Raise the limit for messages of what stands between; nginx has none for a WebSocket, other proxies and "
        "firewalls do. The gateway's own is max_body"
    )
    body = os.urandom(orders.size // 2).hex().encode()  # text: what a browser sends
    try:
        seconds = await _there_and_back(talk, place, body, orders.patience)
    except (trio.TooSlowError, HungUp, NotStomp, Refused) as end:
        tell(_lost(end, talk, place, what, f"a message of {len(body)} octets", large, orders.patience).finding(what))
        return
    tell(ok(what, f"{len(body)} octets pass in {seconds * 1000:.0f} ms, there and back"))


async def _there_and_back(talk: Talk, place: Place, body: bytes, patience: float) -> float:
    """Seconds that a message takes.

    Raises:
        trio.TooSlowError: it does not come back.
        HungUp, NotStomp: the connection breaks.
        Refused: the server does not take it.
    """
    with trio.fail_after(patience):
        started = trio.current_time()
        await talk.send("SEND", body, destination=TOPIC)
        while True:
            reply = await talk.frame()
            if reply.command == "ERROR":
                raise Refused(reply, place)
            if reply.command == "MESSAGE" and reply.body == body:
                return trio.current_time() - started


def _lost(
    end: BaseException, talk: Talk, place: Place, what: str, message: str, remedy: str, patience: float
) -> Trouble:
    """Why a message did not come back."""
    if isinstance(end, Refused):
        return Trouble(f"{message} is refused: {end.detail}", end.remedy)
    if isinstance(end, trio.TooSlowError):
        return Trouble(f"{message} did not come back within {patience:g} s", remedy)
    ending = f" ({talk.channel.ending})" if talk.channel.ending else ""
    return Trouble(f"{message} broke the connection{ending}", remedy)
