"""Transactions: the SENDs, ACKs and NACKs of a session between BEGIN and COMMIT, kept until then."""

from typing import NamedTuple

from gateway.codec import Frame

from ..core.context import Context
from ..core.ports import Peer
from ..errors import HeaderMissing, NotAllowed
from ..model.message import PreparedSend
from ..queue.subscription import Delivery, Returned, take_back_all
from ..routing.router import Router


class Settlement(NamedTuple):
    """An ACK, or a NACK with what its messages need."""

    deliveries: list[Delivery]
    acknowledged: bool
    requeue: bool = True
    reason: str = ""

    def carry_out(self) -> None:
        """Settle them."""
        # ACK and NACK name one delivery, and in mode client those before it of the same subscription: one queue.
        queue = self.deliveries[0].subscription.queue
        assert queue is not None  # a ledger never stands without a queue
        if self.acknowledged:
            queue.acknowledge(self.deliveries)
        else:
            queue.reject(self.deliveries, requeue=self.requeue, reason=self.reason)


class Transaction:
    """An open transaction: its SENDs, ACKs and NACKs in order."""

    __slots__ = ("nbytes", "sends", "settlements")

    def __init__(self) -> None:
        self.sends: list[PreparedSend] = []
        self.settlements: list[Settlement] = []
        self.nbytes = 0  # of its SENDs

    def add_send(self, sending: PreparedSend) -> None:
        """Keep a SEND."""
        self.sends.append(sending)
        self.nbytes += sending.nbytes

    def add_settlement(self, settlement: Settlement) -> None:
        """Keep an ACK or NACK."""
        # Held, so that no other frame settles them meanwhile: a delivery is settled once.
        for delivery in settlement.deliveries:
            delivery.held = True
        self.settlements.append(settlement)

    def deliveries(self) -> list[Delivery]:
        """The deliveries that it settles at COMMIT."""
        return [delivery for settlement in self.settlements for delivery in settlement.deliveries]

    def let_go(self) -> list[Delivery]:
        """The deliveries that it held, free again: for COMMIT and ABORT."""
        held = self.deliveries()
        for delivery in held:
            delivery.held = False
        return held


class Transactions(dict[str, Transaction]):
    """The open transactions of a session, by name."""

    __slots__ = ("_context", "_peer", "_router")

    def __init__(self, context: Context, router: Router, peer: Peer) -> None:
        super().__init__()
        self._context = context
        self._router = router
        self._peer = peer

    def of(self, frame: Frame) -> Transaction:
        """The open transaction that a frame names.  Raises ProtocolError: it names none, or none that is open."""
        name = _name(frame)
        transaction = self.get(name)
        if transaction is None:
            raise NotAllowed(
                "unknown transaction", f"this connection has no open transaction {name[:80]!r}; BEGIN it first"
            )
        return transaction

    def begin(self, frame: Frame) -> None:
        """Open the transaction that a BEGIN names.

        Raises ProtocolError: it names none; it is open already, or there are too many.
        """
        name = _name(frame)
        if name in self:
            raise NotAllowed(
                "transaction id in use", f"this connection already has a transaction {name[:80]!r}; choose another id"
            )
        limit = self._context.quotas.max_transactions
        if len(self) >= limit:
            raise NotAllowed("too many transactions", f"a session may have {limit} open (max_transactions)")
        self[name] = Transaction()
        self._context.records.tell("tx_begun", self._peer, transaction=name)

    def add_send(self, transaction: Transaction, sending: PreparedSend) -> None:
        """Keep a SEND in one of them.  Raises NotAllowed: all of them keep more than a session may."""
        # Kept and counted before the limit is checked: the ERROR ends the session, and `undo` gives all of it back.
        self._context.memory.keep(sending.nbytes)
        transaction.add_send(sending)
        limit = self._context.quotas.max_transaction_bytes
        if sum([each.nbytes for each in self.values()]) > limit:
            raise NotAllowed(
                "transaction too large", f"open transactions hold more than {limit} bytes (max_transaction_bytes)"
            )

    def commit(self, frame: Frame) -> None:
        """Carry out the transaction that a COMMIT names.

        Raises ProtocolError: there is none of that name, or a limit or the store is against it; it stays open.
        """
        transaction = self.of(frame)
        name = _name(frame)
        # All else was checked when its frame came, so that COMMIT cannot fail half way (TXN-01).  Limits and
        # store are looked at again: they may have changed since.
        self._router.check(transaction.sends)
        del self[name]
        transaction.let_go()
        self._context.memory.release(transaction.nbytes)
        records = self._context.records
        records.committed(self._peer, name)
        # A kill may undo the COMMIT as long as it is not in the store: no client may have seen what it sends,
        # for the messages that it acknowledges would come again.
        changes = self._context.begin_commit()
        # Nothing else runs meanwhile, so that others see all of it or nothing.
        try:
            # Before the settlements: an acknowledged message makes no room before these were counted.
            for sending in transaction.sends:
                self._router.send(sending)
            for settlement in transaction.settlements:
                settlement.carry_out()
        finally:
            records.transaction = None
            self._context.end_commit(changes)

    def abort(self, frame: Frame) -> None:
        """Undo the transaction that an ABORT names.  Raises ProtocolError: it names none, or none that is open."""
        self.of(frame)
        returned: Returned = {}
        self.undo(_name(frame), returned)
        take_back_all(returned)

    def undo(self, name: str, returned: Returned, why: str | None = None) -> Transaction:
        """End one without effect; what it held for subscriptions that are gone goes into `returned`."""
        transaction = self.pop(name)
        self._context.records.tell("tx_aborted", self._peer, reason=why, transaction=name)
        self._context.memory.release(transaction.nbytes)
        for delivery in transaction.let_go():
            subscription = delivery.subscription
            # It left them to the transaction; those of others are in their ledgers still.
            if subscription.ended:
                assert subscription.queue is not None
                subscription.remove(delivery)
                returned.setdefault(subscription.queue, []).append(delivery.message)
        return transaction


def _name(frame: Frame) -> str:
    name = frame.headers.get("transaction")
    if name is None:
        raise HeaderMissing(frame.command, "transaction")
    return name
