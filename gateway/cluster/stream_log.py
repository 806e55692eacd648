"""The log as a stream of JetStream: `GW_NAME` with the one subject `gw.NAME.log`.

`Nats-Expected-Last-Sequence` makes an append conditional.  An append waits for the disks of a majority, if the servers
have `sync_interval: always`.  Reads are direct gets, which any server of the stream answers: a standby asks for what is
new several times a second, and the leader has no work with that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from .log import Bounds, LogFull, LogServer, LogUnavailable, Message, NoLog, SequenceRefused
from .nats import jetstream
from .nats.jetstream import JetStream
from .refusals import told

APPEND_TIMEOUT = 2.0
"""Seconds; then the append is repeated: it may have gone to a leader that was lost."""

LOOK_TIMEOUT = 1.5
"""Seconds for a question to the leader of the log: while there is none, a standby must not miss the end of a lease."""

_AT_ONCE = 1_000
_BYTES = 4 * 1024 * 1024


_told = partial(
    told,
    "the log of the cluster refuses",
    {
        **dict.fromkeys(jetstream.WRONG_LAST_SEQUENCE, lambda error: SequenceRefused()),
        jetstream.STREAM_NOT_FOUND: lambda error: NoLog(
            "the cluster has no log: start a node, which makes it or says why not"
        ),
        **dict.fromkeys(
            jetstream.NO_ROOM,
            lambda error: LogFull(f"the log of the cluster is full: {error}: give JetStream more room"),
        ),
    },
)


class StreamLog:
    """A `Log`, for one thread.

    `name`: of the cluster.  Raises LogUnavailable, as its methods do; they raise LogFull as well: the stream has no
    room left.
    """

    def __init__(self, jets: JetStream, name: str) -> None:
        self.stream = stream_of(name)
        self._subject = f"gw.{name}.log"
        self._jets = jets
        self._seen = 0  # the highest sequence that was

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
                "max_age": 0,
                "discard": "new",
                "allow_direct": True,
                "deny_delete": True,
                "duplicate_window": 0,
            }
        )

    def approach(self) -> None:
        """Go to the leader of the stream: any other server would pass each append on to it, and its answer back."""
        with _told():
            info = self._jets.call(f"STREAM.INFO.{self.stream}")
        if leader := info.get("cluster", {}).get("leader"):
            self._jets.connection.move_to(leader)

    def append(self, data: bytes, expected: int) -> int:
        """Append a message behind the one with the sequence `expected`; returns its own sequence."""
        with _told():
            self._seen = self._jets.append(
                self._subject, data, {"Nats-Expected-Last-Sequence": str(expected)}, timeout=APPEND_TIMEOUT
            )
            return self._seen

    def read(self, first: int) -> Sequence[Message]:
        """The next messages from a sequence on; the last ones may be missing."""
        with _told():
            found = self._jets.read(self.stream, first, _AT_ONCE, _BYTES, subject=self._subject)
            messages = [Message(each.sequence, each.payload) for each in found]
        self._seen = max([self._seen, *[each.sequence for each in messages]])
        return messages

    def bounds(self) -> Bounds:
        """First and last message, by the leader.

        A server that is cut off from the others goes on as leader for 20 s, and without one shows what it has.
        """
        with _told():
            found = self._jets.call(f"STREAM.INFO.{self.stream}", timeout=LOOK_TIMEOUT)
        state, cluster = found["state"], found.get("cluster")  # a server alone has none
        has_leader = cluster is None or bool(cluster.get("leader"))
        if not has_leader or state["last_seq"] < self._seen:
            self._jets.connection.leave()  # another server may know more
        if not has_leader:
            raise LogUnavailable("the log of the cluster has no leader")
        self._seen = max(self._seen, state["last_seq"])
        first = max(1, state["first_seq"])  # 0: there was none yet
        limit = max(0, found.get("config", {}).get("max_bytes", 0))  # -1: none
        return Bounds(first, state["last_seq"], state["bytes"], tuple(_servers(cluster or {})), limit)

    def purge(self, first: int) -> None:
        """Remove the messages in front of a sequence."""
        with _told():
            self._jets.call(f"STREAM.PURGE.{self.stream}", {"seq": first})


def _servers(told: dict[str, Any]) -> Iterator[LogServer]:
    """The servers of the stream; none where its server is alone."""
    if told.get("leader"):
        yield LogServer(str(told["leader"]), leads=True, is_current=True)
    for each in told.get("replicas") or ():
        # One that is lost stays "current" until the next append.
        is_current = bool(each.get("current")) and each.get("active", 0) < jetstream.SILENT
        yield LogServer(str(each.get("name", "")), leads=False, is_current=is_current)


def stream_of(name: str) -> str:
    """The stream of a cluster's log."""
    return f"GW_{name}"
