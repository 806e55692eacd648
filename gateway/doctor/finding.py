"""One line of the doctor: how bad it is, what was looked at, what was found, and what mends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

_LONGEST = 160


class Level(StrEnum):
    """How bad it is; only FAIL makes the exit status."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line.

    Attributes:
        what: what was looked at.
        detail: what was found.
        remedy: the setting or directive, with the value to write; empty: all is well.
    """

    level: Level
    what: str
    detail: str
    remedy: str = ""

    def json(self) -> dict[str, str]:
        """The line for programs."""
        return {"level": self.level.value, "what": self.what, "detail": self.detail, "remedy": self.remedy}

    def __str__(self) -> str:
        return f"{self.level:4} {self.what}: {self.detail}" + (f". {self.remedy}" if self.remedy else "")


Tell = Callable[[Finding], None]


class Trouble(Exception):
    """A check cannot go on: the detail and the remedy of a finding.

    Args:
        level: how bad that is.
    """

    def __init__(self, detail: str, remedy: str, level: Level = Level.FAIL) -> None:
        super().__init__(detail)
        self.detail = detail
        self.remedy = remedy
        self.level = level

    def finding(self, what: str) -> Finding:
        """The line on it."""
        return Finding(self.level, what, self.detail, self.remedy)


def ok(what: str, detail: str) -> Finding:
    """All is well."""
    return Finding(Level.OK, what, detail)


def warn(what: str, detail: str, remedy: str) -> Finding:
    """It works, and will not always."""
    return Finding(Level.WARN, what, detail, remedy)


def fail(what: str, detail: str, remedy: str) -> Finding:
    """It does not work, or should not."""
    return Finding(Level.FAIL, what, detail, remedy)


def shown(said: str | bytes) -> str:
    """What a peer said, for a terminal: its beginning, on one line, without control characters."""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    plain = " ".join("".join([each if each.isprintable() else " " for each in text]).split())
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 3] + "..."
