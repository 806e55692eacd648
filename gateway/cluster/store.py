"""Store of the primary: each commit goes into the log, and then into the node's own file.

    write(batch)   ->  LogWriter.append   on the disks of a majority
                   ->  Replica.write      readable here; not synchronized

If the log does not answer, the commit has failed, and the committer tries it again, as with a disk.  If the log has it
and the file does not, the next attempt writes the file alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import structlog

from gateway.broker.core.ports import StoreError
from gateway.broker.model.changes import Batch, Stored
from gateway.stores import Recovered

from .log import Fenced, LogFull, LogUnavailable, LogWriter
from .records import FORM, Kind, Record, RecordError, pack_batch, pack_map
from .replica import Replica

log = structlog.get_logger("gateway.cluster")

AHEAD = 10_000_000
"""Microseconds after its last record for which an old primary may have gone on."""


class ReplicatedStore:
    """The store that the broker of a primary writes to.  Its calls block: they come from one thread, one at a time.

    `full`: why the log takes nothing more; empty: it does.  `log_shortage`: why it should get no new messages.

    Args:
        epoch: of this primary, whose record is the last one of the log.
        on_fenced: called once, in the thread that writes, when another node has taken over.
        clock: seconds since 1970.
        form: of its records.
    """

    is_new = False

    def __init__(
        self,
        replica: Replica,
        writer: LogWriter,
        epoch: int,
        on_fenced: Callable[[], None],
        clock: Callable[[], float] = time.time,
        form: int = FORM,
    ) -> None:
        self.path = replica.store.path
        self.is_fenced = False
        self.full = ""
        self.log_shortage: Callable[[], str] = lambda: ""
        self._replica = replica
        self._writer = writer
        self._epoch = epoch
        self._on_fenced = on_fenced
        self._clock = clock
        self._form = form
        self._record: Record | None = None  # of the batch under way
        self._number = 0  # of that batch
        self._sequence = 0  # of its record, once the log has it

    @property
    def token(self) -> str:
        """The name of the store in message ids: the same on all nodes."""
        return self._replica.token

    def load(self) -> Recovered:
        """All that the log holds, for a broker; to be called once, first.  Raises StoreError: it cannot be read."""
        found = self._replica.load()
        # Messages that were never stored had numbers of the old primary's clock, which may be ahead of this one.
        return found._replace(highest=max(found.highest, self._replica.time + AHEAD))

    def write(self, batch: Batch) -> None:
        """Append the batch to the log, and apply it here.

        Raises Fenced: another node is primary; StoreError: it may be written again.
        """
        if batch.number != self._number:
            payload = pack_batch(batch)
            self._record = self._record_of(Kind.BATCH, batch.number, payload) if payload else None
            self._number, self._sequence = batch.number, 0
        if self._record is not None and not self._sequence:
            self._sequence = self._append(self._record)
        self._replica.write(batch, self._record, self._sequence)

    def close(self, *, clean: bool) -> None:
        """Write no more.  `clean`: say in the log that all is told; if that cannot be, it is as after a crash.

        The file stays open, for the node goes on as a standby.
        """
        if not clean or self.is_fenced:
            return
        record = self._record_of(Kind.END, 0, pack_map({}))
        try:
            try:
                sequence = self._append(record)
            except LogUnavailable:  # another server may answer
                sequence = self._append(record)
            self._replica.apply(record, sequence)
        except StoreError as error:
            log.warning("the log does not say that this primary has ended in order", reason=str(error))

    def _record_of(self, kind: Kind, number: int, payload: bytes) -> Record:
        return Record(kind, self._epoch, number, int(self._clock() * 1e6), payload, self._form)

    def _append(self, record: Record) -> int:
        if self.is_fenced:
            raise Fenced("this node is not primary any more")
        try:
            sequence = self._writer.append(record)
        except LogFull as error:
            self.full = str(error)
            raise
        except LogUnavailable as error:
            if self.full:  # the servers have switched JetStream off, and name no reason
                raise LogFull(f"{self.full}; then {error}") from None
            raise
        except Fenced:
            self.is_fenced = True
            self._on_fenced()
            raise
        except RecordError as error:
            raise StoreError(str(error)) from None
        self.full = ""
        return sequence

    def read(self, rows: Sequence[int]) -> list[Stored]:
        """Rows with their contents, from the node's own file.  Raises StoreError: it cannot be read."""
        return self._replica.store.read(rows)

    def shortage(self) -> str:
        """The reason to refuse new messages; empty: none.  Raises StoreError: the node's own file cannot be used."""
        return self.log_shortage() or self._replica.store.shortage()

    def notice(self) -> str:
        """News for the operator; empty: none."""
        return self._replica.store.notice()

    def tidy(self) -> bool:
        """Do some of the work of an idle store; True: more work is left."""
        return self._replica.store.tidy()
