"""Is somebody there, does he speak TLS where he should, and does his certificate hold.

What does not come about is tried the other way round: TLS where there was none, none where there should be some, and a
PROXY header in front.  What then works names the mistake.  To the gateway's own port one is sent at once where the
settings want it: there it stands for the proxy that would have sent it.
"""

from __future__ import annotations

from dataclasses import replace

import trio
from cryptography import x509

from gateway.transports.wire.forwarded import Trusted

from . import http
from .dial import PREFACE, CertificateTrouble, Dialler, TlsTrouble
from .finding import Finding, Tell, Trouble, fail, ok, shown, warn
from .orders import Orders
from .places import HTTP, TCP, WEBSOCKET, Place

_DAY = 86_400
_PATIENCE = 3.0  # seconds for what is tried beside the right way
_SOON = 14  # days: whoever renews by itself has done so a month before the end
_CONNECT = b"CONNECT\naccept-version:1.2\nhost:doctor\n\n\0"
_SANE = {TCP: (b"CONNECTED\n", b"ERROR\nmessage:login refused\n"), HTTP: (b"HTTP/1.",), WEBSOCKET: (b"HTTP/1.1 101 ",)}
_PROXY_OFF = "or write {kind}_proxy_protocol = false"


async def with_header(dialler: Dialler, place: Place, orders: Orders, tell: Tell) -> Dialler | None:
    """Who dials the gateway's own port must do as its proxy does, where the settings want a PROXY header.

    Returns:
        who sends it, if need be; None: the gateway would hang up, for we are not one of its proxies.
    """
    if orders.settings is None or not orders.wants_header(place):
        return dialler
    setting = f"{place.kind}_proxy_protocol"
    try:
        own = await dialler.own_address(place)
    except Trouble as trouble:
        tell(trouble.finding(f"{place}"))
        return None
    if own in Trusted(orders.settings.trusted_proxies):
        tell(ok(f"{place} PROXY header", f"{setting} is on, and we send one, as {own} is in trusted_proxies"))
        return replace(dialler, preface=PREFACE)
    detail = f"not tried: {setting} is on, and {own}, from where we dial, is not in trusted_proxies"
    option = "--tcp HOST:PORT" if place.kind == TCP else "--websocket wss://HOST/ws"
    tell(warn(f"{place}", detail, f"Go through the proxy, by {option}, or run it on the proxy's machine"))
    return None


async def enter(dialler: Dialler, place: Place, tell: Tell, now: float) -> Place | None:
    """Knock.

    Returns:
        the place as one can go on with it; None: one cannot.
    """
    what = f"{place}"
    try:
        stream = await dialler.open(place)
    except CertificateTrouble as trouble:
        place = replace(place, is_verified=False)
        detail = await _certificate_in_words(dialler, place, None if trouble.is_expired else now)
        tell(fail(what, f"{trouble.detail}{detail}", f"{trouble.remedy}. No passcode is sent there"))
        return place
    except TlsTrouble as trouble:
        tell((await explain(dialler, place) or trouble).finding(what))
        return None
    except Trouble as trouble:
        tell(trouble.finding(what))
        return None
    try:
        tell(_end_of(stream, what, now) if isinstance(stream, trio.SSLStream) else ok(what, "somebody listens"))
    finally:
        await trio.aclose_forcefully(stream)
    return place


