"""Who may be here at once: connections in all, of one address, of one user, and those that have not logged in yet.

A connection is a `Slot` from its accept to its close:

    enter         counted; over `max_connections` it is refused
    comes_from    its address is known (behind a proxy later than the socket); over the limit of that it is refused
    asks          it has said who it is, and an authenticator is asked
    logs_in       its user is known; over the limit of that it is refused, and until then it counts as a handshake
    leave         counted no more

Who is refused is told why, which takes a moment in which the connection is still open.  So it counts among those turned
away, not among the connections; there may be so many of them, and whoever comes beyond that is closed without a word.

Handshakes.  Whoever opens connections and says nothing keeps others out, if there is a limit, or eats the files of the
process, if there is none.  So nobody is refused for their number, but one of the address that has most of them goes: a
flood pays with its own.  It is the oldest that has not said yet who it is.  Where all have, it is the newest: they are
looked at in order, and the oldest is nearly in.  To find that address, addresses stand in rows by their number of
handshakes; a number changes by one, so the longest row is found without a search.

An address of IPv6 stands for its /64: a single client has so many.
"""

from __future__ import annotations

import functools
import gc
import math
import resource
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog
import trio

from gateway.broker.core.ports import ANONYMOUS
from gateway.broker.errors import NotAllowed, TooMany
from gateway.codec import ProtocolError
from gateway.net.client_address import network_of

log = structlog.get_logger("gateway.admission")

# Connections that are being told why they are refused; each costs a file and some KiB for a second or so.
_MOST_TURNED_AWAY = 256
# Files that are no connections of clients: listeners, store, journal, HTTP, and those that are turned away.
_OTHER_FILES = 256 + _MOST_TURNED_AWAY
# Connections that are too few for a server, where nobody has said how many there should be.
_FEW = 4_000
# Connections after which the collector looks at what is new.  Each is some fifty objects to it, and it looks at all
# that came since its last look: 0.2 ms with these, 10 ms where connections come and go for as long as it waits.  What
# stays a little longer it looks at once more, behind so many looks; else 30,000 objects may wait for that.
_NEW = 8
_LOOKS = 5
# Seconds in which there is one line for each limit.
_QUIET = 10.0

LIMITS = ("max_connections", "max_connections_per_address", "max_connections_per_user", "max_handshakes")

_UNAVAILABLE, _TOO_MANY = 503, 429


@dataclass(frozen=True, slots=True)
class Capacity:
    """The settings of the same names; 0 where there is no limit.

    Attributes:
        limited_by: what `max_connections` is called in a refusal.
    """

    max_connections: int = 50_000
    max_connections_per_address: int = 0
    max_connections_per_user: int = 0
    max_handshakes: int = 1_000
    limited_by: str = "max_connections"


class Slot:
    """A connection, from accept to close.

    Attributes:
        evict: called, once at most, when it must go before it has logged in.
        refusal: why it may not stay; None: it may.
        status: of the HTTP response that says so.
        in_a_hurry: too many others are being turned away at the moment: nothing is waited for at its end.
    """

    __slots__ = ("_address", "_admission", "_is_counted", "_place", "_user", "evict", "refusal", "status")

    def __init__(self, admission: ConnectionLimits, address: str, evict: Callable[[ProtocolError], None]) -> None:
        self._admission = admission
        self._address: str | None = None  # by which it is counted
        self._place = place_of(address)  # by which its handshake is
        self._user: str | None = None
        self._is_counted = True
        self.evict = evict
        self.refusal: NotAllowed | None = None
        self.status = 0

    @property
    def in_a_hurry(self) -> bool:
        return self.refusal is not None and self._admission.turned_away > _MOST_TURNED_AWAY

    def comes_from(self, address: str) -> None:
        """Its address is known; empty: a unix socket.  `refusal` tells whether it may stay."""
        if self.refusal is None:
            self._admission.place(self, place_of(address))

    def asks(self) -> None:
        """It has said who it is; that is looked at."""
        if self.refusal is None:
            self._admission.ask(self)

    def logs_in(self, user: str, ghost: Slot | None = None) -> None:
        """Its user is known.

        Args:
            ghost: a connection of the same user that ends for it, and leaves it its place.

        Raises:
            NotAllowed: the user has too many sessions, or it must go.
        """
        if self.refusal is not None:
            raise self.refusal
        self._admission.log_in(self, user, ghost)

    def leave(self) -> None:
        """The connection is closed."""
        self._admission.leave(self)
        self.evict = _gone  # which refers to the connection, and that to us: the collector comes by rarely


