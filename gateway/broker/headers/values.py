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
    remark: str = ""
    meant: Callable[[int], Any] = int

    @property
    def allowed(self) -> str:
        unit = f" of {self.unit}" if self.unit else ""
        return f"a whole number{unit} from {self.least} to {self.most}{self.remark}"

    def read(self, name: str, value: str) -> Any:
        if _INTEGER.fullmatch(value) and self.least <= (number := int(value)) <= self.most:
            return self.meant(number)
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
