"""Connection limits: connections in all, of one address, of one user, and handshakes, which have not logged in yet.

A refused client is told why, which takes a moment in which the connection is still open.  So it counts among those
turned away, not among the connections; of these, too, there may be so many, and those beyond are closed without a word.

Handshakes.  A client that opens connections and sends nothing keeps others out, if there is a limit, or uses up the
files of the process, if there is none.  So no new connection is refused for their number, but one of the address that
has most of them goes: a flood pays with its own.  It is the oldest that has not sent its CONNECT yet.  If all have, it
is the newest: they are authenticated in order, and the oldest is nearly in.

An address of IPv6 stands for its /64: a single client has so many.

Edges.  Each edge counts its connections, and has a share of the handshakes.  The primary counts sessions of all edges,
so the limits of connections, of an address and of a user are exact at login; before that an edge refuses a connection
by what it heard last of the others.
"""

from __future__ import annotations

import functools
import gc
import resource
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import structlog

from gateway.broker.core.ports import ANONYMOUS
from gateway.broker.errors import NotAllowed, TooMany
from gateway.codec import ProtocolError
from gateway.log_limiter import LogLimiter
from gateway.net import network_of

log = structlog.get_logger("gateway.admission")

# Files that are no connections of clients: listeners, store, journal, HTTP, and connections that are turned away.
_OTHER_FILES = 512
# Connections that are too few for a server, where the setting is left out.
_FEW = 4_000
# Connections after which the collector looks at new objects.  Each connection is some fifty of them, and it looks at
# all that came since its last look: 0.2 ms with these, 10 ms if connections come and go for as long as it waits.
# Objects that stay a little longer it looks at once more, behind so many looks; else 30,000 of them may wait for that.
_NEW = 8
_LOOKS = 5
# Seconds in which there is one line for each limit.
_QUIET = 10.0

LIMITS = ("max_connections", "max_connections_per_address", "max_connections_per_user", "max_handshakes")

_UNAVAILABLE, _TOO_MANY = 503, 429  # status of the HTTP response


@dataclass(frozen=True, slots=True)
class Capacity:
    """The settings of the same names, but for the last two; 0 where there is no limit."""

    max_connections: int = 50_000
    max_connections_per_address: int = 0
    max_connections_per_user: int = 0
    max_handshakes: int = 1_000
    limited_by: str = "max_connections"  # what that is called in a refusal
    # Connections that are being told why they are refused; each costs a file and some KiB for a second or so.
    most_turned_away: int = 256


class Slot:
    """A connection, from accept to close."""

    __slots__ = ("_limits", "counted_network", "evict", "is_counted", "network", "refusal", "status", "user")

    def __init__(self, limits: ConnectionLimits, address: str, evict: Callable[[ProtocolError], None]) -> None:
        self._limits = limits
        self.network = network_key(address)
        # By which it is counted at the moment.
        self.is_counted = True
        self.counted_network: str | None = None
        self.user: str | None = None
        self.evict = evict  # called, once at most, when it must go before it has logged in
        self.refusal: NotAllowed | None = None  # why it may not stay
        self.status = 0  # of the HTTP response that says so

    @property
    def closes_at_once(self) -> bool:
        """True if too many others are being turned away: it is closed without a word."""
        return self.refusal is not None and self._limits.turns_too_many_away

    def comes_from(self, address: str) -> None:
        """Its address is known; empty: a unix socket.  `refusal` tells whether it may stay."""
        if self.refusal is None:
            self._limits.set_address(self, network_key(address))

    def asks(self) -> None:
        """It has sent its CONNECT, and an authenticator is asked."""
        if self.refusal is None:
            self._limits.handshake_rows.ask(self)

    def logs_in(self, user: str, replaced: Slot | None = None) -> None:
        """Its user is known, and has room; else `NotAllowed` is raised.

        Args:
            replaced: a connection of the same user that ends for this one, and leaves it its place.
        """
        if self.refusal is not None:
            raise self.refusal
        self._limits.log_in(self, user, replaced)

    def leave(self) -> None:
        """The connection is closed."""
        self._limits.leave(self)
        self.evict = lambda refusal: None  # it refers to the connection, and that to us: the collector runs rarely