def _end_of(stream: trio.SSLStream[trio.SocketStream], what: str, now: float) -> Finding:
    """How long the certificate is good for."""
    certificate = _certificate(stream)
    if certificate is None:
        return ok(what, "the certificate holds")
    end = certificate.not_valid_after_utc
    days = int((end.timestamp() - now) // _DAY)
    detail = f"the certificate holds, until {end:%Y-%m-%d %H:%M} UTC ({days} days)"
    if days >= _SOON:
        return ok(what, detail)
    return warn(what, detail, "Renew it now, and see why that was not done by itself (certbot renew), then reload")


async def _certificate_in_words(dialler: Dialler, place: Place, now: float | None) -> str:
    """Names and end of the certificate that is not believed; empty: it cannot be had.

    OpenSSL names one fault only, so that it has expired besides is said here.

    Args:
        now: None: that it has expired is said already.
    """
    try:
        stream = await dialler.open(place)
    except Trouble:
        return ""
    assert isinstance(stream, trio.SSLStream)  # there was a certificate
    try:
        certificate = _certificate(stream)
    finally:
        await trio.aclose_forcefully(stream)
    if certificate is None:
        return ""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = ", ".join(str(each.value) for each in names)
    except (x509.ExtensionNotFound, ValueError):
        hosts = ""
    end = certificate.not_valid_after_utc
    besides = ", so it has expired, too" if now is not None and end.timestamp() <= now else ""
    return f": it is for {shown(hosts) or 'nobody'}, good until {end:%Y-%m-%d %H:%M} UTC{besides}"


def _certificate(stream: trio.SSLStream[trio.SocketStream]) -> x509.Certificate | None:
    """The peer's; None: OpenSSL reads it, and cryptography is stricter."""
    try:
        return x509.load_der_x509_certificate(stream.getpeercert(binary_form=True))
    except ValueError:
        return None


async def explain(dialler: Dialler, place: Place) -> Trouble | None:
    """Why a place does not answer as it should: the other ways to talk to it, tried; None: none of them works."""
    dialler = replace(dialler, patience=min(dialler.patience, _PATIENCE))
    other = replace(place, tls=not place.tls, is_verified=False)
    if place.tls and (unwanted := await _unwanted(dialler, place)) is not None:
        return unwanted
    if place.tls and await _answers(dialler, other):
        return Trouble("it speaks no TLS", f"Dial {replace(place, tls=False)}, or give it a certificate: {_how(place)}")
    if not place.tls and await _answers(dialler, other):
        return Trouble("it speaks TLS only", f"Dial {other}")
    if place.kind != HTTP and await _answers(replace(dialler, preface=PREFACE), place):
        return Trouble(
            "the gateway waits for a PROXY header, and what stands in front of it sends none",
            "Write `proxy_protocol on;` (nginx, stream) or `send-proxy-v2` (HAProxy) there, "
            + _PROXY_OFF.format(kind=place.kind),
        )
    return None


async def _unwanted(dialler: Dialler, place: Place) -> Trouble | None:
    """What the server says of our certificate, or of none: by TLS 1.3 it does so after the handshake."""
    try:
        stream = await dialler.open(place)
    except Trouble:
        return None
    try:
        with trio.move_on_after(dialler.patience):
            await stream.receive_some(1)
    except trio.BrokenResourceError as error:
        return dialler.unwanted(place, error)
    finally:
        await trio.aclose_forcefully(stream)
    return None


def _how(place: Place) -> str:
    return {
        HTTP: "nginx, `listen 443 ssl;`",
        TCP: "tcp_tls with tls_certificate and tls_key",
        WEBSOCKET: "websocket_tls with tls_certificate and tls_key, or nginx, `listen 443 ssl;`",
    }[place.kind]


async def _answers(dialler: Dialler, place: Place) -> bool:
    """Whether it answers so what a client says first."""
    first = _CONNECT
    if place.kind != TCP:
        fields = {"Connection": "close"}
        if place.kind == WEBSOCKET:
            key = {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
            fields = {"Connection": "Upgrade", "Upgrade": "websocket", **key}
        first = http.request(place, place.path or "/", fields)
    sane = _SANE[place.kind]
    octets = b""
    try:
        stream = await dialler.open(place)
    except Trouble:
        return False
    try:
        with trio.move_on_after(dialler.patience):
            await stream.send_all(first)
            while len(octets) < max(map(len, sane)) and (chunk := await stream.receive_some(4096)):
                octets += chunk
    except trio.BrokenResourceError:
        pass
    finally:
        await trio.aclose_forcefully(stream)
    return octets.startswith(sane)
