"""The broker without sockets: clients whose bytes go straight into their sessions.

A `Client` stands where the connection stands in the gateway, and does what that does: decode, handle, make an ERROR of
what is raised, close behind it, and carry (`Carrier`) what lies in the outbox.  A `Scene` is a broker and its clients;
after each step of one of them it flushes what the step caused (`settle`) and checks the broker's books against a count
of its own (`audit`), so that every test is a test of the accounts, too.  Time stands still until a test lets it pass
(`Scene.wait`).

The socket of a `stalled` client takes nothing: its frames stay in the outbox, as they do while a writer waits.

A scene may have a store (`stored=True`).  Nothing is written until the test says so (`Scene.commit`), and `Scene.crash`
kills the process: what it returns is a new scene, which has what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gateway.broker import Broker, Quotas
from gateway.broker.admin.messages import MessageAdmin
from gateway.broker.core.arguments_check import ArgumentsNotice
from gateway.broker.core.work_limits import WORK_LIMITS, WorkLimits
from gateway.broker.errors import SessionEnded, SlowConsumer
from gateway.broker.headers.connect import read_opening
from gateway.broker.headers.parse import Misspelt
from gateway.broker.model.changes import Batch
from gateway.broker.model.identity import Renewal
from gateway.broker.model.patterns import Pattern
from gateway.broker.model.policy import Policies
from gateway.codec import V10, V11, V12, Decoder, Frame, Limits, ProtocolError, Version

from .books import audit, audit_rows, waiting
from .store import MemoryStore, Vault
from .wire import Received, build, parse

__all__ = ["ALL", "EPOCH", "WITH_NACK", "Client", "Scene", "Step", "waiting"]

ALL = (V10, V11, V12)
WITH_NACK = (V11, V12)
Rules = Mapping[str, Mapping[str, Any]]
EPOCH = 1_700_000_000.0  # seconds since the epoch when a scene's clock is 0


class Scene:
    """A broker and its clients.

    `policies`: pattern -> keys of `Policy`; where nothing else is said, rejected messages come back at once; `stored`:
    True: there is a store, an empty one; or the one that a process before this has left.
    """

    def __init__(
        self,
        policies: Rules | None = None,
        *,
        stored: bool | MemoryStore = False,
        work_limits: WorkLimits = WORK_LIMITS,
        **quotas: Any,
    ) -> None:
        self.now = 1_000.0  # the broker's clock, in seconds
        self.epoch = EPOCH  # seconds since the epoch when that clock is 0
        self._made_of = (policies, {"work_limits": work_limits, **quotas})
        self._next: Scene | None = None
        self._vault: Vault | None = None
        # what the broker said about memory: True when it becomes short, False when it is no longer
        self.pressure: list[bool] = []
        self.rooms = 0  # how often the broker said that a full queue has room again
        self.notices: list[ArgumentsNotice] = []  # what the broker said of queue arguments
        # what it said of headers that have no effect: the header, session and login
        self.misspelt: list[tuple[Misspelt, str, str]] = []
        rules = {"#": {"backoff": 0.0}} | dict(policies or {})
        self.broker = Broker(
            Quotas(**quotas),
            Policies([(Pattern(text), values) for text, values in rules.items()]),
            clock=lambda: self.now,
            epoch=lambda: self.epoch + self.now,
            on_pressure=lambda: self.pressure.append(True),
            on_relief=lambda: self.pressure.append(False),
            on_room=self._on_room,
            on_arguments=self.notices.append,
            on_misspelt=lambda *told: self.misspelt.append(told),
            work_limits=work_limits,
        )
        self.message_admin = MessageAdmin(self.broker)
        self.clients: list[Client] = []
        if stored:
            self._open(stored if isinstance(stored, MemoryStore) else MemoryStore())

    def _open(self, store: MemoryStore, at: float | None = None) -> None:
        """The process starts on a store.  `at`: seconds since the epoch; None: `EPOCH`, and what the clock says."""
        if at is not None:
            self.now, self.epoch = 20.0, at - 20.0  # the clock of another process
        self._vault = Vault(self, store)

    def _on_room(self) -> None:
        self.rooms += 1

    # the store

    @property
    def vault(self) -> Vault:
        """The store and the committer of a scene that has them."""
        assert self._vault is not None  # it is `stored`
        return self._vault

    @property
    def is_stored(self) -> bool:
        """There is a store."""
        return self._vault is not None

    @property
    def store(self) -> MemoryStore:
        """What has been written."""
        return self.vault.store

    def commit(self) -> list[Batch]:
        """Write all there is to write, and read what is asked for; what was written."""
        return self.vault.commit()

    def crash(self, away: float = 1.0, *, clean: bool = False, policies: Rules | None = None) -> Scene:
        """The process is killed; the next one, so many seconds later, perhaps with other policies."""
        mine, quotas = self._made_of
        again = self._next = Scene(mine if policies is None else policies, **quotas)
        again._open(self.store.crash(clean=clean), self.epoch + self.now + away)
        again.settle()
        return again

    def restart(self, away: float = 1.0, *, policies: Rules | None = None) -> Scene:
        """The process stops in order: all sessions end, and all is written; the next one."""
        for client in self.clients:
            client.session.pause()
        for client in self.clients:
            client.end(SessionEnded("server is shutting down", "for a test"))
        self.settle()
        self.commit()
        return self.crash(away, clean=True, policies=policies)

    def wait(self, seconds: float) -> None:
        """Time passes; the agenda is looked at as often as the transports would."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + 0.02, end)
            self.broker.scheduler.tick()
            self.settle()

    def connect(self, version: Version = V12, *, transport: str = "tcp") -> Client:
        """A client with an open session."""
        accept = "" if version is V10 else f"accept-version:{version.name}\nhost:localhost\n"
        return self.connect_by(f"CONNECT\n{accept}\n\0".encode(), transport=transport)

    def consumer(self, destination: str, id: str = "0", ack: str = "auto", **headers: str) -> Client:
        """A client with an open session and a subscription."""
        client = self.connect()
        client.subscribe(destination, id, ack, **headers)
        return client

    def connect_by(self, data: bytes, *, transport: str = "tcp") -> Client:
        """A client whose first bytes are these: CONNECT, and perhaps more behind it."""
        client = Client(self, data, transport)
        self.clients.append(client)
        client.receive(b"")
        return client

    def settle(self) -> None:
        """Flush what lies in outboxes, and close whose end has come, until there is nothing left to do."""
        while True:
            while self.broker.scheduler.proceed() or self.broker.dirty:
                while self.broker.dirty:
                    carrier = self.broker.dirty.popleft().carrier
                    if carrier is not None:
                        carrier.flush()
            ending = [client for client in self.clients if client.is_ending]
            if not ending:
                break
            for client in ending:
                client.close()
        self.audit()

    def audit(self) -> None:
        """Count everything that is kept and compare."""
        audit(self)
        if self._vault is not None:
            audit_rows(self, self._vault)

    def finish(self) -> None:
        """Everybody leaves, what still waits is consumed; then nothing may be left."""
        if self._next is not None:  # this process is dead
            self._next.finish()
            return
        for client in self.clients:
            client.drop()
        broker = self.broker
        while due := [date for date, _, entry in broker.scheduler._heap if entry.action is not None]:
            self.now = max(self.now, min(due))
            broker.scheduler.tick()
            self.settle()
        for name in list(broker.router.retained._kept._entries):
            broker.router.retained.forget(name)
        for stream in list(broker.registry.streams._streams.values()):
            while len(stream):
                stream.drop_first()
            broker.registry.streams.emptied(stream)
        for name in list(broker.destinations):
            last = self.connect()
            last.subscribe(name)
            if self._vault is not None:
                self.store.failure = ""
                self.commit()
            last.drop()
        assert not broker.destinations
        assert not broker.registry.hidden
        assert not len(broker.registry.patterns)
        assert not broker.registry.temporaries
        assert not broker.sessions
        assert not broker.known
        assert broker.memory.used == 0
        assert not broker.memory.pressed
        if self._vault is not None:
            self._vault.finish()


