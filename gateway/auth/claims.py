"""Claims: what a login, a token, a cookie or a client certificate says of its user.

Tokens, cookies and certificates are verified before they come here, but their contents may have any shape.
"""

import base64
import binascii
import re
from collections.abc import Mapping

from gateway.broker.core.ports import ANONYMOUS
from gateway.broker.errors import LoginRefused
from gateway.broker.model.identity import Certificate, Credentials, Identity

_LONGEST_NAME = 1024  # bytes
_LARGEST_NUMBER = 10**100
# Flask writes a tuple into its cookie as an object with this one key.
_FLASK_TUPLE = " t"


def login_of(credentials: Credentials) -> str:
    """The login beside the passcode, of CONNECT or of HTTP Basic; empty: none."""
    if not credentials.passcode and credentials.upgrade is not None:
        basic = basic_of(credentials.upgrade.authorization)
        if basic is not None:
            return basic[0]
    return credentials.login or ""


def basic_of(authorization: str) -> tuple[str, str] | None:
    """Login and passcode of HTTP Basic; None: the field is something else."""
    scheme, _, text = authorization.strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        login, colon, passcode = base64.b64decode(text.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (login, passcode) if colon else None


def find(data: Mapping[str, object], name: str) -> object:
    """The value of a claim, or None.  `realm_access.roles` goes one level deeper at each dot.

    The whole name is tried first: names of claims may be URLs, which have dots.
    """
    if name in data:
        return data[name]
    found: object = data
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def user_of(value: object) -> str | None:
    """The user's name that a claim holds, which may be a number; None: the claim holds none."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_NUMBER:
        return str(value)
    # Unprintable characters hide differences and break lines of logs.  `anonymous` is free of the rules for named users
    # (`*`) and of the limits of each user, so a user registered under it elsewhere is refused.
    if not isinstance(value, str) or not value.isprintable() or value != value.strip() or value == ANONYMOUS:
        return None
    return value if 0 < len(value.encode()) <= _LONGEST_NAME else None


def groups_of(value: object) -> frozenset[str]:
    """The groups in a claim: the texts of an array, or the words of a text, separated by spaces or commas."""
    if isinstance(value, Mapping):
        value = value.get(_FLASK_TUPLE)
    if isinstance(value, str):
        value = re.split(r"[\s,]+", value)
    return (
        frozenset(each for each in value if isinstance(each, str) and each) if isinstance(value, list) else frozenset()
    )


class CertificateUsers:
    """The authenticator of verified TLS client certificates, by the kind of name that `tls_user` names."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    async def identify(self, certificate: Certificate) -> Identity:
        """The user: the first name of the kind.  Raises LoginRefused: there is none."""
        user = user_of(self._name_in(certificate))
        if user is None:
            detail = f"the client certificate has no name of the kind {self._kind} (tls_user)"
            raise LoginRefused(detail, is_guess=False, method="certificate", why=detail)
        return Identity(user, expires=certificate.expires, method="certificate")

    def _name_in(self, certificate: Certificate) -> str:
        if self._kind == "common-name":
            return certificate.common_name
        if self._kind == "subject":
            return certificate.subject
        start = f"{self._kind}:"
        return next((name.removeprefix(start) for name in certificate.names if name.startswith(start)), "")
