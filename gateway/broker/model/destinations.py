"""Destination names: their kinds, and the canonical name of each.

    /queue/NAME             a queue: kept until consumed, each message to one consumer
    NAME, /amq/queue/NAME   the queue /queue/NAME; NAME does not start with a slash
    /topic/NAME             a topic: each current subscriber gets a copy, and the message is not kept
    /exchange/amq.topic/K   the topic /topic/K
    /exchange/amq.direct/K  a topic of its own kind, without wildcards
    /exchange/amq.fanout    one topic for all; a key after it, /exchange/amq.fanout/K, is ignored
    /user/queue/NAME        SUBSCRIBE: messages to this user; also /user/topic/, /user/exchange/
    /user/LOGIN/queue/NAME  SEND: to all sessions of that user that subscribed /user/queue/NAME
    /temp-queue/NAME        a queue of the session, deleted with it; also /temp-topic/
    /reply-queue/TOKEN      SEND: the temporary queue of a session, as its `reply-to` names it; also /reply-topic/
    /app/NAME               handled by functions of the server's operator
    /session/events         SUBSCRIBE: events of this session; SEND to /session/renew extends it, see `renewal`
    /presence/topic/NAME    SUBSCRIBE: the users that are subscribed to /topic/NAME, see `topic/presence`

The broker knows each destination by one canonical name.  Otherwise a name is opaque: it is neither trimmed nor decoded.
"""

import re
from difflib import get_close_matches

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
PRESENCE = "/presence"
"""What stands before the name of a topic in the name of its presence."""
HANDLERS = "/handlers/"
"""Start of the names of queues of the operator's functions; clients cannot name one."""

# Form of a name -> start of its canonical name; None: code below finds it.
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
    "/user/LOGIN/queue/NAME": None,
    "/user/LOGIN/topic/NAME": None,
    "/user/LOGIN/exchange/NAME": None,
    "/app/NAME": APP,
    EVENTS: None,
    RENEW: None,
    f"{PRESENCE}/topic/NAME": None,
}
STARTS = {form[: form.rindex("/") + 1]: start for form, start in _FORMS.items() if start is not None}
"""Start of a name -> start of its canonical name."""
_AS_THEY_ARE = tuple(start for start, name in STARTS.items() if start == name)
_ALIASES = {start: name for start, name in STARTS.items() if start != name}

_KINDS = {form.split("/")[1] for form in _FORMS}
_MEANT = {kind: f"/{kind}/" for kind in sorted(_KINDS)} | {"amq": QUEUE, "exchange": "/exchange/amq.topic/"}
_SIGN = re.compile("[/.:]")
_OF_ONE_COMMAND = {
    EVENTS: "only for SUBSCRIBE: the server sends the events of a session there",
    RENEW: "only for SEND: a client sends a new token there, in a SEND to no other destination",
}

MAX_DESTINATIONS = 64
"""Destinations of one SEND at most."""

DURABLE = "/dsub/"
"""Start of the names of queues of durable and shared subscriptions; clients cannot name one."""

_PRESENCE = PRESENCE + "/"
HIDDEN = (USER, HANDLERS, DURABLE, _PRESENCE)
_TOPICS = (TOPIC, USER, DIRECT, FANOUT, REPLY_TOPIC, _PRESENCE)
_PATTERNED = (TOPIC, USER)
_OF_USERS = ("queue/", "topic/", "exchange/")

# RabbitMQ routes by headers there, under two names.
_BY_HEADERS = ("/exchange/amq.headers", "/exchange/amq.match")

# ActiveMQ copies messages of a topic to such queues,
_VIRTUAL = "/queue/Consumer."
# sends notices about its clients and queues to such topics,
_ADVISORY = "/topic/ActiveMQ.Advisory."
# and reads options after a question mark; here they are headers of SUBSCRIBE.
_OPTIONS = ("consumer.", "producer.")
_HEADERS = {
    "consumer.prefetchSize": "prefetch-count",
    "consumer.priority": "x-priority",
    "consumer.exclusive": "exclusive",
    "consumer.noLocal": "no-local",
    "consumer.selector": "selector",
    "consumer.maximumPendingMessageLimit": "activemq.maximumPendingMessageLimit",
}

# Characters that a SEND must escape in a user's name.
_ESCAPES = {"%2F": "/", "%2C": ",", "%25": "%"}
_ESCAPE = re.compile("|".join(_ESCAPES))
# A user's name must stay one word of a canonical name: else a user called `*` would get the messages of all users.
_IN_A_WORD = str.maketrans({character: f"%{ord(character):02X}" for character in "%/.*#>,"})


