"""Connections: the port is open, speaks TLS where it should, has a certificate that holds, and gets a PROXY header.

Where the expected protocol fails, `explain` tries the others: with TLS or without, with a PROXY header.  The one that
works names the mistake.
"""

from contextlib import suppress
from dataclasses import replace

import trio
from cryptography import x509

from gateway.transports.wire.forwarded import Trusted

from .clients import PROXY_HEADER, CertificateProblem, Connector, NoFrame, TlsProblem, http_get, stomp_connection
from .model import HTTP, TCP, WEBSOCKET, CheckOptions, CheckReport, Problem, Target, printable

_DAY = 86_400
_SOON = 14  # days: a certificate that renews itself has done so a month before its end
_PATIENCE = 3.0  # seconds for each of the other protocols
_TLS_SETTINGS = {
    HTTP: "nginx, `listen 443 ssl;`",
    TCP: "tcp_tls with tls_certificate and tls_key",
    WEBSOCKET: "websocket_tls with tls_certificate and tls_key, or nginx, `listen 443 ssl;`",
}


async def with_proxy_header(
    connector: Connector, target: Target, options: CheckOptions, report: CheckReport
) -> Connector | None:
    """The connector for a STOMP target: it sends a PROXY header where the gateway expects one.

    None: the gateway would close, because this machine is not in trusted_proxies.
    """
    if options.settings is None or not options.needs_proxy_header(target):
        return connector
    setting = f"{target.kind}_proxy_protocol"
    with report.check(f"{target}") as check:
        address = await connector.local_address(target)
        if address in Trusted(options.settings.trusted_proxies):
            detail = f"{setting} is on, and we send one, as {address} is in trusted_proxies"
            report.check(f"{target} PROXY header").ok(detail)
            return replace(connector, preface=PROXY_HEADER)
        option = "--tcp HOST:PORT" if target.kind == TCP else "--websocket wss://HOST/ws"
        detail = f"not tried: {setting} is on, and {address}, the address of this machine, is not in trusted_proxies"
        check.warn(detail, f"Connect through the proxy, by {option}, or run the doctor on its machine")
    return None


async def check_connection(connector: Connector, target: Target, report: CheckReport, now: float) -> Target | None:
    """Connect; returns the target for further checks, untrusted where its certificate does not hold, or None."""
    with report.check(f"{target}") as check:
        try:
            async with connector.connect(target) as stream:
                if not isinstance(stream, trio.SSLStream):
                    check.ok("the port is open")
                elif (certificate := _certificate(stream)) is None:
                    check.ok("the certificate holds")
                else:
                    end = certificate.not_valid_after_utc
                    days = int((end.timestamp() - now) // _DAY)
                    detail = f"the certificate holds, until {end:%Y-%m-%d %H:%M} UTC ({days} days)"
                    if days >= _SOON:
                        check.ok(detail)
                    else:
                        remedy = "Renew it now, check why it was not renewed by itself (certbot renew), and reload"
                        check.warn(detail, remedy)
            return target
        except CertificateProblem as problem:
            target = replace(target, is_trusted=False)
            detail = await _with_names_and_end(connector, target, problem.detail, now)
            check.fail(detail, f"{problem.remedy}. No passcode is sent there")
            return target
        except TlsProblem as problem:
            raise await explain(connector, target) or problem from None
    return None


async def _with_names_and_end(connector: Connector, target: Target, detail: str, now: float) -> str:
    """The problem of a certificate, with its names and its end, as far as they can be read."""
    certificate = None
    with suppress(Problem):
        async with connector.connect(target) as stream:
            certificate = _certificate(stream) if isinstance(stream, trio.SSLStream) else None
    if certificate is None:
        return detail
    hosts = ""
    with suppress(x509.ExtensionNotFound, ValueError):
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = ", ".join([str(each.value) for each in names])
    end = certificate.not_valid_after_utc
    # OpenSSL names only one fault of several.
    also = ", so it has also expired" if end.timestamp() <= now and "has expired" not in detail else ""
    return f"{detail}: it is for {printable(hosts) or 'no name'}, valid until {end:%Y-%m-%d %H:%M} UTC{also}"


def _certificate(stream: trio.SSLStream[trio.SocketStream]) -> x509.Certificate | None:
    """The server's certificate; None: cryptography, which is stricter than OpenSSL, cannot read it."""
    try:
        return x509.load_der_x509_certificate(stream.getpeercert(binary_form=True))
    except ValueError:
        return None


async def explain(connector: Connector, target: Target) -> Problem | None:
    """The reason why a target does not answer as expected; None: no other protocol works either."""
    connector = replace(connector, patience=min(connector.patience, _PATIENCE))
    other = replace(target, tls=not target.tls, is_trusted=False)
    if target.tls and (refusal := await _certificate_refusal(connector, target)) is not None:
        return refusal
    if await _answers(connector, other):
        if not target.tls:
            return Problem("it speaks TLS only", f"Connect to {other}")
        remedy = f"Connect to {replace(target, tls=False)}, or give it a certificate: {_TLS_SETTINGS[target.kind]}"
        return Problem("it speaks no TLS", remedy)
    if target.kind != HTTP and await _answers(replace(connector, preface=PROXY_HEADER), target):
        return Problem(
            "the gateway expects a PROXY header, and the proxy in front of it sends none",
            "Write `proxy_protocol on;` (nginx, stream) or `send-proxy-v2` (HAProxy) there, "
            f"or write {target.kind}_proxy_protocol = false",
        )
    return None


async def _certificate_refusal(connector: Connector, target: Target) -> Problem | None:
    """The server's refusal of the client certificate, which TLS 1.3 sends after the handshake."""
    try:
        with suppress(Problem), trio.move_on_after(connector.patience):
            async with connector.connect(target) as stream:
                await stream.receive_some(1)
    except trio.BrokenResourceError as error:
        return connector.certificate_refusal(target, error)
    return None


async def _answers(connector: Connector, target: Target) -> bool:
    """True if a client of that kind gets an answer."""
    try:
        if target.kind == HTTP:
            await http_get(connector, target, "/")
            return True
        async with stomp_connection(connector, target) as client:
            if target.kind == WEBSOCKET:
                return True
            with trio.fail_after(connector.patience):
                answer = await client.connect({"accept-version": "1.2", "host": target.host})
            return answer.command == "CONNECTED" or answer.headers.get("message") == "login refused"
    except (Problem, NoFrame, trio.TooSlowError, trio.BrokenResourceError):
        return False
