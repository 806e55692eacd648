"""Redelivery: the way of a message that its consumer did not settle with an ACK.

    NACK, or the connection lost under way  ->  again: at once, or after the back-off
                                            ->  dead letter behind the last attempt, or dropped

The queue carries out what is decided here.
"""

from dataclasses import dataclass
from typing import TypeAlias

from ..core.counters import Drop
from ..model.policy import OnNack, Policy


@dataclass(frozen=True, slots=True)
class Requeue:
    """The message goes back to its place, now."""


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """The message goes back to its place after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The message goes to where the policy sends dead letters."""

    why: Drop


@dataclass(frozen=True, slots=True)
class Discard:
    """The message is thrown away."""

    why: Drop


Verdict: TypeAlias = Requeue | RequeueAfter | DeadLetter | Discard


def after_nack(policy: Policy, failures: int, *, requeue: bool) -> Verdict:
    """Decide on a message that was rejected, after so many failures; without `requeue` the client wants it dead."""
    if not requeue or policy.on_nack is OnNack.DEAD_LETTER:
        return DeadLetter("rejected")
    if policy.on_nack is OnNack.DROP:
        return Discard("rejected")
    if 0 < policy.max_attempts <= failures:
        return DeadLetter("max-attempts")
    delay = policy.delay_after(failures)
    return RequeueAfter(delay) if delay else Requeue()


def after_loss(policy: Policy, failures: int) -> Verdict:
    """Decide on a message that a consumer was at work on when it lost its connection, after so many failures."""
    return DeadLetter("max-attempts") if 0 < policy.max_attempts <= failures else Requeue()
