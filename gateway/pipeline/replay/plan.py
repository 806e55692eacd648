"""The plan of a replay: its options, what it would do, and that in words; and the record of what has been sent.

The record is one JSON file below the tables.

    TABLES/_replays/<id>.json      the options, and how far it got
    TABLES/_replays/<id>.lock      locked while it runs

Before a part is sent the record says that it is in doubt, and afterwards that it is done; both are written by rename.
So another run of the replay sends nothing that is done, and knows the part of which the broker may have some, all or
nothing.

`sent` has the last number for each run of a gateway.  Newer rows of a run have higher numbers, except those of a
segment that the archiver could not read at first: these would be out of order, are left out, and the plan counts them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path

from gateway.files import store
from gateway.text import visible

from ..errors import JobFailure, UsageFailure
from ..options import BrokerUrl, shown
from ..paths import locked
from .messages import TEMPLATE

# Characters of a line of the plan: a destination may have thousands.
_LONGEST_LINE = 300
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True)
class ReplayPart:
    """Rows of one run of a gateway that are sent together: the selected ones from `first` to `last`."""

    gateway: str
    epoch: int
    first: int
    last: int
    oldest: int  # when they were accepted, microseconds since 1970
    newest: int
    rows: int  # how many they are
    size: int  # bytes of their bodies
    begun: str = ""  # when sending them began, ISO 8601; "": it did not

    @property
    def run(self) -> str:
        """The run of the gateway, as records name it."""
        return f"{self.gateway}/{self.epoch}"

    def joined(self, other: ReplayPart) -> ReplayPart:
        """This part and the next one of the same run, as one."""
        size, rows = self.size + other.size, self.rows + other.rows
        return replace(self, last=other.last, newest=other.newest, rows=rows, size=size)

    def touches(self, other: ReplayPart) -> bool:
        """True if the two have numbers in common."""
        return self.run == other.run and self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class ReplayRecord:
    """How far a replay got."""

    id: str
    asked: Mapping[str, str]  # the options that say which rows go where
    since: str  # the span that these meant at first, ISO 8601
    until: str
    rows: int = 0  # how many were sent
    sent: Mapping[str, int] = field(default_factory=dict)  # the last number that was sent, by run
    doubts: tuple[ReplayPart, ...] = ()  # parts that were begun and are not known to be done

    def begun(self, part: ReplayPart, at: str) -> ReplayRecord:
        """The record while a part is sent."""
        return replace(self, doubts=(*self.doubts, replace(part, begun=at)))

    def done(self, part: ReplayPart) -> ReplayRecord:
        """The record after a part is sent; it settles the doubts up to there."""
        doubts = [each for each in self.doubts if each.run != part.run or each.last > part.last]
        sent = {**self.sent, part.run: part.last}
        return replace(self, rows=self.rows + part.rows, sent=sent, doubts=tuple(doubts))

    def check(self, asked: Mapping[str, str]) -> None:
        """Refuse other options than those of the replay.  `UsageFailure`: an option differs."""
        for name, value in asked.items():
            if (before := self.asked.get(name, "")) != value:
                raise UsageFailure(
                    f"replay {self.id} was begun with --{name} {before or 'none'}, not {value or 'none'}: choose "
                    "another --id for another replay"
                )


class ReplayRecords:
    def __init__(self, tables: Path) -> None:
        self._folder = tables / "_replays"

    def read(self, replay: str) -> ReplayRecord | None:
        """The record of a replay; None: it was not begun.  `JobFailure`: it cannot be read."""
        path = self._folder / f"{replay}.json"
        try:
            told = json.loads(path.read_text())
            doubts = tuple([ReplayPart(size=each.pop("octets"), **each) for each in told.pop("doubts")])
            return ReplayRecord(**told, doubts=doubts)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise JobFailure(f"the record of the replay, {path}, cannot be read: {error}") from None

    def write(self, record: ReplayRecord) -> None:
        """Keep a record, so that it survives a power cut.  `JobFailure`: it cannot be kept."""
        path = self._folder / f"{record.id}.json"
        try:
            told = asdict(record)
            for each in told["doubts"]:
                each["octets"] = each.pop("size")
            store(path, json.dumps(told, indent=1).encode())
        except OSError as error:
            raise JobFailure(f"the record of the replay, {path}, cannot be written: {error}") from None

    def held(self, replay: str) -> AbstractContextManager[None]:
        """A block in which no other process of this machine runs the replay.  `JobFailure`: another one does."""
        return locked(self._folder / f"{replay}.lock", JobFailure(f"replay {replay} is running already"))


@dataclass(frozen=True)
class ReplayOptions:
    """The options of a replay, as the command line has them."""

    since: str  # see `options`
    until: str  # see `options`
    destination: str  # a name or pattern, as the gateway reads them
    to: str  # a destination, in which `{destination}` is the original one
    broker: str  # a URL, see `BrokerUrl`
    where: str = ""  # an SQL expression over the columns of the archive; "": all rows
    rate: int = 0  # messages in a second, at most; 0: no limit
    limit: int = 0  # messages of the replay, at most, over all its runs; 0: no limit
    id: str = ""  # name of the replay; "": made of the options that say which rows go where
    partial: str = "refuse"  # or "skip", or "send": bodies that were not kept whole

    def check(self) -> None:
        """Refuse wrong options.  `UsageFailure`: it says which."""
        if self.id and not _ID.fullmatch(self.id):
            raise UsageFailure(f"--id {self.id[:80]!r} must be up to 64 letters, digits, dots, hyphens and _")
        if not self.destination:
            raise UsageFailure("--destination is missing: name one, or a pattern; # is all of them")
        if not self.to or re.search(r"[{}]", self.to.replace(TEMPLATE, "")):
            raise UsageFailure(
                f"--to {self.to[:80]!r} must be a destination, in which {TEMPLATE} may stand for the one "
                "that a message had"
            )


@dataclass(frozen=True)
class ReplayPlan:
    """What a run would do."""

    options: ReplayOptions
    broker: BrokerUrl
    archive: str
    records: ReplayRecords
    record: ReplayRecord  # what was sent before
    parts: tuple[ReplayPart, ...] = ()  # the parts to send, in order; the limit may cut the last one
    partial: int = 0  # rows without a whole body, sent or not
    nowhere: int = 0  # rows with a destination that no client can send to
    late: int = 0  # rows that came into the archive behind later ones that were sent already; they are not sent
    destinations: tuple[tuple[str, int], ...] = ()  # those with most messages, and how many they have
    others: int = 0  # messages of other destinations
    examples: tuple[str, ...] = field(default=(), repr=False)  # some messages, one line each

    @property
    def rows(self) -> int:
        """Messages to send."""
        return sum([part.rows for part in self.parts])

    @property
    def body_bytes(self) -> int:
        return sum([part.size for part in self.parts])

    def text(self) -> str:
        options, record = self.options, self.record
        begin, end = [shown(datetime.fromisoformat(each)) for each in (record.since, record.until)]
        lines = [
            f"replay {record.id}",
            f"from     {self.archive}: {begin} to {end}, destination {options.destination}",
            f"to       {options.to} at {self.broker}",
            f"messages {self.rows:,}, {self.body_bytes:,} bytes of bodies",
        ]
        if options.where:
            lines.insert(2, f"where    {options.where}")
        if options.rate:
            lines.append(f"rate     {options.rate:,}/s, so it takes {self.rows / options.rate:,.0f} s at least")
        lines += [f"         {count:,} of {name}" for name, count in self.destinations]
        if self.others:
            lines.append(f"         {self.others:,} of other destinations")
        if record.rows:
            lines.append(f"before   {record.rows:,} were sent already and are not sent again")
        lines += self._warnings()
        # Publishers chose some of these words.
        return "\n".join([visible(line)[:_LONGEST_LINE] for line in (*lines, *self.examples)])

    def _warnings(self) -> list[str]:
        lines = []
        if self.partial:
            what = {"refuse": "so nothing is sent", "skip": "which are skipped", "send": "which are sent as they are"}
            lines.append(f"partial  {self.partial:,} bodies were not kept whole, {what[self.options.partial]}")
        if self.nowhere:
            lines.append(f"nowhere  {self.nowhere:,} had a destination that no client can send to")
        if self.late:
            lines.append(
                f"late     {self.late:,} came into the archive behind later ones that were sent already, and are not "
                "sent: replay them with another --id, and a --where for their seq"
            )
        if doubts := self.record.doubts:
            rows = sum([part.rows for part in doubts])
            lines.append(
                f"doubt    a run ended after {shown(datetime.fromisoformat(doubts[0].begun))} while it sent {rows:,} "
                "messages: those that the archive does not show as sent are sent again; a gateway drops duplicates "
                "as long as it remembers their ids (dedup_window, 10 minutes by default)"
            )
        return lines

    def check(self) -> None:
        """Refuse an impossible plan.  `UsageFailure`: bodies are not whole, or a destination is the server's."""
        if self.partial and self.options.partial == "refuse":
            raise UsageFailure(
                f"{self.partial:,} of the selected messages cannot be sent whole, because the journal kept only part "
                "of their bodies: leave them out with --partial-bodies skip, or send parts with --partial-bodies send"
            )
        if self.nowhere:
            raise UsageFailure(
                f"{self.nowhere:,} of the selected messages went to destinations that only the server can name: leave "
                "them out with --destination or --where, or name another destination with --to"
            )
