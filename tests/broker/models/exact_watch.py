"""Watches the broker and compares: whatever the model of it says could not have happened is a failure here.

After each step of a client, or of time, `Watch.look` reads what came into the outboxes.  Bytes are compared, and the
order among different outboxes is recorded where queues give out messages (`Subscription.deliver`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest
from hypothesis import strategies as st

from gateway.broker import Session
from gateway.broker.core.slow_consumers import SlowConsumers
from gateway.broker.errors import SlowConsumer
from gateway.broker.model.message import Message
from gateway.broker.queue.subscription import Subscription
from gateway.codec import V10, V12, Frame, ProtocolError

from ..admin.operators import Operator
from ..client import Client, waiting
from ..wire import Received, parse
from .exact import Model
from .exact_books import Copy, Name, Rules, Store
from .exact_compare import Delivered, compare, find_given_up, has_room, may_have_more, name_of, waiting_in
from .program import QUARTER, Clients, Consumer, Sent, Step, pick

MOVED = "/queue/moved"
# Of a SEND: what only steers the broker.
_NOT_FOR_SUBSCRIBERS = {"transaction", "receipt", "x-delay", "_AMQ_SCHED_DELIVERY", "dedup-id", "retain"}


class Given(NamedTuple):
    """A queue gave a message to a consumer."""

    subscription: Subscription
    message: Message
    left: frozenset[Name]  # what waited there at that moment
    # the subscriptions whose ready list was being read in turns: they get nothing past it
    reading: frozenset[Subscription]


class Slow(NamedTuple):
    """The broker found that a client does not keep up.  It is closed later, and may get everything before that."""

    session: Session


class Failed(NamedTuple):
    """The broker ended a session."""

    session: Session
    error: ProtocolError


class Exact(Model):
    """Reads what the broker does and compares it with the model."""

    def __init__(self, play: Clients, rules: Mapping[str, Rules]) -> None:
        super().__init__(play, rules)
        self.failing: Client | None = None  # a client whose last frame was wrong, and that is to be closed for it
        # what outstanding messages were ever called by: client, subscription and the headers of the MESSAGE
        self.names: list[tuple[Client, str, Received]] = []
        self._log: list[Given | Slow | Failed] = []
        self._slow: set[Client] = set()
        self._read_up_to: dict[Client, int] = {}
        self._came: dict[Client, int] = {}  # bytes in this step
        self._frames: dict[Client, deque[Received]] = {}
        # Of each when the step began: bytes in the outbox, and the ledger.
        self._had_room: dict[Consumer, tuple[int, list[Copy]]] = {}
        self._unread = False  # what came last to somebody did not reach him
        self._record(play.patch)

    def _record(self, patch: pytest.MonkeyPatch) -> None:
        deliver, end_slow, failing = Subscription.deliver, SlowConsumers.end, Session.failing
        stream = self._log

        def delivered(subscription: Subscription, message: Message) -> None:
            assert subscription.queue is not None  # it is the queue that calls
            left = [name_of(each.body, each.head.headers) for each in waiting(subscription.queue)]
            reading = [each for each, group in subscription.queue.consumers.all.items() if group.behind]
            stream.append(Given(subscription, message, frozenset(left), frozenset(reading)))
            deliver(subscription, message)

        def slow(slow_consumers: SlowConsumers, session: Session, error: SlowConsumer) -> None:
            stream.append(Slow(session))
            end_slow(slow_consumers, session, error)

        def failed(session: Session, error: ProtocolError, frame: Frame | None = None) -> Iterator[None]:
            stream.append(Failed(session, error))
            return failing(session, error, frame)

        patch.setattr(Subscription, "deliver", delivered)
        patch.setattr(SlowConsumers, "end", slow)
        patch.setattr(Session, "failing", failed)

    def look(self) -> None:
        """Read all that came since the last time, and compare what is left."""
        for client in self.scene.clients:
            self._read(client)
        for consumer in self.consumers:
            self._show_retained(consumer)
        find_given_up(self, self._given(0))
        for index, entry in enumerate(self._log):
            if isinstance(entry, Given):
                self._deliver(entry)
            elif isinstance(entry, Slow):
                self._end_slow(*entry)
            else:
                self._fail(*entry)
                # What that client gave back may have replaced older ones of its key, and gone to the next, at once.
                find_given_up(self, self._given(index))
        for client, frames in self._frames.items():
            self._pass_by(client, frames, None)
            if not client.stalled and not client.closed:
                self.consumed(client)
        assert self.failing is None, "a wrong frame was taken"
        if self._unread:
            self.counts["delivered"], self._unread = self.scene.broker.counters.delivered, False
        find_given_up(self, {}, last=True)
        compare(self)
        free = [each for each in self.consumers if has_room(self, each)]
        self._had_room = {each: (each.client.session.outbox.size, list(each.ledger)) for each in free}
        self._log.clear()
        self.step += 1

    # outboxes

    def _read(self, client: Client) -> None:
        self._frames[client] = deque()
        if client.closed and client not in self._read_up_to:
            return
        data = client.written + b"".join(client.session.outbox.parts)
        start, self._read_up_to[client] = self._read_up_to.get(client, 0), len(data)
        frames = parse(data[start:], client.version)
        self._came[client] = len(data) - start
        self._frames[client].extend(frame for frame in frames if frame.command == "MESSAGE")
        if client.closed:
            del self._read_up_to[client]

    def _consumer(self, client: Client, id: str | None) -> Consumer:
        found = [each for each in self.consumers if each.client is client and each.id == id]
        assert found, f"{client} gets something for {id}, which it does not have"
        return found[0]

    def _client(self, session: Session) -> Client:
        return next(each for each in self.scene.clients if each.session is session)

    def _pass_by(self, client: Client, frames: deque[Received], until: Consumer | None) -> None:
        """Read frames of topics and browsers, up to that which a queue gave to a consumer; None: all."""
        while frames and (until is None or frames[0].subscription != until.id):
            frame = frames.popleft()
            consumer = self._consumer(client, frame.headers.get("subscription"))
            if frame.headers.get("browser") == "end":
                assert consumer.browser == "end"
                assert not any(each.is_due(self.scene.now) for each in consumer.due)
                assert consumer.store is not None
                consumer.store.browsers.remove(consumer)
                consumer.browser, consumer.store = "ended", None
                continue
            self.counts["delivered"] += 1
            self._is_due(consumer, frame)

    def _show_retained(self, consumer: Consumer) -> None:
        """Who has a store comes to what was retained as long as there is room in the outbox."""
        outbox = consumer.client.session.outbox
        if consumer.retained and consumer.store is not None and not consumer.client.closed:
            there = set(waiting_in(self, consumer.store))
            for name in [_name(each) for each in consumer.retained]:
                if name in there or outbox.size < outbox.window:
                    self.show(consumer, name)

    def _is_due(self, consumer: Consumer, frame: Received) -> None:
        """A topic's message, or one that a browser is shown."""
        name = name_of(frame.body, frame.headers)
        if "retained" in frame.headers:
            self.show(consumer, name)
            self._check_headers(frame, {"retained": "true"})
            return
        while True:
            assert consumer.due, f"{frame} is nothing for {consumer.destination}"
            now = [each for each in consumer.due if each.number == consumer.due[0].number]
            found = [each for each in now if each.name == name]
            if found:
                break
            skipped = consumer.due.pop(0)
            back = skipped.copy is not None and skipped.copy.since == self.step
            assert back or not skipped.is_due(self.scene.now), f"{skipped.name} was left out"
        assert not 0 < found[0].expires <= self.scene.now
        consumer.due.remove(found[0])
        assert not frame.redelivered
        self._check_headers(frame, found[0].told)

    def _check_headers(self, frame: Received, told: Mapping[str, str]) -> None:
        for name in ("retained", "reason", *(name for name in (*frame.headers, *told) if name.startswith("dlq-"))):
            assert frame.headers.get(name) == told.get(name), f"{name} of {frame} is not {told.get(name)}"
        assert not _NOT_FOR_SUBSCRIBERS & set(frame.headers)
        assert not told.get("dlq-source") or "expires" not in frame.headers

    # deliveries of queues

    def _given(self, start: int) -> Delivered:
        """What queues gave out in this step, from that entry of the log on."""
        return {self._store_of(each): each.message.number for each in self._log[start:] if isinstance(each, Given)}

    def _store_of(self, given: Given) -> tuple[Store, Name]:
        consumer = self._consumer(self._client(given.subscription.peer), given.subscription.id)
        assert consumer.store is not None
        return consumer.store, name_of(given.message.body, given.message.head.headers)

    def _deliver(self, given: Given) -> None:
        subscription, message, left, reading = given
        client = self._client(subscription.peer)
        consumer = self._consumer(client, subscription.id)
        store, name = self._store_of(given)
        if "retained" in message.head.headers and any(name == _name(each) for each in consumer.retained):
            self.show(consumer, name)
        found = [each for each in store.copies if each.name == name]
        assert found, f"{consumer.id} gets {name}, which {store.name} does not have"
        (copy,) = found
        self._check_delivery(copy, consumer, left, reading)
        frames = self._frames[client]
        if not (client.stalled and any(isinstance(error, SlowConsumer) for error in client.failures)):
            self._pass_by(client, frames, consumer)
            frame = frames.popleft()
            assert name_of(frame.body, frame.headers) == name
            assert frame.redelivered is (copy.attempts > 0)
            assert frame.headers.get("delivery-count", "1") == str(copy.attempts + 1)
            self._check_headers(frame, copy.told)
            copy.message = frame
        self._note_delivery(copy, consumer, left)
        copy.size = message.size

    def _note_delivery(self, copy: Copy, consumer: Consumer, left: frozenset[Name]) -> None:
        self.counts["delivered"] += 1
        self.counts["redelivered"] += copy.attempts > 0
        copy.attempts += 1
        copy.at, copy.given = consumer, self.step
        if copy.fresh and not copy.held and int(copy.place) == copy.number:
            priority = copy.sent.priority
            assert copy.place >= consumer.latest.get(priority, 0), f"{copy} comes too late"
            consumer.latest[priority] = copy.place
        copy.fresh = False
        group = copy.sent.group
        if group is not None:
            copy.store.groups[group] = consumer
        if copy.sent.closes_group:
            copy.store.groups.pop(group or "", None)
        copy.store.free_groups(left)
        if consumer.mode != "auto":
            consumer.ledger.append(copy)
            if copy.message is not None:
                self.names.append((consumer.client, consumer.id, copy.message))

    def _check_delivery(
        self, copy: Copy, consumer: Consumer, left: frozenset[Name], reading: frozenset[Subscription]
    ) -> None:
        """Whether a consumer may get a message; `left`: what waited in the broker's queue when it did."""
        store, now, step = copy.store, self.scene.now, self.step
        assert copy.at is None, f"{copy} is with {copy.at.id} already"
        assert copy.back is None, f"{copy} comes back too early"
        assert not copy.has_expired(now), f"{copy} has expired"
        assert consumer.wants(copy.sent), f"{copy} does not fulfil {consumer.selector}"
        assert not store.stands_by(consumer), f"{consumer.id} stands by"
        assert store.is_for(copy, consumer, step, left), f"{copy} is of a group of {store.owner_of(copy)}"
        assert may_have_more(self, consumer), f"{consumer.id} has enough"
        for other in [each for each in store.waiting if each.order < copy.order]:
            has_place = other.since < step or other.left_by == step or other.name in left
            # What was retained comes to a new subscriber when there is room, and later messages may pass it.
            waited = has_place and not other.has_expired(now) and "retained" not in other.told
            if waited and other.avoid is not consumer and not other.vague and not copy.vague:
                # It may stand behind one of its group that came back in this step, or was given up later in it, and
                # that this consumer does not want.  Only what was `left` there at that moment is an excuse.
                assert not store.is_for(other, consumer, step, left), f"{copy} overtakes {other}"
        if store.owner_of(copy) is None:
            for rival in store.consumers:
                is_reading = rival.client.session.subscriptions.get(rival.id) in reading
                if rival is not consumer and not is_reading and self._could_have(rival, copy):
                    assert rival.priority <= consumer.priority or copy.avoid is rival, f"{rival.id} has priority"
                    assert copy.avoid is not consumer, f"{rival.id} had room, too"

    def _could_have(self, rival: Consumer, copy: Copy) -> bool:
        """Whether it had room when the step began, and has it now, whatever came in between.

        A COMMIT gives it messages before it settles others: it must have room for both.
        """
        if rival not in self._had_room:
            return False
        nbytes, ledger = self._had_room[rival]
        outbox = rival.client.session.outbox
        if nbytes + self._came.get(rival.client, 0) >= outbox.window:
            return False
        return copy.store.is_for(copy, rival, self.step) and may_have_more(self, rival, ledger)

    def _is_behind(self, consumer: Consumer) -> bool:
        """More waits for a topic's subscriber, or a browser, than may."""
        store = consumer.store
        waits = [] if store is None else store.waiting
        if store is not None and store.action == "disconnect" and len(waits) > store.limit:
            return True
        names = [each.name for each in (consumer.due if consumer.browser else waits)]
        # Its outbox holds an eighth of the limit already; what headers cost is not known here.
        return sum(len(name[0]) for name in names) > self.scene.broker.quotas.max_outbound // 2

    def _end_slow(self, session: Session) -> None:
        client = self._client(session)
        own = [each for each in self.consumers if each.client is client]
        assert any(self._is_behind(each) for each in own), f"{client} is closed for no reason"
        self._slow.add(client)

    def _fail(self, session: Session, error: ProtocolError) -> None:
        """The broker ends a session."""
        client = self._client(session)
        if isinstance(error, SlowConsumer):
            assert client in self._slow, f"{client} was closed, and nobody said why"
            self.counts["slow_consumers"] += 1
        else:
            assert client is self.failing, error
            self.failing = None
        self.counts["errors"] += 1
        self._pass_by(client, self._frames[client], None)
        if not client.stalled:
            self.consumed(client)
        self.leave(client, taken=True, lost=True)
        self._unread = client.stalled and isinstance(error, SlowConsumer)

    # time, and what only these books can foresee

    def resume(self, client: Client) -> None:
        self.consumed(client)

    def wait(self, data: st.DataObject) -> bool:
        end = self.scene.now + QUARTER * data.draw(st.integers(1, 6))
        while (due := self.next) is not None and due <= end:
            self.scene.now = due - 0.02
            self.scene.wait(0.01)  # nothing comes early
            self.play.look()
            self.scene.now = due
            if data.draw(st.integers(0, 3)) == 3:
                self._act_late(data)
            self.pass_time()
            self.scene.broker.scheduler.tick()
            self.scene.settle()
            self.play.look()
        self.scene.now = end
        return True

    def _act_late(self, data: st.DataObject) -> None:
        """A client does something when it is time for something else, but the broker was not told the time yet."""
        play = self.play
        possible: dict[Step, bool] = {
            play.subscribe: bool(play.clients),
            play.unsubscribe: bool(play.leavable),
            play.settle: bool(play.settleable),
            play.leave: bool(play.clients),
            play.resume: any(client.stalled for client in play.clients),
        }
        acts = [act for act in possible if possible[act]]
        if acts:
            pick(data, acts)(data)
            play.look()

    def actions(self) -> dict[Step, bool]:
        return {
            self.trespass: bool(self.names) and len(self.play.clients) > 1,
            self.operate: bool(self.queues),
        }

    def trespass(self, data: st.DataObject) -> None:
        """Settle what another client has, or what was settled before."""
        client = pick(data, self.play.clients)
        id, message = pick(data, self.names[-20:])[1:]
        own = [copy for each in self.consumers if each.client is client for copy in each.ledger]
        if client.version is V12:
            headers = {"id": message.headers.get("ack", "1-1")}
            own = [copy for copy in own if copy.message and copy.message.headers["ack"] == headers["id"]]
        else:
            headers = {"message-id": message.message_id}
            own = [copy for copy in own if copy.message and copy.message.message_id == message.message_id]
            if client.version is not V10:
                headers["subscription"] = id
                own = [copy for copy in own if copy.at and copy.at.id == id]
        if not any(copy.transaction is None for copy in own):
            self.failing = client
            client.send(data.draw(st.sampled_from(["ACK", "NACK"])), headers)

    def operate(self, data: st.DataObject) -> None:
        """An operator looks at a queue, and does something to what waits there."""
        store: Store = pick(data, list(self.queues.values()))
        operator = Operator(self.scene)
        if store.name not in self.scene.broker.destinations:
            return
        copies = [*store.waiting, *[copy for copy in store.copies if copy.back is not None]]
        ids = {_name_of_row(row): str(row["id"]) for row in operator.browse(store.name).messages}
        assert set(ids) == {copy.name for copy in copies}, store.name
        what = data.draw(st.sampled_from(["purge", "delete", "move", "move", "redrive", "redrive"]))
        chosen = copies if what == "purge" else [copy for copy in copies if data.draw(st.booleans())]
        if what == "move":
            taken = {copy.sent.body for copy in self.queue(MOVED).copies}
            bodies: dict[bytes, Copy] = {copy.sent.body: copy for copy in chosen if copy.sent.body not in taken}
            chosen = [copy for copy in chosen if bodies.get(copy.sent.body) is copy and store.name != MOVED]
        chosen_ids = [ids[copy.name] for copy in chosen]
        if what == "purge":
            assert operator.purge(store.name).done == len(chosen)
        elif what == "delete":
            assert operator.delete(store.name, chosen_ids).done == len(chosen)
        elif what == "move" and store.name != MOVED:
            assert operator.move(store.name, MOVED, chosen_ids).done == len(chosen)
        elif what == "redrive":
            outcome = operator.redrive(store.name, chosen_ids)
            refused = {id for id, _ in outcome.refused}
            stay = [copy for copy in chosen if ids[copy.name] in refused]
            chosen = [copy for copy in chosen if ids[copy.name] not in refused]
            assert outcome.done == len(chosen)
            assert all(copy.source for copy in chosen)
            assert not any(copy.source and not self.rules_of(copy.source).max_messages for copy in stay)
        for copy in chosen:
            if what == "move":
                self.moved(copy, MOVED)
            elif what == "redrive":
                self.redriven(copy)
            else:
                self.end(copy, "dropped")
        store.free_groups()


def _name_of_row(row: dict[str, object]) -> Name:
    """What tells a message from all others in its queue, as an operator sees it."""
    headers = row["headers"]
    assert isinstance(headers, dict)
    return name_of(str(row["body"]).encode(), headers)


def _name(retained: tuple[Sent, str, int]) -> Name:
    return retained[0].body, retained[1], ""
