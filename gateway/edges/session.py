"""Session at its edge: frames go to the primary, and what comes from there goes into the outbox.

A session has no queue, topic or transaction here.  What it holds at the primary is known by its frames (`holdings`),
and says whether it outlives the loss of the primary.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Protocol

import trio

from gateway.broker import Session
from gateway.broker.core.outbox import Outbox
from gateway.broker.core.ports import ANONYMOUS, Carrier
from gateway.broker.errors import error_frame
from gateway.broker.model.destinations import is_presence
from gateway.broker.model.identity import Renewal
from gateway.codec import Frame, Head, ProtocolError
from gateway.codec.encoder import message_prefix
from gateway.transports.flow.back_pressure import Blockable
from gateway.transports.flow.connected import Login
from gateway.transports.server import Server, agreed_beats

from .forms import ToPrimary, fields_of_error, fields_of_login
from .holdings import Holdings

WINDOW = 512 * 1024
"""Bytes of one client's frames that may be on their way to the primary; then the client is not read."""
# Header blocks of SEND frames of a session that the primary knows by their places.
_PLACES = 64
# Seconds between looks whether a client that is not read is still there.
_LOOK_FOR_PEER = 1.0
_GAP = b"gap:true\n"


class LinkToPrimary(Protocol):
    """The link that a session goes over; `EdgeLink` explains it."""

    def put(self, kind: ToPrimary, *fields: object) -> None: ...

    def put_send(self, number: int, place: int, body: bytes, receipt: str | None) -> None: ...

    def ask(self) -> None: ...

    def wrote(self, number: int, nbytes: int) -> None: ...

    def end_turn(self, session: EdgeSession) -> None: ...

    def leave(self, session: EdgeSession) -> None: ...


class EdgeOutbox(Outbox):
    """The outbox of a session at its edge.

    It has no marks of its own: the primary has the account, and is told what left it.
    """

    __slots__ = ("_own", "_own_gone", "_session", "is_asked")

    def __init__(self, session: EdgeSession, carrier: Carrier, of: Outbox) -> None:
        super().__init__(session, carrier, sys.maxsize, of.dirty, of.on_high)
        self._session = session
        self._own = 0  # bytes of heart-beats among those that wait, of which the primary knows nothing
        self._own_gone = 0  # the same, that were written
        self.is_asked = False  # the primary is to be told at once what is written, until that is all

    def append(self, prefix: bytes, shared: bytes = b"") -> None:
        """Add bytes of the edge's own: a heart-beat."""
        if not self.closed:
            self._own += len(prefix) + len(shared)
            super().append(prefix, shared)

    def add_own(self, nbytes: int) -> None:
        """The frames that come next have so many bytes of which the primary knows nothing."""
        self._own += nbytes
        self.size += nbytes

    def take_in(self, prefixes: Sequence[bytes], shared: Sequence[bytes], size: int) -> None:
        """Add frames of the primary, with so many bytes in all."""
        if self.closed:
            return
        parts = self.parts
        if not parts:
            self.dirty.append(self)
        for prefix, part in zip(prefixes, shared, strict=True):
            parts.append(prefix)
            parts.append(part)
        self.size += size

    def written(self, nbytes: int) -> None:
        super().written(nbytes)
        # As if the edge's own went first: so nothing counts as written that is not.
        own = min(nbytes, self._own)
        self._own -= own
        self._own_gone += own
        self._session.link.wrote(self._session.number, nbytes - own)
        if self.is_asked:
            self.is_asked = self.size > 0
            self._session.link.ask()

    def begin_again(self) -> None:
        """The session is at another primary, which knows nothing of what waits here."""
        self._own, self._own_gone = self.size, self.gone

    @property
    def taken_of_primary(self) -> int:
        """Bytes of the primary's that the connection has taken in all."""
        return self.taken - self._own_gone


