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

    names_of_subscription = names_of_destination = names_of_session

    def accepted(self, *_: object, **__: object) -> None:
        """Discard the event, as all other methods do."""

    delivered = acked = record = accepted
