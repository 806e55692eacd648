"""The log as a stream of JetStream: `GW_NAME` with the one subject `gw.NAME.log`.

`Nats-Expected-Last-Sequence` makes an append conditional.  An append waits for the disks of a majority, if the servers
have `sync_interval: always`.  Reads are direct gets, which any server of the stream answers: a standby asks for what is
new several times a second, and the leader has no work with that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gateway.stores import StoreFull

from .log import Bounds, LogUnavailable, Message, SequenceRefused
from .nats import jetstream
from .nats.jetstream import JetStream
from .refusals import told

APPEND_TIMEOUT = 4.0
"""Seconds.  A fail-over of the stream's leader takes longer: then the append is repeated."""

_AT_ONCE = 1_000
_BYTES = 4 * 1024 * 1024


_told = partial(
    told,
    "the log of the cluster refuses",
    {
        **dict.fromkeys(jetstream.WRONG_LAST_SEQUENCE, lambda error: SequenceRefused()),
        jetstream.STREAM_NOT_FOUND: lambda error: LogUnavailable("the cluster has no log yet: its first node makes it"),
        **dict.fromkeys(
            jetstream.NO_ROOM,
            lambda error: StoreFull(f"the log of the cluster is full: {error}: give JetStream more room"),
        ),
    },
)


class StreamLog:
    """A `Log`, for one thread.

    `name`: of the cluster.  Raises LogUnavailable, as its methods do; they raise StoreFull as well: the stream has no
    room left.
    """

    def __init__(self, jets: JetStream, name: str) -> None:
        self.stream = stream_of(name)
        self._subject = f"gw.{name}.log"
        self._jets = jets

    def make(self, replicas: int) -> None:
        """Make the stream, unless it is there.  Raises NatsUnavailable."""
        self._jets.make(
            {
                "name": self.stream,
                "description": "the log of a cluster of STOMP gateways: one message is one commit",
                "subjects": [self._subject],
                "storage": "file",
                "num_replicas": replicas,
                "retention": "limits",
                "discard": "new",
                "allow_direct": True,
                "deny_delete": True,
                "duplicate_window": 0,
            }
        )

    def append(self, data: bytes, expected: int) -> int:
        """Append a message behind the one with the sequence `expected`; returns its own sequence."""
        with _told():
            return self._jets.append(
                self._subject, data, {"Nats-Expected-Last-Sequence": str(expected)}, timeout=APPEND_TIMEOUT
            )

    def read(self, first: int) -> Sequence[Message]:
        """The next messages from a sequence on; the last ones may be missing."""
        with _told():
            found = self._jets.read(self.stream, first, _AT_ONCE, _BYTES, subject=self._subject)
            return [Message(each.sequence, each.payload) for each in found]

    def bounds(self) -> Bounds:
        """First and last message, by the leader."""
        with _told():
            state = self._jets.call(f"STREAM.INFO.{self.stream}")["state"]
            return Bounds(max(1, state["first_seq"]), state["last_seq"], state["bytes"])  # 0: there was none yet

    def purge(self, first: int) -> None:
        """Remove the messages in front of a sequence."""
        with _told():
            self._jets.call(f"STREAM.PURGE.{self.stream}", {"seq": first})


def stream_of(name: str) -> str:
    """The stream of a cluster's log."""
    return f"GW_{name}"
