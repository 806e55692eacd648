"""Counters of the broker: plain integers, raised in passing and read by the metrics collector.

Nothing here costs more than an addition; a figure that needs a clock is made elsewhere.  Failures are counted by their
causes: the causes are words of ours, few, and there from the start.
"""

from __future__ import annotations

from typing import Literal, get_args

from gateway.codec import ProtocolError

from ..errors import AccessRefused

Drop = Literal["queue-full", "rejected", "max-attempts", "expired", "max-retained", "queue-gone", "purged", "deleted"]
"""Why a message was thrown away: a limit; a NACK, its last attempt or its time, where nothing takes dead letters; too
many retained ones; it went with its queue; an operator purged the queue, or deleted it alone."""
ERRORS = (
    "malformed",
    "too-large",
    "not-allowed",
    "access-refused",
    "access-lost",
    "login-refused",
    "renewal-refused",
    "no-common-version",
    "too-many",
    "connect-timeout",
    "no-heart-beat",
    "slow-consumer",
    "memory-full",
    "ended",
    "internal",
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


class Counters:
    """Totals since the start.

    Attributes:
        connections: transport connections accepted.
        sessions: sessions that reached CONNECTED.
        refusals: connections that ended before CONNECTED, by `ERRORS` and `EARLY`.
        failed_logins: credentials that were refused, or refused unheard, at CONNECT, at a renewal, or for a ticket, by
            `METHODS`.
        forbidden: actions that rules refused, by `ACTIONS`.
        frames_in: frames of clients.
        bytes_in: bytes received, as STOMP.
        bytes_out: bytes handed to sockets, as STOMP.
        published: messages accepted from SEND (at COMMIT inside a transaction).
        delivered: messages put into outboxes.
        redelivered: those of them that were a further delivery.
        unroutable: messages to a topic without subscribers.
        acknowledged: messages settled by ACK.
        rejected: messages settled by NACK.
        dead_lettered: messages that went to a dead-letter queue.
        moved: messages that an operator moved to another destination, or back to where they had come from.
        expired: messages that reached the end of their time before they were consumed.
        drops: messages thrown away, by `Drop`.
        conflated: messages that a newer one of their key replaced.
        duplicates: messages with a dedup-id that was known.
        failures: ERROR frames, by `ERRORS`.
        heartbeat_timeouts: sessions ended because the client was silent.
        slow_consumers: sessions ended because the client did not read.
        misspelt_headers: headers of SUBSCRIBE that are not known and look like one that is.
        held_publishers: times a connection was not read because a receiver or the memory was over its mark.
    """

    __slots__ = (
        *("acknowledged", "bytes_in", "bytes_out", "conflated", "connections", "dead_lettered", "delivered"),
        *("drops", "duplicates", "expired", "failed_logins", "failures", "forbidden", "frames_in"),
        *("heartbeat_timeouts", "held_publishers", "misspelt_headers", "moved", "published", "redelivered"),
        *("refusals", "rejected", "sessions", "slow_consumers", "unroutable"),
    )

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)
        self.drops: dict[Drop, int] = dict.fromkeys(get_args(Drop), 0)
        self.failed_logins = dict.fromkeys(METHODS, 0)
        self.failures = dict.fromkeys(ERRORS, 0)
        self.forbidden = dict.fromkeys(ACTIONS, 0)
        self.refusals = dict.fromkeys((*ERRORS, *EARLY), 0)

    acknowledged: int
    conflated: int
    connections: int
    dead_lettered: int
    delivered: int
    duplicates: int
    expired: int
    frames_in: int
    heartbeat_timeouts: int
    held_publishers: int
    misspelt_headers: int
    moved: int
    bytes_in: int
    bytes_out: int
    published: int
    redelivered: int
    rejected: int
    sessions: int
    slow_consumers: int
    unroutable: int

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

    @property
    def dropped(self) -> int:
        """Messages thrown away, for all reasons."""
        return sum(self.drops.values())

    @property
    def errors(self) -> int:
        """ERROR frames."""
        return sum(self.failures.values())

    @property
    def logins_failed(self) -> int:
        """Credentials that were refused."""
        return sum(self.failed_logins.values())

    @property
    def refused(self) -> int:
        """Connections that ended before CONNECTED."""
        return sum(self.refusals.values())

    def totals(self) -> dict[str, int]:
        """Everything by its name, without causes."""
        found: dict[str, int] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            found[_TOTALS.get(name, name)] = sum(value.values()) if isinstance(value, dict) else value
        return found


# What the sum of each count by cause is called.
_TOTALS = {"drops": "dropped", "failures": "errors", "failed_logins": "logins_failed", "refusals": "refused"}
