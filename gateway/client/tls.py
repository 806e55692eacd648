"""TLS as a client has it: whom it believes, what it shows of itself, and what a server says that wants to see another.

A server says so by an alert.  In TLS 1.2 that ends the handshake.  In 1.3 the client is through before the server has
looked, and finds the alert where it expects the first answer.

The files are read anew for each connection, so that a renewed certificate is shown by whoever runs for months.
"""

from __future__ import annotations

import ssl

_DEMANDED = "CERTIFICATE_REQUIRED"
# What TLS 1.2 says when it is shown none, and of much else.
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
    """What TLS needs to know.

    Args:
        ca: a file of certificates to trust instead of the system's; "": the system's.
        cert: the certificate to show, with those between it and its authority; "": none.
        key: the file of its key; "": it stands in `cert`, too.

    Raises:
        FileError: one of them cannot be used.
    """
    for path in filter(None, (ca, cert, key)):
        _see(f"the file of authorities {path}" if path == ca else path, path)
    if key and not cert:
        raise FileError(f"the key in {key} needs its certificate (cert)")
    try:
        context = ssl.create_default_context(cafile=ca or None)
    except ssl.SSLError:
        raise FileError(f"the file of authorities {ca} cannot be used: it has no certificate in PEM") from None
    if cert:
        _load(context, cert, key)
    return context


def _see(name: str, path: str) -> None:
    """OpenSSL does not say which of its files it cannot read."""
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise FileError(f"{name} cannot be read: {error.strerror}") from None


def _load(context: ssl.SSLContext, cert: str, key: str) -> None:
    asked = []

    def passphrase() -> str:
        asked.append(True)  # without us OpenSSL would ask the terminal
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
    """What is wrong with a certificate, ours or the server's, for words behind "cannot connect"; "": it is not that."""
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
