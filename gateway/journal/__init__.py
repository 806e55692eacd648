"""Journal: the events of the broker, row by row, in files that other programs read.  Standard library only.

`schema` has the rows, `broker.core.ports.Recorder` the interface of the broker; `Journal` writes the files, and
`gateway.archive.segments` reads them.
"""

from .record import RecordError
from .rows import ALL, NONE
from .segments import JournalError, Mended, Sync, check, found
from .writer import Journal

__all__ = ["ALL", "NONE", "Journal", "JournalError", "Mended", "RecordError", "Sync", "check", "found"]
