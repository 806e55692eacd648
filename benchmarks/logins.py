"""A flood of logins whose passcodes are hashed by argon2, and what another client notices of it."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.link import Link
from benchmarks.loop import Sample
from benchmarks.scenarios import connects
from benchmarks.server import Server
from benchmarks.stage import destination_of, links_of
from benchmarks.wire import Transport
from gateway.auth.passwords import hash_passcode

_PASSCODE = "correct horse battery staple"
# As many as do not come twice in a round: a passcode that was verified is remembered.
_USERS = [(f"user{number}", _PASSCODE) for number in range(5_000)]
LOGIN = ("other", _PASSCODE)
"""Of the other client."""
_FILE = "users.txt"
SETTINGS = f'users_file = "{_FILE}"'
# Seconds between two messages of the other client.
_PAUSE = 0.005


def write_users(folder: Path) -> None:
    """Put the users file into the gateway's folder."""
    hashed = hash_passcode(_PASSCODE)  # one for all: each would take 20 ms
    (folder / _FILE).write_text("".join([f"{user}:{hashed}\n" for user, _ in [LOGIN, *_USERS]]))


def flood(server: Server, transport: Transport, seconds: float, *, parallel: int) -> Sample:
    """CONNECT, DISCONNECT, again and again, `parallel` at a time; and the receipts that another client gets."""
    with links_of(transport, 1) as (link,):
        quiet = _Neighbour(link)
        quiet.start()
        time.sleep(seconds)
        before = quiet.stop()
        beside = _Neighbour(link)
        beside.start()
        sample = connects(server, transport, seconds, parallel=parallel, logins=_USERS)
        meanwhile = beside.stop()
        link.leave()
    return replace(sample, beside={**sample.beside, "quiet": before, "beside": meanwhile})


class _Neighbour(threading.Thread):
    """Sends a message now and then, and waits for its receipt."""

    def __init__(self, link: Link) -> None:
        super().__init__(daemon=True)
        self._link = link
        self._waits: list[float] = []
        self._is_over = threading.Event()

    def run(self) -> None:
        destination = destination_of("topic")
        while not self._is_over.wait(_PAUSE):
            asked = time.perf_counter()
            self._link.request("SEND", destination=destination, content_length=0)
            self._waits.append(time.perf_counter() - asked)

    def stop(self) -> Sample:
        """99 of 100 of its receipts came within this."""
        self._is_over.set()
        self.join()
        waits = sorted(self._waits)
        median, most = waits[len(waits) // 2] * 1e3, waits[len(waits) * 99 // 100] * 1e3
        return Sample(most, note=f"median {median:.2f} ms, {len(waits)} receipts")
