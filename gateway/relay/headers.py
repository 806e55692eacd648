"""Headers of a message on its way.

Headers of the delivery stay behind, and so does `user-id`: the target would compare it with the login of the relay.  A
`reply-to` that begins with /temp- would name a destination of the relay at the target, and stays behind, too.  All
others go on, and two are added:

    relayed     the relays that the message has passed, with commas: a relay that finds its own name has found a circle
    dedup-id    the same for each delivery of the same message of the same source, unless its publisher set one
"""

from __future__ import annotations

import hashlib

from gateway.codec import Frame

from .settings import RelayPlan, Route, address

RELAYED = "relayed"
MOST_HOPS = 8
_DEDUP = ("dedup-id", "_AMQ_DUPL_ID")
_STAYS = frozenset(
    "ack content-length delivery-count destination message-id receipt redelivered subscription transaction "
    "user-id".split()
)


class Loop(Exception):
    """The message goes in a circle; the text is one sentence."""


def onward(message: Frame, plan: RelayPlan, route: Route) -> dict[str, str]:
    """The headers of the SEND.  Raises Loop: the message must not be sent."""
    headers = message.headers
    passed = [name for name in headers.get(RELAYED, "").split(",") if name]
    if plan.name in passed:
        raise Loop(f"it has passed the relay {plan.name} before: it goes in a circle")
    if len(passed) >= MOST_HOPS:
        raise Loop(f"it has passed {len(passed)} relays, and {MOST_HOPS} may be: it goes in a circle")
    kept = {name: value for name, value in headers.items() if name not in _STAYS}
    if kept.get("reply-to", "").startswith("/temp-"):
        del kept["reply-to"]
    own = headers.get("destination", route.source) if route.is_pattern else route.source
    kept |= {"destination": route.target or own, RELAYED: ",".join([*passed, plan.name])}
    if not any(kept.get(name) for name in _DEDUP):
        kept["dedup-id"] = _dedup_id(message, plan, route)
    return kept


def _dedup_id(message: Frame, plan: RelayPlan, route: Route) -> str:
    """A hash with server and destination: two queues may hold one SEND with one id, and two servers count alike."""
    parts = address(plan.source), message.headers.get("destination", route.source), message.headers["message-id"]
    return hashlib.blake2b("\n".join(parts).encode(errors="surrogatepass"), digest_size=16).hexdigest()
