"""Heart-beats: those that a session sends, the silence of its client, and WebSocket pings.

A client is silent only if the gateway has waited for its bytes.  Where very many send at once they wait in line for
their turn (`wire/fairness.py`), and bytes of a client may lie unread for longer than it promised to be silent: it is
not closed for that.

`Heartbeats` stands on the timer wheel in its connection's place, so that a connection that has ended leaves only this
small object behind there, until its next date.
"""

import math

import trio

from gateway.broker import Session
from gateway.broker.headers.connect import send_early
from gateway.codec import ProtocolError

from ..server import Server
from ..wire.link import Link, Pipe
from .writer import ConnectionWriter

# Browsers throttle timers of hidden tabs to one a minute but answer pings; to ask more often than this is of no use.
_SHORTEST_PING = 5.0
# Seconds after which this leaves the wheel at the latest once its session has ended: a client may agree on years.
_LONGEST_LOOK = 60.0


class HeartbeatMissing(ProtocolError):
    """The client was silent for longer than it promised."""

    cause = "no-heart-beat"


class Heartbeats:
    """When a session must speak, and when its client must have spoken."""

    # One for each connection, of which ten thousand may be idle: without a dictionary it costs some 200 bytes less.
    __slots__ = (
        *("_last_ping", "_ping", "_ping_every", "_pipe", "_receive_within", "_send_every", "_server", "_session"),
        *("_writer",),
        *("held", "last_read"),
    )

    def __init__(self, server: Server, session: Session, writer: ConnectionWriter, link: Link) -> None:
        options = server.options
        self._server = server
        self._session: Session | None = session
        self._writer: ConnectionWriter | None = writer
        self._ping = link.ping
        self._pipe: Pipe | None = link.pipe
        # Intervals in seconds, 0 where nothing is due.
        send_every, receive_every = [each / 1000 for each in session.heart_beat]
        self._send_every = send_early(send_every)
        self._receive_within = receive_every * options.heartbeat_margin
        self._ping_every = options.websocket_ping if self._ping else 0.0
        if self._ping_every and receive_every:
            # The Pongs keep a hidden tab alive, whose own timers are throttled: ask within its margin.
            self._ping_every = min(self._ping_every, max(receive_every, _SHORTEST_PING))
        self.held = 0  # waits that keep us from reading this client; its silence does not count meanwhile
        self.last_read = self._last_ping = trio.current_time()
        every = [each for each in (self._send_every, self._receive_within, self._ping_every) if each]
        if every:
            server.timers.add(self, self.last_read + min([*every, _LONGEST_LOOK]))

    def stop(self) -> None:
        """The session has ended."""
        self._session = self._writer = self._pipe = None

    def tick(self, now: float) -> float:
        """Send what is due; end a session that has a silent client."""
        session, writer, pipe = self._session, self._writer, self._pipe
        if session is None or writer is None or pipe is None:
            return math.inf
        due = math.inf
        if self._receive_within and not self.held:
            due = self.last_read + self._receive_within
            if due <= now:
                if not pipe.has_bytes():
                    self._give_up(session, now - self.last_read)
                    return math.inf
                self.last_read = now
                due = now + self._receive_within
        if self._send_every:
            if writer.last_write + self._send_every <= now:
                writer.last_write = self._server.turn_time = now
                if not writer.writing:  # else bytes are on their way that count as a beat
                    session.outbox.append(b"\n")
                    writer.flush()
            due = min(due, writer.last_write + self._send_every)
        if self._ping_every:
            # Only a silent peer is asked.
            asked = max(self.last_read, self._last_ping)
            if asked + self._ping_every <= now:
                writer.send_control(self._ping)
                self._last_ping = asked = now
            due = min(due, asked + self._ping_every)
        return min(due, now + _LONGEST_LOOK)

    def _give_up(self, session: Session, silent: float) -> None:
        broker = self._server.broker
        broker.counters.heartbeat_timeouts += 1
        broker.records.tell("heartbeat_missed", session)
        detail = f"no byte for {silent:.1f} s, allowed are {self._receive_within:.1f} s"
        session.end(HeartbeatMissing("heart-beat missing", detail))
