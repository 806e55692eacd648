"""The broker without sockets: clients whose octets go straight into their sessions.

A `Client` stands where the connection stands in the gateway, and does what that does: decode, handle, make an ERROR of
what is raised, close behind it, and carry (`Carrier`) what lies in the outbox.  A `Scene` is a broker and its clients;
after each step of one of them it flushes what the step caused (`settle`) and checks the broker's books against a count
of its own (`audit`), so that every test is a test of the accounts, too.  Time stands still until a test lets it pass
(`Scene.wait`).

The socket of a `stalled` client takes nothing: its frames stay in the outbox, as they do while a writer waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gateway.broker import Broker, Quotas, Session
from gateway.broker.errors import SlowConsumer
from gateway.broker.message import Message
from gateway.broker.negotiate import read_opening
from gateway.broker.policy import Policies
from gateway.broker.queue import Queue
from gateway.broker.sending import Sending
from gateway.broker.words import Pattern
from gateway.codec import V10, V11, V12, Decoder, Frame, Limits, ProtocolError, Version

from .wire import Received, build, parse

ALL = (V10, V11, V12)
WITH_NACK = (V11, V12)
EPOCH = 1_700_000_000.0  # seconds since the epoch when a scene's clock is 0


class Scene:
    """A broker and its clients.

    Args:
        policies: pattern -> keys of `Policy`; where nothing else is said, rejected messages come back at once.

    Attributes:
        now: the broker's clock, in seconds.
        pressure: what the broker said about memory: True when it becomes short, False when it is no longer.
        rooms: how often the broker said that a full queue has room again.
    """

    def __init__(self, policies: Mapping[str, Mapping[str, Any]] | None = None, **quotas: Any) -> None:
        self.now = 1_000.0
        self.pressure: list[bool] = []
        self.rooms = 0
        rules = {"#": {"backoff": 0.0}} | dict(policies or {})
        self.broker = Broker(
            Quotas(**quotas),
            Policies([(Pattern(text), values) for text, values in rules.items()]),
            clock=lambda: self.now,
            epoch=lambda: EPOCH + self.now,
            on_pressure=lambda: self.pressure.append(True),
            on_relief=lambda: self.pressure.append(False),
            on_room=self._on_room,
        )
        self.clients: list[Client] = []

    def _on_room(self) -> None:
        self.rooms += 1

    def wait(self, seconds: float) -> None:
        """Time passes; the agenda is looked at as often as the transports would."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + 0.02, end)
            self.broker.agenda.tick()
            self.settle()

    def connect(self, version: Version = V12, *, transport: str = "tcp") -> Client:
        """A client with an open session."""
        accept = "" if version is V10 else f"accept-version:{version.name}\nhost:localhost\n"
        return self.connect_by(f"CONNECT\n{accept}\n\0".encode(), transport=transport)

    def connect_by(self, octets: bytes, *, transport: str = "tcp") -> Client:
        """A client whose first octets are these: CONNECT, and perhaps more behind it."""
        client = Client(self, octets, transport)
        self.clients.append(client)
        client.receive(b"")
        return client

    def settle(self) -> None:
        """Flush what lies in outboxes, and close whose end has come, until there is nothing left to do."""
        while True:
            while self.broker.agenda.proceed() or self.broker.dirty:
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
        broker = self.broker
        cost: Counter[str] = Counter()
        outstanding: Counter[Session] = Counter()
        for target in [*broker.destinations.values(), *broker.router.hidden.values(), *broker.router.patterns.values()]:
            assert not target.is_idle, f"{target.name} is idle"
            if isinstance(target, Queue):
                cost += _audit_queue(target)
        cost["octets"] += sum(self._put_off()) + sum(kept.size for kept in self._retained())
        sessions = broker.sessions.values()
        for session in sessions:
            for subscription in session.subscriptions.values():
                if subscription.topic is not None and subscription.queue is not None:
                    cost += _audit_queue(subscription.queue)
                deliveries = (subscription.ledger or {}).values()
                cost["octets"] += sum(each.message.size for each in deliveries)
                outstanding[session] += len(deliveries)
            for transaction in session.transactions.values():
                frames = sum(sending.octets for sending in transaction.sends)
                assert transaction.octets == frames
                settled = [each for settlement in transaction.settlements for each in settlement.deliveries]
                held = [each for each in settled if each.subscription.ended]
                cost["octets"] += frames + sum(each.message.size for each in held)
                outstanding[session] += len(held)
            assert session.outstanding == outstanding[session]
        for client in self.clients:
            outbound = client.session.outbound
            assert outbound.closed or outbound.gone + outbound.size == outbound.taken + sum(map(len, outbound.parts))
        assert broker.stored_octets == cost["octets"]
        assert broker.waiting == cost["messages"]
        assert broker.subscriptions == sum(len(session.subscriptions) for session in sessions)
        assert broker.pressed == (broker.stored_octets > broker.quotas.memory_high)

    def _put_off(self) -> list[int]:
        """What the messages cost that wait for their time: delayed, or coming back later."""
        actions = [entry.action for _, _, entry in self.broker.agenda._heap]
        found = [action.args for action in actions if isinstance(action, partial)]
        kept = [argument for arguments in found for argument in arguments if isinstance(argument, (Message, Sending))]
        return [each.octets if isinstance(each, Sending) else each.size for each in kept]

    def _retained(self) -> list[Message]:
        return [kept.message for kept in self.broker.router.retained._kept.values()]

    def finish(self) -> None:
        """Everybody leaves, what still waits is consumed; then nothing may be left."""
        for client in self.clients:
            client.drop()
        broker = self.broker
        while due := [date for date, _, entry in broker.agenda._heap if entry.action is not None]:
            self.now = max(self.now, min(due))
            broker.agenda.tick()
            self.settle()
        for name in list(broker.router.retained._kept._entries):
            broker.router.retained.forget(name)
        for name in list(broker.destinations):
            last = self.connect()
            last.subscribe(name)
            last.drop()
        assert not broker.destinations
        assert not broker.router.hidden
        assert not len(broker.router.patterns)
        assert not broker.router.temporaries
        assert not broker.sessions
        assert broker.stored_octets == 0
        assert not broker.pressed


