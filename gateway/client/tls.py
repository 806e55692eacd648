"""TLS of a client: trusted authorities, the client certificate, and the alerts of a server that demands one.

In TLS 1.2 the alert ends the handshake.  In 1.3 the client has finished the handshake before the server has checked the
certificate, so the alert stands in place of the first answer.

The files are read for each connection: a process that runs for months shows a renewed certificate.
"""

from __future__ import annotations

import ssl

_DEMANDED = "CERTIFICATE_REQUIRED"
# The alert of TLS 1.2 without a certificate, and for many other reasons.
_FAILED = "HANDSHAKE_FAILURE"
_REFUSED = (
    "ALERT_UNKNOWN_CA",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_UNSUPPORTED_CERTIFICATE",
    "ALERT_CERTIFICATE_",
    "ALERT_ACCESS_DENIED",
    "ALERT_DECRYPT_ERROR",
)


class FileError(ValueError):
    """A file of certificates or keys cannot be used; the text is a sentence."""


def context_of(ca: str = "", cert: str = "", key: str = "") -> ssl.SSLContext:
    """The TLS context of a client.

    Args:
        ca: a file of certificates to trust instead of the system's; "": the system's.
        cert: the client certificate, with those between it and its authority; "": none.
        key: the file of its key; "": `cert` holds the key, too.

    Raises:
        FileError: one of them cannot be used.
    """
    for path in filter(None, (ca, cert, key)):
        try:
            open(path, "rb").close()  # OpenSSL does not say which of its files it cannot read
        except OSError as error:
            name = f"the file of authorities {path}" if path == ca else path
            raise FileError(f"{name} cannot be read: {error.strerror}") from None
    if key and not cert:
        raise FileError(f"the key in {key} needs its certificate (cert)")
    try:
        context = ssl.create_default_context(cafile=ca or None)
    except ssl.SSLError:
        raise FileError(f"the file of authorities {ca} cannot be used: it has no certificate in PEM") from None
    if cert:
        _load(context, cert, key)
    return context


def _load(context: ssl.SSLContext, cert: str, key: str) -> None:
    asked = []

    def passphrase() -> str:
        asked.append(True)  # without this function OpenSSL would ask the terminal
        return ""

    try:
        context.load_cert_chain(cert, key or None, password=passphrase)
    except ssl.SSLError as error:
        if asked:
            raise FileError(f"the key in {key or cert} has a passphrase: give one without") from None
        if error.reason == "KEY_VALUES_MISMATCH":
            raise FileError(f"the key in {key or cert} is not that of the certificate in {cert}") from None
        files = f"{cert} and {key} have" if key else f"{cert} has"
        more = "" if key else "; the key may have a file of its own (key)"
        raise FileError(f"{files} no certificate with its key in PEM{more}") from None


def reason_of(error: OSError, ca: str = "", cert: str = "") -> str:
    """The fault of a certificate, the client's or the server's, for a sentence; "": another kind of error."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{ca or 'the system'} does not vouch for its certificate: {error.verify_message}"
    said = getattr(error, "reason", None) or "" if isinstance(error, ssl.SSLError) else ""
    if not cert:
        if _DEMANDED in said:
            return "it demands a client certificate, and none was shown (cert, key)"
        if _FAILED in said:
            return "it refuses the TLS handshake, perhaps for it demands a client certificate (cert, key)"
        if isinstance(error, ssl.SSLEOFError):  # the reset of a server that closed at once may take its alert away
            return "it ended TLS without a word, perhaps for it demands a client certificate (cert, key)"
    elif any(word in said for word in (*_REFUSED, _DEMANDED, _FAILED)):
        return f"it does not take the certificate in {cert}: {said.lower().replace('_', ' ')}"
    return ""
