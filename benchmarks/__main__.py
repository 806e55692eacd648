"""`python -m benchmarks`: run the rows that were asked for, round by round, and print the table.

Rounds are interleaved: a slow minute of the machine then spoils one sample of many rows and not all of one.  Each row
of each round gets a gateway of its own, so that none inherits the heap or the caches of another.

Exit status: 0; 1 when the server failed or a delivery was wrong; with `--strict` also 1 when a row is over its budget.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from benchmarks.catalogue import BOTH, SCENARIOS, Scenario
from benchmarks.machine import IN_MEMORY, Bare, disk_folder, file_system, prepare
from benchmarks.report import Row, markdown, number, table, write_json
from benchmarks.server import Server, ServerError
from benchmarks.wire import DeliveryError, Transport


def main() -> int:
    options = _options()
    runs = [
        [Row(scenario, transport, part) for part in ("", *scenario.parts)] for scenario, transport in _runs(options)
    ]
    where = prepare()
    bare = Bare.measured(options.disk if any(rows[0].scenario.has_store for rows in runs) else None)
    print(f"{where}; {options.rounds} x {options.seconds:g} s; {bare}", file=sys.stderr)
    for turn in range(options.rounds):
        for rows in runs:
            if not rows[0].failure and turn < (rows[0].scenario.rounds or options.rounds):
                _round(rows, turn, options)
    every = [row for rows in runs for row in rows]
    print(markdown(every) if options.markdown else table(every, bare, options.verbose))
    if options.json:
        write_json(options.json, every, bare, where)
    bad = {"FAILED", "OVER", "UNDER"} if options.strict else {"FAILED"}
    return int(any(row.verdict in bad for row in every))


def _round(rows: list[Row], turn: int, options: argparse.Namespace) -> None:
    """Run one scenario once; the first row is its own, the others are those of its parts."""
    scenario, transport = rows[0].scenario, rows[0].transport
    label = f"[{turn + 1}/{options.rounds}]"
    try:
        with _server(options, scenario) as server:
            sample = scenario.sample(server, server.transports[transport], options.seconds, options.scale)
    except (DeliveryError, ServerError, OSError) as error:
        for row in rows:
            row.failure = f"{type(error).__name__}: {error}"
        print(f"{label} {scenario.name} {transport}: {rows[0].failure}", file=sys.stderr, flush=True)
        return
    for row in rows:
        row.samples.append(sample.beside[row.part] if row.part else sample)
        print(f"{label} {row.name} {transport}: {_told(row)}", file=sys.stderr, flush=True)


def _told(row: Row) -> str:
    sample = row.samples[-1]
    own = "" if sample.load is None else f", generator {number(sample.generator)} us, server {sample.load:.0%} busy"
    cost = sample.missing or f"{number(sample.cost)} {row.unit}"
    return f"{cost}{own}" + (f", {sample.note}" if sample.note else "")


def _server(options: argparse.Namespace, scenario: Scenario) -> AbstractContextManager[Server]:
    """The gateway, started anew; or the broker that runs already at `--address`.

    Raises:
        ServerError: it needs a disk, and there is none.
    """
    if options.address is None:
        if scenario.has_store and file_system(options.disk) in IN_MEMORY:
            raise ServerError(f"{options.disk} is in memory: name a folder on a disk by --disk")
        return scenario.start(options.disk, options.scale)
    host, _, port = options.address.rpartition(":")
    login = tuple(options.login.split(":", 1)) if options.login else None
    path = "/ws" if options.transport == "ws" else ""
    return nullcontext(Server(options.pid, {options.transport: Transport(host, int(port), path, login)}))


def _runs(options: argparse.Namespace) -> Iterator[tuple[Scenario, str]]:
    wanted = BOTH if options.transport == "both" else (options.transport,)
    for scenario in _scenarios(options):
        # Another broker is not set up by our settings.
        if not (options.address and scenario.settings):
            for transport in wanted:
                if transport in scenario.transports:
                    yield scenario, transport


def _scenarios(options: argparse.Namespace) -> Iterator[Scenario]:
    for scenario in SCENARIOS:
        if options.scenario and scenario.name not in options.scenario:
            continue
        yield scenario
        if options.cluster and (clustered := scenario.in_cluster()) is not None:
            yield clustered
        for edges in options.edges:
            if (divided := scenario.with_edges(edges)) is not None:
                yield divided


def _options() -> argparse.Namespace:
    listing = "\n".join(f"  {each.name:10} {each.title}" for each in SCENARIOS)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Server CPU per operation of the gateway, with every delivery checked.",
        epilog=f"scenarios:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [each.name for each in SCENARIOS]
    parser.add_argument("scenario", nargs="*", help="names of scenarios; all when none is given")
    parser.add_argument("--seconds", type=float, default=1.5, help="measured part of a round, after 0.5 s of warm-up")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, interleaved; the table shows medians")
    parser.add_argument("--scale", type=float, default=1.0, help="below 1: fewer of what there are many, to see it run")
    parser.add_argument(
        "--disk", type=Path, metavar="FOLDER", default=disk_folder(), help="on a disk, for stores; default %(default)s"
    )
    parser.add_argument(
        "--cluster", action="store_true", help="beside each row of a store the same for the primary of a cluster"
    )
    parser.add_argument(
        "--edges",
        type=lambda text: [int(each) for each in text.split(",")],
        default=[],
        metavar="N,N",
        help="beside each row the same with so many edges; the CPU of the primary and of the edges apart",
    )
    parser.add_argument("--transport", choices=("tcp", "ws", "both"), default="both")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured to this file")
    parser.add_argument("--verbose", action="store_true", help="below each row its spread and the generator's own CPU")
    parser.add_argument("--markdown", action="store_true", help="tables in Markdown")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a row is over its budget")
    parser.add_argument("--address", metavar="HOST:PORT", help="measure the broker that listens here, with --pid")
    parser.add_argument("--pid", type=int, help="root of that broker's process tree; pin it to core 0 yourself")
    parser.add_argument("--login", metavar="LOGIN:PASSCODE", help="credentials for that broker")
    options = parser.parse_args()
    unknown = sorted(set(options.scenario) - set(names))
    if unknown:
        parser.error(f"no scenario {', '.join(unknown)}; there are {', '.join(names)}")
    if options.address and (options.pid is None or options.transport == "both"):
        parser.error("--address needs --pid, and --transport tcp or ws")
    return options


if __name__ == "__main__":
    sys.exit(main())
