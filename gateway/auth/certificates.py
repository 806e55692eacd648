"""Users by TLS client certificate: which of a certificate's names is the user's.  The listener has verified it."""

from __future__ import annotations

from gateway.auth.claims import user_of
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Certificate, Identity


def name_in(certificate: Certificate, kind: str) -> str:
    """The name of that kind; of several the first; empty: it has none.

    Args:
        kind: a value of the setting `tls_user`, but not `none`.
    """
    if kind == "common-name":
        return certificate.common_name
    if kind == "subject":
        return certificate.subject
    start = f"{kind}:"
    return next((name.removeprefix(start) for name in certificate.names if name.startswith(start)), "")


class Certificates:
    """Says whose certificate it is.

    Args:
        kind: of its names, which is the user's: the setting `tls_user`, but not `none`.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind

    async def identify(self, certificate: Certificate) -> Identity:
        """Whose it is.

        Raises:
            LoginRefused: it does not say.
        """
        user = user_of(name_in(certificate, self._kind))
        if user is None:
            detail = f"the client certificate has no name of the kind {self._kind} (tls_user)"
            raise LoginRefused(detail, is_guess=False, method="certificate", why=detail)
        return Identity(user, expires=certificate.expires, method="certificate")
