"""Audit log: one line for each change, and for each change that was refused.

    logger gateway.audit, event "admin"
        action    a word or two that name the endpoint
        target    a session, a destination, or `source -> target`
        user      of the client; empty: it was refused before its user was known
        via       token, cookie or local; at a login, what the client showed
        peer      address of the client, behind trusted proxies
        outcome   done, refused (then `reason` says why), or failed (then `reason` does, or the log has a traceback)

and what the change did, like `purged=5`.  The log has nothing of the content of messages, and no secret.

Changes of clients that are logged in are always written.  Of clients without a login, a few refusals of each address
are written in a minute, and at its end the number of the others: they would fill the disk, and hide what operators did.
An IPv6 network of 64 bits counts as one address; addresses beyond `MAX_ADDRESSES` share one minute.  Known weakness: of
the minute in which the gateway stops, the number is not written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog
from starlette.requests import Request

from gateway.broker.core.scheduler import Scheduler
from gateway.net import network_of

log = structlog.get_logger("gateway.audit")

DONE, REFUSED, FAILED = "done", "refused", "failed"

MAX_LINES = 5  # lines of an address in a minute: enough to see the client, and what it tries
MAX_ADDRESSES = 100  # addresses that have a minute of their own, at some 500 bytes each
MINUTE = 60.0  # seconds

# Characters of a target or a user: a client may give a name as long as a header line.
_MAX_NAME = 200
_OTHERS = "all others"


class AuditEntry:
    """One line, written when all its fields are known; an empty `action` has no line."""

    def __init__(
        self, request: Request, action: str, address_of: Callable[[Request], str], refusals: RefusalLimiter
    ) -> None:
        self._request = request
        self._action = action
        self._address_of = address_of
        self._refusals = refusals
        self._target = " ".join(str(value) for value in request.path_params.values())
        self._user = ""
        self._via = ""
        self._facts: dict[str, object] = {}
        self._is_let_in = False

    def let_in(self, user: str, via: str) -> None:
        """The client may use the API: its line is always written."""
        self._user, self._via = user, via
        self._is_let_in = True

    def login(self, user: str, via: str) -> None:
        """The client logs in: as that user, as far as that is known yet."""
        self._user, self._via = user, via

    def target(self, name: str) -> None:
        self._target = name

    def facts(self, **facts: object) -> None:
        self._facts |= facts

    def write(self, outcome: str, reason: str = "") -> None:
        """Write the line, unless it is one of too many about refused clients."""
        if not self._action:
            return
        peer = self._address_of(self._request)
        if outcome != DONE and not self._is_let_in and not self._refusals.admit(peer):
            return
        say = log.info if outcome == DONE else log.warning
        if reason:
            self._facts["reason"] = reason
        say(
            "admin",
            action=self._action,
            target=self._target[:_MAX_NAME],
            user=self._user[:_MAX_NAME],
            via=self._via,
            peer=peer,
            outcome=outcome,
            **self._facts,
        )


class RefusalLimiter:
    """Bounds the lines about refused clients, for each address."""

    def __init__(self, scheduler: Scheduler, max_addresses: int = MAX_ADDRESSES) -> None:
        self._scheduler = scheduler
        self._max_addresses = max_addresses
        self._refused: dict[str, int] = {}

    def admit(self, address: str) -> bool:
        """Count one more refusal of that address; True if it has a line."""
        key = network_of(address)
        if key not in self._refused and len(self._refused) >= self._max_addresses:
            key = _OTHERS
        if key not in self._refused:
            self._scheduler.at(self._scheduler.clock() + MINUTE, partial(self._end, key))
        count = self._refused[key] = self._refused.get(key, 0) + 1
        return count <= MAX_LINES

    def _end(self, key: str) -> None:
        left_out = self._refused.pop(key) - MAX_LINES
        if left_out > 0:
            log.warning(
                "more of this address was refused than is told one by one",
                address=key,
                count=left_out,
                seconds=round(MINUTE),
            )
