"""Messages that wait for their time: in no queue, in no topic, and seen by nobody until then.

One that is durable at its destination stands in the store meanwhile, in a place of its own.  When its time has come it
leaves that place and arrives like any other, in one batch.  What became due while no process ran has a date in the
past, so that it arrives at once, and in the order of the dates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gateway.codec import Head

from .batch import Stored
from .message import Message
from .options import Retain
from .policy import Hints
from .sending import Sending

if TYPE_CHECKING:
    from .broker import Broker

KIND = "delayed"
"""The place in the store."""


class Delayed:
    """All that are put off.

    Attributes:
        stored: how many of them outlive the process.

    Args:
        arrive: routes a SEND whose time has come.
    """

    def __init__(self, broker: Broker, arrive: Callable[[Sending], None]) -> None:
        self._broker = broker
        self._arrive = arrive
        self._count = 0
        self.stored = 0

    def __len__(self) -> int:
        """How many SENDs."""
        return self._count

    def put_off(self, sending: Sending, delay: float) -> None:
        """Carry out a SEND so many seconds later."""
        due = self._broker.agenda.epoch() + delay
        durable = []
        if self._broker.storage is not None:
            outlives = self._broker.router.outlives
            durable = [target for target in sending.targets if outlives(target[0], sending.properties)]
        self._wait(sending, delay, [self._store(sending, name, head, due) for name, head in durable])

    def _store(self, sending: Sending, name: str, head: Head, due: float) -> Message:
        storage = self._broker.storage
        assert storage is not None  # something is durable
        message = Message(self._broker.next_number(), head, sending.body, sending.properties)
        message.expires = sending.expires
        retain, hints = sending.properties.retain, sending.properties.hints
        extra = {"name": name, "due": due, "sender": sending.sender, "retain": retain and retain.value}
        if hints is not None:
            extra["hints"] = dataclasses.asdict(hints)
        storage.enter(storage.pool(KIND), message, row=message.number, extra=extra)
        return message

    def _wait(self, sending: Sending, delay: float, stored: list[Message]) -> None:
        broker = self._broker
        self._count += 1
        self.stored += bool(stored)
        broker.keep(sending.octets)
        broker.agenda.at(broker.agenda.clock() + delay, partial(self._end, sending, stored))

    def _end(self, sending: Sending, stored: list[Message]) -> None:
        self._count -= 1
        self.stored -= bool(stored)
        broker = self._broker
        broker.release(sending.octets)
        for message in stored:
            assert broker.storage is not None  # it stands there
            broker.storage.leave(message)
        self._arrive(sending)

    def restore(self, found: Stored) -> None:
        """One that the store holds from the last process."""
        storage = self._broker.storage
        assert storage is not None  # it holds it
        message, extra = storage.facts.read(found)
        properties = dataclasses.replace(
            message.properties,
            persistent=True,
            retain=Retain(extra["retain"]) if extra["retain"] else None,
            hints=Hints(**extra["hints"]) if "hints" in extra else None,
        )
        sending = Sending([(extra["name"], message.head)], message.body, properties, extra["sender"], message.expires)
        self._wait(sending, extra["due"] - self._broker.agenda.epoch(), [message])
