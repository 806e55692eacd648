"""Monitor: what watches a gateway while it runs, as one task, for the overview and the lists of the API.

sampler     each second: rates of the whole gateway
watch       every five seconds: rates of destinations
problems    behind that: what is wrong
history     each minute: a sample of it
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import structlog
import trio

from gateway.admin.problems import Problems
from gateway.config.settings import Settings
from gateway.observe import destination_watch
from gateway.observe.destination_watch import DestinationWatch
from gateway.observe.history import MINUTE, History, merged
from gateway.observe.metrics import Disks
from gateway.observe.sampler import Sampler
from gateway.runtime.gateway import Gateway

log = structlog.get_logger("gateway.monitor")


class Monitor:
    """What watches an open gateway.  `epoch`: seconds since the epoch."""

    def __init__(self, gateway: Gateway, settings: Settings, epoch: Callable[[], float] = time.time) -> None:
        self.sampler = Sampler(gateway.broker, gateway.connection_limits, gateway.turns, epoch=epoch)
        self.watch = DestinationWatch(gateway.broker)
        self.history = History(history_file(settings))
        self._disks = Disks(folders_of(settings))
        self.problems = Problems(gateway, self.sampler, self.watch, self._disks.free)
        self._epoch = epoch
        self._minute = 0

    async def run(self) -> None:
        """Watch until cancelled."""
        self._minute = self._last_minute()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.sampler.run)
            await trio.to_thread.run_sync(self.history.open, abandon_on_cancel=True)
            await self._disks.look()
            while True:
                try:
                    await self.look()
                except Exception:  # a look that fails must not end the gateway
                    log.exception("the gateway could not be watched")
                await trio.sleep(destination_watch.STEP)

    async def look(self) -> None:
        """Look once, and end the minute if it is over."""
        minute = self._last_minute()
        await self.watch.look()
        self.problems.look(self._epoch())
        if minute != self._minute:
            self._minute = minute
            await self._disks.look()
            samples = [each for each in self.sampler.since(minute - MINUTE) if each.at <= minute]
            if samples:
                await self.history.add(merged(samples, float(minute)))

    def _last_minute(self) -> int:
        """The end of the last full minute."""
        return int(self._epoch()) // MINUTE * MINUTE


def history_file(settings: Settings) -> Path | None:
    """The file of the history, beside the store or in the journal of this gateway; None: there is neither."""
    if (store := settings.store_file) is not None:
        return store.with_name(f"{store.name}.history")
    return None if settings.journal is None else settings.journal / settings.journal_name / "history"


def folders_of(settings: Settings) -> dict[str, Path]:
    """The folders that the gateway writes to, by what for."""
    folders = {"journal": settings.journal} if settings.journal is not None else {}
    if (store := settings.store_file) is not None:
        folders["store"] = store.parent
    return folders
