"""Destination names: which kind one is, and which names are one destination.

    /queue/NAME             a queue: kept until consumed, each message to one consumer
    NAME, /amq/queue/NAME   the same; NAME does not start with a slash
    /topic/NAME             a topic: every current subscriber gets a copy, nothing is kept
    /exchange/amq.topic/K   the topic /topic/K
    /exchange/amq.direct/K  a topic of its own kind, without wildcards
    /exchange/amq.fanout    one topic for all; a key behind it, /exchange/amq.fanout/K, counts for nothing
    /user/queue/NAME        SUBSCRIBE: what is sent to this user; also /user/topic/, /user/exchange/
    /user/WHO/queue/NAME    SEND: to all sessions of that user that subscribed /user/queue/NAME
    /temp-queue/NAME        the session's own queue, which goes with it; /temp-topic/ likewise
    /reply-queue/TOKEN      SEND: somebody's temporary queue, as `reply-to` told it; /reply-topic/ likewise
    /app/NAME               handled by functions of the server's operator
    /session/events         SUBSCRIBE: what the server tells of this very session; SEND to /session/renew: see `renewal`

Each destination has one canonical name, under which the broker knows it.  A name is opaque beyond what stands here:
nothing in it is trimmed or decoded, and only wildcards split it into words.  Any other start with a slash is refused:
it is a slip of the pen, and a queue of that name would swallow what is sent.  So is what can only be meant for another
broker, and would wait for ever here: ActiveMQ's options behind a name, its advisories, its virtual topics.
"""

from __future__ import annotations

import re

from ..errors import NotAllowed
from .patterns import check_pattern, check_wildcards, check_words, has_wildcard

EVENTS = "/session/events"
RENEW = "/session/renew"
QUEUE = "/queue/"
TOPIC = "/topic/"
DIRECT = "/exchange/amq.direct/"
FANOUT = "/exchange/amq.fanout"
USER = "/user/"
APP = "/app/"
TEMPORARY = ("/temp-queue/", "/temp-topic/")
REPLY_QUEUE = "/reply-queue/"
REPLY_TOPIC = "/reply-topic/"
HANDLERS = "/handlers/"
"""What the queues of the operator's functions start with; no client can name one."""

# Every form of name, and what the canonical name has in place of its start; None: it is found out elsewhere.
_FORMS = {
    "/queue/NAME": QUEUE,
    "/topic/NAME": TOPIC,
    "/amq/queue/NAME": QUEUE,
    "/exchange/amq.topic/KEY": TOPIC,
    "/exchange/amq.direct/KEY": DIRECT,
    FANOUT: None,
    "/temp-queue/NAME": None,
    "/temp-topic/NAME": None,
    "/reply-queue/TOKEN": REPLY_QUEUE,
    "/reply-topic/TOKEN": REPLY_TOPIC,
    "/user/queue/NAME": None,
    "/user/topic/NAME": None,
    "/user/exchange/NAME": None,
    "/user/WHO/queue/NAME": None,
    "/user/WHO/topic/NAME": None,
    "/user/WHO/exchange/NAME": None,
    "/app/NAME": APP,
    EVENTS: None,
    RENEW: None,
}
STARTS = {form[: form.rindex("/") + 1]: start for form, start in _FORMS.items() if start is not None}
"""What names start with, and what their canonical names have in place of that."""
_AS_THEY_ARE = tuple(start for start, name in STARTS.items() if start == name)
_ALIASES = {start: name for start, name in STARTS.items() if start != name}

_KINDS = {form.split("/")[1] for form in _FORMS}
_OF_ONE_COMMAND = {
    EVENTS: "only for SUBSCRIBE: there the server tells a session of itself",
    RENEW: "only for SEND: there a client shows a new token, in a SEND that names nothing else",
}

MAX_DESTINATIONS = 64
"""Of one SEND: each is a message of its own."""

DURABLE = "/dsub/"
"""What the queues of durable and shared subscriptions start with; no client can name one."""

