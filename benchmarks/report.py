"""Medians of the rounds, as a table for people and as JSON for comparisons between commits."""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.catalogue import Part, Scenario
from benchmarks.loop import Sample
from benchmarks.machine import Bare

_HEADINGS = ("scenario", "over", "rate/s", "server", "unit", "budget", "", "RabbitMQ*", "ActiveMQ*")
_FOOT = (
    "server: CPU of its process tree (user and system) per operation checked at the receiver; median of {rounds}.\n"
    "* recorded once on a machine of this class by the same method, not measured in this run (docs/benchmarks.md).\n"
    "Of the kernel alone, before these rounds: {bare}."
)


@dataclass
class Row:
    """One scenario over one transport, or a part of it, with its samples or the reason why there are none."""

    scenario: Scenario
    transport: str
    part: str = ""
    samples: list[Sample] = field(default_factory=list)
    failure: str = ""

    @property
    def name(self) -> str:
        return f"{self.scenario.name}/{self.part}" if self.part else self.scenario.name

    @property
    def title(self) -> str:
        return self._what.title

    @property
    def unit(self) -> str:
        return self._what.unit

    @property
    def _what(self) -> Scenario | Part:
        return self.scenario.parts[self.part] if self.part else self.scenario

    @property
    def cost(self) -> float | None:
        return self.median("cost")

    @property
    def rate(self) -> float | None:
        return self.median("rate")

    def median(self, field: str) -> float | None:
        """The median of a field of the samples; None when they do not have it."""
        found = [getattr(sample, field) for sample in self.samples if not sample.missing]
        found = [value for value in found if value is not None]
        return median(found) if found else None

    @property
    def budget(self) -> float | None:
        what = self._what
        return what.budget if isinstance(what, Part) else what.budget.get(self.transport)

    @property
    def peers(self) -> tuple[str, str]:
        return ("-", "-") if self.part else self.scenario.peers.get(self.transport, ("-", "-"))

    @property
    def verdict(self) -> str:
        """`ok`, `OVER` its budget, `UNDER` it where that is the least, `FAILED` a check; empty: there is none."""
        if self.failure:
            return "FAILED"
        if self.budget is None or self.cost is None:
            return ""
        if isinstance(self._what, Part) and self._what.at_least:
            return "ok" if self.cost >= self.budget else "UNDER"
        return "ok" if self.cost <= self.budget else "OVER"


def table(rows: Sequence[Row], bare: Bare, verbose: bool) -> str:
    """The table, with one line of detail below each row when `verbose`."""
    cells = [_HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for number, line in enumerate(cells):
        padded = (
            cell.ljust(width) if column in (0, 1, 4, 6) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        lines.append("  ".join(padded).rstrip())
        if number and (row := rows[number - 1]):
            lines += [f"    {detail}" for detail in _details(row, verbose)]
    rounds = max((len(row.samples) for row in rows), default=0)
    return "\n".join([*lines, "", _FOOT.format(rounds=f"{rounds} round{'s' * (rounds != 1)}", bare=bare)])


def markdown(rows: Sequence[Row]) -> str:
    """Two tables for `docs/benchmarks.md`: scenarios with figures of other brokers, and the rest."""
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row.name, []).append(row)
    compared = {name: each for name, each in by_name.items() if any(row.peers != ("-", "-") for row in each)}
    lines = ["| scenario | server | budget | RabbitMQ | ActiveMQ |", "|---|---|---|---|---|"]
    lines += [
        _line([*_measured(each), _per_transport(each, _rabbit), _per_transport(each, _activemq)])
        for each in compared.values()
    ]
    lines += ["", "| scenario | server | budget |", "|---|---|---|"]
    # What a part costs among few, its ratio says; the page says what there is to say of fsyncs.
    rest = {
        name: each for name, each in by_name.items() if name not in compared and not name.endswith(("few", "syncs"))
    }
    lines += [_line(_measured(each)) for each in rest.values()]
    return "\n".join(lines)


def _measured(rows: Sequence[Row]) -> list[str]:
    """Name, cost and budget of a scenario over its transports."""
    unit = "µs".join(rows[0].unit.split("us"))
    return [
        f"`{rows[0].name}` {rows[0].title}",
        f"{_per_transport(rows, lambda row: number(row.cost))} {unit}",
        _per_transport(rows, _budget_of),
    ]


def _rabbit(row: Row) -> str:
    return row.peers[0]


def _activemq(row: Row) -> str:
    return row.peers[1]


def _budget_of(row: Row) -> str:
    missed = f" ({row.verdict.lower()})" if row.verdict in ("OVER", "UNDER") else ""
    return "-" if row.budget is None else f"{row.budget:,g}{missed}"


def _per_transport(rows: Sequence[Row], text_of: Callable[[Row], str]) -> str:
    """What is said of each transport, once where it is the same of all; `-` counts as nothing."""
    found = {row.transport: text for row in rows if (text := text_of(row)) != "-"}
    if len({*found.values()}) == 1 and (len(found) == len(rows) or "tcp" in found):
        return next(iter(found.values()))
    return "; ".join([text if transport == "tcp" else f"{transport} {text}" for transport, text in found.items()])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def write_json(path: Path, rows: Sequence[Row], bare: Bare, where: str) -> None:
    """Everything measured, with the machine it was measured on."""
    document = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": sys.version.split()[0],
        "system": platform.platform(),
        "processor": _processor(),
        "placement": where,
        "bare_send_us": bare.send,
        "bare_sync_us": bare.sync,
        "disk": bare.disk,
        "rows": [_record(row) for row in rows],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def number(value: float | None) -> str:
    """Three digits that count, with thousands set off."""
    if value is None:
        return "-"
    decimals = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:,.{decimals}f}"


def _cells(row: Row) -> tuple[str, ...]:
    rate = f"{row.rate:,.0f}" if row.rate is not None else "-"
    budget = f"{row.budget:,g}" if row.budget is not None else "-"
    return (row.name, row.transport, rate, number(row.cost), row.unit, budget, row.verdict, *row.peers)


def _details(row: Row, verbose: bool) -> list[str]:
    if row.failure:
        return [] if row.part else [row.failure]
    if row.cost is None:
        return [sample.missing for sample in row.samples[-1:]]
    if not verbose:
        return []
    found = [row.title]
    if len(row.samples) > 1:
        costs = sorted(sample.cost for sample in row.samples)
        found.append(f"{number(costs[0])} to {number(costs[-1])}")
    if (own := row.median("generator")) is not None:
        found.append(f"generator {number(own)} us, server {row.median('load'):.0%} busy")
    found += [sample.note for sample in row.samples[-1:] if sample.note]
    return ["; ".join(found)]


def _record(row: Row) -> dict[str, Any]:
    return {
        "scenario": row.name,
        "title": row.title,
        "transport": row.transport,
        "unit": row.unit,
        "cost": row.cost,
        "rate": row.rate,
        "generator_us": row.median("generator"),
        "budget": row.budget,
        "verdict": row.verdict,
        "failure": row.failure,
        "samples": [asdict(replace(sample, beside={})) for sample in row.samples],
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
