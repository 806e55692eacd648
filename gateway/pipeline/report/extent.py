"""Where a report begins and ends if nobody says so: with the rows that there are.

Half a minute of traffic is a line in a chart of a day, and nobody sees anything in it.  The files of the archive say
from when to when their rows are, so no row is read for this.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from gateway.archive import history

from .. import corrupt_files
from . import times

_SECOND, _MINUTE = timedelta(seconds=1), timedelta(minutes=1)
# Up to here a report has steps of less than a minute.
_SHORT = timedelta(minutes=45)


def fitted(archive: Path, since: datetime, until: datetime) -> tuple[datetime, datetime]:
    """The part of a span that has rows, to the minute, or the second where it is short; all of it where none has.

    Raises:
        OSError: the archive cannot be read.
        ArchiveError: likewise.
        JobFailure: a file is damaged.
    """
    import pyarrow.parquet as pq

    first, last = until, since
    for path in history.files(archive, since, until):
        with corrupt_files.named(path, corrupt_files.of_archive(path)):
            metadata = pq.read_metadata(path)
        place = metadata.schema.names.index("ts")
        for number in range(metadata.num_row_groups):
            known = metadata.row_group(number).column(place).statistics
            if known is None or not known.has_min_max:
                return since, until
            first, last = min(first, known.min.astimezone(UTC)), max(last, known.max.astimezone(UTC))
    first, last = max(first, since), min(last, until)
    if first > last:
        return since, until
    to = _SECOND if last - first < _SHORT else _MINUTE
    return max(times.floor(first, to), since), min(times.floor(last, to) + to, until)
