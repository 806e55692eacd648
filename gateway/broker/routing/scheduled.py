"""Messages that wait for their time: in no queue, in no topic, and seen by nobody until then.

One that is durable at its destination stands in the store meanwhile, in a place of its own.  When its time has come it
leaves that place and arrives like any other, in one batch.  What became due while no process ran has a date in the
past, so that it arrives at once, and in the order of the dates.

Operators see each of them, and may call it off.  It is known by a number, which for one in the store outlives the
process; the message that it becomes has another.  A SEND to several destinations is one of them here, and as many as
are durable after a restart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gateway.codec import Head

from ..model.changes import Stored
from ..model.message import Message
from ..model.options import Retain
from ..model.policy import ClientArguments
from ..model.sending import PreparedSend

if TYPE_CHECKING:
    from ..broker import Broker
    from ..core.scheduler import Timer

KIND = "delayed"
"""The place in the store."""

# What one costs beside its SEND, measured: its date in the agenda, and its place here.
_OVERHEAD = 440


class ScheduledSend:
    """A SEND that waits for its time.

    Attributes:
        number: tells it from all others.
        sending: what is to be done then.
        due: on the broker's clock.
        stored: what stands for it in the store, one message for each destination where it is durable.
        date: when it ends; None: it has.
    """

    __slots__ = ("date", "due", "number", "sending", "stored")

    def __init__(self, number: int, sending: PreparedSend, due: float, stored: list[Message]) -> None:
        self.number = number
        self.sending = sending
        self.due = due
        self.stored = stored
        self.date: Timer | None = None

    @property
    def nbytes(self) -> int:
        """What keeping it costs."""
        return self.sending.nbytes + _OVERHEAD


class ScheduledSends:
    """All that are put off.

    Attributes:
        stored: how many of them outlive the process.

    Args:
        arrive: routes a SEND whose time has come.
    """

    def __init__(self, broker: Broker, arrive: Callable[[PreparedSend], None]) -> None:
        self._broker = broker
        self._arrive = arrive
        self._found: dict[int, ScheduledSend] = {}
        self.stored = 0

    def __len__(self) -> int:
        """How many SENDs."""
        return len(self._found)

    def every(self) -> list[ScheduledSend]:
        """All of them, the oldest first."""
        return list(self._found.values())

    def find(self, number: int) -> ScheduledSend | None:
        """The one of that number; None: it has arrived, was called off, or never was."""
        return self._found.get(number)

    def put_off(self, sending: PreparedSend, delay: float) -> None:
        """Carry out a SEND so many seconds later."""
        due = self._broker.scheduler.epoch() + delay
        durable = []
        if self._broker.storage is not None:
            outlives = self._broker.router.outlives
            durable = [target for target in sending.targets if outlives(target[0], sending.options)]
        self._wait(sending, delay, [self._store(sending, name, head, due) for name, head in durable])

    def _store(self, sending: PreparedSend, name: str, head: Head, due: float) -> Message:
        storage = self._broker.storage
        assert storage is not None  # something is durable
        message = Message(self._broker.next_number(), head, sending.body, sending.options)
        message.expires = sending.expires
        retain, hints = sending.options.retain, sending.options.queue_arguments
        extra = {"name": name, "due": due, "sender": sending.sender, "retain": retain and retain.value}
        if hints is not None:
            extra["hints"] = dataclasses.asdict(hints)
        storage.enter(storage.pool(KIND), message, row=message.number, extra=extra)
        return message

    def _wait(self, sending: PreparedSend, delay: float, stored: list[Message]) -> None:
        broker = self._broker
        number = stored[0].number if stored else broker.next_number()
        waiting = self._found[number] = ScheduledSend(number, sending, broker.scheduler.clock() + delay, stored)
        self.stored += bool(stored)
        broker.keep(waiting.nbytes)
        waiting.date = broker.scheduler.at(waiting.due, partial(self._arrives, waiting))

    def _arrives(self, waiting: ScheduledSend) -> None:
        self._forget(waiting)
        self._arrive(waiting.sending)

    def call_off(self, waiting: ScheduledSend) -> bool:
        """It never arrives; False: it has already, or was called off."""
        if waiting.date is None:
            return False
        self._broker.scheduler.cancel(waiting.date)
        self._forget(waiting)
        return True

    def _forget(self, waiting: ScheduledSend) -> None:
        del self._found[waiting.number]
        waiting.date = None
        self.stored -= bool(waiting.stored)
        broker = self._broker
        broker.release(waiting.nbytes)
        for message in waiting.stored:
            assert broker.storage is not None  # it stands there
            broker.storage.leave(message)

    def restore(self, found: Stored) -> None:
        """One that the store holds from the last process."""
        storage = self._broker.storage
        assert storage is not None  # it holds it
        message, extra = storage.facts.read(found)
        options = dataclasses.replace(
            message.options,
            persistent=True,
            retain=Retain(extra["retain"]) if extra["retain"] else None,
            queue_arguments=ClientArguments(**extra["hints"]) if "hints" in extra else None,
        )
        sending = PreparedSend([(extra["name"], message.head)], message.body, options, extra["sender"], message.expires)
        self._wait(sending, extra["due"] - self._broker.scheduler.epoch(), [message])
