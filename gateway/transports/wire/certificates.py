"""Certificates of TLS listeners: read from files, checked, and read again while connections go on.

A connection keeps the context that it began with, so that new files are for new connections.  A file that cannot be
used is an error that names the setting and the file; when files are read again, the old ones then stay in force.
"""

import ssl
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from gateway.broker.model.identity import Certificate as ClientCertificate

# As HTTP clients in TLS offer them.  STOMP has no name of its own.
_PROTOCOLS = {"tcp": [], "websocket": ["http/1.1"]}
MIN_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
"""The versions that may be the lowest: older ones are broken."""


class CertificateError(Exception):
    """A file, which a setting names, cannot be used; `str()` says why."""

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(reason)
        self.setting = setting


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """The files of certificates; the settings `tls_...` explain each."""

    certificate: Path
    key: Path | None = None  # None: the file of the certificate has it
    client_ca: Path | None = None  # None: clients are not asked for a certificate
    required: bool = False  # a client must show one
    min_version: str = "1.2"  # of TLS, a key of `MIN_VERSIONS`


class TlsCertificates:
    """The certificate of TLS listeners, and the authority for client certificates; raises `CertificateError`."""

    name = "certificates"

    def __init__(self, files: CertificateFiles) -> None:
        self._files = files
        self.hosts: tuple[str, ...] = ()  # the names that the certificate is for
        self.ends = 0.0  # seconds since the epoch, until which it is valid
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._read()

    def _read(self) -> None:
        certificate = _first_certificate(self._files.certificate)
        contexts = {transport: _context(self._files, names) for transport, names in _PROTOCOLS.items()}
        names = [each for each in _alternative_names(certificate) if isinstance(each, (x509.DNSName, x509.IPAddress))]
        self.hosts = tuple(str(each.value) for each in names)
        self.ends = certificate.not_valid_after_utc.timestamp()
        self._contexts = contexts

    def context(self, transport: str) -> ssl.SSLContext:
        """For a new connection of that transport, `tcp` or `websocket`."""
        return self._contexts[transport]

    def client(self, data: bytes) -> ClientCertificate | None:
        """Read a verified client's certificate, in DER; None: its names cannot be read."""
        try:
            return _of_client(x509.load_der_x509_certificate(data))
        except ValueError:
            return None

    def reload(self) -> str | None:
        """Read the files again; returns what is wrong with them, then the old ones stay in force."""
        try:
            self._read()
        except CertificateError as error:
            return f"{error.setting}: {error}"
        return None

    def warning(self) -> str | None:
        """A sentence if the certificate has expired, or will within a week; else None."""
        left = self.ends - time.time()
        if left > 7 * 86_400:
            return None
        end = "has expired" if left <= 0 else "expires soon"
        return f"the certificate in {self._files.certificate} {end}: it is valid until {self.end_date}"

    @property
    def end_date(self) -> str:
        """The end of the certificate, for people."""
        return f"{datetime.fromtimestamp(self.ends, UTC):%Y-%m-%d %H:%M} UTC"


def _context(files: CertificateFiles, protocols: list[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = MIN_VERSIONS[files.min_version]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    if protocols:
        context.set_alpn_protocols(protocols)
    _load_key(context, files)
    if files.client_ca is not None:
        _bytes("tls_client_ca", files.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED if files.required else ssl.CERT_OPTIONAL
        try:
            context.load_verify_locations(files.client_ca)
        except ssl.SSLError:
            raise CertificateError("tls_client_ca", f"{files.client_ca} has no certificate in PEM") from None
    return context


def _load_key(context: ssl.SSLContext, files: CertificateFiles) -> None:
    setting, path = ("tls_key", files.key) if files.key is not None else ("tls_certificate", files.certificate)
    data = _bytes(setting, path)
    if b"PRIVATE KEY-----" not in data:
        more = "" if files.key is not None else "; tls_key names the file of the key"
        raise CertificateError(setting, f"{path} has no private key in PEM{more}")
    if b"ENCRYPTED" in data:
        raise CertificateError(setting, f"the key in {path} has a passphrase; store it without one")
    try:
        # OpenSSL would ask the terminal for a passphrase.
        context.load_cert_chain(files.certificate, files.key, password="")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            reason = f"the key in {path} is not that of the certificate in {files.certificate}"
        else:
            words = (error.reason or "it is broken").lower().replace("_", " ")
            reason = f"certificate and key, {files.certificate} and {path}, cannot be used: {words}"
        raise CertificateError(setting, reason) from None


def _bytes(setting: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(setting, f"{path} cannot be read: {error.strerror}") from None


def _first_certificate(path: Path) -> x509.Certificate:
    data = _bytes("tls_certificate", path)
    try:
        return x509.load_pem_x509_certificates(data)[0]
    except ValueError:
        raise CertificateError("tls_certificate", f"{path} has no certificate in PEM") from None


_UNREADABLE = (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType)


def _alternative_names(certificate: x509.Certificate) -> list[x509.GeneralName]:
    """All alternative names; none, if one cannot be read."""
    try:
        return list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except _UNREADABLE:
        return []


_KINDS: dict[type[x509.GeneralName], str] = {
    x509.DNSName: "dns",
    x509.RFC822Name: "email",
    x509.UniformResourceIdentifier: "uri",
}


def _of_client(certificate: x509.Certificate) -> ClientCertificate:
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    names = _alternative_names(certificate)
    return ClientCertificate(
        subject=certificate.subject.rfc4514_string(),
        # Of several the last is the most specific (RFC 6125, appendix B.2).
        common_name=str(common[-1].value) if common else "",
        names=tuple(f"{_KINDS[type(name)]}:{name.value}" for name in names if type(name) in _KINDS),
        expires=certificate.not_valid_after_utc.timestamp(),
    )
