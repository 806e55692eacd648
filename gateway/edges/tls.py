"""TLS of links between machines: both ends show a certificate that one authority has signed.

The form of the messages is the protocol that the ends agree on (ALPN): edges and primaries of releases that differ in
it do not talk past each other.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

PROTOCOL = "stomp-gateway-edge/1"
"""The form of the messages; it grows with each change of `forms`."""


class EdgeFilesError(Exception):
    """A file cannot be used; `setting` names it, and `str()` says why."""

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(reason)
        self.setting = setting


@dataclass(frozen=True, slots=True)
class EdgeFiles:
    """Files of one end, in PEM."""

    certificate: Path
    key: Path
    ca: Path

    def context(self, *, of_primary: bool) -> ssl.SSLContext:
        """The context of one end.  Raises EdgeFilesError: a file cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if of_primary else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.set_alpn_protocols([PROTOCOL])
        for setting, path in (("edge_certificate", self.certificate), ("edge_key", self.key), ("edge_ca", self.ca)):
            try:
                path.read_bytes()
            except OSError as error:
                raise EdgeFilesError(setting, f"{path} cannot be read: {error.strerror}") from None
        try:
            context.load_cert_chain(self.certificate, self.key, password="")
        except ssl.SSLError as error:
            words = (error.reason or "it is broken").lower().replace("_", " ")
            raise EdgeFilesError("edge_key", f"{self.certificate} and {self.key} cannot be used: {words}") from None
        try:
            context.load_verify_locations(self.ca)
        except ssl.SSLError:
            raise EdgeFilesError("edge_ca", f"{self.ca} has no certificate in PEM") from None
        return context