def _gone(refusal: ProtocolError) -> None:
    """Nobody is there to be told."""


@functools.lru_cache(maxsize=1024)  # to read an address takes as long as all else that is done here
def place_of(address: str) -> str:
    """What is counted as one address."""
    return network_of(address) or "unix"


class _Row:
    """The handshakes of one place, the oldest first."""

    __slots__ = ("asking", "silent")

    def __init__(self) -> None:
        self.silent: dict[Slot, None] = {}
        self.asking: dict[Slot, None] = {}

    def __len__(self) -> int:
        return len(self.silent) + len(self.asking)

    def first_to_go(self) -> Slot:
        return next(iter(self.silent), None) or next(reversed(self.asking))


class _Rows:
    """Handshakes by place, and the places by the number of their handshakes."""

    def __init__(self) -> None:
        self.count = 0
        self._rows: dict[str, _Row] = {}
        self._places: dict[int, dict[str, None]] = {}
        self._most = 0

    def add(self, place: str, slot: Slot) -> None:
        row = self._rows.setdefault(place, _Row())
        row.silent[slot] = None
        self.count += 1
        self._move(place, len(row) - 1, len(row))
        self._most = max(self._most, len(row))

    def ask(self, place: str, slot: Slot) -> None:
        """It must be there."""
        row = self._rows[place]
        del row.silent[slot]
        row.asking[slot] = None

    def remove(self, place: str, slot: Slot) -> None:
        """It need not be there."""
        row = self._rows.get(place)
        if row is None:
            return
        before = len(row)
        row.silent.pop(slot, None)
        row.asking.pop(slot, None)
        if len(row) == before:
            return
        self.count -= 1
        self._move(place, before, before - 1)
        if not row:
            del self._rows[place]
        if self._most not in self._places:
            self._most -= 1  # the place that was moved is there, or there is none

    def _move(self, place: str, before: int, after: int) -> None:
        if before:
            places = self._places[before]
            del places[place]
            if not places:
                del self._places[before]
        if after:
            self._places.setdefault(after, {})[place] = None

    def first_to_go(self) -> tuple[str, Slot]:
        """One of a place that has most."""
        place = next(iter(self._places[self._most]))
        return place, self._rows[place].first_to_go()


