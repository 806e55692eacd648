"""The login that a client claims: in CONNECT, or by HTTP Basic in the upgrade of its WebSocket."""

from __future__ import annotations

import base64
import binascii

from gateway.broker.model.identity import Credentials


def login_of(credentials: Credentials) -> str:
    """The login beside the passcode that is shown; empty: there is none."""
    if not credentials.passcode and credentials.upgrade is not None:
        basic = basic_of(credentials.upgrade.authorization)
        if basic is not None:
            return basic[0]
    return credentials.login or ""


def basic_of(authorization: str) -> tuple[str, str] | None:
    """Login and passcode of HTTP Basic; None: it is not that."""
    scheme, _, text = authorization.strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        login, colon, passcode = base64.b64decode(text.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (login, passcode) if colon else None
