"""The audit log: one line for every change that somebody made, or was refused.

    logger gateway.audit, event "admin"
        action    what it was, a word or two of the endpoint's
        target    what it was done to: a session, a destination, or `source -> target`
        user      who; empty: nobody knows, because it was refused before
        via       token, cookie or local; at a login, what was shown
        peer      the client's address, behind trusted proxies
        outcome   done, refused (then `reason` says why), or failed (then `reason` does, or the log has a traceback)

and what came of it, like `purged=5`.  Nothing that was sent in a message stands here, nor anything that was shown.

Whoever is let in has a line for each change.  Of those who are not, only so many are told (`strangers`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from starlette.requests import Request

if TYPE_CHECKING:
    from gateway.admin.access import Guard, Visitor
    from gateway.admin.endpoint import Endpoint

log = structlog.get_logger("gateway.audit")

DONE, REFUSED, FAILED = "done", "refused", "failed"

# Of what somebody wrote himself: names may be as long as a header line.
_LONGEST = 200


class Entry:
    """One line that is written when all is known."""

    def __init__(self, request: Request, endpoint: Endpoint, guard: Guard) -> None:
        self._request = request
        self._guard = guard
        self._action = endpoint.action
        self._target = " ".join(str(value) for value in request.path_params.values())
        self._user = ""
        self._via = ""
        self._facts: dict[str, object] = {}
        self._is_stranger = True

    def visitor(self, visitor: Visitor) -> None:
        """It is known who asks, and he is let in."""
        self._user, self._via = visitor.user, visitor.via
        self._is_stranger = False

    def login(self, user: str, via: str) -> None:
        """Somebody shows who he is."""
        self._user, self._via = user, via

    def target(self, name: str) -> None:
        """It is known what it is done to."""
        self._target = name

    def facts(self, **facts: object) -> None:
        """What came of it."""
        self._facts |= facts

    def write(self, outcome: str, reason: str = "") -> None:
        """Write the line, unless it is one of very many about strangers."""
        if not self._action:
            return
        peer = self._guard.peer_of(self._request)
        if outcome != DONE and self._is_stranger and not self._guard.strangers.may_tell(peer):
            return
        say = log.info if outcome == DONE else log.warning
        if reason:
            self._facts["reason"] = reason
        say(
            "admin",
            action=self._action,
            target=self._target[:_LONGEST],
            user=self._user[:_LONGEST],
            via=self._via,
            peer=peer,
            outcome=outcome,
            **self._facts,
        )


def entry_of(request: Request) -> Entry:
    """The line of the request at work."""
    found = request.state.audit
    assert isinstance(found, Entry)
    return found
