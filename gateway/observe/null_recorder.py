"""A recorder that records nothing: where messages are traced and there is no journal."""

from __future__ import annotations

import time


class NullRecorder:
    """Takes what `gateway.broker.core.ports.Recorder` says, and forgets it."""

    clock = staticmethod(time.monotonic_ns)
    is_behind = False

    def names_of_session(self, *_: object) -> bytes:
        """Not empty: names that are would be asked for again with each message."""
        return b"-"

    def names_of_subscription(self, *_: object) -> bytes:
        """Likewise."""
        return b"-"

    def accepted(self, *_: object, **__: object) -> None:
        """Nothing; and so with all the others."""

    delivered = redelivered = acked = nacked = expired = dead_lettered = dropped = accepted
    tx_begun = tx_committed = tx_aborted = subscribed = unsubscribed = accepted
    connected = disconnected = error = heartbeat_missed = gauge_subscription = gauge_destination = accepted
