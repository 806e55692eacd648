"""What a replay has sent already: one JSON file for each replay, below the tables.

    TABLES/_replays/<id>.json      what was asked for, how far it got
    TABLES/_replays/<id>.lock      held while it runs

A replay sends its rows in order, part by part.  Before a part is sent the record says that it is in doubt, and behind
it that it is done: both by writing a file beside it and renaming.  So whoever runs the replay again sends nothing that
is done, however long ago that was, and knows the part of which the broker may have some, all or nothing.

`sent` has the last number for each run of a gateway.  Rows of a run come into the archive in the order of their
numbers, so whatever came since then is behind that, but for a segment that the archiver left lying at first.  Its rows
are left out, for behind those that were sent they would be out of order; the plan says how many they are.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from gateway.files import make_folder, store

from ..errors import EnvironmentFailure, JobFailure, UsageFailure


@dataclass(frozen=True)
class ReplayPart:
    """Rows of one run of a gateway that are sent together: those from `first` to `last` that were selected.

    Attributes:
        oldest, newest: when they were accepted, microseconds since 1970.
        rows: how many they are.
        octets: of their bodies.
        begun: when sending them began, ISO 8601; "": it did not.
    """

    gateway: str
    epoch: int
    first: int
    last: int
    oldest: int
    newest: int
    rows: int
    octets: int
    begun: str = ""

    @property
    def run(self) -> str:
        """The run of the gateway, as records name it."""
        return f"{self.gateway}/{self.epoch}"

    def joined(self, other: ReplayPart) -> ReplayPart:
        """This part, and behind it one of the same run."""
        octets, rows = self.octets + other.octets, self.rows + other.rows
        return replace(self, last=other.last, newest=other.newest, rows=rows, octets=octets)

    def touches(self, other: ReplayPart) -> bool:
        """Whether the two have numbers in common."""
        return self.run == other.run and self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class ReplayRecord:
    """How far a replay got.

    Attributes:
        asked: what was asked for: the words of the options that say which rows go where.
        since, until: the span that these words meant at first, ISO 8601.
        rows: that were sent.
        sent: the last number that was sent, by run.
        doubts: parts that were begun, and of which nobody said that they are done.
    """

    id: str
    asked: Mapping[str, str]
    since: str
    until: str
    rows: int = 0
    sent: Mapping[str, int] = field(default_factory=dict)
    doubts: tuple[ReplayPart, ...] = ()

    def begun(self, part: ReplayPart, at: str) -> ReplayRecord:
        """The record while a part is sent."""
        return replace(self, doubts=(*self.doubts, replace(part, begun=at)))

    def done(self, part: ReplayPart) -> ReplayRecord:
        """The record when it is sent, and with it whatever was in doubt up to there."""
        doubts = [each for each in self.doubts if each.run != part.run or each.last > part.last]
        sent = {**self.sent, part.run: part.last}
        return replace(self, rows=self.rows + part.rows, sent=sent, doubts=tuple(doubts))

    def check(self, asked: Mapping[str, str]) -> None:
        """Refuse to go on with something else.

        Raises:
            UsageFailure: the options are not those of the replay.
        """
        for name, value in asked.items():
            if (before := self.asked.get(name, "")) != value:
                raise UsageFailure(
                    f"replay {self.id} was begun with --{name} {before or 'none'}, not {value or 'none'}: an --id is "
                    "for one replay, so name another one"
                )


class ReplayRecords:
    """The records of all replays."""

    def __init__(self, tables: Path) -> None:
        self._folder = tables / "_replays"

    def read(self, replay: str) -> ReplayRecord | None:
        """The record of a replay; None: it was not begun.

        Raises:
            JobFailure: it cannot be read.
        """
        path = self._folder / f"{replay}.json"
        try:
            told = json.loads(path.read_text())
            doubts = tuple([ReplayPart(**each) for each in told.pop("doubts")])
            return ReplayRecord(**told, doubts=doubts)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise JobFailure(f"{path}, which says what the replay has sent, cannot be read: {error}") from None

    def write(self, record: ReplayRecord) -> None:
        """Keep a record, so that it outlives a power cut.

        Raises:
            JobFailure: it cannot be kept.
        """
        path = self._folder / f"{record.id}.json"
        try:
            store(path, json.dumps(asdict(record), indent=1).encode())
        except OSError as error:
            raise JobFailure(f"{path}, which says what the replay has sent, cannot be written: {error}") from None

    @contextlib.contextmanager
    def held(self, replay: str) -> Iterator[None]:
        """For the time of the block nobody else on this machine runs the replay.

        Raises:
            JobFailure: somebody does.
            EnvironmentFailure: there can be no records here.
        """
        try:
            make_folder(self._folder)
            descriptor = os.open(self._folder / f"{replay}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise EnvironmentFailure(f"{self._folder} cannot hold what replays have sent: {error.strerror}") from None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise JobFailure(f"replay {replay} is running already") from None
            yield
        finally:
            os.close(descriptor)
