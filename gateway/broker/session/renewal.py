"""Sessions that last as long as a token does: what the client is told, and how it may stay longer.

    SUBSCRIBE destination:/session/events    the session's own topic: MESSAGE event:token-expiring, expires-in:SECONDS
    SEND      destination:/session/renew     the new token in `passcode`, in `Authorization`, or as the body

Whether a token is good the broker does not know; it hands it to the connection below, which has it authenticated.
Frames behind a renewal are carried out meanwhile, and its RECEIPT goes out when it was accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.codec import Head, encoder

from ..errors import NotAllowed
from ..model.destinations import EVENTS, RENEW
from ..model.identity import Renewal
from ..model.options import PLAIN

if TYPE_CHECKING:
    from .session import Session

_LONGEST = 64 * 1024
"""Bytes of a token in a body: as many as a header may have."""


def tell(session: Session, event: str, headers: Mapping[str, str], sentence: str) -> bool:
    """Send a client a word on its own session; False: it has not subscribed to `/session/events`."""
    name, carrier = session.temporaries.known(EVENTS), session.outbox.carrier
    if name is None or carrier is None:
        return False
    told = {"destination": EVENTS, "event": event, **headers, "content-type": "text/plain;charset=utf-8"}
    session.broker.deposit(name, Head.of("SEND", told), sentence.encode(), PLAIN)
    carrier.flush()
    return True


def ask(session: Session, head: Head, body: bytes) -> None:
    """Have the connection ask whether the client may stay longer.

    Raises:
        NotAllowed: it does not show with what, or it has asked already.
    """
    if session.renewal is not None:
        raise NotAllowed("a renewal is under way", f"wait for the RECEIPT of one before the next SEND to {RENEW}")
    carrier = session.outbox.carrier
    assert carrier is not None  # its frames are handled
    session.renewal = _renewal_of(head, body)
    carrier.renew(session.renewal)


def accepted(session: Session) -> None:
    """It may: the RECEIPT of its renewal is due."""
    renewal, session.renewal = session.renewal, None
    if renewal is not None and renewal.receipt is not None:
        session.confirm(encoder.receipt(renewal.receipt, session.version, session.frame_end))


def _renewal_of(head: Head, body: bytes) -> Renewal:
    """What a SEND to `/session/renew` shows.

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
            f"a SEND to {RENEW} has it in passcode, in Authorization, or as its body of at most {_LONGEST} octets",
        )
    return Renewal(headers.get("login", ""), passcode, authorization)
