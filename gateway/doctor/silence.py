"""Connections on which nobody says anything, and who cuts them.

Two are held at every place, side by side with all other checks.  One agrees on no heart-beats: on a WebSocket only the
server's ping breaks its silence, so from the upgrade to the first ping is the longest pause that a proxy must bear.
The other agrees on heart-beats that are a third of the time that is looked at; two must come.

A cut that comes after a longer pause than we hold does not show: `--idle` has to be longer than `websocket_ping`.  What
nginx would do shows in its file (`nginx`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial

import trio

from .dial import Dialler, HungUp
from .finding import Finding, Tell, Trouble, fail, ok, shown, warn
from .orders import Orders
from .places import TCP, Place
from .sessions import begin
from .stomp import NotStomp, Reply, Talk

_LEAST_BEATS = 2
_CUT = Reply("")
_READ_TIMEOUT = "nginx: `proxy_read_timeout 60s;` and `proxy_send_timeout 60s;` in the location of the WebSocket"
_TIMEOUT = "nginx, stream: `proxy_timeout 10m;`"


async def examine(dialler: Dialler, place: Place, orders: Orders, headers: Mapping[str, str], tell: Tell) -> None:
    """Hold both connections, for `orders.idle` seconds at most."""
    async with trio.open_nursery() as nursery:
        if place.kind != TCP:
            nursery.start_soon(_without_beats, dialler, place, orders, headers, tell)
        nursery.start_soon(_with_beats, dialler, place, orders, headers, tell)


async def _without_beats(
    dialler: Dialler, place: Place, orders: Orders, headers: Mapping[str, str], tell: Tell
) -> None:
    what = f"{place} silence"
    try:
        talk, _ = await begin(dialler, place, {**headers, "heart-beat": "0,0"})
        try:
            tell(await _until_ping(talk, orders, what))
        finally:
            await talk.channel.aclose()
    except Trouble as trouble:
        tell(trouble.finding(what))


async def _until_ping(talk: Talk, orders: Orders, what: str) -> Finding:
    ping = None if orders.settings is None else orders.settings.websocket_ping
    started = trio.current_time()
    heard = await _heard(talk, orders.idle, partial(_until, talk.channel.pinged))
    seconds = trio.current_time() - started
    if talk.channel.pinged.is_set():
        return ok(what, f"held for {seconds:.0f} s, until the server's ping")
    if heard is _CUT:
        return _cut(talk, seconds, ping, what)
    if heard is not None:
        return fail(what, f"ended after {seconds:.0f} s: {shown(heard.headers.get('message', ''))}", "Do what it says")
    if ping and ping < orders.idle:
        remedy = "Something on the way answers pings itself, or keeps them: let clients agree on heart-beats"
        return fail(what, f"no ping in {seconds:.0f} s, though websocket_ping is {ping:g} s", remedy)
    return warn(what, f"held for {seconds:.0f} s; no ping came", "Look for longer than websocket_ping: --idle SECONDS")


async def _heard(talk: Talk, idle: float, beside: Callable[[trio.CancelScope], Awaitable[None]]) -> Reply | None:
    """What ends the silence: a frame, or `_CUT`; None: nothing did.

    Args:
        beside: is done meanwhile, and may end it.
    """
    heard: Reply | None = None
    with trio.move_on_after(idle) as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(beside, scope)
            try:
                heard = await talk.frame()
            except (HungUp, NotStomp):
                heard = _CUT
            nursery.cancel_scope.cancel()
    return heard


async def _until(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def _cut(talk: Talk, seconds: float, ping: float | None, what: str) -> Finding:
    ending = f" ({talk.channel.ending})" if talk.channel.ending else ""
    detail = f"cut after {seconds:.1f} s without an octet{ending}"
    if ping:
        detail += f", before the server's ping (websocket_ping, {ping:g} s)"
    shorter = f", or write websocket_ping = {max(seconds * 0.4, 1):.0f}"
    return fail(what, detail, f"{_READ_TIMEOUT}{shorter}")


async def _with_beats(dialler: Dialler, place: Place, orders: Orders, headers: Mapping[str, str], tell: Tell) -> None:
    what = f"{place} heart-beats"
    every = orders.idle / 3
    milliseconds = f"{every * 1000:.0f}"
    try:
        asked = {**headers, "heart-beat": f"{milliseconds},{milliseconds}"}
        talk, connected = await begin(dialler, place, asked)
        try:
            tell(await _hold(talk, _agreed(connected, every), orders.idle, place, what))
        finally:
            await talk.channel.aclose()
    except Trouble as trouble:
        tell(trouble.finding(what))


def _agreed(connected: Reply, every: float) -> float:
    """Seconds between two heart-beats of the server; 0: it sends none."""
    sends = connected.headers.get("heart-beat", "0,0").partition(",")[0]
    is_number = sends.isascii() and sends.isdigit() and len(sends) < 10
    return max(every, int(sends) / 1000) if is_number and int(sends) else 0.0


async def _hold(talk: Talk, every: float, idle: float, place: Place, what: str) -> Finding:
    started = trio.current_time()
    heard = await _heard(talk, idle, partial(_beat, talk, every or idle / 3))
    seconds = trio.current_time() - started
    if heard is _CUT:
        detail = f"cut after {seconds:.1f} s, though heart-beats of {every:.1f} s were agreed"
        remedy = f"{_TIMEOUT if place.kind == TCP else _READ_TIMEOUT}, or let clients beat more often"
        return fail(what, detail, remedy)
    if heard is not None:
        message = f"{shown(heard.headers.get('message', ''))}: {shown(heard.body)}"
        remedy = "Our heart-beats do not come through in time: something on the way keeps them (`proxy_buffering off;`)"
        return fail(what, f"the gateway ended it after {seconds:.0f} s: {message}", remedy)
    if not every:
        return warn(what, "the server sends none", "Write heartbeat_send = 250, so that clients may ask for them")
    if talk.beats < _LEAST_BEATS:
        remedy = "Something on the way keeps them: nginx `proxy_buffering off;`"
        detail = f"{talk.beats} of the server came in {seconds:.0f} s, though one each {every:.1f} s was agreed"
        return fail(what, detail, remedy)
    return ok(what, f"{talk.beats} of the server came in {seconds:.0f} s, one each {every:.1f} s was agreed")


async def _beat(talk: Talk, every: float, scope: trio.CancelScope) -> None:
    with suppress(HungUp):  # whoever listens hears of it, too
        while True:
            await talk.beat()
            await trio.sleep(every * 0.8)
