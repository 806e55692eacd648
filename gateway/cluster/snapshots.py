"""Snapshots of the log: copies of a replica in JetStream's object store, so that the log can be trimmed.

A snapshot is an object of the bucket `GW_NAME`, named by the sequence up to which it has the log.  The bucket is an
object store as `nats object` knows it (ADR-20).  Two are kept, and the log behind the older one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from .log import LogUnavailable
from .nats.jetstream import STREAM_NOT_FOUND, JetStream, JetStreamError
from .refusals import told

KEPT = 2

UPLOAD = 600.0
"""Seconds since its last chunk after which the upload of a snapshot counts as lost."""

_CHUNK = 512 * 1024
_AT_ONCE = 16
_NAMES = 100


_told = partial(told, "the snapshots of the cluster are refused")


class Snapshot(NamedTuple):
    """A snapshot.

    `position`: bytes of the log up to `sequence`, all that ever were there.  `size`: bytes of the file.
    `made`: when, in seconds since 1970.
    """

    sequence: int
    position: int
    size: int
    chunks: int
    nuid: str  # names its chunks
    digest: str
    made: float


class Snapshots:
    """The bucket, for one thread.

    `name`: of the cluster.  All methods raise LogUnavailable: JetStream does not answer, or has no room.
    """

    def __init__(self, jets: JetStream, name: str) -> None:
        self._bucket = f"GW_{name}"
        self._stream = f"OBJ_{self._bucket}"
        self._jets = jets

    def make(self, replicas: int) -> None:
        """Make the bucket, unless it is there.  Raises NatsUnavailable."""
        self._jets.make(
            {
                "name": self._stream,
                "description": "snapshots of the log of a cluster of STOMP gateways",
                "subjects": [self._chunks(">"), self._meta(">")],
                "storage": "file",
                "num_replicas": replicas,
                "discard": "new",
                "allow_direct": True,
                "allow_rollup_hdrs": True,
            }
        )

    def make_again(self, replicas: int) -> bool:
        """The same, for a node that runs; True: it was gone."""
        with _told():
            try:
                self._jets.call(f"STREAM.INFO.{self._stream}")
            except JetStreamError as error:
                if error.code != STREAM_NOT_FOUND:
                    raise
                self.make(replicas)
                return True
        return False

    def all(self) -> list[Snapshot]:
        """The snapshots, the newest first."""
        with _told():
            metas = self._jets.read(self._stream, 1, _NAMES, 1_000_000, subject=self._meta(">"))
        found = [_read(each.payload) for each in metas]
        return sorted([each for each in found if each is not None], reverse=True)

    def put(self, path: Path, sequence: int, position: int) -> Snapshot:
        """Upload a file."""
        nuid, digest, chunks = secrets.token_hex(11), hashlib.sha256(), 0
        with _told(), path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                self._jets.append(self._chunks(nuid), chunk, {})
                chunks += 1
            if self._subjects(self._chunks(nuid)).get(self._chunks(nuid)) != chunks:
                raise LogUnavailable(f"the snapshot of {sequence} was removed while it was made: it took too long")
            now = datetime.now(UTC).timestamp()
            made = Snapshot(sequence, position, path.stat().st_size, chunks, nuid, _text(digest.digest()), now)
            self._write(made)
        return made

    def get(self, snapshot: Snapshot, path: Path) -> None:
        """Download a snapshot into a new file."""
        digest, first, chunks = hashlib.sha256(), 1, 0
        with _told(), path.open("xb") as file:
            while chunks < snapshot.chunks:
                subject = self._chunks(snapshot.nuid)
                found = self._jets.read(self._stream, first, _AT_ONCE, _AT_ONCE * _CHUNK, subject=subject)
                if not found:
                    raise LogUnavailable(
                        f"the snapshot of {snapshot.sequence} is not complete: a newer one replaces it"
                    )
                for each in found:
                    digest.update(each.payload)
                    file.write(each.payload)
                chunks += len(found)
                first = found[-1].sequence + 1
        if _text(digest.digest()) != snapshot.digest:
            raise LogUnavailable(f"the snapshot of {snapshot.sequence} is damaged: its checksum is wrong")

    def forget_old(self, kept: int = KEPT) -> Snapshot | None:
        """Remove all but the newest ones; returns the oldest that is kept, if so many are there."""
        found = self.all()
        with _told():
            for each in found[kept:]:
                self._jets.call(f"STREAM.PURGE.{self._stream}", {"filter": self._meta(_name(each.sequence))})
                self._remove_chunks(self._chunks(each.nuid))
            # A server that lags may have shown too few.
            if self._subjects(self._meta(">")).keys() == {self._meta(_name(each.sequence)) for each in found[:kept]}:
                self._forget_lost({self._chunks(each.nuid) for each in found})
        return found[kept - 1] if len(found) >= kept else None

    def _forget_lost(self, known: set[str]) -> None:
        """Remove the chunks of uploads that ended with their node."""
        for subject in self._subjects(self._chunks("*")).keys() - known:
            last = self._jets.call(f"STREAM.MSG.GET.{self._stream}", {"last_by_subj": subject})["message"]
            age = datetime.now(UTC) - datetime.fromisoformat(last["time"])
            if age.total_seconds() > UPLOAD:
                self._remove_chunks(subject)

    def _subjects(self, name: str) -> dict[str, int]:
        """The subjects that there are, with their messages, as the leader has them.  `name`: may have wildcards."""
        found = self._jets.call(f"STREAM.INFO.{self._stream}", {"subjects_filter": name})
        return found["state"].get("subjects") or {}

    def _remove_chunks(self, subject: str) -> None:
        self._jets.call(f"STREAM.PURGE.{self._stream}", {"filter": subject})

    def _write(self, snapshot: Snapshot) -> None:
        name = f"{snapshot.sequence}.db"
        values = {
            "name": name,
            "description": "a store of the gateway, in SQLite",
            "bucket": self._bucket,
            "nuid": snapshot.nuid,
            "size": snapshot.size,
            "mtime": datetime.fromtimestamp(snapshot.made, UTC).isoformat(),
            "chunks": snapshot.chunks,
            "digest": f"SHA-256={snapshot.digest}",
            "options": {"max_chunk_size": _CHUNK},
            "metadata": {"sequence": str(snapshot.sequence), "position": str(snapshot.position)},
        }
        subject = self._meta(_name(snapshot.sequence))
        self._jets.append(subject, json.dumps(values).encode(), {"Nats-Rollup": "sub"})

    def _chunks(self, nuid: str) -> str:
        return f"$O.{self._bucket}.C.{nuid}"

    def _meta(self, name: str) -> str:
        return f"$O.{self._bucket}.M.{name}"


def _name(sequence: int) -> str:
    """The name of an object, as a subject has it."""
    return _text(f"{sequence}.db".encode())


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()


def _read(payload: bytes) -> Snapshot | None:
    """A snapshot of its description; None: it was deleted, or something else wrote it."""
    try:
        values: dict[str, Any] = json.loads(payload)
        known = values["metadata"]
        sequence, position = int(known["sequence"]), int(known["position"])
        digest = values["digest"].removeprefix("SHA-256=")
        made = datetime.fromisoformat(values["mtime"]).timestamp()
        return Snapshot(sequence, position, values["size"], values["chunks"], values["nuid"], digest, made)
    except (ValueError, KeyError, TypeError):
        return None
