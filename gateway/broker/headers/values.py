"""Kinds of header values: an object of a kind reads a value, and states in words what it accepts.

The words go into the ERROR about a wrong value and into docs/headers.md, so both agree with the code.  Reading is
strict: no spaces around a number, no sign but a minus, no digits but those of ASCII.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import NotAllowed
from ..model.destinations import TEMPORARY
from ..model.options import Origin, Start

# 19 digits hold every 64-bit number; `int` would take thousands, and underscores between them.
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_CREDIT = re.compile(r"([0-9]{1,10})(?:,([0-9]{1,10}))?")


class Values(Protocol):
    """A kind of value."""

    @property
    def allowed(self) -> str:
        """The accepted values, in words."""

    def read(self, name: str, value: str) -> Any:
        """The meaning of a value; None: as if the header were missing.  Raises NotAllowed: the value is not accepted.

        `name`: the header's, for the ERROR.
        """


@dataclass(frozen=True, slots=True)
class Anything:
    """Any value; the code that uses it checks it, if it must."""

    allowed: str = "anything"

    def read(self, name: str, value: str) -> str:
        return value


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number."""

    minimum: int  # the lower bound
    maximum: int  # the upper bound
    unit: str = ""  # what it counts
    note: str = ""  # to be read behind the bounds
    convert: Callable[[int], Any] = int  # turns the number into the value

    @property
    def allowed(self) -> str:
        unit = f" of {self.unit}" if self.unit else ""
        return f"a whole number{unit} from {self.minimum} to {self.maximum}{self.note}"

    def read(self, name: str, value: str) -> Any:
        if _INTEGER.fullmatch(value) and self.minimum <= (number := int(value)) <= self.maximum:
            return self.convert(number)
        raise wrong(name, value, self.allowed)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: Mapping[str, Any]  # word -> value
    # word of another broker -> our word, and the broker
    aliases: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    any_case: bool = True  # letter case is free: ActiveMQ reads `True`, and Python writes it

    @property
    def allowed(self) -> str:
        *others, last = (word or "(empty)" for word in self.words)
        text = f"{', '.join(others)} or {last}"
        return text + "".join(f"; {alias} ({broker}) is {word}" for alias, (word, broker) in self.aliases.items())

    def read(self, name: str, value: str) -> Any:
        word = value.lower() if self.any_case else value
        if word in self.aliases:
            word = self.aliases[word][0]
        if word in self.words:
            return self.words[word]
        raise wrong(name, value, self.allowed)


@dataclass(frozen=True, slots=True)
class Text:
    """A bounded text, for the broker keeps it in its tables."""

    most: int  # the number of characters at most
    required: bool = False  # an empty text is an error; else it counts as no header

    @property
    def allowed(self) -> str:
        return f"1 to {self.most} characters" + ("" if self.required else ", or empty for none")

    def read(self, name: str, value: str) -> str | None:
        if len(value) > self.most or (self.required and not value):
            raise wrong(name, value, self.allowed)
        return value or None


@dataclass(frozen=True, slots=True)
class Credit:
    """Credit of Apollo: a window of messages and one of bytes; 0 sets no limit.  Read as (messages, bytes)."""

    allowed: str = "messages[,bytes], whole numbers of 10 digits at most, one of them more than 0"

    def read(self, name: str, value: str) -> tuple[int, int | None]:
        match = _CREDIT.fullmatch(value)
        if match is None:
            raise wrong(name, value, self.allowed)
        messages, nbytes = match.groups()
        if not int(messages) and not int(nbytes or 0):
            raise wrong(name, value, self.allowed)
        return int(messages), None if nbytes is None else int(nbytes)


@dataclass(frozen=True, slots=True)
class ReplyTo:
    """A destination; only a temporary one concerns the broker, all others are read as None."""

    allowed: str = "a destination"

    def read(self, name: str, value: str) -> str | None:
        # None, so that a SEND whose answer goes anywhere else can stay `PLAIN`.
        return value if value.startswith(TEMPORARY) else None


def wrong(name: str, value: str, allowed: str) -> NotAllowed:
    """Error about a value that a header does not accept."""
    return NotAllowed(f"bad value of {name}", f"{name} must be {allowed}; the frame has {value[:80]!r}")


# Values that ask for replay.

