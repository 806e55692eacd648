"""The plan of a replay: its options, what it would do, and that in words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime

from gateway.text import visible

from ..broker_url import BrokerUrl
from ..errors import UsageFailure
from ..time_range import shown
from .messages import TEMPLATE
from .record import ReplayPart, ReplayRecord, ReplayRecords

# Characters of a line of the plan: a destination may have thousands.
_LONGEST_LINE = 300
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True)
class ReplayOptions:
    """The options of a replay, as the command line has them."""

    since: str  # see `time_range`
    until: str  # see `time_range`
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
