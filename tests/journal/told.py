"""The process that test_writer kills: writes rows for ever, and prints how many there are in the files.

python -m tests.journal.told FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from gateway.journal import Journal


def main() -> None:
    journal = Journal(Path(sys.argv[1]), "g1", run="r", segment_bytes=200_000)
    journal.start()
    names = journal.names_of_session("tcp", "here", "me", "s")
    number = written = 0
    while True:
        number += 1
        body = b"x" * (50_000 if not number % 100 else number % 1000)
        journal.accepted(journal.clock(), names, "/queue/a", number, {"number": str(number)}, body)
        if journal.worker.rows != written:
            written = journal.worker.rows
            print(written, flush=True)


if __name__ == "__main__":
    main()
