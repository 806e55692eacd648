"""A transaction: what a session did between BEGIN and COMMIT, kept until then.

Everything is checked when its frame comes, so that COMMIT cannot fail half way; COMMIT then carries it out in one go,
and since nothing else runs meanwhile, others see all of it or nothing (TXN-01).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .message import Delivery

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
