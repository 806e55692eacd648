"""A recorder that keeps what it is told, as rows with the columns of the journal's schema; and scenes that have one.

It is as strict as the journal: names must be those of the event, numbers must fit, times must not go back.  So a row
that the journal could not write, or nobody could read, is a failure where it is told.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from gateway.broker.core.events import EventLog
from gateway.broker.core.ports import Recorder
from gateway.journal import schema

from .client import Rules, Scene
from .store import MemoryStore

SESSION = ("transport", "peer", "principal", "session")
SUBSCRIPTION = (*SESSION, "subscription", "ack_mode", "destination")
_LOOK = 1_000  # nanoseconds between two looks at the clock


@dataclass(frozen=True)
class Row:
    """One row; None: it does not have that column."""

    event: str
    now: int  # microseconds on the recorder's clock
    transport: str | None = None
    peer: str | None = None
    principal: str | None = None
    session: str | None = None
    subscription: str | None = None
    ack_mode: str | None = None
    destination: str | None = None
    number: int | None = None  # of the message, in place of the `message_id`
    transaction: str | None = None
    size: int | None = None
    delivery_count: int | None = None
    queue_us: int | None = None
    ack_us: int | None = None
    pending: int | None = None
    depth: int | None = None
    oldest_us: int | None = None
    reason: str | None = None
    headers: Mapping[str, str] | None = None
    body: bytes | None = None

    def has(self, **values: object) -> bool:
        """These columns have these values."""
        return all(getattr(self, name) == value for name, value in values.items())


COLUMNS = frozenset(each.name for each in fields(Row)) - {"event", "now", "number"}
_ROW_NAMES = {"message_id": "number"}
_NUMBERS = frozenset(("message_id", "size", "delivery_count", "queue_us", "ack_us", "pending", "depth", "oldest_us"))
_NEVER_UNKNOWN = frozenset(("message_id", "pending", "depth"))


class Notes:
    """Rows, in the order in which they were told."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows = list(rows)

    def of(self, *events: str, **values: object) -> list[Row]:
        """Those of some events; of all where none is named."""
        return [row for row in self.rows if (not events or row.event in events) and row.has(**values)]

    def one(self, *events: str, **values: object) -> Row:
        """The one that there is."""
        (row,) = self.of(*events, **values)
        return row

    @property
    def events(self) -> list[str]:
        """What happened."""
        return [row.event for row in self.rows]

    @property
    def counts(self) -> Counter[str]:
        """How often each thing happened."""
        return Counter(self.events)


class Notebook(Notes):
    """A recorder."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0
        self.is_behind = False  # as the test says
        self.clock: Callable[[], int] = self._clock  # nanoseconds; each look takes one microsecond

    def _clock(self) -> int:
        self.time += _LOOK
        return self.time

    def names_of_session(
        self, transport: str | None, peer: str | None, principal: str | None = None, session: str | None = None
    ) -> bytes:
        return json.dumps([transport, peer, principal, session]).encode()

    def names_of_subscription(self, session: bytes, subscription: str | None, ack_mode: str, destination: str) -> bytes:
        return json.dumps([*json.loads(session), subscription, ack_mode, destination]).encode()

    def names_of_destination(self, destination: str) -> bytes:
        return json.dumps([destination]).encode()

    def accepted(
        self,
        now: int,
        names: bytes,
        destination: str,
        number: int,
        headers: Mapping[str, str],
        body: bytes,
        transaction: str | None = None,
    ) -> None:
        names = json.dumps([*json.loads(names), destination]).encode()
        told = {"headers": headers, "body": body, "transaction": transaction}
        self.record("accepted", now, names, message_id=number, size=len(body), **told)

    def delivered(self, now: int, names: bytes, number: int, size: int, delivery_count: int, queue_us: int) -> None:
        told = {"size": size, "delivery_count": delivery_count, "queue_us": queue_us}
        self.record("delivered", now, names, message_id=number, **told)

    def acked(
        self, now: int, names: bytes, number: int, delivery_count: int, ack_us: int, transaction: str | None = None
    ) -> None:
        told = {"delivery_count": delivery_count, "ack_us": ack_us, "transaction": transaction}
        self.record("acked", now, names, message_id=number, **told)

    def record(self, event: str, now: int, names: bytes, **columns: Any) -> None:
        assert not self.rows or self.rows[-1].now <= now // 1000
        known = schema.BY_NAME[event].columns
        assert columns.keys() <= set(known), (event, columns)
        values = dict(zip([name for name in SUBSCRIPTION if name in known], json.loads(names), strict=True))
        for name, value in columns.items():
            if name in _NUMBERS:
                assert isinstance(value, int)
                assert value >= 0 or name not in _NEVER_UNKNOWN, (event, name)
            values[_ROW_NAMES.get(name, name)] = value if name not in _NUMBERS or value >= 0 else None
        self.rows.append(Row(event, now // 1000, **values))


def recorded(scene: Scene) -> Notebook:
    """From now on a scene has a recorder."""
    notebook = Notebook()
    scene.broker.records = EventLog(scene.broker.sessions, notebook, scene.broker.context.work_limits)
    return notebook


class RecordedScene(Scene):
    """A scene that has a recorder from the start, before anything is read from its store.

    `make`: the recorder of each process.
    """

    def __init__(
        self,
        make: Callable[[], Recorder],
        policies: Rules | None = None,
        *,
        stored: bool | MemoryStore = False,
        **quotas: Any,
    ) -> None:
        self._make = make
        super().__init__(policies, **quotas)
        self.recorder = make()
        self.broker.records = EventLog(self.broker.sessions, self.recorder)
        if stored:
            self._open(stored if isinstance(stored, MemoryStore) else MemoryStore())

    def crash(self, away: float = 1.0, *, clean: bool = False, policies: Rules | None = None) -> RecordedScene:
        mine, quotas = self._made_of
        again = self._next = RecordedScene(self._make, mine if policies is None else policies, **quotas)
        again._open(self.store.crash(clean=clean), self.epoch + self.now + away)
        again.settle()
        return again


def row_of_journal(columns: Mapping[str, Any], run: str) -> Row:
    """What was read back from a journal, in the same form."""
    values = {name: value for name, value in columns.items() if name in COLUMNS}
    if "message_id" in columns:
        before, _, number = columns["message_id"].rpartition("-")
        assert before == run
        values["number"] = int(number)
    return Row(columns["event"], columns["ts"], **values)
