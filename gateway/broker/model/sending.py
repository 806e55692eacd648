"""A SEND that was checked: what a transaction keeps until COMMIT, and the agenda until its time."""

from __future__ import annotations

from gateway.codec import Head

from .message import OVERHEAD
from .options import SendOptions


class PreparedSend:
    """A SEND that was checked and can be carried out.

    Attributes:
        targets: canonical name and head, for each destination.
        sender: id of the session that sent it; empty: the server itself.
        expires: on the broker's clock; 0: never, as far as the sender is concerned.
        nbytes: what keeping it costs.
    """

    __slots__ = ("body", "expires", "nbytes", "options", "sender", "targets")

    def __init__(
        self,
        targets: list[tuple[str, Head]],
        body: bytes,
        options: SendOptions,
        sender: str,
        expires: float,
    ) -> None:
        self.targets = targets
        self.body = body
        self.options = options
        self.sender = sender
        self.expires = expires
        self.nbytes = sum([head.cost + len(body) + OVERHEAD for _, head in targets])

    @property
    def is_delayed(self) -> bool:
        """It is to wait for its time."""
        return self.options.delay > 0 or self.options.deliver_at is not None
