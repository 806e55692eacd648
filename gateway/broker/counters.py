"""What the broker counts: plain integers, raised in passing and read by the metrics collector.

Nothing here costs more than an addition; whatever needs a clock or a label is somebody else's.
"""

from __future__ import annotations


class Counters:
    """Totals since the start.

    Attributes:
        connections: transport connections accepted.
        sessions: sessions that reached CONNECTED.
        refused: connections that ended before CONNECTED with an ERROR or at the connect timeout.
        logins_failed: credentials that were refused, or refused unheard, at CONNECT, at a renewal, or for a ticket.
        frames_in: frames of clients.
        octets_in: octets received, as STOMP.
        octets_out: octets handed to sockets, as STOMP.
        published: messages accepted from SEND (at COMMIT inside a transaction).
        delivered: messages put into outboxes.
        redelivered: those of them that were a further delivery.
        unroutable: messages to a topic that nobody subscribed.
        acknowledged: messages settled by ACK.
        rejected: messages settled by NACK.
        dead_lettered: messages that went to a dead-letter queue.
        moved: messages that an operator moved to another destination, or back to where they had come from.
        expired: messages whose time was over before somebody consumed them.
        dropped: messages thrown away: by a limit, by `on_nack`, by an operator, or with their queue.
        conflated: messages that a newer one of their key replaced.
        duplicates: messages whose dedup-id was known.
        errors: ERROR frames.
        heartbeat_timeouts: sessions ended because the client was silent.
        slow_consumers: sessions ended because the client did not read.
        held_publishers: times a connection was not read because a receiver or the memory was over its mark.
    """

    __slots__ = (
        "acknowledged",
        "conflated",
        "connections",
        "dead_lettered",
        "delivered",
        "dropped",
        "duplicates",
        "errors",
        "expired",
        "frames_in",
        "heartbeat_timeouts",
        "held_publishers",
        "logins_failed",
        "moved",
        "octets_in",
        "octets_out",
        "published",
        "redelivered",
        "refused",
        "rejected",
        "sessions",
        "slow_consumers",
        "unroutable",
    )

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    acknowledged: int
    conflated: int
    connections: int
    dead_lettered: int
    delivered: int
    dropped: int
    duplicates: int
    errors: int
    expired: int
    frames_in: int
    heartbeat_timeouts: int
    held_publishers: int
    logins_failed: int
    moved: int
    octets_in: int
    octets_out: int
    published: int
    redelivered: int
    refused: int
    rejected: int
    sessions: int
    slow_consumers: int
    unroutable: int