def _audit_queue(queue: Queue) -> Counter[str]:
    messages = waiting(queue)
    assert queue.waiting == len(messages)
    assert queue.octets == sum(message.size for message in messages)
    return Counter(octets=queue.octets, messages=queue.waiting)


def waiting(queue: Queue) -> list[Message]:
    """Messages that nobody has, in the order in which consumers will get them."""
    return queue.waiting_messages()


class Client:
    """A client and its connection.

    Attributes:
        stalled: its socket takes nothing.
        closed: the connection is gone.
        failures: why the session ended, if it did with an ERROR; at most one.
        written: all octets that were handed to the socket.
        at_close: octets that lay in the outbox when the connection ended, and were thrown away.
    """

    def __init__(self, scene: Scene, opening: bytes, transport: str) -> None:
        self.scene = scene
        self.stalled = False
        self.closed = False
        self.failures: list[ProtocolError] = []
        self.written = b""
        self.at_close = b""
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
        )

    # the connection

    def receive(self, octets: bytes) -> None:
        """These octets come from the client: what the connection's reader does with a chunk."""
        assert not self.closed, self.failures
        frame: Frame | None = None
        try:
            self._decoder.feed(octets)
            for frame in self._decoder.frames():
                self.session.handle(frame)
                if self.session.ended:
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
        return not self.closed and bool(self.failures or self._ended_by)

    def flush(self) -> None:
        """Write what lies in the outbox (`Carrier`)."""
        if self.stalled or self.closed:
            return
        outbound = self.session.outbound
        self.written += b"".join(outbound.take())
        outbound.written(outbound.size)

    def end(self, error: ProtocolError) -> None:
        """Nothing in the broker may change yet: `settle` does the rest."""
        self._ended_by = self._ended_by or error

    def close(self) -> None:
        """The connection is gone; an ERROR that ends it is written first, but not to one who does not read."""
        if not self.closed:
            self.flush()
            if self._ended_by and not self.failures and not self.session.ended:
                self._fail(self._ended_by, None)
            if self.failures or self.session.ended:
                # The last words: they reach the client, or do not; the broker will not learn it any more.
                last = b"".join(self.session.outbound.take())
                if not any(isinstance(error, SlowConsumer) for error in self.failures):
                    self.written += last
            self.at_close = b"".join(self.session.outbound.parts)
            self.closed = True
            self.session.close()

    def drop(self) -> None:
        """The connection breaks."""
        self.close()
        self.scene.settle()

    def resume(self) -> None:
        """The socket takes octets again."""
        self.stalled = False
        self.flush()
        self.scene.settle()

    # what it gets

    def received(self) -> list[Received]:
        """The frames since this was asked last."""
        octets, self._read = self.written[self._read :], len(self.written)
        return parse(octets, self.version)

    def messages(self) -> list[Received]:
        """The same; all are MESSAGE frames."""
        frames = self.received()
        assert {frame.command for frame in frames} <= {"MESSAGE"}, frames
        return frames

    def bodies(self) -> list[bytes]:
        """Their bodies."""
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
        """Any frame."""
        self.receive(build(command, headers or {}, body, version=self.version))

    def publish(self, destination: str, body: bytes = b"", **headers: str) -> None:
        """SEND."""
        self.send("SEND", {"destination": destination} | headers, body)

    def subscribe(self, destination: str, id: str = "0", ack: str = "auto", **headers: str) -> None:
        """SUBSCRIBE."""
        self.send("SUBSCRIBE", {"destination": destination, "id": id, "ack": ack} | headers)

    def unsubscribe(self, id: str = "0") -> None:
        """UNSUBSCRIBE."""
        self.send("UNSUBSCRIBE", {"id": id})

    def ack(self, message: Received, **headers: str) -> None:
        """ACK, with the headers of the client's version."""
        self.send("ACK", self.named(message) | headers)

    def nack(self, message: Received, **headers: str) -> None:
        """NACK."""
        self.send("NACK", self.named(message) | headers)

    def named(self, message: Received) -> dict[str, str]:
        """The headers by which this version names a MESSAGE in an ACK."""
        if self.version is V12:
            return {"id": message.headers["ack"]}
        headers = {"message-id": message.message_id}
        return headers if self.version is V10 else headers | {"subscription": message.subscription}

    def begin(self, transaction: str = "t") -> None:
        """BEGIN."""
        self.send("BEGIN", {"transaction": transaction})

    def commit(self, transaction: str = "t") -> None:
        """COMMIT."""
        self.send("COMMIT", {"transaction": transaction})

    def abort(self, transaction: str = "t") -> None:
        """ABORT."""
        self.send("ABORT", {"transaction": transaction})

    def disconnect(self) -> None:
        """DISCONNECT."""
        self.send("DISCONNECT")


Step = Callable[[Client], None]
"""What a client may do without arguments, like `Client.drop`."""
