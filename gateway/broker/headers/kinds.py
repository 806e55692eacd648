"""The values that several headers have in common, with their bounds."""

from __future__ import annotations

from .values import Choice, Integer, Text

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
