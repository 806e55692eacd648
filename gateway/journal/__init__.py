"""The journal: what happens in the broker, row by row, in files that other programs read.

It uses the standard library alone.  `schema` says what the rows are, `broker.core.ports.Recorder` how the broker
tells of them; `Journal` writes them, `Segment` reads them.
"""

from .reader import Segment
from .record import RecordError, Row
from .rows import ALL, NONE
from .segments import JournalError, Mended, Sync, found
from .writer import Journal

__all__ = ["ALL", "NONE", "Journal", "JournalError", "Mended", "RecordError", "Row", "Segment", "Sync", "found"]
