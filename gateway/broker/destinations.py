"""Destination names: which kind one is, and which names are one destination.

    /queue/NAME    a queue: kept until consumed, each message to one consumer
    /topic/NAME    a topic: every current subscriber gets a copy, nothing is kept
    NAME           the queue /queue/NAME; it does not start with a slash

A name is opaque beyond that: nothing in it is trimmed, decoded or split.  Any other start with a slash is refused: it
is a kind that another broker has (/user/, /exchange/, /app/), or a slip of the pen, and a queue of that name would
swallow what is sent.
"""

from __future__ import annotations

from .errors import NotAllowed

QUEUE = "/queue/"
TOPIC = "/topic/"
TEMPORARY = ("/temp-queue/", "/temp-topic/")


def canonical(destination: str) -> str:
    """The one name of a destination, which starts with `/queue/` or `/topic/`.

    Raises:
        NotAllowed: an empty name, or a kind of destination that the gateway does not have.
    """
    if destination.startswith((QUEUE, TOPIC)):
        if len(destination) == len(QUEUE):
            raise NotAllowed("destination without a name", f"{destination!r} needs a name behind the last slash")
        return destination
    if destination.startswith("/"):
        raise NotAllowed(
            "unsupported kind of destination",
            f"{destination[:80]!r} names a kind this server does not have; it has /queue/NAME and /topic/NAME",
        )
    if not destination:
        raise NotAllowed("destination without a name", "the destination header is empty")
    return QUEUE + destination


def is_topic(name: str) -> bool:
    """Whether a canonical name is a topic's."""
    return name.startswith(TOPIC)
