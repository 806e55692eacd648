"""The headers that the gateway knows: one table, which the broker reads by and the documentation is made from.

Other brokers have other names and units for the same thing, and clients that were written for them come here unedited.
So each header has one canonical name and its aliases, each with the unit that its broker gives it; behind this package
and `reading` nobody knows how a header is spelt.

Every row has a fate, and none of them is silence:

    honoured         the gateway does what it says
    passed on        the gateway has no business with it; subscribers get it as it is
    refused          the gateway knows what it asks, and cannot do that: an ERROR says so
    without effect   it asks for something that makes no difference here, and the row says why

A header that is not in the table is the user's own: that of a SEND is passed on, others mean nothing.  Letter case
counts, except that 1.0 reads the standard headers of STOMP in any (see the codec).  Only a SUBSCRIBE has no headers of
its user's own: there a near miss (`slips`) has no effect either, and the log says so.

What it does not know: what the destinations make of all this.  And the known weakness: a user's own header that happens
to be called like one of these is taken for it.
"""

from __future__ import annotations

from .others import CONNECT, OTHERS
from .row import HeaderEntry, HeaderRow, index, near_misses, squashed
from .send import ARGUMENTS, SEND
from .subscribe import MODES, SUBSCRIBE

TABLE: tuple[HeaderRow, ...] = (*CONNECT, *SEND, *SUBSCRIBE, *ARGUMENTS, *OTHERS)

COMMANDS = (
    "CONNECT",
    "STOMP",
    "SEND",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "ACK",
    "NACK",
    "BEGIN",
    "COMMIT",
    "ABORT",
    "DISCONNECT",
)

INDEX = {command: index(TABLE, command) for command in COMMANDS}
"""Command -> every name that it may have -> its place in the table."""


_NEAR_MISSES = near_misses(INDEX["SUBSCRIBE"])


def near_miss(name: str) -> HeaderEntry | None:
    """The header that a SUBSCRIBE surely meant by a name that is not in the table; None: it is the user's own."""
    return _NEAR_MISSES.get(squashed(name))


def ack_mode(value: str) -> str:
    """What the `ack` of a SUBSCRIBE stands for: a word of another broker is ours; any other value is itself."""
    return MODES.aliases.get(value, (value, ""))[0]
