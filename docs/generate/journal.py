"""The reference page of the journal, in Markdown.

    python -m docs.generate.journal > docs/journal.md

The tables come from `schema`; a test compares the committed page with it.
"""

from __future__ import annotations

import sys

from gateway.journal.schema import COLUMNS, EVENTS, MESSAGE, OF_EVERY_ROW, PARTITIONS, SESSION, SUBSCRIPTION

HEAD = """\
# Journal

Written by `make docs` from `docs/generate/journal.py` and `schema.py`.

With the setting `journal = "journal"` the gateway records [events](#the-rows), and every ten seconds the consumers with
unacknowledged messages and the queues with waiting messages. [`gateway archive`](archive.md) converts the journal to
Parquet, and [`gateway pipeline`](pipeline.md) makes tables and a report of that. The journal is off by default, and
then costs nothing. It has [further settings](settings.md#journal-and-pipeline).

    journal/gateway/1795271857627686-000001.open     is being written
    journal/gateway/1795271857627686-000001.seg      is complete: 64 MiB, or ten seconds old

Only the archive deletes segments. Without it the folder grows: some 300 bytes for a message of 100 bytes that is
delivered and acknowledged.

## Promises

* **Writing.** A thread writes the rows of 50 ms at once; the gateway waits for no disk. Written rows survive the end of
  the process; `journal_sync` decides what survives a power cut.
* **Damage.** The next start cuts off the torn end that a crash left. Readers leave out damaged records. The log has the
  number of bytes.
* **Access.** Only the gateway's user can read folder and files (modes 0700 and 0600). The folder around them, which
  several gateways may share, follows the umask.
* **A slow or full disk.** Rows wait in memory, up to `journal_queue`. Beyond it they are dropped, and a row
  `journal_dropped` says how many, or publishers are held back (`journal_when_full`). The log, `journal` in `/readyz`
  and `gateway_journal_failed` say so.
* **Content.** The journal has all headers of a SEND except `passcode`, and bodies, unless `journal_bodies` keeps less,
  also as a key of a [policy](policies.md).
* **Missing rows.** Refused messages and those of uncommitted transactions have no row. A dead letter is `dead_lettered`
  at its old destination, and not `accepted` at the new one. A copy for a browser is `delivered`.

## The rows

A row is unique by `gateway`, `epoch` and `seq`. `ts` follows the wall clock from segment to segment. Changes of the
clock do not affect times between two events. Version 1 only grows: no column or event is removed or changes its
meaning.

"""


def page() -> str:
    """The whole page."""
    return HEAD + tables()


def tables() -> str:
    """Both lists: the columns, then the events."""
    lines = [f"* `{each.name}` (`{each.type}`): {each.meaning}" for each in (*COLUMNS, *PARTITIONS)]
    lines += ["", f"Behind an event stand its columns, beside {_listed(OF_EVERY_ROW)}, which all have. *Session*"]
    lines += [f"is {_listed(SESSION)}; *subscription* that and {_listed(SUBSCRIPTION[len(SESSION) :])};"]
    lines += [f"*message* {_listed(MESSAGE)}.", ""]
    lines += [f"* `{each.name}`: {each.meaning}. {_columns(each.columns)}" for each in EVENTS]
    return "\n".join([*lines, ""])


def _columns(names: tuple[str, ...]) -> str:
    """Columns of an event, those of its session, subscription or message as one."""
    for word, group in (("*subscription*", SUBSCRIPTION), ("*session*", SESSION), ("*message*", MESSAGE)):
        if names[: len(group)] == group:
            return ", ".join([word, *([_listed(names[len(group) :])] if names != group else [])])
    return _listed(names)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join([f"`{name}`" for name in names])


if __name__ == "__main__":
    sys.stdout.write(page())
