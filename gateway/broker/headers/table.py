"""Table of headers: frames are read by it, and docs/headers.md is made from it.

Other brokers have other names and units for the same options, and their clients must work here unedited.  So each
header has one canonical name and aliases, each alias with the unit of its broker.

Each row has a `Treatment`; no header of the table is ignored in silence.

A header outside of the table is the user's own: subscribers get that of a SEND, other frames ignore it.  Letter case
counts, except that 1.0 reads STOMP's standard headers in any case (see the codec).  A SUBSCRIBE has no use for a
user's own headers.

Known weakness: a user's own header with a name of the table is read as that header.
"""

from .others import CONNECT, OTHERS
from .row import HeaderEntry, HeaderRow, index, near_misses, squashed
from .send import ARGUMENTS, SEND
from .subscribe import MODES, SUBSCRIBE

TABLE: tuple[HeaderRow, ...] = (*CONNECT, *SEND, *SUBSCRIBE, *ARGUMENTS, *OTHERS)

COMMANDS = tuple("CONNECT STOMP SEND SUBSCRIBE UNSUBSCRIBE ACK NACK BEGIN COMMIT ABORT DISCONNECT".split())

INDEX = {command: index(TABLE, command) for command in COMMANDS}
"""Command -> name of a header -> its entry."""

# A SUBSCRIBE has no use for a user's own headers, so a near miss there is a slip, and gets a line in the log.
_NEAR_MISSES = near_misses(INDEX["SUBSCRIBE"])


def near_miss(name: str) -> HeaderEntry | None:
    """Header of SUBSCRIBE that an unknown name resembles; None: the name is the user's own."""
    return _NEAR_MISSES.get(squashed(name))


def ack_mode(value: str) -> str:
    """Ack mode of a value: words of other brokers are translated, all others returned unchanged."""
    return MODES.aliases.get(value, (value, ""))[0]
