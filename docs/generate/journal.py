"""The reference page of the journal, in Markdown.

    python -m docs.generate.journal > docs/journal.md

The tables come from `schema`; a test compares the committed page with it.
"""

from __future__ import annotations

import sys

from gateway.journal import schema

HEAD = """\
# Journal

Written by `make docs` from `docs/generate/journal.py` and `schema.py`; change it there.

With the setting `journal = "journal"` the gateway records its events: each message that it takes, each delivery, ACK
and NACK with the time it took, what expires, dies or is dropped, sessions, subscriptions, transactions, errors, and
every ten seconds the subscriptions with unacknowledged messages and the destinations with waiting ones. [`gateway
archive`](archive.md) makes Parquet of it, and [`gateway pipeline`](pipeline.md) makes tables and a report of that. Off,
which is the default, it costs nothing.

    journal/gateway/1795271857627686-000001.open     is being written
    journal/gateway/1795271857627686-000001.seg      is complete: 64 MiB, or ten seconds old

Only the archive deletes segments, after it has stored their rows. Without it the folder grows: some 300 bytes
for a message of 100 bytes that is delivered and acknowledged.

## What it promises

* The rows of 50 ms are written at once, by a thread of their own; the gateway waits for no disk. Written rows survive
  the end of the process; `journal_sync` decides about a power cut.
* The next start completes the file that a crash left: a torn end is cut off. A record that is damaged, further in
  front, is lost alone: it stays in the file, and readers leave it out. The log has the number of bytes of both.
* Folder and files are for the gateway's user alone (modes 0700 and 0600), whatever the umask. The folder around them,
  which several gateways may share, is made as the umask says.
* Where the disk does not keep up, or is full, rows wait in memory, up to `journal_queue`. Beyond it they are dropped,
  and a row `journal_dropped` says how many (`journal_when_full = "drop"`), or publishers are held back before it comes
  to that (`"block"`; they are not held for a disk that takes nothing at all). The gateway serves its clients all the
  same: the log says so, `/readyz` has the reason under `journal`, and `gateway_journal_failed` is 1.
* `passcode` is in no row. Bodies are, unless `journal_bodies` says less, for all or, in a [policy](policies.md), for
  some destinations. All other headers of a SEND are in the journal, too: readers of the journal can read them.
* A message that was refused has no row, nor has one of a transaction that was not committed. A dead letter is
  `dead_lettered` where it was, and is not `accepted` where it goes. A copy for a browser is `delivered`.

| setting | meaning |
|---|---|
| [`journal`, `journal_id`](settings.md) | the folder, and this gateway's own name in it |
| `journal_sync`, `journal_queue`, `journal_when_full` | synchronization, and a disk that is slow or full |
| `journal_bodies` | bytes kept of each body; also a key of policies |
| `journal_gauges` | interval of the gauges |

## The rows

A row is unique by `gateway`, `epoch` and `seq`. `ts` follows the wall clock from segment to segment, and never goes
back: a clock that was ahead, and is put right, is ahead in the journal until the gateway starts again. Times between
two events are measured by the gateway, in microseconds, and hold also where clocks are changed. Version 1 only grows:
columns and events may come, none goes or changes its meaning.

"""


def page() -> str:
    """The whole page."""
    return HEAD + schema.documentation()


if __name__ == "__main__":
    sys.stdout.write(page())
