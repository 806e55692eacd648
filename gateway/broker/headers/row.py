"""A row of the dictionary: one header of one frame, under all its names."""

from __future__ import annotations

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
    """What becomes of a header."""

    HONOURED = "honoured"
    PASSED_ON = "passed on"
    REFUSED = "refused"
    WITHOUT_EFFECT = "without effect"


@dataclass(frozen=True, slots=True)
class Spelling:
    """A name of a header, and how its value is read there.

    Attributes:
        name: letter case counts.
        values: what it may say; of a refused header, nobody reads it.
        field: of `Properties`, `Options` or `Hints`, where the value goes; empty: somebody else reads it.
        broker: whose name it is; empty: STOMP's, or ours.
        passes: values of a refused header that ask for nothing, in small letters.
    """

    name: str
    values: Values = ANYTHING
    field: str = ""
    broker: str = ""
    passes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class HeaderRow:
    """A header.  Where a frame has several of its names, the first in this order counts.

    Attributes:
        frames: the commands that may have it.
        spellings: the canonical name, then the aliases.
        treatment: what becomes of it.
        meaning: what it does; or why it is refused, or has no effect.
        visible: the MESSAGE has it as the SEND had it.
        also_canonical: a MESSAGE has it under the canonical name, too, where the SEND used an alias.
        argument: it is about a queue that the frame creates; its fields are those of `Hints`.
    """

    frames: tuple[str, ...]
    spellings: tuple[Spelling, ...]
    treatment: Treatment
    meaning: str
    visible: bool = True
    also_canonical: bool = False
    argument: bool = False

    @property
    def name(self) -> str:
        """The canonical name."""
        return self.spellings[0].name


def honoured(
    frames: tuple[str, ...], meaning: str, *spellings: Spelling, visible: bool = True, also_canonical: bool = False
) -> HeaderRow:
    """The row of a header that does what it says."""
    return HeaderRow(frames, spellings, Treatment.HONOURED, meaning, visible, also_canonical)


def without_effect(frames: tuple[str, ...], meaning: str, *spellings: Spelling, visible: bool = True) -> HeaderRow:
    """The row of a header that makes no difference; the meaning says why not."""
    return HeaderRow(frames, spellings, Treatment.WITHOUT_EFFECT, meaning, visible)


def refused(frames: tuple[str, ...], meaning: str, *spellings: Spelling) -> HeaderRow:
    """The row of a header that asks too much; the meaning says what there is instead."""
    return HeaderRow(frames, spellings, Treatment.REFUSED, meaning, visible=False)


@dataclass(frozen=True, slots=True)
class HeaderEntry:
    """Where a name is in the table.

    Attributes:
        place: the higher, the further down; no two are equal.
        row: the header.
        spelling: the name.
    """

    place: int
    row: HeaderRow
    spelling: Spelling


def index(rows: tuple[HeaderRow, ...], command: str) -> Mapping[str, HeaderEntry]:
    """Every name that frame may have, with its place in these rows."""
    entries = [(row, spelling) for row in rows if command in row.frames for spelling in row.spellings]
    return MappingProxyType({each.name: HeaderEntry(place, row, each) for place, (row, each) in enumerate(entries)})


OTHER_WORDS = {"prefetch": "prefetch-count", "prefetch-size": "prefetch-count", "ack-mode": "ack"}
"""What people write, of which no broker reads any, and the header that they mean."""


_EFFECTIVE = (Treatment.HONOURED, Treatment.REFUSED)


def squashed(name: str) -> str:
    """What is left of a name without capitals and hyphens: `Prefetch-Count`, `prefetch_count`: `prefetchcount`."""
    return name.lower().replace("-", "").replace("_", "")


def near_misses(index: Mapping[str, HeaderEntry]) -> Mapping[str, HeaderEntry]:
    """The headers of a frame that do something, by what is left of their names."""
    known = {
        name: entry for name, entry in index.items() if entry.row.treatment in (Treatment.HONOURED, Treatment.REFUSED)
    }
    others = {other: index[name] for other, name in OTHER_WORDS.items()}
    return {squashed(name): entry for name, entry in (known | others).items()}
