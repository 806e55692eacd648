"""One figure and its goal, and how it is measured: by the clock of the wall, with the CPU of all processes beside it.

A rate says how fast the machine was that day: others may have used its cores, so the load average stands beside it.
The CPU that a row costs is firm.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.server import Server


@dataclass(frozen=True)
class Figure:
    """What came out.

    Attributes:
        value: in `unit`.
        goal: what it should be at least, or at most; None: it is there to be looked at.
        rows: that were measured; 0: it is not about rows.
        cpu: seconds of CPU, of all processes that took part.
        note: what else there is to say.
    """

    name: str
    value: float
    unit: str
    goal: float | None = None
    at_least: bool = True
    rows: int = 0
    cpu: float = 0.0
    note: str = ""
    load: float = 0.0

    @property
    def verdict(self) -> str:
        """`met` or `MISSED`; empty: it has no goal."""
        if self.goal is None:
            return ""
        return "met" if (self.value >= self.goal) == self.at_least or self.value == self.goal else "MISSED"

    def line(self) -> str:
        """The figure for people."""
        goal = "" if self.goal is None else f"{'>=' if self.at_least else '<='} {number(self.goal)}"
        rows = f"{self.rows:>12,}" if self.rows else " " * 12
        cpu = f"{self.cpu:8.1f}" if self.cpu else " " * 8
        told = f"{self.name:44} {number(self.value):>11} {self.unit:7} {goal:>12} {self.verdict:6}"
        return f"{told} {rows} {cpu} {self.load:6.1f}  {self.note}".rstrip()


HEADING = f"{'':44} {'measured':>11} {'':7} {'goal':>12} {'':6} {'rows':>12} {'CPU s':>8} {'load':>6}"


class Watch:
    """What is spent inside of the block; of processes that ended meanwhile, nothing.

    Attributes:
        seconds: by the wall.
        cpu: seconds, of this process and all below it.
    """

    seconds = 0.0
    cpu = 0.0


@contextmanager
def watch() -> Iterator[Watch]:
    """Measure a block."""
    found, own = Watch(), Server(os.getpid(), {})
    before, start = own.cpu(), time.monotonic()
    yield found
    found.seconds = time.monotonic() - start
    found.cpu = own.cpu() - before


def number(value: float) -> str:
    """As many digits as count."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