HIDDEN = (USER, HANDLERS, DURABLE)
_TOPICS = (TOPIC, USER, DIRECT, FANOUT, REPLY_TOPIC)
_PATTERNED = (TOPIC, USER)
_OF_USERS = ("queue/", "topic/", "exchange/")

# RabbitMQ looks at the headers of what is sent there, by two names.
_BY_HEADERS = ("/exchange/amq.headers", "/exchange/amq.match")

# ActiveMQ fills such queues with what is sent to a topic,
_VIRTUAL = "/queue/Consumer."
# tells of its clients and queues on such topics,
_ADVISORY = "/topic/ActiveMQ.Advisory."
# and reads options behind a question mark, for which there are headers of SUBSCRIBE.
_OPTIONS = ("consumer.", "producer.")
_HEADERS = {
    "consumer.prefetchSize": "prefetch-count",
    "consumer.priority": "x-priority",
    "consumer.exclusive": "exclusive",
    "consumer.noLocal": "no-local",
    "consumer.selector": "selector",
    "consumer.maximumPendingMessageLimit": "activemq.maximumPendingMessageLimit",
}

# How a SEND writes what it cannot have in a user's name.
_ESCAPES = {"%2F": "/", "%2C": ",", "%25": "%"}
_ESCAPE = re.compile("|".join(_ESCAPES))
# A user's name is one word of a canonical name, whatever it holds: else a user called `*` would get everybody's mail.
_IN_A_WORD = str.maketrans({character: f"%{ord(character):02X}" for character in "%/.*#>,"})


def is_topic(name: str) -> bool:
    """Whether a canonical name is a topic's: copies for all, nothing kept."""
    return name.startswith(_TOPICS)


def is_temporary(destination: str) -> bool:
    """Whether a name is a temporary destination as its own session calls it; what it is told of itself is one, too."""
    return destination.startswith(TEMPORARY) or destination == EVENTS


def split(destination: str) -> list[str]:
    """The destinations that one SEND, or `reply-to`, names: a comma stands between them.

    Raises:
        NotAllowed: too many; each is looked at, and a header line has room for thousands.
    """
    if "," not in destination:
        return [destination]
    count = destination.count(",") + 1
    if count > MAX_DESTINATIONS:
        raise NotAllowed("too many destinations in a SEND", f"{count} stand between commas; {MAX_DESTINATIONS} may")
    return [part.strip(" ") for part in destination.split(",")]


def canonical(destination: str, multicast: bool | None = None) -> str:
    """The canonical name of what a SEND names; not of temporary destinations, which only their session knows.

    Args:
        multicast: whether a bare name is a topic's (True) or a queue's (False); None: a queue's.

    Raises:
        NotAllowed: an empty name, a wildcard, or a kind of destination that the gateway does not have.
    """
    _check_options(destination)
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
    _check_options(destination)
    if destination.startswith(USER):
        rest = destination[len(USER) :]
        if not rest.startswith(_OF_USERS) or rest in _OF_USERS:
            raise NotAllowed(
                "unknown user destination", f"subscribe to /user/queue/NAME: {destination[:80]!r} is not of that form"
            )
        name = _of_user(user, rest)
        _check_topic(name, destination)
        check_type(destination, name, multicast)
        check_pattern(name, destination)
        return name
    if destination.startswith((REPLY_QUEUE, REPLY_TOPIC)):
        raise NotAllowed(
            "a temporary destination of somebody",
            f"{destination[:80]!r} can only be sent to; its owner subscribes to it as /temp-queue/NAME",
        )
    name = _canonical(destination, multicast)
    if has_wildcard(name) and not name.startswith(TOPIC):
        raise NotAllowed("wildcards are for topics", f"{destination[:80]!r} must name one destination")
    check_pattern(name, destination)
    _check_foreign(name, destination)
    return name


