"""Mode offset: destinations that keep a stream, read by number as often as needed.

These are the gateway's topics with a stream, whose MESSAGEs carry `seq`, and RabbitMQ's stream queues, whose MESSAGEs
carry `x-stream-offset`.  Here a stream is always one of these; that of Spark is a query.  Both servers understand
SUBSCRIBE with `x-stream-offset:offset=N`, `first` and `last`.  ACKs serve only to keep the messages flowing.

The driver only asks where a stream ends: it subscribes from `last`, takes the messages that come, and unsubscribes.  An
empty stream sends nothing, and its RECEIPT says nothing of messages: so a stream counts as empty if it was silent for
`idleTimeoutMs`, and a query without news waits so long.  A task subscribes from its first number and reads until it
sees the last, or one behind it: numbers may be left out after a kill of the gateway, so a range may hold fewer messages
than numbers.

**Never a silent loss.**  If the stream no longer reaches back to the wanted number, our gateway says `gap:true`, and
RabbitMQ begins later than it was told; both are `DataLost`, unless `failOnDataLoss` is false.  A last message that does
not come, although the stream had it, is `DataLost`, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from gateway.client import Client
from gateway.codec import Frame

from .errors import ConnectionLost, DataLost
from .options import Options
from .rows import Collector

# In place of the number of the next message: the stream is empty.  RabbitMQ's numbers begin with 0.
EMPTY = -1
_WINDOW = 10_000
_ROWS = 8_192
_BYTES = 4 * 1024**2
# After news of one stream the others have so many seconds to send theirs, or wait for the next question.
_OTHERS = 0.3
_QUIET = 0.02
_LONGEST_PAUSE = 30.0
MESSAGE_TIMEOUT = 10.0  # seconds to wait for a message that the stream had: the server may be slow

_Result = TypeVar("_Result")


@dataclass
class OffsetRange(InputPartition):
    """Messages of one destination: numbers from `start` up to, without, `end`."""

    destination: str
    start: int
    end: int


def with_retries(options: Options, attempt: Callable[[], _Result]) -> _Result:
    """The result of an attempt, repeated while connections are lost, for at most `maxReconnectMs`."""
    pause, since = 0.1, time.monotonic()
    while True:
        try:
            return attempt()
        except ConnectionLost:
            if time.monotonic() + pause - since > options.max_reconnect / 1000:
                raise
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def subscribe(client: Client, options: Options, destination: str, begin: str, window: int) -> None:
    """SUBSCRIBE to a stream; `begin` is a value of `x-stream-offset`."""
    headers = {"id": destination, "destination": destination, "ack": "client", "prefetch-count": str(window)}
    if options.selector:
        headers["selector"] = options.selector
    client.request("SUBSCRIBE", headers | {"x-stream-offset": begin} | options.subscribe_headers)


def begin_at(seq: int) -> str:
    """A number as a value of `x-stream-offset`; `EMPTY`: the beginning, wherever that is."""
    return f"offset={seq}" if seq != EMPTY else "first"


def seq_of(message: Frame) -> int | None:
    """The number of a message; None: it has none."""
    headers = message.headers
    told = headers.get("seq", headers.get("x-stream-offset", ""))
    return int(told) if told.isdigit() else None


class Probe:
    """Asks streams where they end, on a connection that it keeps.  It uses no selector.

    Each question has ids of its own, so that a late answer is not taken for one to the next question.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._client: Client | None = None
        self._questions = 0

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def last(self, destinations: tuple[str, ...], known: dict[str, int] | None = None) -> dict[str, int]:
        """The number of each stream's last message; an empty stream is left out.

        Args:
            known: the number from which on a message of a stream is news: as soon as there is news, silent streams may
                be left out, too.
        """
        return with_retries(self._options, lambda: self._ask(dict.fromkeys(destinations, "last"), max, known))

    def first(self, starts: dict[str, int]) -> dict[str, int]:
        """The number of each stream's first message from a number on; a stream without one is left out."""
        begins = {destination: begin_at(seq) for destination, seq in starts.items()}
        return with_retries(self._options, lambda: self._ask(begins, min))

    def _ask(
        self, begins: dict[str, str], choose: Callable[[int, int], int], known: dict[str, int] | None = None
    ) -> dict[str, int]:
        if self._client is None:
            self._client = Client(self._options.server())
        client = self._client
        found: dict[str, int] = {}
        self._questions += 1
        ids = {f"{self._questions}:{name}": name for name in begins}
        try:
            for own, destination in ids.items():
                headers = {"id": own, "destination": destination, "ack": "client"}
                headers |= {"prefetch-count": "1000", "x-stream-offset": begins[destination]}
                client.request("SUBSCRIBE", headers | self._options.subscribe_headers)
            began = time.monotonic()
            patience = self._options.idle_timeout / 1000
            while time.monotonic() - began < patience:
                frames = client.receive(_QUIET)
                for frame in frames:
                    asked, seq = ids.get(frame.headers.get("subscription", "")), seq_of(frame)
                    if asked is not None and seq is not None:
                        found[asked] = choose(found.get(asked, seq), seq)
                if not frames and len(found) == len(begins):
                    break
                if known is not None and any(seq >= known.get(name, 0) for name, seq in found.items()):
                    patience = min(patience, _OTHERS)
            for own, destination in ids.items():
                client.request("UNSUBSCRIBE", {"id": own, "destination": destination})
            client.receive(0)  # messages on their way
        except BaseException:
            self.close()
            raise
        return found


