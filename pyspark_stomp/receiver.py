"""The receiver: a thread that connects, subscribes, fills a store, acknowledges, and connects again.

The thread has the client for itself.  Spark's thread sees numbers and events only.

The store decides when messages are acknowledged.  With a `Spool` it is as soon as their block is on the disk; with a
`Memory`, when it says that they are due.  In either case the ACKs of a block end with one that asks for a receipt: when
nothing is unconfirmed, the server has let go of all acknowledged messages.

Rows gather until none comes for a moment (`_IDLE`), for at most `_LINGER` seconds, or until there are enough of them: a
block costs two syncs, in which nothing is received.  While the store is full they gather unacknowledged, until the
server has sent as many as `prefetch` allows and stops, or until they are `GATHERED_BYTES` bytes; then the socket is not
read.  If the connection breaks, gathered rows are dropped: they were not acknowledged, and come again.

A lost connection, or an ERROR on one that had worked, is followed by new attempts, with a pause that doubles from 0.1
to 30 s, until `maxReconnectMs` are over.  An ERROR to the first subscription is final: login or destination is wrong,
and another attempt would not help.
"""

from __future__ import annotations

import threading
import time

from gateway.client import Client
from gateway.codec import V10, Frame

from .errors import ConnectionLost, ServerError, StompError
from .memory import Memory
from .options import Options
from .rows import Collector
from .spool import Spool

_ROWS = 8_192
_BYTES = 4 * 1024**2
# Many bytes, because a server may hang up on a client that reads nothing for long; few enough for a driver's memory.
GATHERED_BYTES = 64 * 1024**2
_LINGER = 0.1
_IDLE = 0.01
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 30.0