def _check_options(destination: str) -> None:
    _, _, text = destination.partition("?")
    if not text.startswith(_OPTIONS):
        return
    given = [option.partition("=") for option in text[:1000].split("&")]
    headers = [f"{_HEADERS[option]}:{value[:40]}" for option, _, value in given if option in _HEADERS]
    instead = f"as headers of the SUBSCRIBE they are {', '.join(headers)}" if headers else "leave them out"
    raise NotAllowed("options in a destination", f"nobody reads what follows ? in {destination[:80]!r}; {instead}")


def _check_foreign(name: str, destination: str) -> None:
    """Refuse to SUBSCRIBE where ActiveMQ would send something of its own, and nothing ever comes here."""
    if name.startswith(_VIRTUAL) and ".VirtualTopic." in name:
        raise NotAllowed(
            "virtual topics are not supported",
            f"nothing that is sent to a topic comes to {destination[:80]!r}; subscribe to the topic, if each consumer "
            "may have a copy, or let one SEND name a queue for each group of consumers: destination:/queue/a,/queue/b",
        )
    if name.startswith(_ADVISORY):
        raise NotAllowed(
            "advisories are not supported",
            f"nothing is ever sent to {destination[:80]!r}; who is there, and what waits where, is at "
            "/api/v1/sessions, /api/v1/destinations and /metrics of the server's HTTP port",
        )


def _canonical(destination: str, multicast: bool | None) -> str:
    if destination.startswith(_AS_THEY_ARE):
        name = destination
    elif destination.startswith(USER):
        who, _, rest = destination[len(USER) :].partition("/")
        if not who or not rest.startswith(_OF_USERS) or rest in _OF_USERS:
            raise NotAllowed(
                "unknown user destination", f"send to /user/WHO/queue/NAME: {destination[:80]!r} is not of that form"
            )
        name = _of_user(_ESCAPE.sub(lambda found: _ESCAPES[found[0]], who), rest)
    else:
        name = _alias(destination, multicast)
    if name.endswith("/") and name in _AS_THEY_ARE:
        raise NotAllowed("destination without a name", f"{destination!r} needs a name behind the last slash")
    if is_topic(name):
        _check_topic(name, destination)
    check_type(destination, name, multicast)
    return name


def _check_topic(name: str, destination: str) -> None:
    check_words(name, destination)
    if name.startswith(_PATTERNED):
        check_wildcards(name, destination)


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
    if is_fanout(destination):
        return FANOUT
    if "/".join(destination.split("/", 3)[:3]) in _BY_HEADERS:
        raise NotAllowed(
            "no exchange routes by headers",
            f"instead of {destination[:80]!r} use a topic: SEND to /topic/NAME, and say in the header selector of each "
            "SUBSCRIBE to it which messages it wants, like selector:colour = 'red'",
        )
    if destination in _OF_ONE_COMMAND:
        raise NotAllowed("unsupported kind of destination", f"{destination!r} is {_OF_ONE_COMMAND[destination]}")
    if destination.startswith("/"):
        raise NotAllowed(
            "unsupported kind of destination",
            f"{destination[:80]!r} names a kind this server does not have; it has {', '.join(_FORMS)}, and NAME for a "
            "queue",
        )
    if not destination:
        raise NotAllowed("destination without a name", "the destination header is empty")
    return (TOPIC if multicast else QUEUE) + destination


def is_fanout(destination: str) -> bool:
    """Whether a name is the fanout exchange, whatever its key."""
    return destination == FANOUT or destination.startswith(FANOUT + "/")


def lacks_slash(name: str) -> bool:
    """Whether a bare name, which is a queue's, starts like a destination without its first slash."""
    kind, slash, _ = name.partition("/")
    return bool(slash) and kind in _KINDS


def mail_of(user: str) -> str:
    """What the canonical names start with of all that is sent to a user."""
    return f"{USER}{word_of(user)}/"


def word_of(user: str) -> str:
    """A user's name as one word of a name or pattern, whatever it holds; no two have the same."""
    return user.translate(_IN_A_WORD)


def _of_user(user: str, rest: str) -> str:
    return mail_of(user) + rest