_LARGEST_SEQ = 2**63 - 1
_ORIGINS = {"first": Origin.FIRST, "last": Origin.LAST, "next": Origin.NEXT}
_OFFSET = re.compile(r"offset=([0-9]{1,18})")
_TIMESTAMP = re.compile(r"timestamp=([0-9]{1,12})")
# Headers that a MESSAGE has already, or that change how clients read it.
_RESERVED = frozenset(
    "ack content-length content-type delivery-count destination first-seq gap message-id redelivered "
    "subscription".split()
)
_NAME = re.compile(r"[!-9;-\[\]-~]{1,255}")


def _start(number: int) -> Start:
    if number > 0:
        return Start(Origin.SEQ, number)
    return Start(Origin.NEXT if number < 0 else Origin.FIRST)


# No message has the number 0 or -1, so Apollo names both ends of the stream by them.
FROM_SEQ = Integer(-1, _LARGEST_SEQ, "", "; 0 is the first message in the stream, -1 the next message", _start)
# Optional: in ActiveMQ a topic that keeps nothing accepts the header, too.
RETROACTIVE = Choice({"true": Start(Origin.FIRST, is_optional=True), "false": None})


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Start of replay as RabbitMQ's streams have it; messages then carry their number as `x-stream-offset`."""

    allowed: str = "first, last, next, offset=N or timestamp=S (seconds since 1970)"

    def read(self, name: str, value: str) -> Start:
        if value in _ORIGINS:
            return Start(_ORIGINS[value], header=name)
        if match := _TIMESTAMP.fullmatch(value):
            return Start(Origin.TIME, int(match[1]), header=name)
        if match := _OFFSET.fullmatch(value):
            number = int(match[1])
            # RabbitMQ's offsets begin at 0, our numbers later: 0 is the first message that is there.
            return Start(Origin.SEQ if number else Origin.FIRST, number, header=name)
        raise wrong(name, value, self.allowed)


@dataclass(frozen=True, slots=True)
class HeaderName:
    """Name of a header that the server adds; an empty one adds none."""

    allowed: str = (
        "the name of a header that a MESSAGE does not have yet, 1 to 255 printable characters of ASCII without colon "
        "and backslash, or empty for none"
    )

    def read(self, name: str, value: str) -> str | None:
        if value and (value in _RESERVED or not _NAME.fullmatch(value)):
            raise wrong(name, value, self.allowed)
        return value or None


# Values that several headers have in common, with their bounds.

MAX_COUNT = 2**31 - 1
"""Largest count that RabbitMQ, ActiveMQ and Artemis accept."""

_TEN_YEARS = 10 * 365 * 86_400_000  # milliseconds; a longer time is a mistake in the unit
_YEAR_9999 = 253_402_300_799_999  # a later moment is in microseconds


BOOLEAN = Choice({"true": True, "false": False})
_SOON = " (ten years); a negative number means at once, as in RabbitMQ and ActiveMQ"
DELAY = Integer(-_TEN_YEARS, _TEN_YEARS, "milliseconds", _SOON, lambda milliseconds: max(milliseconds, 0) / 1000)
_PAST = " (the year 9999); a past moment means at once"
MOMENT = Integer(0, _YEAR_9999, "milliseconds since 1970", _PAST, lambda milliseconds: milliseconds / 1000)
_NEVER = " (the year 9999); 0 counts as no header"
EXPIRY = Integer(0, _YEAR_9999, "milliseconds since 1970", _NEVER, lambda milliseconds: milliseconds / 1000 or None)
# Never 0 seconds, which means no limit in a policy.
LIFETIME = Integer(
    0, _TEN_YEARS, "milliseconds", " (ten years); 0 counts as 1", lambda milliseconds: max(milliseconds, 1) / 1000
)
IDLE = Integer(1, _TEN_YEARS, "milliseconds", " (ten years)", lambda milliseconds: milliseconds / 1000)
MESSAGES = Integer(1, MAX_COUNT, "messages")
BYTES = Integer(1, 2**63 - 1, "bytes")
KEY = Text(1_000)
UNIQUE = Text(1_000, required=True)
NAME = Text(255, required=True)  # RabbitMQ's names are no longer
# Artemis accepts these words in capitals only.
ROUTING = Choice({"ANYCAST": False, "MULTICAST": True}, any_case=False)
