"""A STOMP server without I/O: it takes the bytes of a `ClientSession`, and its answers may be lost."""

from __future__ import annotations

from gateway.client.errors import ConnectionLost
from gateway.client.session import ClientSession
from gateway.codec import Decoder, Frame, Limits, encoder
from gateway.codec.versions import V12

CONNECT = {"accept-version": "1.2", "host": "a", "heart-beat": "0,0"}


class FakeServer:
    """One server, over all connections.

    Attributes:
        name: the header `server` of CONNECTED.
        poison: bodies of SENDs that get an ERROR.
        names_receipts: an ERROR has `receipt-id`.
        carried_out: (dedup-id, body) of each SEND.
        frames: what has come on this connection, CONNECT left out.
    """

    def __init__(self, name: str = "test/1") -> None:
        self.name = name
        self.poison: set[bytes] = set()
        self.names_receipts = False
        self.carried_out: list[tuple[str, bytes]] = []
        self.frames: list[Frame] = []
        self._answers: list[bytes] = []
        self._has_refused = False

    def connect(self, session: ClientSession) -> None:
        session.begin(CONNECT)
        self._decoder = Decoder(Limits())
        self.frames, self._answers, self._has_refused = [], [], False
        assert [frame.command for frame in self._read(session)] == ["CONNECT"]
        session.receive(encoder.connected({"version": "1.2", "server": self.name}))
        assert session.is_open

    def _read(self, session: ClientSession) -> list[Frame]:
        self._decoder.feed(b"".join(session.take()))
        return list(self._decoder.frames())

    def work(self, session: ClientSession) -> None:
        """Carry out what has come, up to the first frame that is wrong; the answers wait."""
        for frame in [] if self._has_refused else self._read(session):
            self.frames.append(frame)
            receipt = frame.headers.get("receipt", "")
            if frame.command == "SEND" and frame.body in self.poison:
                names = {"receipt-id": receipt} if self.names_receipts and receipt else {}
                self._say("ERROR", {"message": "no", **names})
                self._has_refused = True  # nothing behind an ERROR counts
                return
            if frame.command == "SEND":
                self.carried_out.append((frame.headers.get("dedup-id", ""), frame.body))
            if receipt:
                self._say("RECEIPT", {"receipt-id": receipt})

    def _say(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        self._answers.append(encoder.frame(command, headers, body, version=V12))

    def message(self, session: ClientSession, subscription: str, body: bytes = b"", **headers: str) -> None:
        named = {"subscription": subscription, "message-id": body.decode(), "ack": f"ack-{body.decode()}"}
        session.receive(encoder.frame("MESSAGE", {**named, **headers}, body, version=V12))

    def error(self, session: ClientSession, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        session.receive(encoder.frame("ERROR", named, version=V12))

    def answer(self, session: ClientSession, count: int | None = None) -> None:
        """Let so many answers come, None: all; the others are lost with the connection."""
        told = self._answers[:count]
        del self._answers[: len(told)]
        session.receive(b"".join(told))

    def serve(self, session: ClientSession, rounds: int = 50) -> None:
        """Connections and answers until nothing is left to say."""
        for _ in range(rounds):
            if session.ended is not None or not session.is_open:
                cut(session)
                self.connect(session)
            self.work(session)
            if not self._answers:
                return
            self.answer(session)
        raise AssertionError("there is no end of it")


def cut(session: ClientSession) -> None:
    """The connection ends without a word."""
    session.lost(ConnectionLost("gone"))


def opened(server: FakeServer | None = None) -> tuple[ClientSession, FakeServer]:
    """A session after CONNECTED, and its server."""
    session, server = ClientSession("there"), server or FakeServer()
    server.connect(session)
    return session, server
