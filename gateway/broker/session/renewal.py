"""Renewal of sessions that last as long as a token: the client is told of the end, and may show a new token.

    SUBSCRIBE destination:/session/events    the session's own topic: MESSAGE event:token-expiring, expires-in:SECONDS
    SEND      destination:/session/renew     the new token in `passcode`, in `Authorization`, or as the body

The broker does not know if a token is good; it hands it to the connection below, which has it authenticated.
Frames behind a renewal are carried out meanwhile, and its RECEIPT goes out when it was accepted.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.codec import Head

from ..errors import NotAllowed
from ..model.destinations import EVENTS, RENEW
from ..model.identity import Renewal

# Bytes of a token in a body: as many as a header may have.
_LONGEST = 64 * 1024


def message_of(event: str, headers: Mapping[str, str]) -> Head:
    """The head of a MESSAGE by which a session is told of itself."""
    told = {"destination": EVENTS, "event": event, **headers, "content-type": "text/plain;charset=utf-8"}
    return Head.of("SEND", told)


def renewal_of(head: Head, body: bytes) -> Renewal:
    """The renewal that a SEND to `/session/renew` asks for.

    Raises:
        NotAllowed: it shows nothing, or is a part of something else.
    """
    headers: Mapping[str, str] = head.headers
    if "transaction" in headers:
        raise NotAllowed("a renewal in a transaction", f"a SEND to {RENEW} is carried out at once; send it outside")
    authorization = headers.get("Authorization") or headers.get("authorization", "")
    passcode = headers.get("passcode", "")
    if not passcode and not authorization and len(body) <= _LONGEST:
        passcode = body.decode(errors="replace").strip()
    if not passcode and not authorization:
        raise NotAllowed(
            "a renewal without a token",
            f"a SEND to {RENEW} has it in passcode, in Authorization, or as its body of at most {_LONGEST} bytes",
        )
    return Renewal(headers.get("login", ""), passcode, authorization)
