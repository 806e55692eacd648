"""What a user may do, as far as the broker has to know it.

The rules themselves are elsewhere (`gateway/auth/rules`).  The broker asks by canonical names, and only about what a
client wants: what the broker does of itself, like a dead letter, needs nobody's leave.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol


class Action(Enum):
    """What rules speak of."""

    SEND = "send"
    SUBSCRIBE = "subscribe"
    ADMIN = "admin"


class Coverage(Enum):
    """How much of what a pattern matches somebody may subscribe to."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


class Access(Protocol):
    """What one session may do.  All whom the rules cannot tell apart share what was found out of it.

    Attributes:
        sendable: destinations, as clients write them, that a plain SEND may go to; the broker adds what it has asked
            about, so that the next frame costs one look-up.  Whoever changes the rules empties it.
        answerable: likewise, what the `reply-to` of a SEND may be.
    """

    sendable: set[str]
    answerable: set[str]

    def may(self, action: Action, name: str) -> bool:
        """Whether that is allowed at the destination of that canonical name."""
        ...

    def reach(self, pattern: str) -> Coverage:
        """How much of what a canonical pattern matches may be subscribed to; SOME where that cannot be told."""
        ...

    def options(self) -> list[str]:
        """What `gateway acl explain` must be told beside the user's name to give the same answers: its options."""
        ...

    def reason(self, action: Action, name: str) -> str:
        """Which rule decides that, of a pattern which ones; for the operator."""
        ...