class Client:
    """A client and its connection."""

    def __init__(self, scene: Scene, opening: bytes, transport: str) -> None:
        self.scene = scene
        self.stalled = False  # its socket takes nothing
        self.closed = False  # the connection is gone
        self.failures: list[ProtocolError] = []  # why the session ended, if it did with an ERROR; at most one
        self.written = b""  # all bytes that were handed to the socket
        self.at_close = b""  # bytes that lay in the outbox when the connection ended, and were thrown away
        self.renewals: list[Renewal] = []  # what it showed to stay longer; nobody answers unless the test does
        self._read = 0
        self._ended_by: ProtocolError | None = None
        self._decoder = Decoder(Limits())
        self._decoder.feed(opening)
        asked = read_opening(next(self._decoder.frames()))
        self.version = asked.version
        self._decoder.begin(asked.version, Limits())
        self.session = scene.broker.open_session(
            asked.version,
            asked.login or "anonymous",
            peer="127.0.0.1:50000",
            transport=transport,
            connected_at=1_700_000_000.0,
            carrier=self,
            client_id=asked.client_id,
            frame_end=b"\0" if transport == "websocket" else b"\0\n",
        )

    # the connection

    def receive(self, data: bytes) -> None:
        """These bytes come from the client: what the connection's reader does with a chunk."""
        assert not self.closed, self.failures
        frame: Frame | None = None
        try:
            self._decoder.feed(data)
            for frame in self._decoder.frames():
                self.session.handle(frame)
                if self.session.ended:
                    if not self.waits_for_store:
                        self.close()
                    break
        except ProtocolError as error:
            self._fail(error, frame)
        self.scene.settle()

    def _fail(self, error: ProtocolError, frame: Frame | None) -> None:
        self.failures.append(error)
        self.session.fail(error, frame)

    @property
    def is_ending(self) -> bool:
        """The connection ends at the end of this step."""
        if self.closed:
            return False
        said_goodbye = self.session.ended and not self.waits_for_store
        return said_goodbye or bool(self.failures or self._ended_by)

    @property
    def waits_for_store(self) -> bool:
        """What the session did is not written yet: before it is, the connection does not end on its DISCONNECT."""
        storage = self.scene.broker.storage
        return storage is not None and self.session.batch > storage.committed

    def flush(self) -> None:
        """Write what lies in the outbox (`Carrier`)."""
        if self.stalled or self.closed:
            return
        outbox = self.session.outbox
        self.written += b"".join(outbox.take())
        outbox.written(outbox.size)

    def end(self, error: ProtocolError) -> None:
        """Nothing in the broker may change yet: `settle` does the rest."""
        self._ended_by = self._ended_by or error

    def renew(self, renewal: Renewal) -> None:
        """Somebody should be asked."""
        self.renewals.append(renewal)

    def close(self) -> None:
        """The connection is gone; an ERROR that ends it is written first, but not to one who does not read."""
        if not self.closed:
            self.flush()
            if self._ended_by and not self.failures and not self.session.ended:
                self._fail(self._ended_by, None)
            if self.session.ended:
                self.session.depart()  # who had many subscriptions has not yet
            if self.failures or self.session.ended:
                # The last words: they reach the client, or do not; the broker will not learn it any more.
                last = b"".join(self.session.outbox.take())
                if not any(isinstance(error, SlowConsumer) for error in self.failures):
                    self.written += last
            self.at_close = b"".join(self.session.outbox.parts)
            self.closed = True
            self.session.close()

    def drop(self) -> None:
        """The connection breaks."""
        self.close()
        self.scene.settle()

    def resume(self) -> None:
        """The socket takes bytes again."""
        self.stalled = False
        self.flush()
        self.scene.settle()

    # what it gets

    def received(self) -> list[Received]:
        """The frames since this was asked last."""
        nbytes, self._read = self.written[self._read :], len(self.written)
        return parse(nbytes, self.version, self.session.frame_end)

    def messages(self) -> list[Received]:
        """The same; all are MESSAGE frames."""
        frames = self.received()
        assert {frame.command for frame in frames} <= {"MESSAGE"}, frames
        return frames

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages()]

    def message(self) -> Received:
        """The one MESSAGE that came."""
        (frame,) = self.messages()
        return frame

    def receipts(self) -> list[str]:
        """The receipt-ids of the RECEIPT frames among those that came."""
        return [frame.headers["receipt-id"] for frame in self.received() if frame.command == "RECEIPT"]

    def error(self) -> Received:
        """The ERROR that ended the session; it is the last frame, and the only one."""
        frames = self.received()
        assert self.closed, frames
        assert [frame.command for frame in frames].index("ERROR") == len(frames) - 1, frames
        return frames[-1]

    # what it says

    def send(self, command: str, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.receive(build(command, headers or {}, body, version=self.version))

    def publish(self, destination: str, body: bytes = b"", **headers: str) -> None:
        self.send("SEND", {"destination": destination} | headers, body)

    def subscribe(self, destination: str, id: str = "0", ack: str = "auto", **headers: str) -> None:
        self.send("SUBSCRIBE", {"destination": destination, "id": id, "ack": ack} | headers)

    def unsubscribe(self, id: str = "0") -> None:
        self.send("UNSUBSCRIBE", {"id": id})

    def ack(self, message: Received, **headers: str) -> None:
        """ACK, with the headers of the client's version."""
        self.send("ACK", self.named(message) | headers)

    def nack(self, message: Received, **headers: str) -> None:
        self.send("NACK", self.named(message) | headers)

    def named(self, message: Received) -> dict[str, str]:
        """The headers by which this version names a MESSAGE in an ACK."""
        if self.version is V12:
            return {"id": message.headers["ack"]}
        headers = {"message-id": message.message_id}
        return headers if self.version is V10 else headers | {"subscription": message.subscription}

    def begin(self, transaction: str = "t") -> None:
        self.send("BEGIN", {"transaction": transaction})

    def commit(self, transaction: str = "t") -> None:
        self.send("COMMIT", {"transaction": transaction})

    def abort(self, transaction: str = "t") -> None:
        self.send("ABORT", {"transaction": transaction})

    def disconnect(self) -> None:
        self.send("DISCONNECT")


Step = Callable[[Client], None]
"""What a client may do without arguments, like `Client.drop`."""
