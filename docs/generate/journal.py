"""The reference page of the journal, in Markdown.

    python -m docs.generate.journal > docs/journal.md

The tables come from `schema`; a test compares the committed page with it.
"""

from __future__ import annotations

import sys

from gateway.journal.schema import COLUMNS, EVENTS, OF_EVERY_ROW, PARTITIONS

HEAD = """\
# Journal

Written by `make docs` from `docs/generate/journal.py` and `schema.py`; change it there.

With the setting `journal = "journal"` the gateway records events: each accepted message, each delivery, ACK and NACK
with its duration, expired, dead-lettered and dropped messages, sessions, subscriptions, transactions, errors, and every
ten seconds the consumers with unacknowledged messages and the queues with waiting messages.
[`gateway archive`](archive.md) converts the journal to Parquet, and [`gateway pipeline`](pipeline.md) makes tables and
a report of that. The journal is off by default, and then costs nothing.

    journal/gateway/1795271857627686-000001.open     is being written
    journal/gateway/1795271857627686-000001.seg      is complete: 64 MiB, or ten seconds old

Only the archive deletes segments, after it has written their content. Without it the folder grows: some 300 bytes for
a message of 100 bytes that is delivered and acknowledged.

## Promises

* **Writing.** A separate thread writes the rows of 50 ms at once; the gateway waits for no disk. Written rows survive
  the end of the process. `journal_sync` decides what survives a power cut.
* **Damage.** The next start completes the file that a crash left: it cuts off a torn end. A damaged record further in
  front stays in the file, and readers leave out this record only. The log has the number of bytes of both.
* **Access.** Only the gateway's user can read folder and files (modes 0700 and 0600), with any umask. The folder around
  them, which several gateways may share, has the mode that the umask gives.
* **A slow or full disk.** Rows wait in memory, up to `journal_queue`. Beyond it they are dropped, and a row
  `journal_dropped` says how many (`journal_when_full = "drop"`), or publishers are held back before that (`"block"`;
  not if the disk takes nothing at all). The gateway goes on serving its clients: the log reports the problem,
  `/readyz` has the reason under `journal`, and `gateway_journal_failed` is 1.
* **Content.** No row has a `passcode`. Rows have bodies, unless `journal_bodies` keeps less, for all or, in a
  [policy](policies.md), for some destinations. The journal has all other headers of a SEND, so its readers see them.
* **Missing rows.** A refused message has no row, and neither has a message of a transaction that was not committed. A
  dead letter is `dead_lettered` at its old destination, and is not `accepted` at the new one. A copy for a browser is
  `delivered`.

| setting | meaning |
|---|---|
| [`journal`, `journal_id`](settings.md) | the folder, and this gateway's own name in it |
| `journal_sync`, `journal_queue`, `journal_when_full` | safety, memory and behaviour with a slow or full disk |
| `journal_bodies` | how much of each body is kept; also a key of policies |
| `journal_gauges` | the interval of the rows about waiting and unacknowledged messages |

## The rows

A row is unique by `gateway`, `epoch` and `seq`. `ts` follows the wall clock from segment to segment, and never goes
back: if a clock was ahead and is corrected, the journal stays ahead until the gateway starts again. The gateway itself
measures the times between two events, in microseconds, so clock changes do not affect them. Version 1 only grows: new
columns and events may come, but none is removed or changes its meaning.

"""


def page() -> str:
    """The whole page."""
    return HEAD + tables()


def tables() -> str:
    """Both tables: the columns, then the events."""
    lines = ["| column | type | meaning |", "|---|---|---|"]
    lines += [f"| `{each.name}` | {each.type} | {each.meaning} |" for each in (*COLUMNS, *PARTITIONS)]
    lines += ["", "| event | when | columns beside " + _listed(OF_EVERY_ROW) + " |", "|---|---|---|"]
    lines += [f"| `{each.name}` | {each.meaning} | {_listed(each.columns)} |" for each in EVENTS]
    return "\n".join([*lines, ""])


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join([f"`{name}`" for name in names])


if __name__ == "__main__":
    sys.stdout.write(page())