class ConnectionLimits:
    """All guests.

    Attributes:
        connections: that may stay, or whose address is not known yet.
        turned_away: that are being told why they may not.
        refusals: setting -> how often it was the reason.
    """

    def __init__(self, capacity: Capacity) -> None:
        self.connections = 0
        self.turned_away = 0
        self.refusals = dict.fromkeys(LIMITS, 0)
        self._capacity = capacity
        self._new = 0
        self._by_address: dict[str, int] = {}
        self._by_user: dict[str, int] = {}
        self._handshakes = _Rows()
        self._untold: dict[str, int] = {}
        self._quiet_until: dict[str, float] = {}

    @property
    def handshakes(self) -> int:
        """Connections that have not logged in yet."""
        return self._handshakes.count

    def enter(self, address: str, evict: Callable[[ProtocolError], None]) -> Slot:
        """A connection was accepted.

        Args:
            address: of the socket; empty: a unix socket.
            evict: ends it when it must go before it has logged in.
        """
        slot = Slot(self, address, evict)
        self._new = (self._new + 1) % (_NEW * _LOOKS)
        if self._new % _NEW == 0:
            gc.collect(0 if self._new else 1)
        self.connections += 1
        most = self._capacity.max_connections
        if self.connections > most:
            sentence = f"the server has {most} connections, as many as it may ({self._capacity.limited_by})"
            self._turn_away(slot, _UNAVAILABLE, "max_connections", "too many connections", sentence)
            return slot
        handshakes = self._handshakes
        handshakes.add(slot._place, slot)
        if handshakes.count > self._capacity.max_handshakes:
            self._evict_one()
        return slot

    def _evict_one(self) -> None:
        place, slot = self._handshakes.first_to_go()
        sentence = (
            f"more than {self._capacity.max_handshakes} connections wait to log in (max_handshakes), "
            f"most of them from {place}, as this one"
        )
        self._turn_away(slot, _UNAVAILABLE, "max_handshakes", "too many handshakes", sentence)
        assert slot.refusal is not None  # it was just set
        slot.evict(slot.refusal)

    def place(self, slot: Slot, place: str) -> None:
        """The address of a guest is known."""
        if place != slot._place:
            self._handshakes.remove(slot._place, slot)
            slot._place = place
            self._handshakes.add(place, slot)
        most = self._capacity.max_connections_per_address
        if not most:
            return
        count = self._by_address.get(place, 0)
        if count >= most:
            sentence = f"{place} has {most} connections, as many as one address may (max_connections_per_address)"
            self._turn_away(slot, _TOO_MANY, "max_connections_per_address", "too many connections", sentence)
        else:
            self._by_address[place] = count + 1
            slot._address = place

    def ask(self, slot: Slot) -> None:
        """An authenticator is asked about a guest."""
        self._handshakes.ask(slot._place, slot)

    def log_in(self, slot: Slot, user: str, ghost: Slot | None = None) -> None:
        """The user of a guest is known; nobody in particular has no limit.

        Args:
            ghost: that leaves it its place.

        Raises:
            NotAllowed: the user has too many sessions.
        """
        most = self._capacity.max_connections_per_user
        if ghost is not None and ghost._user is not None:
            slot._user, ghost._user = ghost._user, None
        elif most and user != ANONYMOUS:
            count = self._by_user.get(user, 0)
            if count >= most:
                self.refusals["max_connections_per_user"] += 1
                raise TooMany(
                    "too many sessions", f"this user has {most}, as many as one may (max_connections_per_user)"
                )
            self._by_user[user] = count + 1
            slot._user = user
        self._handshakes.remove(slot._place, slot)

    def leave(self, slot: Slot) -> None:
        """A connection is closed."""
        self._forget(slot)
        if slot.refusal is not None:
            self.turned_away -= 1

    def _forget(self, slot: Slot) -> None:
        """It counts nowhere any more."""
        if slot._is_counted:
            slot._is_counted = False
            self.connections -= 1
        self._handshakes.remove(slot._place, slot)
        if slot._address is not None:
            _take_one(self._by_address, slot._address)
            slot._address = None
        if slot._user is not None:
            _take_one(self._by_user, slot._user)
            slot._user = None

    def _turn_away(self, slot: Slot, status: int, limit: str, message: str, sentence: str) -> None:
        self._forget(slot)
        self.turned_away += 1
        self.refusals[limit] += 1
        slot.status, slot.refusal = status, TooMany(message, sentence)
        self._tell(limit, slot._place, sentence)

    def _tell(self, limit: str, place: str, sentence: str) -> None:
        """A line in the log, but not one for each connection of a flood."""
        now = trio.current_time()
        self._untold[limit] = self._untold.get(limit, 0) + 1
        if now >= self._quiet_until.get(limit, -math.inf):
            self._quiet_until[limit] = now + _QUIET
            log.warning(
                "connections are refused", limit=limit, reason=sentence, address=place, times=self._untold.pop(limit)
            )


def _take_one(counts: dict[str, int], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def within_files(capacity: Capacity, *, is_optional: bool) -> Capacity:
    """As many connections as the files leave room for that this process may open; the log says so where it matters.

    Args:
        is_optional: somebody has set `max_connections`; else few are worth a line only.
    """
    room, sentence = room_for(capacity.max_connections)
    if not sentence:
        return capacity
    if is_optional or room < _FEW:
        log.warning(sentence)
    limited_by = f"max_connections is {capacity.max_connections}, but the process may not open more files"
    return replace(capacity, max_connections=room, limited_by=limited_by)


def room_for(wanted: int) -> tuple[int, str]:
    """How many connections the files leave room for that this process may open; it may open more, where that is its
    own choice.

    Args:
        wanted: the setting `max_connections`.

    Returns:
        The number, `wanted` at most, and a sentence where it is less; else an empty one.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
        except (ValueError, OSError):  # the system has a limit of its own, too
            most = soft
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted, ""
    room = max(soft - _OTHER_FILES, soft // 2)
    return room, (
        f"max_connections is {wanted}, and this process may open {soft} files: {room} connections; raise `ulimit -n` "
        "(LimitNOFILE of systemd), or set max_connections to what is wanted"
    )
