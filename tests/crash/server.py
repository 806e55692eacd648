"""The process that is killed: `gateway serve`, after patches that the environment names.

CRASH_POINT=NAME:COUNT   die there, see `points`
CRASH_LIE=NAME           break a promise, see `points`, `edge_lies` and `cluster.lies`
CRASH_LOG_PAGES=N        pages of the write-ahead log after which SQLite makes a checkpoint
CRASH_SILENCE=SECONDS    of an edge, after which it counts as hung

It reads its standard input, and ends with it: a test that is killed leaves no gateway behind.
"""

from __future__ import annotations

import os
import sys
import threading
from functools import partial
from pathlib import Path

from gateway.broker import Broker
from gateway.broker.core.work_limits import WorkLimits
from gateway.cli.main import main
from gateway.edges import primary
from gateway.stores import file
from gateway.transports import server

from . import edge_lies, points

# It looks often at how far readers with a name have come: as usual, no life would see that.
_LIMITS = WorkLimits(offset_pause=0.05)


def run() -> None:
    server.Broker = partial(Broker, work_limits=_LIMITS)  # type: ignore[assignment,attr-defined]
    threading.Thread(target=_end_with_the_test, daemon=True).start()
    point = os.environ.get("CRASH_POINT")
    if point:
        name, _, count = point.partition(":")
        points.set_point(name, int(count), Path(os.environ["GATEWAY_STORE"].partition(":")[2]))
    lie = os.environ.get("CRASH_LIE")
    if lie:
        _tell(lie)
    pages = os.environ.get("CRASH_LOG_PAGES")
    if pages:
        file.LOG_PAGES = int(pages)
    silence = os.environ.get("CRASH_SILENCE")
    if silence:
        primary.LONGEST_SILENCE = float(silence)
    main(["serve"])


def _tell(lie: str) -> None:
    from .cluster import lies  # it imports the cluster, which a gateway alone does not

    next((each for each in (lies, edge_lies) if lie in each.LIES), points).tell(lie)


def _end_with_the_test() -> None:
    os.read(sys.stdin.fileno(), 1)
    points.die()


if __name__ == "__main__":
    run()
