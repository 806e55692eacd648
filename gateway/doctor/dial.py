"""From a place to a stream of octets, by TCP and TLS; and why there is none.

A certificate that does not hold is told apart by OpenSSL's own number for it (`CertificateTrouble`).  Whoever then
wants to look further says so by `is_verified=False` in the place.
"""

from __future__ import annotations

import errno
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

import trio

from gateway.client.tls import FileError, context_of, reason_of

from .finding import Trouble
from .places import TCP, Place

# OpenSSL's numbers (x509_vfy.h).
_NOT_YET, _EXPIRED, _SELF_SIGNED, _OTHER_NAME, _OTHER_ADDRESS = 9, 10, 18, 62, 64
_HANG_UP = (trio.BrokenResourceError, trio.ClosedResourceError)

PREFACE = b"PROXY UNKNOWN\r\n"
"""A PROXY header that speaks for nobody."""


class CertificateTrouble(Trouble):
    """The server's certificate does not hold.

    Attributes:
        is_expired: because of its end.
    """

    def __init__(self, detail: str, remedy: str, *, is_expired: bool = False) -> None:
        super().__init__(detail, remedy)
        self.is_expired = is_expired


class TlsTrouble(Trouble):
    """There is no TLS to be had there."""


class HungUp(Exception):
    """The peer closed; `octets` is what came before that."""

    def __init__(self, octets: bytes = b"") -> None:
        super().__init__("closed")
        self.octets = octets


@dataclass(frozen=True, slots=True)
class Dialler:
    """How to dial.

    Attributes:
        patience: seconds for each step.
        trusting: knows the authorities that are believed, and the certificate to show.
        certificate: the file of that; None: there is none.
        source: the address that we dial from; None: whichever the system takes.
        preface: octets in front of all others, also of TLS.
    """

    patience: float
    trusting: ssl.SSLContext
    source: str | None = None
    preface: bytes = b""
    certificate: Path | None = None

    async def open(self, place: Place) -> trio.abc.Stream:
        """Dial, and do the TLS handshake.

        Raises:
            Trouble: nobody is there.
            TlsTrouble: no TLS came about.
            CertificateTrouble: the certificate does not hold.
        """
        stream = await self._connected(place)
        try:
            if self.preface:
                await stream.send_all(self.preface)
            return await self._secured(stream, place) if place.tls else stream
        except _HANG_UP:
            await trio.aclose_forcefully(stream)
            raise TlsTrouble("it closed the connection at once", "Look into the log of what listens there") from None
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise

    async def own_address(self, place: Place) -> str:
        """The address that we dial from.  It is found by dialling: a name may well be one of loopback.

        Raises:
            Trouble: nobody is there.
        """
        stream = await self._connected(place)
        try:
            host: str = stream.socket.getsockname()[0]
        finally:
            await trio.aclose_forcefully(stream)
        return host

    async def _connected(self, place: Place) -> trio.SocketStream:
        try:
            with trio.fail_after(self.patience):
                return await trio.open_tcp_stream(place.host, place.port, local_address=self.source)
        except trio.TooSlowError:
            detail = f"no answer from {place.host}:{place.port} within {self.patience:g} s"
            raise Trouble(detail, "A firewall drops what comes: open the port there") from None
        except OSError as error:
            raise _unreachable(place, error) from None

    async def _secured(self, stream: trio.SocketStream, place: Place) -> trio.abc.Stream:
        context = self.trusting if place.is_verified else _credulous()
        secured = trio.SSLStream(stream, context, server_hostname=place.name or place.host, https_compatible=True)
        try:
            with trio.fail_after(self.patience):
                await secured.do_handshake()
        except trio.TooSlowError:
            raise TlsTrouble(f"no TLS handshake within {self.patience:g} s", "Nothing there speaks TLS") from None
        except trio.BrokenResourceError as error:
            if isinstance(error.__cause__, ssl.SSLCertVerificationError):
                raise _distrusted(place, error.__cause__) from None
            if (trouble := self.unwanted(place, error)) is not None:
                raise trouble from None
            reason = error.__cause__.reason if isinstance(error.__cause__, ssl.SSLError) else ""
            words = (reason or "the peer closed").lower().replace("_", " ")
            raise TlsTrouble(f"the TLS handshake failed: {words}", "Dial a port that speaks TLS") from None
        return secured

    def unwanted(self, place: Place, error: trio.BrokenResourceError) -> TlsTrouble | None:
        """What the server says of our certificate, or of none, as it ends the connection; None: nothing."""
        shown = self.certificate if place.is_verified else None  # nothing is shown to who is not believed
        said = reason_of(error.__cause__, cert=str(shown or "")) if isinstance(error.__cause__, OSError) else ""
        if not said or (self.certificate is not None and shown is None):
            return None
        return TlsTrouble(said, "Give one by --cert and --key that an authority in tls_client_ca vouches for")


def trusting(
    authorities: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """A context that believes the system's authorities, or those of a file, and may have a certificate to show.

    Raises:
        Trouble: a file cannot be used.
    """
    try:
        return context_of(*[str(each or "") for each in (authorities, certificate, key)])
    except FileError as error:
        raise Trouble(str(error), "Name files in PEM by --ca, --cert and --key") from None


def _credulous() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _unreachable(place: Place, error: OSError) -> Trouble:
    where = f"{place.host}:{place.port}"
    first = error.__cause__
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    cause = first if isinstance(first, OSError) else error
    if isinstance(cause, socket.gaierror):
        return Trouble(f"the host name {place.host} cannot be resolved", "Write a name that the DNS knows")
    if cause.errno == errno.ECONNREFUSED:
        remedy = "Start the gateway, or the proxy, or name the port where it listens (`gateway check-config`)"
        return Trouble(f"nobody listens at {where}", remedy)
    reason = (cause.strerror or str(cause)).lower()
    return Trouble(f"{where} cannot be reached: {reason}", "Look at the network between here and there")


def _distrusted(place: Place, error: ssl.SSLCertVerificationError) -> CertificateTrouble:
    setting = "tls_certificate" if place.kind == TCP else "tls_certificate, or nginx's ssl_certificate"
    code = error.verify_code
    if code == _EXPIRED:
        remedy = f"Renew the file of {setting}, and reload"
        return CertificateTrouble("the certificate has expired", remedy, is_expired=True)
    if code == _NOT_YET:
        remedy = "Set the clock of this machine, or wait: the certificate is from the future"
        return CertificateTrouble("the certificate is not good yet", remedy)
    if code in (_OTHER_NAME, _OTHER_ADDRESS):
        remedy = f"Dial one of its names, or get a certificate for {place.name or place.host} into {setting}"
        return CertificateTrouble(f"the certificate is not for {place.name or place.host}", remedy)
    if code == _SELF_SIGNED:
        remedy = f"Get one of an authority that clients know into {setting}, or give it by --ca"
        return CertificateTrouble("the certificate is signed by itself, and no client knows it", remedy)
    remedy = (
        f"Put the whole chain into {setting} (certbot: fullchain.pem, not cert.pem), "
        "or give an authority of your own by --ca"
    )
    return CertificateTrouble("nobody whom clients know vouches for the certificate", remedy)
