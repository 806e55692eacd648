"""Rows of the table: one header of some frames, under all its names; and the search for near misses."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from .values import Anything, Values

RABBITMQ = "RabbitMQ"
ACTIVEMQ = "ActiveMQ"
ARTEMIS = "Artemis"
APOLLO = "Apollo"
AMQP = "AMQP clients"

ANYTHING = Anything()


class Treatment(Enum):
    """Treatment of a header."""

    HONOURED = "honoured"  # the gateway does what the header says
    PASSED_ON = "passed on"  # the gateway does not use the header; subscribers get it unchanged
    REFUSED = "refused"  # the gateway knows the request and cannot fulfil it: an ERROR says so
    WITHOUT_EFFECT = "without effect"  # the request makes no difference here; the row says why


@dataclass(frozen=True, slots=True)
class Spelling:
    """A name of a header, and how its value is read."""

    name: str  # letter case counts
    values: Values = ANYTHING  # what the value may be; a refused header is not read
    # the field of `SendOptions`, `SubscribeOptions` or `QueueArguments` for the value; empty: another module reads the
    # header
    field: str = ""
    broker: str = ""  # the broker whose name it is; empty: STOMP's or ours
    passes: tuple[str, ...] = ()  # values of a refused header that ask for nothing and are accepted, in small letters


@dataclass(frozen=True, slots=True, eq=False)
class HeaderRow:
    """A header.  If a frame has several of its names, the first in the order of `spellings` counts."""

    frames: tuple[str, ...]  # the commands that may have it
    spellings: tuple[Spelling, ...]  # the canonical name, then the aliases
    treatment: Treatment  # how the gateway treats it
    meaning: str  # its effect, or the reason why it is refused or has no effect
    visible: bool = True  # subscribers get it as the SEND had it
    also_canonical: bool = False  # where a SEND uses an alias, the MESSAGE has the canonical name as well
    # it is an argument for the queue that the frame creates; its fields are those of `QueueArguments`
    argument: bool = False

    @property
    def name(self) -> str:
        """The canonical name."""
        return self.spellings[0].name


def honoured(
    frames: tuple[str, ...], meaning: str, *spellings: Spelling, visible: bool = True, also_canonical: bool = False
) -> HeaderRow:
    """Row of a header that the gateway honours."""
    return HeaderRow(frames, spellings, Treatment.HONOURED, meaning, visible, also_canonical)


def without_effect(frames: tuple[str, ...], meaning: str, *spellings: Spelling, visible: bool = True) -> HeaderRow:
    """Row of a header without effect; the meaning says why."""
    return HeaderRow(frames, spellings, Treatment.WITHOUT_EFFECT, meaning, visible)


def refused(frames: tuple[str, ...], meaning: str, *spellings: Spelling) -> HeaderRow:
    """Row of a refused header; the meaning says what to use instead."""
    return HeaderRow(frames, spellings, Treatment.REFUSED, meaning, visible=False)


@dataclass(frozen=True, slots=True)
class HeaderEntry:
    """A name of the table."""

    place: int  # its position among the names of a frame, 0 for the first
    row: HeaderRow
    spelling: Spelling


def index(rows: tuple[HeaderRow, ...], command: str) -> Mapping[str, HeaderEntry]:
    """Entries of all names that the frame may have, by name."""
    entries = [(row, spelling) for row in rows if command in row.frames for spelling in row.spellings]
    return MappingProxyType({each.name: HeaderEntry(place, row, each) for place, (row, each) in enumerate(entries)})


# Only names that surely stand for the header: a wrong guess would blame a header of the user's own.
OTHER_WORDS = {"prefetch": "prefetch-count", "prefetch-size": "prefetch-count", "ack-mode": "ack"}
"""Names that users write and no broker reads -> the header that they stand for."""


_EFFECTIVE = (Treatment.HONOURED, Treatment.REFUSED)


def squashed(name: str) -> str:
    """A name without capitals and hyphens: `Prefetch-Count` and `prefetch_count` give `prefetchcount`."""
    return name.lower().replace("-", "").replace("_", "")


def near_misses(index: Mapping[str, HeaderEntry]) -> Mapping[str, HeaderEntry]:
    """Headers of a frame that are honoured or refused, by their squashed names."""
    known = {name: entry for name, entry in index.items() if entry.row.treatment in _EFFECTIVE}
    others = {other: index[name] for other, name in OTHER_WORDS.items()}
    return {squashed(name): entry for name, entry in (known | others).items()}
