"""Destination names: which kind one is, and which names are one destination.

    /queue/NAME             a queue: kept until consumed, each message to one consumer
    NAME, /amq/queue/NAME   the same; NAME does not start with a slash
    /topic/NAME             a topic: every current subscriber gets a copy, nothing is kept
    /exchange/amq.topic/K   the topic /topic/K
    /exchange/amq.direct/K  a topic of its own kind, without wildcards
    /user/queue/NAME        SUBSCRIBE: what is sent to this user; also /user/topic/, /user/exchange/
    /user/WHO/queue/NAME    SEND: to all sessions of that user that subscribed /user/queue/NAME
    /temp-queue/NAME        the session's own queue, which goes with it; /temp-topic/ likewise
    /reply-queue/TOKEN      SEND: somebody's temporary queue, as `reply-to` told it; /reply-topic/ likewise
    /app/NAME               handled by functions of the server's operator

Each destination has one canonical name, under which the broker knows it.  A name is opaque beyond what stands here:
nothing in it is trimmed or decoded, and only wildcards split it into words.  Any other start with a slash is refused:
it is a slip of the pen, and a queue of that name would swallow what is sent.
"""

from __future__ import annotations

from .errors import NotAllowed
from .words import check_pattern, check_words, has_wildcard

QUEUE = "/queue/"
TOPIC = "/topic/"
DIRECT = "/exchange/amq.direct/"
USER = "/user/"
APP = "/app/"
TEMPORARY = ("/temp-queue/", "/temp-topic/")
REPLY_QUEUE = "/reply-queue/"
REPLY_TOPIC = "/reply-topic/"
HANDLERS = "/handlers/"
"""What the queues of the operator's functions start with; no client can name one."""

HIDDEN = (USER, HANDLERS)
_AS_THEY_ARE = (QUEUE, TOPIC, DIRECT, APP, REPLY_QUEUE, REPLY_TOPIC)
_ALIASES = {"/amq/queue/": QUEUE, "/exchange/amq.topic/": TOPIC}
_TOPICS = (TOPIC, USER, DIRECT, REPLY_TOPIC)
# ActiveMQ fills such queues with what is sent to a topic.
_VIRTUAL = "/queue/Consumer."
_OF_USERS = ("queue/", "topic/", "exchange/")

# A user's name is one word of a canonical name, whatever it holds: else a user called `*` would get everybody's mail.
_IN_A_WORD = str.maketrans({character: f"%{ord(character):02X}" for character in "%/.*#>,"})


def is_topic(name: str) -> bool:
    """Whether a canonical name is a topic's: copies for all, nothing kept."""
    return name.startswith(_TOPICS)


def is_temporary(destination: str) -> bool:
    """Whether a name is a temporary destination as its own session calls it."""
    return destination.startswith(TEMPORARY)


def split(destination: str) -> list[str]:
    """The destinations that one SEND names: a comma stands between them."""
    return [part.strip(" ") for part in destination.split(",")] if "," in destination else [destination]


def canonical(destination: str, multicast: bool | None = None) -> str:
    """The canonical name of what a SEND names; not of temporary destinations, which only their session knows.

    Args:
        multicast: whether a bare name is a topic's (True) or a queue's (False); None: a queue's.

    Raises:
        NotAllowed: an empty name, a wildcard, or a kind of destination that the gateway does not have.
    """
    name = _canonical(destination, multicast)
    if has_wildcard(name):
        raise NotAllowed("wildcard in a name", f"{destination[:80]!r} is for SUBSCRIBE; a SEND goes to one destination")
    return name


def canonical_for(user: str, destination: str, multicast: bool | None = None) -> str:
    """The canonical name, or pattern, of what a SUBSCRIBE of that user names; not of temporary destinations.

    Raises:
        NotAllowed: as above, or a wildcard in the name of a queue.
    """
    if "," in destination:
        raise NotAllowed("a comma in a SUBSCRIBE", f"{destination[:80]!r} must name one destination")
    if destination.startswith(USER):
        rest = destination[len(USER) :]
        if not rest.startswith(_OF_USERS) or rest in _OF_USERS:
            raise NotAllowed(
                "unknown user destination", f"subscribe to /user/queue/NAME: {destination[:80]!r} is not of that form"
            )
        name = _of_user(user, rest)
        check_type(destination, name, multicast)
        check_pattern(name)
        return name
    if destination.startswith((REPLY_QUEUE, REPLY_TOPIC)):
        raise NotAllowed(
            "a temporary destination of somebody",
            f"{destination[:80]!r} can only be sent to; its owner subscribes to it as /temp-queue/NAME",
        )
    name = _canonical(destination, multicast)
    if has_wildcard(name) and not name.startswith(TOPIC):
        raise NotAllowed("wildcards are for topics", f"{destination[:80]!r} must name one destination")
    check_pattern(name)
    if name.startswith(_VIRTUAL) and ".VirtualTopic." in name:
        raise NotAllowed(
            "virtual topics are not supported", f"nothing that is sent to a topic comes to {destination[:80]!r}"
        )
    return name


def _canonical(destination: str, multicast: bool | None) -> str:
    if destination.startswith(_AS_THEY_ARE):
        name = destination
    elif destination.startswith(USER):
        who, _, rest = destination[len(USER) :].partition("/")
        if not who or not rest.startswith(_OF_USERS) or rest in _OF_USERS:
            raise NotAllowed(
                "unknown user destination", f"send to /user/WHO/queue/NAME: {destination[:80]!r} is not of that form"
            )
        name = _of_user(who.replace("%2F", "/").replace("%2C", ","), rest)
    else:
        name = _alias(destination, multicast)
    if name.endswith("/") and name in (*_AS_THEY_ARE, *TEMPORARY):
        raise NotAllowed("destination without a name", f"{destination!r} needs a name behind the last slash")
    if is_topic(name):
        check_words(name)
    check_type(destination, name, multicast)
    return name


def check_type(destination: str, name: str, multicast: bool | None) -> None:
    """Refuse a destination that is of another type than its frame says.

    Raises:
        NotAllowed: a topic where the frame says queue, or the other way round.
    """
    if multicast is not None and multicast != is_topic(name):
        raise NotAllowed(
            "destination of another type", f"{destination[:80]!r} is a {'topic' if is_topic(name) else 'queue'}"
        )


def _alias(destination: str, multicast: bool | None) -> str:
    for alias, kind in _ALIASES.items():
        if destination.startswith(alias):
            return kind + destination[len(alias) :]
    if destination.startswith("/"):
        raise NotAllowed(
            "unsupported kind of destination",
            f"{destination[:80]!r} names a kind this server does not have; it has /queue/NAME, /topic/NAME, "
            "/temp-queue/NAME, /user/WHO/queue/NAME, /exchange/amq.topic/KEY, /exchange/amq.direct/KEY",
        )
    if not destination:
        raise NotAllowed("destination without a name", "the destination header is empty")
    return (TOPIC if multicast else QUEUE) + destination


def _of_user(user: str, rest: str) -> str:
    name = f"{USER}{user.translate(_IN_A_WORD)}/{rest}"
    check_words(name)
    return name