def is_topic(name: str) -> bool:
    """True if a canonical name is a topic's."""
    return name.startswith(_TOPICS)


def is_presence(name: str) -> bool:
    """True if a name is that of the presence of a topic."""
    return name.startswith(_PRESENCE)


def is_temporary(destination: str) -> bool:
    """True if a name, as its session writes it, is a temporary destination; `/session/events` is one."""
    return destination.startswith(TEMPORARY) or destination == EVENTS


def split(destination: str) -> list[str]:
    """Destinations of a SEND or `reply-to`, which commas separate.  Raises NotAllowed: there are too many."""
    if "," not in destination:
        return [destination]
    count = destination.count(",") + 1
    if count > MAX_DESTINATIONS:  # each costs a message, and a header line has room for thousands
        raise NotAllowed(
            "too many destinations in a SEND",
            f"the frame names {count}; at most {MAX_DESTINATIONS} are allowed, so send more frames",
        )
    return [part.strip(" ") for part in destination.split(",")]


def canonical(destination: str, multicast: bool | None = None) -> str:
    """Canonical name of a destination of a SEND; temporary destinations are resolved by their session.

    `multicast`: True: a bare name is a topic's; False and None: a queue's.  Raises NotAllowed: the name is empty, has a
    wildcard, or is of an unknown kind.
    """
    _check_options(destination)
    name = _canonical(destination, multicast)
    if has_wildcard(name):
        raise NotAllowed(
            "wildcard in a name", f"{destination[:80]!r} is for SUBSCRIBE; a SEND must name one destination"
        )
    return name


def canonical_for(user: str, destination: str, multicast: bool | None = None) -> str:
    """Canonical name, or pattern, of the destination of a user's SUBSCRIBE; not of temporary destinations.

    Raises NotAllowed: as above, or the name of a queue has a wildcard.
    """
    # A SEND has a list of destinations with commas, so nothing could be sent to such a name.
    if "," in destination:
        raise NotAllowed("a comma in a SUBSCRIBE", f"{destination[:80]!r} must name one destination")
    _check_options(destination)
    if destination.startswith(USER):
        rest = destination[len(USER) :]
        if not rest.startswith(_OF_USERS) or rest in _OF_USERS:
            raise NotAllowed(
                "unknown user destination", f"subscribe to /user/queue/NAME: {destination[:80]!r} is not of that form"
            )
        # Always the user's own: the name of another user cannot be written here.
        name = _of_user(user, rest)
        _check_topic(name, destination)
        check_type(destination, name, multicast)
        check_pattern(name, destination)
        return name
    if is_presence(destination):
        name = PRESENCE + _observed(user, destination)
        check_type(destination, name, multicast)
        return name
    # To know the name from a `reply-to` is to be allowed to answer, and not to read the answers of others.
    if destination.startswith((REPLY_QUEUE, REPLY_TOPIC)):
        raise NotAllowed(
            "temporary destination of another session",
            f"{destination[:80]!r} is for SEND; its own session subscribes to it as /temp-queue/NAME",
        )
    name = _canonical(destination, multicast)
    if has_wildcard(name) and not name.startswith(TOPIC):
        raise NotAllowed("wildcards are for topics", f"{destination[:80]!r} must name one destination")
    check_pattern(name, destination)
    _check_foreign(name, destination)
    return name


def _observed(user: str, destination: str) -> str:
    """The topic whose presence that is."""
    topic = destination[len(PRESENCE) :]
    name = canonical_for(user, topic) if topic.startswith((TOPIC, "/exchange/amq.topic/")) else ""
    if not name or has_wildcard(name):
        raise NotAllowed(
            "presence of no single topic",
            f"subscribe to {PRESENCE}/topic/NAME, without wildcards: {destination[:80]!r} is not of that form",
        )
    return name


def _check_options(destination: str) -> None:
    _, _, text = destination.partition("?")
    # Any other name with a question mark is a name.  With these a client of ActiveMQ asks for something.
    if not text.startswith(_OPTIONS):
        return
    given = [option.partition("=") for option in text[:1000].split("&")]
    headers = [f"{_HEADERS[option]}:{value[:40]}" for option, _, value in given if option in _HEADERS]
    instead = f"send them as headers of the SUBSCRIBE: {', '.join(headers)}" if headers else "leave them out"
    raise NotAllowed("options in a destination", f"options after ? are not supported: {destination[:80]!r}; {instead}")