def read_range(options: Options, part: OffsetRange, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The messages of a range, over as many connections as it takes.

    `DataLost`: some are gone.  `StompError`: the server refuses, or does not come back.
    """
    reading = _Reading(options, part)
    while not reading.done:
        client = with_retries(options, lambda: Client(options.server()))
        try:
            subscribe(client, options, part.destination, begin_at(reading.next), _WINDOW)
            for batch in reading.batches(client):
                yield batch.select(columns)
            client.disconnect()
        except ConnectionLost:
            reading.broke()
        finally:
            client.close()


class _Reading:
    """The progress of a range: `next` is the next number, and `done` is true at its end."""

    def __init__(self, options: Options, part: OffsetRange) -> None:
        self._options = options
        self._part = part
        self._name = f"destination {part.destination}"
        self.next = part.start
        self.done = part.start >= part.end
        self._collector = Collector(body=options.include_body)
        self._last_progress = time.monotonic()

    def broke(self) -> None:
        """The connection is lost; rows that were gathered and not handed on are read again.

        `ConnectionLost`: no message has come for too long.
        """
        self._collector.clear()
        silent = time.monotonic() - self._last_progress
        if silent * 1000 > self._options.max_reconnect:
            raise ConnectionLost(f"{self._name}: connections break, and no message has come for {silent:.0f} s")
        time.sleep(0.1)

    def batches(self, client: Client) -> Iterator[pa.RecordBatch]:
        unacknowledged = size = 0
        handle = ""
        reached = self.next
        first = True
        while not self.done:
            frames = client.receive(0.5)
            for frame in frames:
                headers = frame.head.headers
                if frame.head.command != "MESSAGE":
                    continue
                seq = seq_of(frame)
                if first or "gap" in headers:
                    self._check_gap(frame, seq, reached)
                    first = False
                handle = headers.get("ack", headers.get("message-id", ""))
                unacknowledged += 1
                size += len(frame.body)
                if seq is None or seq < reached:
                    continue
                if seq < self._part.end:
                    self._collector.add(frame)
                    reached = seq + 1
                if seq >= self._part.end - 1:
                    self.done = True
                    break
            if frames:
                self._last_progress = time.monotonic()
            elif not self.done:
                self._check_silence(reached)
            if self._collector.rows and (self.done or not frames or self._full()):
                batch = self._collector.batch()
                self.next = reached  # rows that are handed on are never read again
                yield batch
            if handle and (unacknowledged > _WINDOW // 4 or size > _BYTES or not frames) and not self.done:
                client.send(client.acks(self._part.destination, [handle]))
                unacknowledged = size = 0
                handle = ""

    def _full(self) -> bool:
        return self._collector.rows >= _ROWS or self._collector.size >= _BYTES

    def _check_gap(self, frame: Frame, seq: int | None, expected: int) -> None:
        if not self._options.fail_on_data_loss:
            return
        headers = frame.headers
        told = headers.get("gap") == "true"
        # Only RabbitMQ does without `seq`; there numbers have no holes.
        begun_later = "seq" not in headers and seq is not None and seq > expected
        if told or begun_later:
            first = headers.get("first-seq", seq)
            raise DataLost(
                f"{self._name}: its stream no longer has the messages from {expected} on, it begins with {first}; "
                "failOnDataLoss=false continues from there"
            )

    def _check_silence(self, reached: int) -> None:
        """Nothing comes, and the last number has not been seen."""
        silent = time.monotonic() - self._last_progress
        if self._options.selector or not self._options.fail_on_data_loss:
            self.done = silent * 1000 >= self._options.idle_timeout  # the last ones are gone, or were not selected
        elif silent >= MESSAGE_TIMEOUT:
            raise DataLost(
                f"{self._name}: the messages from {reached} to {self._part.end - 1} were there and do not come; "
                "failOnDataLoss=false continues without them"
            )
