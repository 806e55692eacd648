"""A transaction: what a session did between BEGIN and COMMIT, kept until then.

Everything is checked when its frame comes, so that COMMIT cannot fail half way; COMMIT then carries it out in one go,
and since nothing else runs meanwhile, others see all of it or nothing (TXN-01).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gateway.codec import Frame

from .errors import HeaderMissing, NotAllowed
from .message import Delivery
from .quotas import Quotas

if TYPE_CHECKING:
    from .sending import Sending


class Settlement(NamedTuple):
    """An ACK, or a NACK with what it says of the fate of its messages."""

    deliveries: list[Delivery]
    acknowledged: bool
    requeue: bool = True
    reason: str = ""


class Transaction:
    """An open transaction.

    Attributes:
        sends: what each SEND asked for, in order.
        settlements: of each ACK and NACK, in order.
        octets: what the kept messages cost.
    """

    __slots__ = ("octets", "sends", "settlements")

    def __init__(self) -> None:
        self.sends: list[Sending] = []
        self.settlements: list[Settlement] = []
        self.octets = 0

    def add_send(self, sending: Sending) -> None:
        """Keep a SEND."""
        self.sends.append(sending)
        self.octets += sending.octets

    def add_settlement(self, settlement: Settlement) -> None:
        """Keep an ACK or NACK; nobody else can settle these deliveries meanwhile."""
        for delivery in settlement.deliveries:
            delivery.transaction = self
        self.settlements.append(settlement)

    def let_go(self) -> list[Delivery]:
        """The deliveries it held, free again: for COMMIT and ABORT."""
        held = [delivery for settlement in self.settlements for delivery in settlement.deliveries]
        for delivery in held:
            delivery.transaction = None
        return held


class Transactions(dict[str, Transaction]):
    """The open transactions of a session, by name."""

    def __init__(self, quotas: Quotas) -> None:
        super().__init__()
        self._quotas = quotas

    def of(self, frame: Frame) -> Transaction:
        """The open transaction that a frame names.

        Raises:
            HeaderMissing: it names none.
            NotAllowed: there is none of that name.
        """
        name = _name(frame)
        transaction = self.get(name)
        if transaction is None:
            raise NotAllowed("unknown transaction", f"this connection has no open transaction {name[:80]!r}")
        return transaction

    def begin(self, frame: Frame) -> None:
        """Open the transaction that a BEGIN names.

        Raises:
            HeaderMissing: it names none.
            NotAllowed: it is open already, or there are too many.
        """
        name = _name(frame)
        if name in self:
            raise NotAllowed("transaction id in use", f"this connection already has a transaction {name[:80]!r}")
        limit = self._quotas.max_transactions
        if len(self) >= limit:
            raise NotAllowed("too many transactions", f"a session may have {limit} open (max_transactions)")
        self[name] = Transaction()

    def check_size(self) -> None:
        """Refuse what would be too much to keep.

        Raises:
            NotAllowed: all of them keep more than a session may.
        """
        limit = self._quotas.max_transaction_octets
        if sum([each.octets for each in self.values()]) > limit:
            raise NotAllowed(
                "transaction too large", f"open transactions hold more than {limit} octets (max_transaction_octets)"
            )


def _name(frame: Frame) -> str:
    name = frame.headers.get("transaction")
    if name is None:
        raise HeaderMissing(frame.command, "transaction")
    return name
