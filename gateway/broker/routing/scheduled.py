"""Scheduled messages wait for their time: in no queue, in no topic, and unseen by all consumers until then.

One that its destination would store stands in the store meanwhile.  Operators see each of them, and may call it off.
It is known by a number; the message that it becomes has another.
"""

import dataclasses
from collections.abc import Callable
from functools import partial

from gateway.codec import Head

from ..core.context import Context
from ..core.scheduler import Timer
from ..model.changes import Stored
from ..model.message import Message, PreparedSend
from ..model.options import Retain, SendOptions, shared
from ..model.policy import QueueArguments

KIND = "delayed"
"""The place in the store."""

# Bytes that one costs beside its SEND, measured: its timer in the scheduler, and its place here.
_OVERHEAD = 440


class ScheduledSend:
    """A SEND that waits for its time."""

    __slots__ = ("date", "due", "number", "sending", "stored")

    def __init__(self, number: int, sending: PreparedSend, due: float, stored: list[Message]) -> None:
        self.number = number
        self.sending = sending
        self.due = due  # on the broker's clock
        self.stored = stored  # its messages in the store, one for each destination where it is durable
        self.date: Timer | None = None  # of its arrival; None: its COMMIT is not in the store yet

    @property
    def nbytes(self) -> int:
        """Bytes that keeping it costs."""
        return self.sending.nbytes + _OVERHEAD


class ScheduledSends:
    """The SENDs that wait for their time; `stored`: how many of them outlive the process.

    `arrive`: routes a SEND when its time has come.  `is_stored`: tells whether a destination, or a durable subscription
    that is there, stores a message with these options.
    """

    def __init__(
        self, context: Context, arrive: Callable[[PreparedSend], None], is_stored: Callable[[str, SendOptions], bool]
    ) -> None:
        self._is_stored = is_stored
        self._context = context
        self._arrive = arrive
        self._found: dict[int, ScheduledSend] = {}
        self.stored = 0

    def __len__(self) -> int:
        """The number of SENDs that wait."""
        return len(self._found)

    def every(self) -> list[ScheduledSend]:
        """All SENDs that wait, the oldest first."""
        return list(self._found.values())

    def find(self, number: int) -> ScheduledSend | None:
        """The SEND of that number; None: it has arrived, was called off, or never was."""
        return self._found.get(number)

    def put_off(self, sending: PreparedSend, delay: float) -> None:
        """Carry out a SEND so many seconds later."""
        due = self._context.scheduler.epoch() + delay
        durable = []
        # One row for each destination: after a restart each is a scheduled message of its own.
        if self._context.storage is not None:
            durable = [target for target in sending.targets if self._is_stored(target[0], sending.options)]
        self._wait(sending, delay, [self._store(sending, name, head, due) for name, head in durable])

    def _store(self, sending: PreparedSend, name: str, head: Head, due: float) -> Message:
        storage = self._context.storage
        assert storage is not None  # something is durable
        message = Message(self._context.next_number(), head, sending.body, sending.options)
        message.expires = sending.expires
        retain, arguments = sending.options.retain, sending.options.queue_arguments
        extra = {"name": name, "due": due, "sender": sending.sender, "retain": retain and retain.value}
        if arguments is not None:
            extra |= arguments.stored()
        # What only a durable subscription stores, which may be gone when it arrives.
        if not sending.options.persistent:
            extra["persistent"] = sending.options.persistent
        storage.enter(storage.pool(KIND), message, row=message.number, extra=extra)
        return message

    def _wait(self, sending: PreparedSend, delay: float, stored: list[Message]) -> None:
        context = self._context
        # The number of its row outlives the process, so operators find it under the same one after a restart.
        number = stored[0].number if stored else context.next_number()
        waiting = self._found[number] = ScheduledSend(number, sending, context.scheduler.clock() + delay, stored)
        self.stored += bool(stored)
        context.memory.keep(waiting.nbytes)
        if context.commit is None:
            self._set(waiting)
        else:
            context.when_seen(partial(self._set, waiting))

    def _set(self, waiting: ScheduledSend) -> None:
        """From now on it may arrive."""
        if self._found.get(waiting.number) is waiting:  # it was not called off meanwhile
            waiting.date = self._context.scheduler.at(waiting.due, partial(self._arrives, waiting))

    def _arrives(self, waiting: ScheduledSend) -> None:
        # It leaves its place in the store and arrives in one batch: a kill leaves it here or there, and never in both.
        self._forget(waiting)
        self._arrive(waiting.sending)

    def call_off(self, waiting: ScheduledSend) -> bool:
        """Call off a SEND, so that it never arrives; False: it has arrived already, or was called off."""
        if self._found.get(waiting.number) is not waiting:
            return False
        self._context.scheduler.cancel(waiting.date)
        self._forget(waiting)
        return True

    def _forget(self, waiting: ScheduledSend) -> None:
        del self._found[waiting.number]
        self.stored -= bool(waiting.stored)
        context = self._context
        context.memory.release(waiting.nbytes)
        for message in waiting.stored:
            assert context.storage is not None  # it stands there
            context.storage.leave(message)

    def restore(self, found: Stored) -> None:
        """Take over a SEND that the store holds."""
        storage = self._context.storage
        assert storage is not None  # it holds it
        message, extra = storage.facts.read(found)
        options = shared(
            dataclasses.replace(
                message.options,
                persistent=extra.get("persistent", True),
                retain=Retain(extra["retain"]) if extra["retain"] else None,
                queue_arguments=QueueArguments.from_store(extra),
            )
        )
        sending = PreparedSend([(extra["name"], message.head)], message.body, options, extra["sender"], message.expires)
        # Below 0 for what became due while no process ran: it arrives at once, in the order of the dates.
        self._wait(sending, extra["due"] - self._context.scheduler.epoch(), [message])
