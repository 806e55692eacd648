"""Ages of messages, by their numbers.

A message has no date; to ask the clock for one would be a cost of each.  But numbers only grow, and a process gives all
of its messages theirs.  A note of the last number, made once a second, tells to a second when each was given.

    every second   the last 600 seconds in which messages came
    every minute   the last 1,440 minutes, a day where they come all the time
    every hour     the last 1,440 hours

Older messages, and those that the store has from an earlier process, are at least as old as the first note.  All notes
take 56 KiB; a second costs 2 us, an age 1 to 2 us.

Known weakness: after a restart, messages that waited before are as old as the process.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

# Seconds of a step, and how many steps are kept.
_STEPS = ((1, 600), (60, 1_440), (3_600, 1_440))


class Age(NamedTuple):
    """The age of a message."""

    seconds: float  # since it came
    is_least: bool  # it may be much older: it came before the first note


class _Notes:
    """Notes in steps of one length."""

    __slots__ = ("_most", "_numbers", "_step", "_times", "floor", "since")

    def __init__(self, step: int, most: int, number: int, now: float) -> None:
        self._step = step
        self._most = most
        self._numbers = array("q")
        self._times = array("d")
        self.floor = number  # all numbers above it came since then
        self.since = now  # when that was

    def add(self, number: int, now: float) -> None:
        """Note the number that was the last one then."""
        numbers, times = self._numbers, self._times
        # Of each step the last note is kept: no age is said too high, and one is too low by a step at most.
        if times and times[-1] // self._step == now // self._step:
            numbers[-1], times[-1] = number, now
            return
        numbers.append(number)
        times.append(now)
        if len(numbers) > self._most:
            self.floor, self.since = numbers.pop(0), times.pop(0)

    def came(self, number: int, now: float) -> float:
        """By when a message above the floor had come; it may have come since the last note."""
        index = bisect_left(self._numbers, number)
        return self._times[index] if index < len(self._times) else now


class MessageAges:
    """The notes of one broker.  `clock`: the broker's, in seconds."""

    __slots__ = ("_clock", "_last", "_notes")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = 0
        self._notes: list[_Notes] = []

    def note(self, number: int) -> None:
        """That is the number of the last message so far: to be called once a second."""
        now = self._clock()
        if not self._notes:
            self._notes = [_Notes(step, most, number, now) for step, most in _STEPS]
        # Not while nothing comes: so the notes of a quiet night push out none of the day before.
        elif number != self._last:
            for notes in self._notes:
                notes.add(number, now)
        self._last = number

    def age(self, number: int) -> Age:
        """The age of the message of that number."""
        now = self._clock()
        # The shortest steps that reach back so far are the most exact ones.
        for notes in self._notes:
            if number > notes.floor:
                return Age(now - notes.came(number, now), is_least=False)
        return Age(now - self._notes[-1].since if self._notes else 0.0, is_least=True)
