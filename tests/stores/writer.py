"""The process that test_sqlite_crash kills: writes batches for ever, and prints the number of each that is stored.

    python -m tests.stores.writer PATH

Batch n is four messages, 4n to 4n + 3, and takes out those of batch n - 5.  Each batch is told by a line on stdout, and
so is each start, by the number of the batch that the store holds.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.stores.batches import new, opened, rows_of

EACH = 4
KEPT = 5


def rows_after(number: int) -> list[int]:
    return list(range(EACH * max(1, number - KEPT + 1), EACH * (number + 1)))


def last_of(rows: list[int]) -> int:
    """The batch after which a store holds those; 0: none was written."""
    return rows[-1] // EACH if rows else 0


def main() -> None:
    store = opened(Path(sys.argv[1]))
    number = last_of(rows_of(store))
    while True:
        print(number, flush=True)
        number += 1
        batch = new(range(EACH * number, EACH * (number + 1)), size=3000)
        if number > KEPT:
            batch.gone = list(range(EACH * (number - KEPT), EACH * (number - KEPT + 1)))
        store.write(batch)
        store.tidy()


if __name__ == "__main__":
    main()
