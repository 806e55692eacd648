"""What the value of a header may be: one object reads it, and says in words what it takes.

The words go into the ERROR of a value that is wrong, and onto the page of headers; so both say what the code does.
Nothing is forgiven that is not written here: no spaces around a number, no sign but a minus, no digits but ASCII's.
"""

from __future__ import annotations

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
    """A kind of value.

    Attributes:
        allowed: what it takes, in words.
    """

    @property
    def allowed(self) -> str: ...

    def read(self, name: str, value: str) -> Any:
        """What the value stands for that the header of that name has; None: nothing.

        Raises:
            NotAllowed: it is not among what is allowed.
        """
        ...


@dataclass(frozen=True, slots=True)
class Anything:
    """Any value: it is the user's own, or whoever uses it checks it."""

    allowed: str = "anything"

    def read(self, name: str, value: str) -> str:
        return value


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number.

    Attributes:
        least: the lower bound.
        most: the upper bound.
        unit: what it counts.
        remark: what else is to be said of it, to be read behind the bounds.
        meant: what a number stands for, where that is not the number.
    """

    least: int
    most: int
    unit: str = ""
    note: str = ""
    convert: Callable[[int], Any] = int

    @property
    def allowed(self) -> str:
        unit = f" of {self.unit}" if self.unit else ""
        return f"a whole number{unit} from {self.least} to {self.most}{self.note}"

    def read(self, name: str, value: str) -> Any:
        if _INTEGER.fullmatch(value) and self.least <= (number := int(value)) <= self.most:
            return self.convert(number)
        raise wrong(name, value, self.allowed)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words.

    Attributes:
        words: each with what it stands for.
        aliases: words of other brokers: each with the word of ours, and the broker.
        any_case: capital letters count as small ones: ActiveMQ reads `True`, and Python writes it.
    """

    words: Mapping[str, Any]
    aliases: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    any_case: bool = True

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
    """A text that the broker keeps in tables of its own, so that it is bounded.

    Attributes:
        most: characters.
        required: an empty one is an error; else it stands for none.
    """

    most: int
    required: bool = False

    @property
    def allowed(self) -> str:
        return f"1 to {self.most} characters" + ("" if self.required else ", or nothing, which is as good as no header")

    def read(self, name: str, value: str) -> str | None:
        if len(value) > self.most or (self.required and not value):
            raise wrong(name, value, self.allowed)
        return value or None


@dataclass(frozen=True, slots=True)
class Credit:
    """Apollo's two windows in one header; a window of 0 sets no limit.  Read as (messages, bytes)."""

    allowed: str = "messages[,octets], whole numbers of 10 digits at most, one of them more than 0"

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
    """A destination; what the broker must know is only whether it is a temporary one, so others are read as none."""

    allowed: str = "a destination"

    def read(self, name: str, value: str) -> str | None:
        return value if value.startswith(TEMPORARY) else None


def wrong(name: str, value: str, allowed: str) -> NotAllowed:
    """The error of a value that a header may not have."""
    return NotAllowed(f"bad value of {name}", f"{name} may be {allowed}; it was {value[:80]!r}")


# Values that ask for replay.

_LARGEST_SEQ = 2**63 - 1
_ORIGINS = {"first": Origin.FIRST, "last": Origin.LAST, "next": Origin.NEXT}
_OFFSET = re.compile(r"offset=([0-9]{1,18})")
_TIMESTAMP = re.compile(r"timestamp=([0-9]{1,12})")
# What a MESSAGE has anyway, and what would change how clients read it.
_RESERVED = frozenset(
    "ack content-length content-type delivery-count destination first-seq gap message-id redelivered "
    "subscription".split()
)
_NAME = re.compile(r"[!-9;-\[\]-~]{1,255}")


def _start(number: int) -> Start:
    if number > 0:
        return Start(Origin.SEQ, number)
    return Start(Origin.NEXT if number < 0 else Origin.FIRST)


FROM_SEQ = Integer(-1, _LARGEST_SEQ, "", "; 0 is the first message that is there, -1 the next that comes", _start)
RETROACTIVE = Choice({"true": Start(Origin.FIRST, is_optional=True), "false": None})


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Where RabbitMQ's streams begin; messages then have their number as `x-stream-offset`, too."""

    allowed: str = "first, last, next, offset=N or timestamp=S (seconds since 1970)"

    def read(self, name: str, value: str) -> Start:
        if value in _ORIGINS:
            return Start(_ORIGINS[value], header=name)
        if match := _TIMESTAMP.fullmatch(value):
            return Start(Origin.TIME, int(match[1]), header=name)
        if match := _OFFSET.fullmatch(value):
            number = int(match[1])
            return Start(Origin.SEQ if number else Origin.FIRST, number, header=name)
        raise wrong(name, value, self.allowed)


@dataclass(frozen=True, slots=True)
class HeaderName:
    """The name of a header that the server adds; an empty one adds none."""

    allowed: str = (
        "the name of a header, 1 to 255 printable characters of ASCII without colon and backslash, and none that a "
        "MESSAGE has anyway; or nothing, which is as good as no header"
    )

    def read(self, name: str, value: str) -> str | None:
        if value and (value in _RESERVED or not _NAME.fullmatch(value)):
            raise wrong(name, value, self.allowed)
        return value or None


# Values that several headers have in common, with their bounds.

MOST = 2**31 - 1
"""The largest number that other brokers take where they count something; so it is ours."""

_TEN_YEARS = 10 * 365 * 86_400_000  # milliseconds: a longer time is a mistake of units
_YEAR_9999 = 253_402_300_799_999  # a moment behind it is in microseconds


def _lifetime(milliseconds: int) -> float:
    """Seconds; never 0, which stands for no limit in a policy and would expire before anybody can take it."""
    return max(milliseconds, 1) / 1000


def _moment(milliseconds: int) -> float:
    return milliseconds / 1000


def _moment_or_never(milliseconds: int) -> float | None:
    return milliseconds / 1000 or None


def _delay(milliseconds: int) -> float:
    return max(milliseconds, 0) / 1000


BOOLEAN = Choice({"true": True, "false": False})
DELAY = Integer(
    -_TEN_YEARS, _TEN_YEARS, "milliseconds", " (ten years); below 0 is at once, as at RabbitMQ and ActiveMQ", _delay
)
MOMENT = Integer(0, _YEAR_9999, "milliseconds since 1970", " (the year 9999); one of the past is at once", _moment)
EXPIRY = Integer(
    0, _YEAR_9999, "milliseconds since 1970", " (the year 9999); 0 is as good as no header", _moment_or_never
)
LIFETIME = Integer(0, _TEN_YEARS, "milliseconds", " (ten years); 0 counts as 1", _lifetime)
IDLE = Integer(1, _TEN_YEARS, "milliseconds", " (ten years)", _moment)
MESSAGES = Integer(1, MOST, "messages")
BYTES = Integer(1, 2**63 - 1, "octets")
KEY = Text(1_000)
UNIQUE = Text(1_000, required=True)
NAME = Text(255, required=True)  # RabbitMQ's names are no longer
# Artemis knows these words in capitals only.
ROUTING = Choice({"ANYCAST": False, "MULTICAST": True}, any_case=False)