class Receiver:
    """The thread and its state."""

    def __init__(self, options: Options, store: Spool | Memory) -> None:
        self.failure: StompError | None = None  # why it gave up; None: it has not
        self.is_blocked = False  # the store is full and enough has gathered: nothing is read
        self._options = options
        self._store = store
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._unconfirmed: dict[str, int] = {}
        self._receipts = 0
        self._subscribed = False
        self._sessions = 0  # sessions that were subscribed
        self._gathering = False  # a message has come whose ACK is not written yet
        self._last_event = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="stomp-receiver", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def wait_beyond(self, row: int, timeout: float) -> bool:
        """Wait until the store has more than so many rows, for at most so many seconds; True if it has."""
        with self._changed:
            self._changed.wait_for(lambda: self._store.end > row or self.failure is not None, timeout)
        return self._store.end > row

    def idle_for(self) -> float:
        """Seconds since the last event, if it is subscribed and nothing waits for a confirmation; else 0."""
        if not self._subscribed or self._unconfirmed or self._gathering:
            return 0.0
        if isinstance(self._store, Memory) and self._store.has_due():
            return 0.0
        return time.monotonic() - self._last_event

    # The thread.

    def _run(self) -> None:
        try:
            self._keep_trying()
        except StompError as error:
            self.failure = error
        except OSError as error:
            self.failure = StompError(f"option spoolDir names a folder that cannot be written: {error}")
        except Exception as error:  # noqa: BLE001  # a thread that dies silently would look like an empty queue
            self.failure = StompError(f"the receiver failed: {type(error).__name__}: {error}")
        with self._changed:
            self._changed.notify_all()

    def _keep_trying(self) -> None:
        pause, since = _FIRST_PAUSE, time.monotonic()
        while not self._stop.is_set():
            sessions = self._sessions
            try:
                self._session()
            except (ConnectionLost, ServerError) as error:
                if self._sessions > sessions:
                    pause, since = _FIRST_PAUSE, time.monotonic()
                refused = isinstance(error, ServerError) and not self._sessions
                if refused or time.monotonic() + pause - since > self._options.max_reconnect / 1000:
                    raise
            self._stop.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _session(self) -> None:
        client = Client(self._options.server(), beat=True)
        try:
            self._subscribe(client)
            self._last_event = time.monotonic()
            self._subscribed = True
            self._sessions += 1
            self._receive(client)
            if not self.is_blocked:  # or all unread messages would have to be read before the RECEIPT
                client.disconnect()
        finally:
            self._subscribed = False
            client.close()
            self.is_blocked = False
            self._unconfirmed.clear()
            self._gathering = False
            if isinstance(self._store, Memory):
                self._store.disconnected()
            else:
                self._store.confirmed(self._store.end)  # the server will not; the keys that the spool remembers must do

    def _subscribe(self, client: Client) -> None:
        options = self._options
        mode = "client" if client.version is V10 else options.ack_mode
        if options.mode == "ack" and mode == "client":
            raise ServerError(f"{options.host} speaks STOMP 1.0, which cannot acknowledge one by one as mode ack must")
        for destination in options.destination:
            headers = {"id": destination, "destination": destination, "ack": mode}
            headers["prefetch-count"] = str(options.prefetch)
            if options.selector:
                headers["selector"] = options.selector
            client.request("SUBSCRIBE", headers | options.subscribe_headers)

    def _receive(self, client: Client) -> None:
        collector = Collector(dedup_header=self._options.dedup_header, body=self._options.include_body)
        gathered: set[str] = set()
        while not self._stop.is_set():
            self.is_blocked = collector.size >= GATHERED_BYTES and self._store.full()
            if self.is_blocked:
                client.rest(_IDLE)
                continue
            frames = client.receive(_IDLE)
            if frames:
                self._take(frames, collector, gathered)
            old = collector.rows and (not frames or time.monotonic() - collector.since > _LINGER)
            if (old or collector.rows >= _ROWS or collector.size >= _BYTES) and not self._store.full():
                self._keep(client, collector)
                gathered.clear()
            elif not collector.rows and collector.handles:  # all of it was known
                self._acknowledge(client, collector.handles, 0)
                collector.clear()
            self._gathering = bool(collector.rows or collector.handles)
            if isinstance(self._store, Memory) and self._store.has_due():
                self._acknowledge(client, self._store.due(), self._store.first)

    def _take(self, frames: list[Frame], collector: Collector, gathered: set[str]) -> None:
        self._gathering = True
        knows = self._store.knows
        for frame in frames:
            if frame.head.command != "MESSAGE":
                self._confirm(frame)
            elif (key := collector.key(frame)) and (key in gathered or knows(key)):
                self._repeated(frame, key, collector)
            else:
                gathered.add(key)
                collector.add(frame, key)
        self._last_event = time.monotonic()

    def _repeated(self, frame: Frame, key: str, collector: Collector) -> None:
        """Acknowledge a message that is kept already once more, in the order in which it came."""
        headers = frame.head.headers
        handle = (headers.get("subscription", ""), headers.get("ack", headers.get("message-id", "")))
        if isinstance(self._store, Memory):
            self._store.exchange(key, handle)
        else:
            collector.handles.append(handle)

    def _keep(self, client: Client, collector: Collector) -> None:
        block = collector.take()
        self._store.keep(block)
        if isinstance(self._store, Spool):
            self._acknowledge(client, block.handles, self._store.end)
        self._last_event = time.monotonic()
        with self._changed:
            self._changed.notify_all()

    def _acknowledge(self, client: Client, handles: list[tuple[str, str]], end: int) -> None:
        """Send ACKs, subscription by subscription; `end`: of the rows that are acknowledged with them."""
        by_subscription: dict[str, list[str]] = {}
        for subscription, handle in handles:
            by_subscription.setdefault(subscription, []).append(handle)
        frames = []
        for subscription, own in by_subscription.items():
            self._receipts += 1
            receipt = f"a{self._receipts}"
            self._unconfirmed[receipt] = end
            one_for_all = client.version is V10 or self._options.ack_mode == "client"
            frames.append(client.acks(subscription, own[-1:] if one_for_all else own, receipt))
        client.send(b"".join(frames))

    def _confirm(self, frame: Frame) -> None:
        """A RECEIPT: they come in order, so all rows before those that still wait are confirmed."""
        end = self._unconfirmed.pop(frame.headers.get("receipt-id", ""), 0)
        if isinstance(self._store, Spool) and next(iter(self._unconfirmed.values()), -1) != end:
            self._store.confirmed(end)