class EdgeSession(Session):
    """A session at its edge: frames go to the primary, and what comes from there goes into the outbox."""

    __slots__ = (
        *("_gaps", "_held", "_holdings", "_is_lost", "_kept", "_login", "_places", "_reader", "_resumed"),
        *("done", "is_held", "link", "number", "on_way", "opened", "received", "refusal", "told", "unsent"),
    )

    def __init__(self, link: LinkToPrimary, number: int, server: Server, carrier: Carrier, login: Login) -> None:
        broker = server.broker
        super().__init__(
            broker.context,
            broker.router,
            "",
            login.version,
            login.identity.user,
            peer=login.peer,
            transport=login.transport,
            connected_at=0.0,
            carrier=carrier,
            client_id=login.client_id,
            frame_end=login.frame_end,
            on_close=lambda session: None,
        )
        self.link = link
        self.number = number
        self.outbox = self.received = EdgeOutbox(self, carrier, self.outbox)
        self.heart_beat = agreed_beats(server.options, login)
        self.opened: trio.Event = trio.Event()  # the primary has answered
        self.done = trio.Event()  # nothing more comes from the primary
        self.is_held = False  # it is not read for now: the primary wants no more of it, or there is no link
        self._holdings = Holdings()
        self._gaps: dict[bytes, None] = {}  # starts of MESSAGEs before the first of which others may be missing
        self._kept: list[Frame] | None = None  # frames that were read while there is no link; None: there is one
        self._login = login
        self._is_lost = False  # the primary knows nothing of it any more
        self.refusal: ProtocolError | None = None  # why the primary opened no session
        self.unsent = 0  # bytes of its frames in the turn at work
        self.on_way = 0  # bytes of its frames in batches that the primary has not handled yet
        self.told = False  # the client has got the event that it was told last
        self._resumed: trio.Event | None = None
        self._reader: Blockable | None = None  # its connection, once that reads frames
        self._held = ExitStack()  # while it is held
        self._places: dict[Head, int] = {}

    def handle(self, frame: Frame) -> None:
        """Put a frame on the link."""
        if self._kept is not None:
            self._kept.append(frame)
            return
        self.frames_in += 1
        head = frame.head
        self.unsent += head.size + len(frame.body)
        if frame.receipt is not None or "receipt" in head.headers:
            self._holdings.ask()
        elif head.command == "SEND":
            self._holdings.is_silent = True
        if head.command == "SEND":
            place = self._places.get(head)
            self.link.put_send(self.number, self._place_of(head) if place is None else place, frame.body, frame.receipt)
            return
        self.link.put(ToPrimary.FRAME, self.number, head.command, head.headers, head.size, frame.body, frame.receipt)
        self._holdings.note(frame)
        if head.command == "DISCONNECT":
            self.ended = True
            self.link.end_turn(self)  # nothing of the client is read behind it

    def _place_of(self, head: Head) -> int:
        places = self._places
        # The primary overwrites the places, one by one.
        if len(places) == _PLACES:
            places.clear()
        place = places[head] = len(places)
        self._holdings.note_head(head.headers)
        self.link.put(ToPrimary.HEAD, self.number, place, head.command, head.headers, head.content_length, head.size)
        return place

    # from the primary

    def begin(self, session_id: str) -> None:
        """The primary has a session of that id for it."""
        self.id = session_id
        if self.login == ANONYMOUS:
            self.user = session_id
        self.opened.set()

    def fail(self, error: ProtocolError) -> None:
        """The session has failed at the primary, and its ERROR is on the way."""
        self.failed = True
        self.end(error)

    def note_handled(self, nbytes: int) -> None:
        """So many bytes of frames are handled."""
        self.on_way -= nbytes
        self.resume()

    def finish(self) -> None:
        """Nothing more comes from the primary."""
        self.done.set()
        self.resume()

    def renew(self, login: str, passcode: str, authorization: str) -> None:
        """Find out if the client may stay longer, by what it shows."""
        if self.outbox.carrier is not None:
            self.outbox.carrier.renew(Renewal(login, passcode, authorization))

    def tell_at_once(self) -> None:
        """The primary waits for room: tell it at once what the socket has taken, until that is all."""
        self.received.is_asked = True
        self.link.ask()

    def note_told(self) -> None:
        """The client has got the event that it was told last."""
        self.told = True

    # the end

    def failing(self, error: ProtocolError, frame: Frame | None = None) -> Iterator[None]:
        """Have the primary end the session, unless it was its own wish."""
        if self._is_lost:
            self.failed = True
            self.done.set()
            self.received.append(error_frame(error, frame, self.version, end=self.frame_end))
        elif not self.failed:
            self.failed = True
            about = None if frame is None else (frame.command, frame.headers)
            self.link.put(ToPrimary.FAIL, self.number, fields_of_error(error), about)
            self.link.ask()
        return iter(())

    def departing(self, unsent: object = (), *, lost: bool = False) -> Iterator[None]:
        """The primary does it, when it hears that the session ends."""
        return iter(())

    def close(self) -> None:
        self.go()
        self._reader = None
        self.link.leave(self)
        self.outbox.close()

    def renewed(self) -> None:
        self.told = False  # of what was to end then
        self.link.put(ToPrimary.RENEWED, self.number)
        self.link.ask()

    def tell(self, event: str, headers: Mapping[str, str], sentence: str) -> bool:
        """Send the client an event of its own session; False: it has not got it so far."""
        if not self.told:
            self.link.put(ToPrimary.TELL, self.number, event, dict(headers), sentence)
            self.link.ask()
        told, self.told = self.told, False
        return told

    def take_in(self, prefixes: Sequence[bytes], shared: Sequence[bytes], size: int) -> None:
        """Take frames for the client, with so many bytes in all."""
        if self._holdings.awaits_receipts:
            for prefix in prefixes:
                self._holdings.see(prefix)
        if self._gaps:
            prefixes = [self._told_of_gap(prefix) for prefix in prefixes]
        self.received.take_in(prefixes, shared, size)

    def _told_of_gap(self, prefix: bytes) -> bytes:
        if prefix not in self._gaps:
            return prefix
        del self._gaps[prefix]
        self.received.add_own(len(_GAP))
        return prefix + _GAP

    @property
    def can_move(self) -> bool:
        """True if another primary can have the session, and the client need not know."""
        nothing_on_way = not (self.on_way or self.unsent or self.is_held)
        is_open = self.opened.is_set() and not (self.ended or self.failed)
        return nothing_on_way and is_open and self._holdings.are_topics

    def wait_for_link(self) -> None:
        """The link is lost: read no more from the client until `move`."""
        self._kept = []
        self.hold()

    def move(self, number: int) -> None:
        """Have a session at the next primary, under another number."""
        self.number = number
        self.received.begin_again()
        self.link.put(ToPrimary.OPEN, number, fields_of_login(self._login), True)
        for headers in self._holdings.subscriptions.values():
            size = sum([len(name) + len(value) for name, value in headers.items()])
            self.link.put(ToPrimary.FRAME, number, "SUBSCRIBE", headers, size, b"", None)
            # Presence begins with a list, so nothing of it is missed.
            if not is_presence(headers["destination"]):
                self._gaps[message_prefix(headers.get("id"), self.version)] = None
        kept, self._kept = self._kept or [], None
        self._places.clear()
        for frame in kept:
            self.handle(frame)
        self.link.ask()
        self.go()

    def lose(self, error: ProtocolError) -> None:
        """The link is lost, and with it what the primary has of the session."""
        self._is_lost, self._kept = True, []
        self.on_way = 0
        if not self.opened.is_set():
            self.refusal = error
            self.opened.set()
        elif self.ended or self.failed:
            self.done.set()
        else:
            self.end(error)
        self.go()

    # flow

    def send(self) -> int:
        """The frames of the turn are put on the link; returns their bytes."""
        nbytes, self.unsent = self.unsent, 0
        self.on_way += nbytes
        return nbytes

    @property
    def must_wait(self) -> bool:
        """True if its client is not to be read for now."""
        return self.is_held or self.on_way > WINDOW

    def read_by(self, connection: Blockable) -> None:
        """That connection reads its frames."""
        self._reader = connection

    def hold(self) -> None:
        """Read no more of its frames for now; so its silence does not count, even if it is being read."""
        if not self.is_held:
            self.is_held = True
            if self._reader is not None:
                self._held.enter_context(self._reader.held())

    def go(self) -> None:
        """Read its frames again."""
        self.is_held = False
        self._held.close()
        self.resume()

    def resume(self) -> None:
        """There may be a reason to read on."""
        if self._resumed is not None and not self.must_wait:
            self._resumed.set()

    async def wait(self, connection: Blockable) -> None:
        """Wait as long as it must, and the client is there."""
        with connection.held():
            while self.must_wait and not self.done.is_set() and not connection.peer_has_gone():
                self._resumed = trio.Event()
                with trio.move_on_after(_LOOK_FOR_PEER):
                    await self._resumed.wait()
        self._resumed = None
