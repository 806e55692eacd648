"""Access: the permissions of a session, by canonical names; the rules themselves are in `gateway/auth/rules`."""

from enum import Enum
from typing import Protocol


class Action(Enum):
    """Actions that rules allow or refuse."""

    SEND = "send"
    SUBSCRIBE = "subscribe"
    ADMIN = "admin"
    PRESENCE = "presence"


class Coverage(Enum):
    """Share of the destinations of a pattern to which a user may subscribe."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


class Access(Protocol):
    """Permissions of a session, by canonical names; what the broker does itself, like a dead letter, needs none."""

    # Sessions that the rules treat alike share one object.
    # destinations, as clients write them, that a plain SEND may go to.  The broker adds each allowed one, so that the
    # next frame costs one look-up; a change of the rules empties the set.
    sendable: set[str]
    answerable: set[str]  # the same cache for the `reply-to` of a SEND

    def may(self, action: Action, name: str) -> bool:
        """True if the action is allowed at the destination of that canonical name."""

    def reach(self, pattern: str) -> Coverage:
        """Share of the destinations of a canonical pattern that may be subscribed to; SOME if that is unknown."""

    def options(self) -> list[str]:
        """Options with which `gateway acl explain` gives the same answers for this user."""

    def reason(self, action: Action, name: str) -> str:
        """The rule, or the rules of a pattern, that decide; for the operator."""
