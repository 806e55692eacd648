"""The part that has come of a frame which is not complete, in the account of the broker's memory.

It is looked at once a chunk.  A client that sends in bulk always has a little of the next frame, which is not worth to
be counted; a large frame takes memory long before it is a message, and of many clients at once it can be all there is.
"""

from __future__ import annotations

from gateway.broker import Broker

# Bytes up to which it is not counted.
_LITTLE = 4 * 1024
# Bytes beyond which a client is held back in the middle of its frame, or refused: more than comes with one read.
_MUCH = 64 * 1024


class PartialFrame:
    """What has come of one connection's next frame.

    Attributes:
        nbytes: as counted.
    """

    __slots__ = ("_broker", "nbytes")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.nbytes = 0

    @property
    def is_large(self) -> bool:
        """Worth to wait in the middle of it."""
        return self.nbytes > _MUCH

    def note(self, nbytes: int) -> None:
        """So much has come.

        Raises:
            NotAllowed: memory is full, and the message would be refused, too.
        """
        nbytes = nbytes if nbytes > _LITTLE else 0
        grown = nbytes - self.nbytes
        if not grown:
            return
        self.nbytes = nbytes
        self._broker.memory.buffer(grown)
        if grown > 0 and nbytes > _MUCH and self._broker.context.checks_sends:
            self._broker.memory.check()

    def end(self) -> None:
        """The frame is complete, or never will be."""
        self.note(0)