@functools.lru_cache(maxsize=1024)  # to parse an address takes as long as all the rest here
def network_key(address: str) -> str:
    """The network that counts as one address; `unix` for a unix socket."""
    return network_of(address) or "unix"


class _Row:
    """The handshakes of one network, the oldest first."""

    __slots__ = ("asking", "silent")

    def __init__(self) -> None:
        self.silent: dict[Slot, None] = {}
        self.asking: dict[Slot, None] = {}

    def __len__(self) -> int:
        return len(self.silent) + len(self.asking)

    def first_to_go(self) -> Slot:
        return next(iter(self.silent), None) or next(reversed(self.asking))


class _Rows:
    """Handshakes by network, and the networks by the number of their handshakes."""

    def __init__(self) -> None:
        self.count = 0
        self._rows: dict[str, _Row] = {}
        self._networks: dict[int, dict[str, None]] = {}
        self._most = 0

    def add(self, slot: Slot) -> None:
        row = self._rows.setdefault(slot.network, _Row())
        row.silent[slot] = None
        self.count += 1
        self._move(slot.network, len(row) - 1, len(row))
        self._most = max(self._most, len(row))

    def ask(self, slot: Slot) -> None:
        row = self._rows[slot.network]
        del row.silent[slot]
        row.asking[slot] = None

    def remove(self, slot: Slot) -> None:
        """It need not be there."""
        network = slot.network
        row = self._rows.get(network)
        if row is None:
            return
        before = len(row)
        row.silent.pop(slot, None)
        row.asking.pop(slot, None)
        if len(row) == before:
            return
        self.count -= 1
        self._move(network, before, before - 1)
        if not row:
            del self._rows[network]
        if self._most not in self._networks:
            self._most -= 1  # the network that was moved is there, or there is none

    def _move(self, network: str, before: int, after: int) -> None:
        if before:
            networks = self._networks[before]
            del networks[network]
            if not networks:
                del self._networks[before]
        if after:
            self._networks.setdefault(after, {})[network] = None

    def first_to_go(self) -> Slot:
        """A handshake of a network that has most."""
        return self._rows[next(iter(self._networks[self._most]))].first_to_go()


class AtEdges(NamedTuple):
    """What all edges together have, as they said last."""

    connections: int = 0
    handshakes: int = 0
    incomplete: int = 0  # bytes of messages that are not complete
    strangers: int = 0  # connections without a login that wait for their turn
    bulk: int = 0  # the same, of senders of much data


