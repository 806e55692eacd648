"""A connection to the broker without a socket, with the methods of `links.Tcp`, on a clock of the test."""

from __future__ import annotations

from gateway.broker.errors import error_frame
from gateway.broker.headers.connect import read_opening
from gateway.codec import Decoder, Limits, ProtocolError, encoder
from tests.broker.client import Client
from tests.broker.client import Scene as Broker


class Core:
    """A client of a broker in this process."""

    kind = "core"
    was_reset = False

    def __init__(self, broker: Broker) -> None:
        self.faults: list[str] = []
        self._broker = broker
        self._client: Client | None = None
        self._opening = b""
        self._decoder = Decoder(Limits())
        self._out = b""  # in front of what the client has written
        self._read = 0
        self._ended = False

    def send(self, data: bytes) -> None:
        if self._ended or (self._client is not None and self._client.closed):
            raise BrokenPipeError("the server has closed the connection")
        if self._client is not None:
            self._client.receive(data)
            return
        self._opening += data
        frame = None
        try:
            self._decoder.feed(data)
            frame = next(self._decoder.frames(), None)
            if frame is None:
                return
            version = read_opening(frame).version
        except ProtocolError as error:
            self._out = error_frame(error, frame, end=encoder.END)
            self._ended = True
        else:
            self._out = encoder.connected({"version": version.name})
            self._client = self._broker.connect_by(self._opening)

    def receive(self, seconds: float) -> bytes | None:
        """The next octets; time passes only if there are none, and then at once."""
        if chunk := self._take():
            return chunk
        if self._ended or (self._client is not None and self._client.closed):
            return b""
        self._broker.wait(min(seconds, 1.0))
        return self._take() or None

    def _take(self) -> bytes:
        written = b"" if self._client is None else self._client.written
        chunk, self._out = self._out + written[self._read :], b""
        self._read = len(written)
        return chunk

    def close(self) -> None:
        self._ended = True
        if self._client is not None:
            self._client.drop()

    def half_close(self) -> None:
        """The session ends; what it was sent can still be read."""
        if self._client is not None:
            self._client.drop()

    reset = close
