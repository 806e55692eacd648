"""Scheduled messages wait for their time: in no queue, in no topic, and unseen by all consumers until then.

One that its destination would store stands in the store meanwhile.  Operators see each of them, and may call it off.
It is known by a number; the message that it becomes has another.  One with a schedule stays until its last message has
gone out, under the same number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from gateway.codec import Head

from ..core.context import Context
from ..core.scheduler import Timer
from ..errors import NotAllowed
from ..model.changes import Stored
from ..model.message import Message, PreparedSend
from ..model.options import Retain, SendOptions, shared
from ..model.policy import QueueArguments
from ..model.schedule import Moment, Schedule, next_moment

KIND = "delayed"
"""The place in the store."""

# Seconds between two messages of a schedule, at least: a client can leave one behind, and go.
_LEAST_PERIOD = 0.1

# Bytes that one costs beside its SEND, measured: its timer in the scheduler, and its place here.
_OVERHEAD = 440


class _StoredSend(NamedTuple):
    """A message in the store, and its facts there but for those of the schedule."""

    message: Message
    facts: dict[str, object]


class ScheduledSend:
    """A SEND that waits for its time."""

    __slots__ = ("date", "due", "facts", "moment", "number", "schedule", "sending", "stored")

    def __init__(self, number: int, sending: PreparedSend, due: float, stored: list[_StoredSend]) -> None:
        self.number = number
        self.sending = sending
        self.due = due  # on the broker's clock
        # Its messages in the store, one for each destination where it is durable; and their facts there but for those
        # that another moment changes.
        self.stored = [each.message for each in stored]
        self.facts = [each.facts for each in stored]
        self.schedule: Schedule | None = None  # None: it is sent once
        self.moment: Moment | None = None  # of its next message by the schedule
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
        self._wait(sending, delay, self._stored_of(sending), None, None)

    def put_on_schedule(self, sending: PreparedSend) -> None:
        """Carry out a SEND as often as its options say; `check` has seen them."""
        schedule, now = schedule_of(sending.options), self._context.scheduler.epoch()
        moment = schedule.first(now)
        assert moment is not None  # `check` has seen that it comes
        self._wait(sending, moment.due - now, self._stored_of(sending), schedule, moment)

    def check(self, options: SendOptions) -> None:
        """Refuse what is no schedule.  Raises NotAllowed."""
        if options.timezone is not None and options.cron is None:
            raise NotAllowed("schedule-timezone without AMQ_SCHEDULED_CRON", "the time zone is that of a calendar")
        if not options.is_scheduled:
            return
        if options.repeat and options.period < _LEAST_PERIOD:
            least = int(_LEAST_PERIOD * 1000)
            raise NotAllowed(
                "bad value of AMQ_SCHEDULED_PERIOD", f"AMQ_SCHEDULED_REPEAT needs a period of {least} ms at least"
            )
        if options.deliver_at is not None or options.expires_at is not None or options.time_to_live is not None:
            raise NotAllowed(
                "a schedule with a moment",
                "each message of a schedule is a new one: leave out the moment of delivery and that of expiry; a "
                "policy may set time_to_live",
            )
        if options.cron is not None:
            _check_calendar(options.cron, schedule_of(options).timezone, self._context.scheduler.epoch())

    def _stored_of(self, sending: PreparedSend) -> list[_StoredSend]:
        """The messages of a SEND for the store: one for each destination, each a scheduled message after a restart."""
        if self._context.storage is None:
            return []
        durable = [target for target in sending.targets if self._is_stored(target[0], sending.options)]
        return [self._facts_of(sending, name, head) for name, head in durable]

    def _facts_of(self, sending: PreparedSend, name: str, head: Head) -> _StoredSend:
        message = Message(self._context.next_number(), head, sending.body, sending.options)
        message.expires = sending.expires
        retain, arguments = sending.options.retain, sending.options.queue_arguments
        extra: dict[str, object] = {"name": name, "sender": sending.sender, "retain": retain and retain.value}
        if arguments is not None:
            extra |= arguments.stored()
        # What only a durable subscription stores, which may be gone when it arrives.
        if not sending.options.persistent:
            extra["persistent"] = sending.options.persistent
        return _StoredSend(message, extra)

    def _wait(
        self,
        sending: PreparedSend,
        delay: float,
        stored: list[_StoredSend],
        schedule: Schedule | None,
        moment: Moment | None,
    ) -> None:
        context = self._context
        # The number of its row outlives the process, so operators find it under the same one after a restart.
        number = stored[0].message.number if stored else context.next_number()
        waiting = self._found[number] = ScheduledSend(number, sending, context.scheduler.clock() + delay, stored)
        waiting.schedule, waiting.moment = schedule, moment
        if not any(each.message.row for each in stored):  # else the store had it before
            self._enter(waiting)
        self.stored += bool(stored)
        context.memory.keep(waiting.nbytes)
        if context.commit is None:
            self._set(waiting)
        else:
            context.when_seen(partial(self._set, waiting))

    def _enter(self, waiting: ScheduledSend) -> None:
        """Put it into the store, if it is to stand there."""
        storage, scheduler = self._context.storage, self._context.scheduler
        changing: dict[str, object] = {"due": scheduler.epoch() + waiting.due - scheduler.clock()}
        if waiting.schedule is not None:
            changing |= {"schedule": waiting.schedule.stored(), "moment": waiting.moment}
        for message, facts in zip(waiting.stored, waiting.facts, strict=True):
            assert storage is not None  # it is to stand there
            storage.enter(storage.pool(KIND), message, row=message.number, extra=facts | changing)

    def _set(self, waiting: ScheduledSend) -> None:
        """From now on it may arrive."""
        if self._found.get(waiting.number) is waiting:  # it was not called off meanwhile
            waiting.date = self._context.scheduler.at(waiting.due, partial(self._arrives, waiting))

    def _arrives(self, waiting: ScheduledSend) -> None:
        # It leaves its place in the store and arrives in one batch: a kill leaves it here or there, and never in both.
        now, following = self._context.scheduler.epoch(), None
        if waiting.schedule is not None and waiting.moment is not None:
            following = waiting.schedule.after(waiting.moment, now)
        if following is None:
            self._forget(waiting)
        else:
            self._wait_again(waiting, following, following.due - now)
        self._arrive(waiting.sending)

    def _wait_again(self, waiting: ScheduledSend, following: Moment, delay: float) -> None:
        """A message of a schedule goes out, and the next one waits in its place."""
        waiting.moment, waiting.due = following, self._context.scheduler.clock() + delay
        self._leave(waiting)
        self._enter(waiting)
        self._set(waiting)

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
        self._leave(waiting)

    def _leave(self, waiting: ScheduledSend) -> None:
        for message in waiting.stored:
            assert self._context.storage is not None  # it stands there
            self._context.storage.leave(message)

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
        schedule = Schedule.from_store(extra["schedule"]) if "schedule" in extra else None
        moment = Moment(*extra["moment"]) if schedule is not None else None
        facts = {name: value for name, value in extra.items() if name not in _CHANGING}
        # Below 0 for what became due while no process ran: it arrives at once, in the order of the dates.
        delay = extra["due"] - self._context.scheduler.epoch()
        self._wait(sending, delay, [_StoredSend(message, facts)], schedule, moment)


_CHANGING = frozenset({"due", "schedule", "moment"})
"""Facts that another moment changes."""


def schedule_of(options: SendOptions) -> Schedule:
    return Schedule(options.cron or "", options.timezone or "UTC", options.delay, options.period, options.repeat)


def _check_calendar(cron: str, timezone: str, now: float) -> None:
    try:
        moment = next_moment(cron, timezone, now)
    except ValueError as error:
        raise NotAllowed("bad value of AMQ_SCHEDULED_CRON", f"{cron[:80]!r} is no calendar: {error}") from None
    if moment is None:
        raise NotAllowed("bad value of AMQ_SCHEDULED_CRON", f"{cron[:80]!r} never comes")