def _check_foreign(name: str, destination: str) -> None:
    """Refuse a SUBSCRIBE that would wait for ever, because only ActiveMQ sends there."""
    if name.startswith(_VIRTUAL) and ".VirtualTopic." in name:
        raise NotAllowed(
            "virtual topics are not supported",
            f"messages of a topic are not copied to {destination[:80]!r}; subscribe to the topic, if each consumer may "
            f"have "
            "a copy, or let one SEND name a queue for each group of consumers: destination:/queue/a,/queue/b",
        )
    if name.startswith(_ADVISORY):
        raise NotAllowed(
            "advisories are not supported",
            f"the server sends no notices to {destination[:80]!r}; read sessions and destinations at /api/v1/sessions, "
            "/api/v1/destinations and /metrics of its HTTP port",
        )


def _canonical(destination: str, multicast: bool | None) -> str:
    if destination.startswith(_AS_THEY_ARE):
        name = destination
    elif destination.startswith(USER):
        user, _, rest = destination[len(USER) :].partition("/")
        if not user or not rest.startswith(_OF_USERS) or rest in _OF_USERS:
            raise NotAllowed(
                "unknown user destination", f"send to /user/LOGIN/queue/NAME: {destination[:80]!r} is not of that form"
            )
        name = _of_user(_ESCAPE.sub(lambda found: _ESCAPES[found[0]], user), rest)
    else:
        name = _alias(destination, multicast)
    if name.endswith("/") and name in _AS_THEY_ARE:
        raise NotAllowed("destination without a name", f"{destination!r} needs a name after the last slash")
    if is_topic(name):
        _check_topic(name, destination)
    check_type(destination, name, multicast)
    return name


def _check_topic(name: str, destination: str) -> None:
    check_words(name, destination)
    if name.startswith(_PATTERNED):
        check_wildcards(name, destination)


def check_type(destination: str, name: str, multicast: bool | None) -> None:
    """Check the type that a frame states.  Raises NotAllowed: it states a queue for a topic, or the reverse."""
    # A frame that states the wrong kind is meant for another destination.
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
            f"instead of {destination[:80]!r} use a topic: SEND to /topic/NAME, and choose messages with the header "
            f"selector "
            "of each SUBSCRIBE, like selector:colour = 'red'",
        )
    if destination in _OF_ONE_COMMAND:
        raise NotAllowed("unsupported kind of destination", f"{destination!r} is {_OF_ONE_COMMAND[destination]}")
    if destination.startswith(TEMPORARY):
        raise NotAllowed("unsupported kind of destination", f"{destination[:80]!r} is for its own session only")
    if is_presence(destination):
        raise NotAllowed(
            "unsupported kind of destination",
            f"{destination[:80]!r} is only for SUBSCRIBE: the server lists the users of the topic there",
        )
    if destination.lstrip().startswith("/"):  # a typing error, and a queue of that name would keep messages unread
        raise NotAllowed(
            "unsupported kind of destination",
            f"{destination[:80]!r} is of no known kind; did you mean {' or '.join(map(repr, meant(destination)))}?",
        )
    if not destination:
        raise NotAllowed("destination without a name", "the destination header is empty; write one like /queue/NAME")
    if multicast is None and lacks_slash(destination):  # likely another typing error; with a type, the name is meant so
        raise NotAllowed(
            "unsupported kind of destination",
            f"{destination[:80]!r} has no slash in front; did you mean {meant(destination)[0]!r}? "
            f"The queue is {QUEUE + destination[:80]!r}",
        )
    return (TOPIC if multicast else QUEUE) + destination


def meant(destination: str) -> list[str]:
    """Names that may be meant by one of an unknown kind: the kind may be misspelt, or lack a slash, or be missing."""
    name = destination[:80].strip().lstrip("/")
    first, _, rest = _SIGN.sub("/", name, count=1).partition("/")
    near = get_close_matches(first.lower(), _MEANT, 1, 0.7)
    if not near:
        return [QUEUE + (name or "NAME"), TOPIC + (name or "NAME")]
    if near == ["exchange"]:
        rest = rest.partition("/")[2]  # without the name of an exchange that is none of ours
    return [_MEANT[near[0]] + (rest or "NAME")]


def is_fanout(destination: str) -> bool:
    """True if a name is the fanout exchange, with or without a key."""
    return destination == FANOUT or destination.startswith(FANOUT + "/")


def lacks_slash(name: str) -> bool:
    """True if a bare name, which is a queue's, starts like a destination without its first slash."""
    kind, slash, _ = name.partition("/")
    return bool(slash) and kind in _KINDS


def of_user(user: str) -> str:
    """Start of the canonical names of a user's own destinations."""
    return f"{USER}{word_of(user)}/"


def word_of(user: str) -> str:
    """A user's name as one word of a name or pattern; different users have different words."""
    return user.translate(_IN_A_WORD)


def _of_user(user: str, rest: str) -> str:
    return of_user(user) + rest
