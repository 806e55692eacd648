"""Counters of the broker: plain integers, raised in passing and read by the metrics collector.

Nothing here costs more than an addition; a figure that needs a clock is made elsewhere.  Failures are counted by their
causes: the causes are words of ours, few, and there from the start.
"""

from dataclasses import dataclass, field, fields
from typing import Literal, get_args

from gateway.codec import ProtocolError

from ..errors import AccessRefused

Drop = Literal["queue-full", "rejected", "max-attempts", "expired", "max-retained", "queue-gone", "purged", "deleted"]
"""Why a message was thrown away: a limit; a NACK, its last attempt or its time, where nothing takes dead letters; too
many retained ones; it went with its queue; an operator purged the queue, or deleted it alone."""
LOSSES: tuple[Drop, ...] = ("queue-full", "rejected", "max-attempts", "expired")
"""The drops that count as losses of a destination."""
ERRORS = tuple(
    "malformed too-large not-allowed access-refused access-lost login-refused renewal-refused no-common-version "
    "too-many connect-timeout no-heart-beat slow-consumer memory-full ended internal".split()
)
"""The `cause` of each `ProtocolError`."""
EARLY = ("draining", "handshake")
"""Why a connection ended before STOMP began, where it was none of these: the server shuts down; or no PROXY header, no
TLS or no WebSocket was to be had of the client."""
METHODS = ("passcode", "token", "ticket", "cookie", "certificate", "custom", "none", "admin", "other")
"""The kind of credentials that were refused; `admin`: the token of the admin API; `other`: the kind is not known, or
the credentials were not looked at, because their address had failed too often."""
ACTIONS = ("send", "subscribe", "admin")
"""The actions that rules refuse."""


@dataclass(slots=True, eq=False)
class Counters:
    """Totals since the start."""

    connections: int = 0  # transport connections accepted
    sessions: int = 0  # sessions that reached CONNECTED
    # connections that ended before CONNECTED, by `ERRORS` and `EARLY`
    refusals: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*ERRORS, *EARLY), 0))
    # credentials that were refused, or refused unheard, at CONNECT, at a renewal, or for a ticket, by `METHODS`
    failed_logins: dict[str, int] = field(default_factory=lambda: dict.fromkeys(METHODS, 0))
    # actions that rules refused, by `ACTIONS`
    forbidden: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ACTIONS, 0))
    frames_in: int = 0  # frames of clients
    bytes_in: int = 0  # bytes received, as STOMP
    bytes_out: int = 0  # bytes handed to sockets, as STOMP
    published: int = 0  # messages accepted from SEND (at COMMIT inside a transaction)
    delivered: int = 0  # messages put into outboxes
    redelivered: int = 0  # those of them that were a further delivery
    unroutable: int = 0  # messages to a topic without subscribers
    acknowledged: int = 0  # messages settled by ACK
    rejected: int = 0  # messages settled by NACK
    dead_lettered: int = 0  # messages that went to a dead-letter queue
    moved: int = 0  # messages that an operator moved to another destination, or back to where they had come from
    expired: int = 0  # messages that reached the end of their time before they were consumed
    drops: dict[Drop, int] = field(default_factory=lambda: dict.fromkeys(get_args(Drop), 0))  # messages thrown away
    conflated: int = 0  # messages that a newer one of their key replaced
    duplicates: int = 0  # messages with a dedup-id that was known
    failures: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ERRORS, 0))  # ERROR frames
    heartbeat_timeouts: int = 0  # sessions ended because the client was silent
    slow_consumers: int = 0  # sessions ended because the client did not read
    misspelt_headers: int = 0  # headers of SUBSCRIBE that are not known and look like one that is
    held_publishers: int = 0  # times a connection was not read because a receiver or the memory was over its mark

    def fail(self, error: ProtocolError) -> None:
        """A session ends by an ERROR."""
        self.failures[error.cause] += 1
        if isinstance(error, AccessRefused) and error.action:
            self.forbidden[error.action] += 1

    def refuse(self, error: ProtocolError) -> None:
        """A connection that has no session ends by an ERROR."""
        self.failures[error.cause] += 1
        self.refusals[error.cause] += 1

    def fail_login(self, method: str) -> None:
        """Credentials of that kind were refused."""
        self.failed_logins[method if method in self.failed_logins else "other"] += 1

    def losses(self) -> dict[str, int]:
        """Messages that were lost, by the way; an expired one may have become a dead letter, too."""
        return {
            "dropped": sum([self.drops[why] for why in LOSSES]),
            "dead_lettered": self.dead_lettered,
            "expired": self.expired,
            "conflated": self.conflated,
        }

    def totals(self) -> dict[str, int]:
        """Everything by its name, without causes."""
        values = {_TOTALS.get(each.name, each.name): getattr(self, each.name) for each in fields(self)}
        return {name: sum(value.values()) if isinstance(value, dict) else value for name, value in values.items()}


# What the sum of each count by cause is called.
_TOTALS = {"drops": "dropped", "failures": "errors", "failed_logins": "logins_failed", "refusals": "refused"}
