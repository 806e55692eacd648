"""A transaction: what a session did between BEGIN and COMMIT, kept until then.

Everything is checked when its frame comes, so that COMMIT cannot fail half way; COMMIT then carries it out in one go,
and since nothing else runs meanwhile, others see all of it or nothing (TXN-01).
"""

from __future__ import annotations

from gateway.codec import Frame

from .message import OVERHEAD, Delivery


class Transaction:
    """An open transaction.

    Attributes:
        sends: SEND frames, in order.
        settlements: (deliveries, acknowledged) of each ACK (True) and NACK (False), in order.
        octets: what the kept frames cost.
    """

    __slots__ = ("octets", "sends", "settlements")

    def __init__(self) -> None:
        self.sends: list[Frame] = []
        self.settlements: list[tuple[list[Delivery], bool]] = []
        self.octets = 0

    def add_send(self, frame: Frame) -> int:
        """Keep a SEND; returns the octets it costs."""
        size = frame.head.cost + len(frame.body) + OVERHEAD
        self.sends.append(frame)
        self.octets += size
        return size

    def add_settlement(self, deliveries: list[Delivery], acknowledged: bool) -> None:
        """Keep an ACK or NACK; nobody else can settle these deliveries meanwhile."""
        for delivery in deliveries:
            delivery.transaction = self
        self.settlements.append((deliveries, acknowledged))

    def let_go(self) -> list[Delivery]:
        """The deliveries it held, free again: for COMMIT and ABORT."""
        held = [delivery for deliveries, _ in self.settlements for delivery in deliveries]
        for delivery in held:
            delivery.transaction = None
        return held
