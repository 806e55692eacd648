"""The order of the examination: this machine first, for what is wrong there explains the rest; then as clients do.

The long looks at silence run beside everything else, and are the last to be told.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import trio

from gateway.config.errors import StartError
from gateway.config.settings import Settings
from gateway.pipeline.errors import PipelineFailure
from gateway.pipeline.spark import doctor as pipeline_doctor
from gateway.pipeline.spark import java
from gateway.runtime import listeners

from . import addresses, doors, files, nginx, pages, ports, sessions, silence, upgrades
from .dial import Dialler, trusting
from .finding import Finding, Level, Tell, Trouble, fail, ok, warn
from .http import get
from .orders import Orders, own_places
from .places import HTTP, TCP, WEBSOCKET, Place
from .rights import user_of

_PING = 25.0  # the default of websocket_ping, where nobody knows better
_PATH = "/ws"


async def examine(orders: Orders, tell: Tell) -> None:
    """Look at everything that the orders name."""
    try:
        context = trusting(orders.authorities, orders.certificate, orders.key)
    except Trouble as trouble:
        tell(trouble.finding("certificates"))
        return
    dialler = Dialler(orders.patience, context, certificate=orders.certificate)
    admin = None if orders.settings is None else next(iter(own_places(orders.settings)[HTTP]), None)
    if orders.settings is not None:
        await _inside(dialler, orders, orders.settings, admin, tell)
    if orders.nginx is not None:
        path = orders.websocket[0].path if orders.websocket else _PATH
        ping = _PING if orders.settings is None else orders.settings.websocket_ping
        _tell_all(nginx.examine(orders.nginx, path, ping), tell)
    if orders.credentials.token:
        _tell_all(pages.token(orders), tell)
    if orders.http is not None:
        place = await doors.enter(dialler, orders.http, tell, orders.now())
        if place is not None:
            await pages.examine(dialler, place, orders, tell)
    async with trio.open_nursery() as nursery:
        for each in (*orders.websocket, *orders.tcp):
            await _stomp(dialler, each, admin, orders, nursery, tell)


def _tell_all(findings: Iterator[Finding], tell: Tell) -> None:
    for each in findings:
        tell(each)


async def _stomp(
    dialler: Dialler, knocked: Place, admin: Place | None, orders: Orders, nursery: trio.Nursery, tell: Tell
) -> None:
    """One place where STOMP is spoken."""
    speaker = await doors.with_header(dialler, knocked, orders, tell)
    if speaker is None:
        return
    dialler = speaker
    place = await doors.enter(dialler, knocked, tell, orders.now())
    if place is None:
        return
    if place.kind == WEBSOCKET and not await upgrades.examine(dialler, place, orders, tell):
        return
    try:
        headers = await sessions.examine(dialler, place, orders, tell)
    except Trouble as trouble:
        tell(trouble.finding(f"{place} session"))
        return
    if headers is None:
        return
    if orders.idle:
        nursery.start_soon(silence.examine, dialler, place, orders, headers, tell)
    if admin is not None and addresses.needed(place, orders):
        await addresses.examine(dialler, place, admin, orders, headers, tell)


async def _inside(dialler: Dialler, orders: Orders, settings: Settings, admin: Place | None, tell: Tell) -> None:
    """This machine."""
    alive = admin is not None and await _is_gateway(dialler, admin)
    _tell_all(ports.examine(settings, alive), tell)
    gateway = ports.gateway_of(settings) if alive else []
    tell(ports.files(settings, gateway))
    try:
        user = user_of(orders.user or next((each.user for each in gateway), ""))
    except Trouble as trouble:
        tell(trouble.finding("user"))
    else:
        if not gateway and not orders.user and user.uid == 0:
            detail = "the gateway does not run, so files are looked at as by root, who may do everything"
            tell(warn("user", detail, "Name its user, as in its systemd unit: --user stomp-gateway"))
        _tell_all(files.examine(settings, user), tell)
    _tell_all(_settings(settings, orders.now()), tell)
    if settings.archive is not None or settings.tables is not None or orders.pipeline:
        await trio.to_thread.run_sync(partial(_tell_all, _pipeline(orders.pipeline), partial(_from_thread, tell)))


def _from_thread(tell: Tell, finding: Finding) -> None:
    trio.from_thread.run_sync(tell, finding)


async def _is_gateway(dialler: Dialler, admin: Place) -> bool:
    try:
        answer = await get(dialler, admin, "/healthz")
    except Trouble:
        return False
    return answer.status == 200 and b'"alive"' in answer.body


def _settings(settings: Settings, now: float) -> Iterator[Finding]:
    """What the gateway itself would say at its start."""
    try:
        certificates = listeners.read_certificates(settings)
    except StartError as error:
        yield fail("settings", str(error), "Mend the file, or name another")
        return
    warnings = list(listeners.warnings(settings, certificates))
    ends = certificates.warning() if certificates is not None else None
    if certificates is not None and ends is not None:
        remedy = "Renew it, and see why that was not done by itself (certbot renew), then reload"
        yield (fail if certificates.ends <= now else warn)("certificate", ends, remedy)
    for sentence in warnings:
        if sentence != ends:
            detail, _, remedy = sentence.rpartition(": ")
            yield warn("settings", detail, remedy[:1].upper() + remedy[1:])
    if not warnings:
        yield ok("settings", "nothing speaks against them")


def _pipeline(with_spark: bool) -> Iterator[Finding]:
    """What jobs need; Spark itself takes half a minute, and is tried when asked for."""
    if with_spark:
        for each in pipeline_doctor.examine():
            yield Finding(Level.OK if each.ok else Level.FAIL, f"pipeline {each.what}", each.detail, each.remedy)
        return
    try:
        found = java.find()
    except PipelineFailure as error:
        yield fail("pipeline Java", "none that Spark could use", f"{error}. All of it: --pipeline")
    else:
        yield ok("pipeline Java", f"{found.version} of {found.source}, {found.home}")


def own_orders(settings: Settings) -> dict[str, tuple[Place, ...]]:
    """The gateway's own places, to be dialled where the operator names none.

    Its certificate is for other names than that of this machine, so it is asked for one of those.
    """
    try:
        certificates = listeners.read_certificates(settings)
    except StartError:
        certificates = None
    found = own_places(settings, certificates.hosts if certificates is not None else ())
    return {kind: found[kind] for kind in (HTTP, TCP, WEBSOCKET)}
