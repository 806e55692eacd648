"""ACK deadlines: the time within which the consumers of a queue must settle a message (policy key `ack_timeout`).

    delivered -> ACK or NACK in time
          |  ^
          |  '- ACK with in-progress:true: the time begins anew
          '---> over: the message has failed once, and goes to another consumer; this one gets nothing more (it has
                stalled) until it settles any message, or asks for more time

All deadlines of a queue are equally long, so deliveries stand in the order in which they fall due, and one timer is
enough, that of the first.  A queue without `ack_timeout` has none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ..core.context import Context
from ..core.scheduler import Timer
from ..errors import NotAllowed
from ..model.policy import LateAck, Policy
from .subscription import Delivery, Subscription

# Names of late deliveries that are remembered for a consumer; it can have more only by asking for messages in between.
_MOST_LATE = 2_000


class AckDeadlines:
    """The deadlines of a queue.  `on_due`: takes deliveries that are due, of any consumers, in order."""

    __slots__ = ("_context", "_is_late_refused", "_late", "_on_due", "_running", "_seconds", "_stalled", "_timer")

    def __init__(self, context: Context, policy: Policy, on_due: Callable[[Sequence[Delivery]], None]) -> None:
        self._context = context
        self._seconds = policy.ack_timeout
        self._is_late_refused = policy.late_ack is LateAck.ERROR
        self._on_due = on_due
        self._running: dict[Delivery, float] = {}  # when each falls due, the first at the front
        self._timer: Timer | None = None
        self._stalled: set[Subscription] = set()
        self._late: dict[Subscription, dict[str, None]] = {}  # the names of deliveries that were taken away

    def begin(self, delivery: Delivery) -> None:
        """The time of a delivery begins."""
        scheduler = self._context.scheduler
        self._running[delivery] = due = scheduler.clock() + self._seconds
        if self._timer is None:
            self._timer = scheduler.at(due, self._look)

    def begin_again(self, deliveries: Collection[Delivery]) -> None:
        """Their consumer needs more time."""
        for delivery in deliveries:
            del self._running[delivery]
            self.begin(delivery)
            self.go_on(delivery.subscription)

    def settle(self, delivery: Delivery) -> None:
        """A delivery has left its consumer's ledger."""
        self._running.pop(delivery, None)

    def _look(self) -> None:
        """Take what is due from its consumers."""
        self._timer = None
        now, most = self._context.scheduler.clock(), self._context.work_limits.actions_per_turn
        due: list[Delivery] = []
        for delivery, at in self._running.items():
            if at > now or len(due) == most:
                break
            due.append(delivery)
        for delivery in due:
            del self._running[delivery]
        # Before what follows: it begins further ones, and the timer is that of the first.
        if self._running:
            self._timer = self._context.scheduler.at(next(iter(self._running.values())), self._look)
        # What an open transaction holds, COMMIT or ABORT settles.
        for delivery in due:
            if delivery.held:
                self.begin(delivery)
        if free := [each for each in due if not each.held]:
            self._on_due(free)

    def stall(self, deliveries: Collection[Delivery]) -> None:
        """Deliveries were taken from their consumers, which get nothing more until they show that they are at work."""
        for delivery in deliveries:
            subscription = delivery.subscription
            if subscription.ended:
                continue
            late = self._late.setdefault(subscription, {})
            # Lenient clients of 1.2 name the message, all others of that version the handle.
            for name in (delivery.handle, delivery.message.id.decode()):
                late[name] = None
                if len(late) > _MOST_LATE:
                    del late[next(iter(late))]
            if subscription not in self._stalled:
                self._stalled.add(subscription)
                self._context.stalled_consumers += 1
                subscription.pause()

    def go_on(self, subscription: Subscription) -> None:
        """A consumer is at work: it gets messages again, if it had stalled."""
        if subscription in self._stalled:
            self._stalled.remove(subscription)
            self._context.stalled_consumers -= 1
            subscription.start()

    def has_stalled(self, subscription: Subscription) -> bool:
        """True if a consumer gets nothing more because it let a message time out."""
        return subscription in self._stalled

    def take_late(self, subscription: Subscription, name: str, command: str) -> bool:
        """True if a consumer settles a message that was taken from it; it is at work again.

        Raises NotAllowed: the policy has an ERROR for that.
        """
        late = self._late.get(subscription)
        if late is None or name not in late:
            return False
        del late[name]
        self._context.counters.late_acks += 1
        if self._is_late_refused:
            raise NotAllowed(
                f"{command} came too late",
                f"{name[:80]!r} was not settled within {self._seconds:g} s, and went back to its queue (ack_timeout); "
                "an ACK with in-progress:true asks for more time",
            )
        self.go_on(subscription)
        return True

    def leave(self, subscription: Subscription) -> None:
        """A consumer goes."""
        self._late.pop(subscription, None)
        if subscription in self._stalled:
            self._stalled.remove(subscription)
            self._context.stalled_consumers -= 1

    def end(self) -> None:
        """The queue goes: nothing may keep it in memory."""
        self._context.scheduler.cancel(self._timer)
        self._timer = None
