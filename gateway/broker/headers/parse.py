"""Parsing of headers into options, by the table.

Most SENDs have no options and must not pay for the others: they share `PLAIN`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from gateway.codec.encoder import NOT_PASSED_ON

from .. import selectors
from ..errors import NotAllowed
from ..model.destinations import FANOUT, TOPIC
from ..model.options import NO_OPTIONS, PERSISTENT, PLAIN, TRANSIENT, SendOptions, SubscribeOptions, shared
from ..model.patterns import check_wildcards, check_words, has_wildcard
from ..model.policy import QueueArguments
from .row import HeaderEntry, Treatment
from .table import INDEX, TABLE, near_miss
from .values import BOOLEAN

_place = attrgetter("place")

# Names of a SEND that are cut from the MESSAGE, and aliases that the MESSAGE has under the canonical name as well.
_CUT = frozenset(name for name, entry in INDEX["SEND"].items() if not entry.row.visible) - NOT_PASSED_ON
_ALSO = {
    each.name: row.name for row in TABLE if "SEND" in row.frames and row.also_canonical for each in row.spellings[1:]
}


def _asking(command: str, cut: frozenset[str] = frozenset()) -> dict[str, HeaderEntry]:
    """Entries of a command that are read, refused or cut here."""
    return {
        name: entry
        for name, entry in INDEX[command].items()
        if entry.spelling.field or entry.row.treatment is Treatment.REFUSED or name in cut
    }


_SEND = _asking("SEND", _CUT)
_SUBSCRIBE = _asking("SUBSCRIBE")
_UNSUBSCRIBE = _asking("UNSUBSCRIBE")
_SEND_NAMES = frozenset(_SEND)
_PERSISTENCE = {"persistent"}
_SUBSCRIBE_NAMES = frozenset(_SUBSCRIBE)
_KNOWN_TO_SUBSCRIBE = frozenset(INDEX["SUBSCRIBE"])


def send_options(headers: Mapping[str, str]) -> SendOptions:
    """Options of a SEND with these headers; `PLAIN`, `PERSISTENT` and `TRANSIENT` themselves, if equal to one of them.

    Raises NotAllowed: a value is wrong, or a header is refused.
    """
    # One set operation on the names tells the many SENDs without options from the others.
    asked = _SEND_NAMES.intersection(headers)
    if not asked:
        return PLAIN
    if asked == _PERSISTENCE:  # on the hot path: where receipts differ, each SEND of a client comes here
        return PERSISTENT if BOOLEAN.read("persistent", headers["persistent"]) else TRANSIENT
    entries = _entries(_SEND, headers)
    fields, arguments = _read(entries, headers)
    # Without a group there is nothing to close, and such a SEND can still be `PLAIN`.
    if "group" not in fields:
        fields.pop("closes_group", None)
    return shared(
        SendOptions(**fields, queue_arguments=_queue_arguments(arguments), passed_on=_passed_on(entries, headers))
    )


def subscribe_options(headers: Mapping[str, str]) -> SubscribeOptions:
    """Options of a SUBSCRIBE with these headers; `NO_OPTIONS` itself, if equal to it.

    Raises NotAllowed: a value is wrong, or a header is refused.
    """
    if _SUBSCRIBE_NAMES.isdisjoint(headers):
        return NO_OPTIONS
    fields, arguments = _read(_entries(_SUBSCRIBE, headers), headers)
    # One field of the table for both limits: so an alias with bytes counts only where the one with messages is missing.
    fields["prefetch"], fields["prefetch_bytes"] = fields.pop("window", (None, None))
    # In JMS an empty selector is none.
    text = fields.pop("text", "").strip()
    if text:
        fields["selector"], fields["selector_text"] = selectors.parse(text), text
    options = SubscribeOptions(**fields, queue_arguments=_queue_arguments(arguments))
    # Headers that say what holds anyway cost no object of their own, for each subscription keeps its options.
    return NO_OPTIONS if options == NO_OPTIONS else options


def unsubscribe_options(headers: Mapping[str, str]) -> SubscribeOptions | None:
    """Options of an UNSUBSCRIBE that ends a durable subscription or a kept offset for good; None: it ends neither.

    Raises NotAllowed: a value is wrong.
    """
    if _UNSUBSCRIBE.keys().isdisjoint(headers):
        return None
    options = SubscribeOptions(**_read(_entries(_UNSUBSCRIBE, headers), headers)[0])
    return options if options.durable or options.durable_name or options.resume else None


def may_requeue(headers: Mapping[str, str]) -> bool:
    """True if a NACK allows a further delivery.  Raises NotAllowed: `requeue` is neither true nor false."""
    value = headers.get("requeue")
    return True if value is None else bool(BOOLEAN.read("requeue", value))


def is_in_progress(headers: Mapping[str, str]) -> bool:
    """True if an ACK asks for more time.  Raises NotAllowed: `in-progress` is neither true nor false."""
    is_asked = bool(BOOLEAN.read("in-progress", headers["in-progress"]))
    if is_asked and "transaction" in headers:
        raise NotAllowed("in-progress in a transaction", "an ACK that asks for more time is carried out at once")
    return is_asked


@dataclass(frozen=True, slots=True)
class Misspelt:
    """An unknown header of a SUBSCRIBE whose name resembles a known one."""

    name: str  # as the client wrote it, 80 characters at most
    known: str  # the header that it resembles


def misspelt(headers: Mapping[str, str]) -> Iterator[Misspelt]:
    """Headers of a SUBSCRIBE that resemble a header which the frame lacks.  They have no effect."""
    # Of SUBSCRIBE alone: on a SEND such a header is the user's own, and passed on.
    for name in headers:
        known = None if name in _KNOWN_TO_SUBSCRIBE else near_miss(name)
        if known is not None and not any(each.name in headers for each in known.row.spellings):
            yield Misspelt(name[:80], known.spelling.name)


def _entries(asking: Mapping[str, HeaderEntry], headers: Mapping[str, str]) -> list[HeaderEntry]:
    """Entries of these headers, in the order of the table."""
    # By that order an alias counts only where its canonical name is missing, and of several mistakes the ERROR always
    # names the same one.
    return sorted([asking[name] for name in headers if name in asking], key=_place)


def _read(entries: Iterable[HeaderEntry], headers: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields of the options, and fields of the queue arguments, with their values."""
    fields: dict[str, Any] = {}
    arguments: dict[str, Any] = {}
    last = None
    for entry in entries:
        row, spelling = entry.row, entry.spelling
        if row.treatment is Treatment.REFUSED:
            _refuse(entry, headers[spelling.name])
        # The names of one row stand side by side: those behind the first that has a value are passed over.
        elif spelling.field and row is not last:
            value = spelling.values.read(spelling.name, headers[spelling.name])
            # A value that counts as no header leaves the place to an alias.
            if value is not None:
                last = row
                (arguments if row.argument else fields)[spelling.field] = value
    return fields, arguments


