"""Of whom the log is told who has no login: a few lines a minute for each address, then how many more there were.

    refused, and nobody knows who asked   `may_tell`: the first few of a minute are told, the others counted
    the minute ends                       one line says how many these were; where there are none, none does
    refused, and it is known who asked    always told, and none of our affairs

Anybody who reaches the port can be refused thousands of times a second.  With a line for each he would write the disk
full, and nobody would find what operators did.

An address has a minute of its own, from its first refusal on; an IPv6 client owns a network of 64 bits, so that is one.
When very many come at once, those beyond `MOST_KNOWN` share a minute.  So memory is bounded, and lines are, too: some
600 in a minute, whoever asks for whatever.

Known weakness: of the minute in which the gateway stops, what was left out is told by nobody.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import structlog

from gateway.net.client_address import network_of

if TYPE_CHECKING:
    from gateway.broker.core.scheduler import Scheduler

log = structlog.get_logger("gateway.audit")

MOST_TOLD = 5
"""Lines of an address in a minute: enough to see who it is, and what he tries."""
MOST_KNOWN = 100
"""Addresses that have a minute of their own, at some 500 octets each."""
MINUTE = 60.0
"""Seconds."""

_OTHERS = "all others"


class Strangers:
    """Counts their refusals.

    Args:
        scheduler: has the clock, and carries out what is due when a minute ends.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._refused: dict[str, int] = {}

    def may_tell(self, address: str) -> bool:
        """One more request of that address is refused; whether the log is told of it."""
        key = network_of(address)
        if key not in self._refused and len(self._refused) >= MOST_KNOWN:
            key = _OTHERS
        if key not in self._refused:
            self._scheduler.at(self._scheduler.clock() + MINUTE, partial(self._end, key))
        count = self._refused[key] = self._refused.get(key, 0) + 1
        return count <= MOST_TOLD

    def _end(self, key: str) -> None:
        left_out = self._refused.pop(key) - MOST_TOLD
        if left_out > 0:
            log.warning(
                "more of this address was refused than is told one by one",
                address=key,
                count=left_out,
                seconds=round(MINUTE),
            )
