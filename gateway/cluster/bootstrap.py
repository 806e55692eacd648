"""Bootstrap: the store of a single gateway becomes the snapshot with which every node of a new cluster begins.

The log begins with two records that say nothing, and the first one is cut off.  So a node that does not see the
snapshot has a gap, and waits for it; with a log that is empty, it would begin without a message.
"""

from __future__ import annotations

import time
from pathlib import Path

from gateway.broker.core.ports import StoreError

from .log import Log, LogUnavailable, LogWriter
from .records import Kind, Record, pack_map, parse
from .replica import copy_store, place
from .snapshots import Snapshots

LENGTH = 2
"""Messages of the log, then."""


class HasMessages(StoreError):
    """The cluster has messages already."""


def bootstrap(log: Log, snapshots: Snapshots, path: Path, copy: Path) -> int:
    """Give a new cluster the messages of a store; returns how many there are.

    `copy`: a new file, for as long as it takes.  Raises HasMessages; LogUnavailable: it may be tried again; StoreError:
    the store cannot be used, and nothing is done.
    """
    bounds = log.bounds()
    if bounds.last > LENGTH or snapshots.all():
        raise HasMessages
    found = [parse(each.data) for each in log.read(1)]
    if len(found) != bounds.last - bounds.first + 1:
        raise LogUnavailable("the log of the cluster does not show its messages yet")
    if any(each.epoch for each in found):  # a primary wrote, and not an earlier attempt
        raise HasMessages
    count = copy_store(path, copy)
    marks, writer = [each.mark for each in found], LogWriter(log, bounds.last)
    while writer.last < LENGTH:
        record = Record(Kind.END, 0, 0, int(time.time() * 1e6), pack_map({}))
        writer.append(record)
        marks.append(record.mark)
    log.purge(LENGTH)
    place(copy, LENGTH, marks[-1])
    snapshots.put(copy, LENGTH, 0)
    return count