def _refuse(entry: HeaderEntry, value: str) -> None:
    """Raise the ERROR about a refused header, unless its value asks for nothing."""
    name, passes = entry.spelling.name, entry.spelling.passes
    # By these values a client that always sends the header asks for nothing.
    if value.lower() in passes:
        return
    others = "".join(f", or say {word}" for word in passes if word)
    raise NotAllowed(
        f"{name} is not supported",
        f"this server does not support {name}:{value[:80]}. {entry.row.meaning} Leave the header out{others}.",
    )


def _queue_arguments(found: dict[str, Any]) -> QueueArguments | None:
    if not found:
        return None
    prefix, key = found.pop("dead_letter_prefix", None), found.pop("dead_letter_key", None)
    if prefix is not None or key is not None:
        found["dead_letter"] = _dead_letter(prefix, key)
    return QueueArguments(**found)


def _dead_letter(prefix: str | None, key: str | None) -> str:
    """Destination that a pair of RabbitMQ's queue arguments names."""
    if prefix == FANOUT:
        return FANOUT  # it has no key
    if prefix is None or key is None:
        given, missing = ("routing-key", "exchange") if prefix is None else ("exchange", "routing-key")
        raise NotAllowed(
            f"x-dead-letter-{given} without x-dead-letter-{missing}",
            "the two name one destination together, the exchange its kind and the routing key its name; send both",
        )
    name = prefix + key
    check_words(name, name)
    if has_wildcard(name) or "," in name:
        raise NotAllowed(
            "bad value of x-dead-letter-routing-key",
            f"{name[:80]!r} must name one destination, without wildcard and comma",
        )
    if name.startswith(TOPIC):
        check_wildcards(name, name)
    return name


def _passed_on(entries: Iterable[HeaderEntry], headers: Mapping[str, str]) -> dict[str, str] | None:
    """Headers as subscribers see them; None: unchanged."""
    names = [entry.spelling.name for entry in entries]
    cut = [name for name in names if name in _CUT]
    # Of two aliases the first counts: it is written last, over the other.
    added = {_ALSO[name]: headers[name] for name in reversed(names) if name in _ALSO}
    # None: the head goes on as it came, shared and encoded once for all equal blocks.
    if not cut and added.keys() <= headers.keys():
        return None
    # A canonical name that the sender wrote itself keeps its value.
    passed = {**added, **headers}
    for name in cut:
        del passed[name]
    return passed
