"""Session of a connected client: it carries out the frames.

A session exists from CONNECTED until the connection ends, so it has no states: one table, command -> method.  An error
is an exception: `failing`, called by the connection loop, is the one place that makes an ERROR frame of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from gateway.codec import Frame, Head, ProtocolError, Version, encoder

from ..core.ages import Age
from ..core.authorization import is_known, remember
from ..core.context import Context
from ..core.freeing import freeing
from ..core.outbox import Outbox, Source
from ..core.ports import ANONYMOUS, Carrier
from ..errors import HeaderMissing, NotAllowed, SessionEnded, error_frame, hint
from ..headers.parse import is_in_progress, may_requeue, send_options
from ..model.access import Access
from ..model.destinations import EVENTS, RENEW
from ..model.identity import Renewal
from ..model.message import Message
from ..model.options import NO_OPTIONS, PLAIN, AckMode, SendOptions
from ..queue.queue import Queue
from ..queue.subscription import Returned, Subscription
from ..routing.router import Router
from ..topic.durable_subscriptions import DurableSubscription
from .subscription_table import ENDS_PER_STEP, Subscriptions
from .temporary import TemporaryDestinations
from .transactions import Settlement, Transactions

# Bytes of a token in a body: as many as a header may have.
_LONGEST_TOKEN = 64 * 1024


class Session:
    """The session of one connected client: a `Peer`.  `on_close`: called when the connection is gone."""

    # One for each connection, of which ten thousand may be idle: without a dictionary it costs some 200 bytes less.
    __slots__ = (
        *("_context", "_last_words", "_left_behind", "_on_close", "_paused", "_router"),
        *("access", "batch", "client_id", "connected_at", "ended", "failed", "form", "frame_end", "frames_in"),
        *("heart_beat", "id", "login", "names", "outbox", "peer", "renewal", "subscriptions", "temporaries"),
        *("transactions", "transport", "user", "version"),
    )

    def __init__(
        self,
        context: Context,
        router: Router,
        session_id: str,
        version: Version,
        login: str,
        *,
        peer: str,
        transport: str,
        connected_at: float,
        carrier: Carrier,
        client_id: str = "",
        access: Access | None = None,
        frame_end: bytes = encoder.END,
        on_close: Callable[[Session], None],
    ) -> None:
        self.client_id = client_id
        self.access = access
        self._context = context
        self._router = router
        self._on_close = on_close
        self.id = session_id
        self.version = version
        self.frame_end = frame_end  # the bytes behind the body of each frame for it
        self.form = encoder.FORMS.index((version, frame_end))  # of its MESSAGEs
        self.login = login
        # Clients without a login share one name, but must not read each other's user destinations.
        self.user = session_id if login == ANONYMOUS else login
        self.peer = peer
        self.transport = transport
        self.connected_at = connected_at  # seconds since the epoch
        self.outbox = Outbox(self, carrier, context.quotas.max_outbound, context.dirty, context.slow_consumers.on_high)
        self.temporaries = TemporaryDestinations(self, router.registry, context.quotas.max_subscriptions)
        self.subscriptions: Subscriptions = Subscriptions(
            context, router, self, self.outbox, self.temporaries, version, self.form
        )
        self.transactions: Transactions = Transactions(context, router, self)
        self.frames_in = 0  # frames handled
        # milliseconds between the server's heart-beats, and between the client's; 0: none
        self.heart_beat = (0, 0)
        self.ended = False  # the client sent DISCONNECT; all that follows it is ignored (DSC-02)
        self.failed = False  # its ERROR is in the outbox
        self.batch = 0  # the last batch of the store in which it changed anything
        self.names = b""
        self.renewal: Renewal | None = None  # that the connection is asking about
        self._last_words: bytes | None = None  # the RECEIPT of a DISCONNECT that is carried out in steps
        self._paused: Subscription | None = None  # by the SUBSCRIBE that is being carried out, until its RECEIPT
        self._left_behind: list[bytes] = []  # bodies that its transactions kept, until they are freed in steps

    def handle(self, frame: Frame) -> None:
        """Carry out one frame.  Raises ProtocolError: nothing of it was carried out, and the session must end."""
        head = frame.head
        self.frames_in += 1
        self._context.counters.frames_in += 1
        handler = _COMMANDS.get(head.command)
        if handler is None:
            # CONNECT and STOMP are known, but have no place in a session (`_on_connect`).
            known = [command for command in _COMMANDS if command not in ("CONNECT", "STOMP")]
            which = hint(head.command.upper(), known) or f": {' '.join(known)}"
            raise NotAllowed(
                "unknown command", f"{head.command[:40]!r} is no command of STOMP {self.version.name}{which}"
            )
        storage = self._context.storage
        if storage is None:
            handler(self, frame)
        else:
            changes = storage.changes
            handler(self, frame)
            # All changes of one frame are in the batch that gathers now, so its RECEIPT waits for that batch.
            if storage.changes != changes:
                self.batch = storage.number
        # RCP-03: only a frame that was carried out gets one; in a transaction, one that was accepted (RCP-06).
        # The decoder cuts a plain receipt out of the cached header block; any other one is still among the headers.
        receipt = frame.receipt
        if receipt is None:
            receipt = head.headers.get("receipt")
            if receipt is None:
                return
        renewal = self.renewal
        # The RECEIPT of a renewal says that the token was accepted, and that is not known yet (`renewed`).
        if renewal is not None and head.command == "SEND" and head.headers["destination"] == RENEW:
            renewal.receipt = receipt
            return
        data = encoder.receipt(receipt, self.version, self.frame_end)
        # The subscription was paused before it joined, so that no MESSAGE overtakes its RECEIPT.
        if self._paused is not None:
            subscription, self._paused = self._paused, None
            self._welcome(data, subscription)
        # A DISCONNECT with many subscriptions is carried out in steps: its RECEIPT goes out behind the last of them.
        elif self.ended and self.subscriptions:
            self._last_words = data
        else:
            self._promise(data)

    def handle_run(self, head: Head, bodies: Iterator[bytes], most: int) -> None:
        """Carry out SEND frames that share a header block, as `handle` does with each; an edge hands them over so.

        It stops behind a frame that has filled a queue, and when the broker has `delivered` more than so many messages.
        Raises ProtocolError: nothing of the last frame was carried out, and the session must end.
        """
        context, access, options = self._context, self.access, head.derived
        counters, full, storage = context.counters, context.full, context.storage
        destination = head.headers.get("destination", "")
        # What `handle` and `_on_send` would find for each of them anew.
        is_usual = (
            options is not None
            and options.is_plain
            and destination != RENEW
            and "receipt" not in head.headers
            and (access is None or is_known(access, head.headers))
        )
        if is_usual:
            self._send_run(head, bodies, destination, options, most)
            if full or counters.delivered > most:
                return
        publish = self._router.publish
        changes = 0 if storage is None else storage.changes
        try:
            for body in bodies:
                if is_usual:
                    self.frames_in += 1
                    counters.frames_in += 1
                    publish(head, body, destination, self, options)
                else:
                    self.handle(Frame(head, body))
                if full or counters.delivered > most:
                    break
        finally:
            if storage is not None and storage.changes != changes:
                self.batch = storage.number

    def _send_run(self, head: Head, bodies: Iterator[bytes], destination: str, options: SendOptions, most: int) -> None:
        """Send what the destination takes at once; the rest is left."""
        router, counters = self._router, self._context.counters
        taker = router.taker_of_run(destination)
        if taker is not None:
            before = counters.published
            taker.accept_run(router.messages_of_run(head, bodies, destination, self, options), most)
            self.frames_in += counters.published - before
            counters.frames_in += counters.published - before

    def _promise(self, data: bytes) -> None:
        """Send a RECEIPT as soon as the changes of its frame are in the store."""
        storage = self._context.storage
        # RCP-03: a frame has not been carried out as long as a kill could undo its changes.
        if storage is None or self.batch <= storage.committed:
            self.outbox.append(data)
        else:
            storage.when_written(self.batch, partial(self.confirm, data))

    def _welcome(self, data: bytes, subscription: Subscription) -> None:
        """Send the RECEIPT of a SUBSCRIBE, and behind it the messages that the subscription brings."""
        storage = self._context.storage
        # A topic does not wait for the store, so the RECEIPT of a subscription in mode auto goes out at once.
        if storage is not None and subscription.queue is not None:
            # A durable subscription is itself in the store; the batch of its first SUBSCRIBE may be unwritten.
            is_stored = self.durable_subscription_of(subscription) or self._router.replay.offsets.of(subscription)
            batch = storage.last_changed if is_stored else self.batch
            if batch > storage.committed:
                self.batch = max(self.batch, batch)  # a later RECEIPT tells of this frame, too
                storage.when_written(batch, partial(self.confirm, data))
                # Also if the batch cannot be written: a failing store must not keep messages from their consumers.
                storage.when_settled(subscription.start, batch)
                return
        self.confirm(data)
        subscription.start()

    @property
    def outstanding(self) -> int:
        """Deliveries not yet settled.  Takes as long as there are subscriptions and deliveries in transactions."""
        acknowledging = self.subscriptions.acknowledging
        held = [delivery for transaction in self.transactions.values() for delivery in transaction.deliveries()]
        # Deliveries that an ended subscription left to an open transaction are in no ledger of the session any more.
        left = sum([delivery.subscription.key not in acknowledging for delivery in held])
        return left + sum([len(each.ledger or ()) for each in acknowledging.values()])

    def age_of_oldest(self) -> Age | None:
        """The age of the oldest message that it has not settled; None: it has settled all."""
        found = [each.oldest for each in self.subscriptions.acknowledging.values()]
        numbers = [each.message.number for each in found if each is not None]
        return self._context.ages.age(min(numbers)) if numbers else None

    def durable_subscription_of(self, subscription: Subscription) -> DurableSubscription | None:
        """The durable or shared subscription that a subscription consumes."""
        return self._router.registry.durable_subscriptions.of(subscription.queue)

    def confirm(self, data: bytes) -> None:
        """Send a RECEIPT, now that its frame is carried out."""
        # Nothing goes out behind an ERROR.
        if not self.failed:
            self.outbox.append(data)

    def failing(self, error: ProtocolError, frame: Frame | None = None) -> Iterator[None]:
        """Put the ERROR frame into the outbox (ERR-01 to ERR-03), in steps, like `departing`; it is the last frame."""
        self._context.counters.fail(error)
        # Set first: a receipt that is confirmed while the session departs must not go out (see `confirm`).
        self.failed = True
        self._context.records.tell("error", self, reason=str(error))
        # Before the ERROR, so that nothing goes out behind it (ERR-05).  A client that an operator sends away has not
        # failed, so that the message it is at work on does not count as failed either.
        yield from self.departing(lost=not isinstance(error, SessionEnded))
        self.outbox.append(error_frame(error, frame, self.version, end=self.frame_end))

    def end(self, error: ProtocolError) -> None:
        """End the session from outside: the connection does the rest, soon."""
        if self.outbox.carrier is not None:
            self.outbox.carrier.end(error)

    def pause(self) -> None:
        """Get nothing more from queues: this session is about to end, and so are others, which give back messages."""
        self.outbox.window = -1  # for subscriptions that a frame on its way still adds
        for subscription in self.subscriptions.values():
            subscription.narrow(-1)

    def close(self) -> None:
        """Leave the broker: the connection is gone."""
        # Read before `close`, which empties the outbox.
        unsent = self.outbox.not_written()
        self.outbox.close()
        for _, message in unsent:
            # In mode auto they were released when they went into the outbox; now they wait in their queues again.
            self._context.memory.keep(message.size)
        self.depart(unsent, lost=not self.ended)
        why = "error" if self.failed else None if self.ended else "connection lost"
        self._context.records.tell("disconnected", self, reason=why)
        if self._context.announcer is not None:
            self._context.announcer.session_ended(self, why)
        self._on_close(self)

    def depart(self, unsent: Iterable[tuple[Source, Message]] = (), *, lost: bool = False) -> None:
        """Take all steps of `departing` in one go."""
        _go(self.departing(unsent, lost=lost))

    def departing(self, unsent: Iterable[tuple[Source, Message]] = (), *, lost: bool = False) -> Iterator[None]:
        """Leave the broker in steps: abort transactions, end subscriptions, give back what was not settled.

        Other sessions may have their turn between two steps.  From the first step on no queue gives anything more to
        this session; a topic does until its subscription ends.

        `unsent`: messages in mode auto that never went out.  `lost`: the client sent no DISCONNECT: the messages that
        it was at work on have failed.
        """
        yield from self._leaving(unsent, lost=lost)
        yield from freeing([self._left_behind])

    def _leaving(self, unsent: Iterable[tuple[Source, Message]] = (), *, lost: bool = False) -> Iterator[None]:
        """Take the steps of `departing` that other sessions can see."""
        storage = self._context.storage
        changes = 0 if storage is None else storage.changes
        returned: Returned = {}
        for queue, message in unsent:
            assert isinstance(queue, Queue)  # no other source gives messages to an outbox
            returned.setdefault(queue, []).append(message)
        # Transactions first: messages that they hold return to the queues together with those of the ledgers.
        undone = [self.transactions.undo(name, returned, why="session ended") for name in list(self.transactions)]
        # Freed in steps at the end: to free many large bodies at once would hold up all other sessions.
        self._left_behind += [sending.body for transaction in undone for sending in transaction.sends]
        # All before the first one ends: else a queue would give what one hands back to the next one that is to end.
        self.subscriptions.stop()
        yield from self.subscriptions.ending(returned, lost=lost)
        # Behind the subscriptions: a reply queue that is still subscribed would not be idle.
        self.temporaries.forget()
        if storage is not None and storage.changes != changes:
            self.batch = storage.number
        # DISCONNECT: all is given back by now, and the RECEIPT may wait for the store once more.
        if self._last_words is not None:
            nbytes, self._last_words = self._last_words, None
            self._promise(nbytes)

    # SEND

    def _on_send(self, frame: Frame) -> None:
        head = frame.head
        destination = head.headers.get("destination")
        if destination is None:
            raise HeaderMissing("SEND", "destination")
        options = head.derived
        if options is None:
            # Kept with the head: equal header blocks of SEND frames share one, and are read once.
            head.derived = options = send_options(head.headers)
        if options.is_plain:
            if destination == RENEW:
                self._renew(head, frame.body)
                return
            router, access = self._router, self.access
            # The usual case.  Rules are asked once for equal headers; `remember` comes behind `prepare`, which asks
            # them.
            if access is None or is_known(access, head.headers):
                router.publish(head, frame.body, destination, self, options)
            else:
                router.send(router.prepare(head, frame.body, destination, options, self))
                remember(access, head.headers, self._context.work_limits.remembered_names)
        else:
            assert isinstance(options, SendOptions)  # no other code derives anything of a SEND
            self._send_specially(frame, destination, options)

    def _send_specially(self, frame: Frame, destination: str, options: SendOptions) -> None:
        # The header is written by the broker alone (`sender_id`): a forged one is refused and not replaced.
        if options.user_id is not None and options.user_id != self.login:
            raise NotAllowed(
                "user-id of another user",
                f"user-id is {options.user_id[:80]!r}; send the name of the login, or leave it out",
            )
        head = frame.head
        headers = dict(head.headers if options.passed_on is None else options.passed_on)
        if options.temporary_reply is not None:
            headers["reply-to"] = self._awaits_replies(options.temporary_reply)
        # A new head costs an encoding; most blocks go on as they came.
        if headers != head.headers:
            head = Head.of(head.command, headers)
        router = self._router
        transaction = None if options.transaction is None else self.transactions.of(frame)
        if destination == RENEW:
            self._renew(head, frame.body)
            return
        # Checked now, also inside a transaction, so that COMMIT cannot fail half way (TXN-01).
        sending = router.prepare(head, frame.body, destination, options, self)
        if transaction is None:
            router.send(sending)
        else:
            self.transactions.add_send(transaction, sending)

    # A session may last as long as a token.  On `/session/events` it is told of the end, and a SEND to `/session/renew`
    # shows a new token, which the connection has authenticated.  Frames behind that SEND are carried out meanwhile.

    def _renew(self, head: Head, body: bytes) -> None:
        """Have the connection ask if the client may stay longer."""
        if self.renewal is not None:
            raise NotAllowed("a renewal is under way", f"wait for the RECEIPT of one before the next SEND to {RENEW}")
        # Set before the connection asks: the answer may come at once.
        self.renewal = _renewal_of(head, body)
        assert self.outbox.carrier is not None  # its frames are handled
        self.outbox.carrier.renew(self.renewal)

    def renewed(self) -> None:
        """Send the RECEIPT of a renewal: the client may stay longer."""
        renewal, self.renewal = self.renewal, None
        if renewal is not None and renewal.receipt is not None:
            self.confirm(encoder.receipt(renewal.receipt, self.version, self.frame_end))

    def tell(self, event: str, headers: Mapping[str, str], sentence: str) -> bool:
        """Send the client an event of its own session; False: it has not subscribed to `/session/events`."""
        name, carrier = self.temporaries.known(EVENTS), self.outbox.carrier
        if name is None or carrier is None:
            return False
        self._router.deposit(name, _message_of(event, headers), sentence.encode(), PLAIN)
        # No frame of a client is at work, so nothing else would flush the outbox soon.
        carrier.flush()
        return True

    # temporary destinations

    def _awaits_replies(self, destination: str) -> str:
        """The name under which others send to a temporary destination of this session, which is subscribed to it."""
        name = self.temporaries.canonical(destination)
        target = self._router.registry.destinations.get(name)
        # As in RabbitMQ, replies come with the destination as their `subscription`.  Before the SEND is routed, so that
        # not even an immediate reply is missed.
        if target is None or not target.subscriptions:
            self.subscriptions.add(destination, destination, AckMode.AUTO, NO_OPTIONS)
        return name

    # the other commands

    def _on_subscribe(self, frame: Frame) -> None:
        # Without a receipt there is nothing that a MESSAGE could overtake.
        has_receipt = frame.receipt is not None or "receipt" in frame.head.headers
        subscription = self.subscriptions.subscribe(frame, paused=has_receipt)
        self._paused = subscription if has_receipt else None

    def _settle(self, frame: Frame, *, acknowledged: bool) -> None:
        delivery = self.subscriptions.naming.delivery_named(frame)
        if delivery is None:
            return
        subscription = delivery.subscription
        # A delivery is settled once.  The transaction that holds it decides, by COMMIT or ABORT.
        if delivery.held:
            raise NotAllowed(
                f"{frame.command} of a message that a transaction holds",
                f"{delivery.handle[:80]!r} was acknowledged or rejected in a transaction that is still open",
            )
        # ACK-04, NAK-02: in mode client all deliveries before it are settled as well.
        deliveries = subscription.covered(delivery)
        headers = frame.headers
        if acknowledged and "in-progress" in headers and is_in_progress(headers):
            if subscription.deadlines is not None:
                subscription.deadlines.begin_again(deliveries)
            return
        # The usual case.
        if acknowledged and "transaction" not in headers:
            queue = subscription.queue
            assert queue is not None  # a ledger never stands without a queue
            queue.acknowledge(deliveries)
            return
        requeue = acknowledged or may_requeue(headers)
        settlement = Settlement(deliveries, acknowledged, requeue, headers.get("reason", ""))
        if "transaction" in headers:
            self.transactions.of(frame).add_settlement(settlement)
        else:
            settlement.carry_out()

    def _on_disconnect(self, frame: Frame) -> None:
        self.ended = True
        # Thousands of subscriptions would hold up all other sessions; stopped, they get nothing more meanwhile.
        if len(self.subscriptions) > ENDS_PER_STEP:
            self.subscriptions.stop()  # the connection takes care of `departing`
        else:
            _go(self._leaving())  # before the RECEIPT, so that no MESSAGE goes out behind it

    def _on_connect(self, frame: Frame) -> None:
        raise NotAllowed("already connected", "a connection has one CONNECT, at its start")


def _go(steps: Iterator[None]) -> None:
    deque(steps, maxlen=0)


def _message_of(event: str, headers: Mapping[str, str]) -> Head:
    """The head of a MESSAGE by which a session is told of itself."""
    told = {"destination": EVENTS, "event": event, **headers, "content-type": "text/plain;charset=utf-8"}
    return Head.of("SEND", told)


def _renewal_of(head: Head, body: bytes) -> Renewal:
    """The renewal that a SEND asks for.  Raises NotAllowed: it shows nothing, or is a part of something else."""
    headers: Mapping[str, str] = head.headers
    if "transaction" in headers:
        raise NotAllowed("a renewal in a transaction", f"a SEND to {RENEW} is carried out at once; send it outside")
    authorization = headers.get("Authorization") or headers.get("authorization", "")
    passcode = headers.get("passcode", "")
    if not passcode and not authorization and len(body) <= _LONGEST_TOKEN:
        passcode = body.decode(errors="replace").strip()
    if not passcode and not authorization:
        raise NotAllowed(
            "a renewal without a token",
            f"a SEND to {RENEW} has it in passcode, in Authorization, or as its body of at most {_LONGEST_TOKEN} bytes",
        )
    return Renewal(headers.get("login", ""), passcode, authorization)


_Handler = Callable[[Session, Frame], None]

_COMMANDS: dict[str, _Handler] = {
    "SEND": Session._on_send,
    "SUBSCRIBE": Session._on_subscribe,
    "UNSUBSCRIBE": lambda session, frame: session.subscriptions.unsubscribe(frame),
    "ACK": lambda session, frame: session._settle(frame, acknowledged=True),
    "NACK": lambda session, frame: session._settle(frame, acknowledged=False),
    "BEGIN": lambda session, frame: session.transactions.begin(frame),
    "COMMIT": lambda session, frame: session.transactions.commit(frame),
    "ABORT": lambda session, frame: session.transactions.abort(frame),
    "DISCONNECT": Session._on_disconnect,
    "CONNECT": Session._on_connect,
    "STOMP": Session._on_connect,
}
