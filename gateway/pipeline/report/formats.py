"""Formats of numbers and times for people: always with a unit, and times in UTC.

Latencies come out of buckets that are 9 % wide, so they have two digits.
"""

import math
from datetime import UTC, datetime, timedelta

# No-break, so that a number stays with its unit.
SPACE = "\u00a0"
NONE = "\u2013"  # stands where there is no value
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SIZES = ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB"))
_DURATIONS = ((86_400e6, 2, "d"), (3_600e6, 2, "h"), (60e6, 2, "min"), (1e6, 1, "s"), (1e3, 1, "ms"), (1.0, 1, "µs"))
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


def count(value: int) -> str:
    """1234567 -> 1,234,567."""
    return f"{value:,}"


def short(value: float) -> str:
    """For axes and means: three digits and a prefix, 1234567 -> 1.23 M."""
    for size, prefix in _PREFIXES:
        if abs(value) >= size * 0.9995:
            return f"{_digits(value / size, 3)}{SPACE}{prefix}"
    return _digits(value, 3)


def size(value: float) -> str:
    """Bytes: 1536 -> 1.5 KiB."""
    for power, unit in _SIZES:
        if value >= 1024**power:
            return f"{_digits(value / 1024**power, 3)}{SPACE}{unit}"
    return f"{value:.0f}{SPACE}B"


def latency(us: float | None) -> str:
    """Microseconds, two digits: 1234 -> 1.2 ms."""
    if us is None:
        return NONE
    for size, least, unit in _DURATIONS:
        rounded = float(f"{us / size:.1e}")
        if rounded >= least:
            return f"{_digits(rounded, 2)}{SPACE}{unit}"
    return f"0{SPACE}µs"


def length(span: timedelta) -> str:
    """The exact length of a span: 1 d 2 h, 5 min, 90 s."""
    rest = span // timedelta(seconds=1)
    parts = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        if rest >= size and (unit != "d" or rest > 48 * 3_600):
            parts.append(f"{rest // size}{SPACE}{unit}")
            rest %= size
    return " ".join(parts) or f"{_digits(span.total_seconds(), 3)}{SPACE}s"


def _digits(value: float, digits: int) -> str:
    """So many significant digits, never an exponent; zeros at the end of a fraction go."""
    if value == 0:
        return "0"
    places = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def moment(when: datetime) -> str:
    """21 Nov 2026 14:03:07; without the seconds if they are 0."""
    when = when.astimezone(UTC)
    return f"{day(when)} {when.year} {clock(when)}"


def day(when: datetime) -> str:
    """21 Nov."""
    when = when.astimezone(UTC)
    return f"{when.day}{SPACE}{_MONTHS[when.month - 1]}"


def clock(when: datetime) -> str:
    """14:03, or 14:03:07."""
    when = when.astimezone(UTC)
    return f"{when:%H:%M:%S}" if when.second or when.microsecond else f"{when:%H:%M}"


def iso(when: datetime) -> str:
    """2026-11-21T14:03:07.123456Z: for programs."""
    return when.astimezone(UTC).isoformat().replace("+00:00", "Z")
