"""The values of headers that ask for replay."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..model.options import Origin, Start
from .values import Choice, Integer, wrong

_MOST = 2**63 - 1
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


FROM_SEQ = Integer(-1, _MOST, "", "; 0 is the first message that is there, -1 the next that comes", _start)
RETROACTIVE = Choice({"true": Start(Origin.FIRST, is_wish=True), "false": None})


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
