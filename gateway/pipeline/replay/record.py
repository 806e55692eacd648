"""The record of a replay: what has been sent, in one JSON file below the tables.

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
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from gateway.files import store

from ..errors import JobFailure, UsageFailure
from ..paths import locked


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
