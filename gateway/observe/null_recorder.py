"""Recorder that discards all events: for a gateway that traces messages and has no journal."""

from __future__ import annotations

import time


class NullRecorder:
    """Implements `gateway.broker.core.ports.Recorder` without any effect."""

    clock = staticmethod(time.monotonic_ns)
    is_behind = False

    def names_of_session(self, *_: object) -> bytes:
        """Not empty, because the broker asks again for empty names with each message."""
        return b"-"

    def names_of_subscription(self, *_: object) -> bytes:
        """Not empty, as above."""
        return b"-"

    def accepted(self, *_: object, **__: object) -> None:
        """Discard the event, as all other methods do."""

    delivered = redelivered = acked = nacked = expired = dead_lettered = dropped = accepted
    tx_begun = tx_committed = tx_aborted = subscribed = unsubscribed = accepted
    connected = disconnected = error = heartbeat_missed = gauge_subscription = gauge_destination = accepted
