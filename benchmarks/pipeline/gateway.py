"""The gateway with its journal, and without: the same load, by the method of `benchmarks`.

Rounds take turns, so that a slow minute spoils both; each has a gateway of its own, on its own core, and the thread
that writes the journal is on that core, too.  The publisher goes as fast as the gateway does.  A message is three rows
of the journal where it is acknowledged, and two where it is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import median

from benchmarks import scenarios
from benchmarks.loop import Sample
from benchmarks.machine import prepare
from benchmarks.pipeline.measured import Figure
from benchmarks.server import gateway

_ROUNDS = 5
_SECONDS = 2.0
_SCENARIOS = {
    "queue": partial(scenarios.deliver, kind="queue", window=2_000),
    "queue, ACK each": partial(scenarios.deliver, kind="queue", window=2_000, acknowledges=True),
}
_JOURNAL = 'journal = "journal"\n'


def figures(scale: float) -> Iterator[Figure]:
    """The figures of this part."""
    prepare()
    rounds, seconds = max(1, round(_ROUNDS * scale)), max(0.3, _SECONDS * scale)
    for title, scenario in _SCENARIOS.items():
        found: dict[str, list[Sample]] = {"": [], _JOURNAL: []}
        for _ in range(rounds):
            for settings, samples in found.items():
                with gateway(settings) as server:
                    samples.append(scenario(server, server.transports["tcp"], seconds))
        off, on = [_median(samples) for samples in found.values()]
        for state, (cost, rate, load) in (("off", off), ("on", on)):
            note = f"{rate:,.0f} messages/s, its core {load:.0%} busy"
            yield Figure(f"gateway, {title}, journal {state}", cost, "us", note=note)
        yield Figure(f"gateway, {title}, throughput on/off", 100 * on[1] / off[1], "%", 90)


def _median(samples: list[Sample]) -> tuple[float, float, float]:
    """Microseconds of the server's CPU per message, messages per second, and how much of its core it used."""
    fields = ("cost", "rate", "load")
    cost, rate, load = [median([getattr(sample, field) or 0.0 for sample in samples]) for field in fields]
    return cost, rate, load