class ConnectionLimits:
    """Counts all connections."""

    def __init__(self, capacity: Capacity) -> None:
        self.connections = 0  # that may stay, or have no known address yet
        self.elsewhere = 0  # those of other edges, if this process is an edge
        self.at_edges = AtEdges()  # if this process is their primary
        self.turned_away = 0  # that are being told why they may not stay
        self.refusals = dict.fromkeys(LIMITS, 0)  # setting -> how often it was the reason
        self._capacity = capacity
        self._new = 0
        self._by_network: dict[str, int] = {}
        self._by_user: dict[str, int] = {}
        self.handshake_rows = _Rows()
        self._limiter = LogLimiter(quiet=_QUIET)

    @property
    def turns_too_many_away(self) -> bool:
        return self.turned_away > self._capacity.most_turned_away

    @property
    def handshakes(self) -> int:
        """Connections that have not logged in yet."""
        return self.handshake_rows.count

    @property
    def all_connections(self) -> int:
        """Connections of this process, or of the edges that have its sessions."""
        return max(self.connections, self.at_edges.connections)

    @property
    def all_handshakes(self) -> int:
        """Of them those that have not logged in yet."""
        return self.handshakes + self.at_edges.handshakes

    def enter(self, address: str, evict: Callable[[ProtocolError], None], *, has_logged_in: bool = False) -> Slot:
        """A connection was accepted, perhaps at an edge, where it has logged in; `Slot` explains the arguments."""
        slot = Slot(self, address, evict)
        self._new = (self._new + 1) % (_NEW * _LOOKS)
        if self._new % _NEW == 0:
            gc.collect(0 if self._new else 1)
        self.connections += 1
        most = self._capacity.max_connections
        if self.connections + self.elsewhere > most:
            sentence = f"the server has {most} connections, as many as it may ({self._capacity.limited_by})"
            self._turn_away(slot, _UNAVAILABLE, "max_connections", "too many connections", sentence)
            return slot
        if has_logged_in:
            return slot
        self.handshake_rows.add(slot)
        if self.handshakes > self._capacity.max_handshakes:
            found = self.handshake_rows.first_to_go()
            sentence = (
                f"more than {self._capacity.max_handshakes} connections wait to log in (max_handshakes), "
                f"most of them from {found.network}, as this one"
            )
            found.evict(self._turn_away(found, _UNAVAILABLE, "max_handshakes", "too many handshakes", sentence))
        return slot

    # for slots, which explain them

    def set_address(self, slot: Slot, network: str) -> None:
        if network != slot.network:
            self.handshake_rows.remove(slot)
            slot.network = network
            self.handshake_rows.add(slot)
        most = self._capacity.max_connections_per_address
        if not most:
            return
        count = self._by_network.get(network, 0)
        if count >= most:
            sentence = f"{network} has {most} connections, as many as one address may (max_connections_per_address)"
            self._turn_away(slot, _TOO_MANY, "max_connections_per_address", "too many connections", sentence)
        else:
            self._by_network[network] = count + 1
            slot.counted_network = network

    def log_in(self, slot: Slot, user: str, replaced: Slot | None = None) -> None:
        most = self._capacity.max_connections_per_user
        if replaced is not None and replaced.user is not None:
            slot.user, replaced.user = replaced.user, None
        elif most and user != ANONYMOUS:  # anonymous clients have no limit
            count = self._by_user.get(user, 0)
            if count >= most:
                self.refusals["max_connections_per_user"] += 1
                detail = f"this user has {most}, as many as one may (max_connections_per_user)"
                raise TooMany("too many sessions", detail)
            self._by_user[user] = count + 1
            slot.user = user
        self.handshake_rows.remove(slot)

    def leave(self, slot: Slot) -> None:
        self._forget(slot)
        if slot.refusal is not None:
            self.turned_away -= 1

    def _forget(self, slot: Slot) -> None:
        if slot.is_counted:
            slot.is_counted = False
            self.connections -= 1
        self.handshake_rows.remove(slot)
        if slot.counted_network is not None:
            _take_one(self._by_network, slot.counted_network)
            slot.counted_network = None
        if slot.user is not None:
            _take_one(self._by_user, slot.user)
            slot.user = None

    def _turn_away(self, slot: Slot, status: int, limit: str, message: str, sentence: str) -> NotAllowed:
        self._forget(slot)
        self.turned_away += 1
        self.refusals[limit] += 1
        slot.status = status
        slot.refusal = refusal = TooMany(message, sentence)
        untold = self._limiter.admit(limit)
        if untold is not None:
            log.warning("connections are refused", limit=limit, reason=sentence, address=slot.network, times=untold + 1)
        return refusal


def _take_one(counts: dict[str, int], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def within_files(capacity: Capacity, processes: int = 1, *, is_set: bool) -> Capacity:
    """As many connections as the files leave room for that so many processes may open; logged where it matters.

    If `max_connections` is not set (`is_set`), only a small number is worth a line.
    """
    # Any of them may get more than its share.
    room, sentence = room_for(capacity.max_connections)
    if processes > 1 and room * processes >= capacity.max_connections:
        return capacity
    room *= processes
    if not sentence:
        return capacity
    if is_set or room < _FEW:
        log.warning(sentence)
    limited_by = f"max_connections is {capacity.max_connections}, but the process may not open more files"
    return replace(capacity, max_connections=room, limited_by=limited_by)


def room_for(wanted: int) -> tuple[int, str]:
    """How many connections, at most `wanted`, the files leave room for that this process may open, and a sentence if
    they are less.  The soft limit is raised first."""
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
        "(LimitNOFILE of systemd), or lower max_connections"
    )
