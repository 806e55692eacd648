"""One client connection of the generator, and the check of what it receives.

Opening is blocking and simple.  After it the socket is non-blocking and belongs to a loop, which may sleep or poll as
its measurement needs.  Nothing here knows a scenario.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections import deque
from collections.abc import Sequence
from functools import cache

from benchmarks.wire import DeliveryError, Transport, frame

CHUNK = 256 * 1024
PATIENCE = 20.0
_ACK = re.compile(rb"\nack:([^\r\n]+)")
# TLS has its own words for a socket that is not ready.
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_RECEIPT = re.compile(rb"\nreceipt-id:([^\r\n]+)")


class Link:
    """A connected STOMP client."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.inbound = transport.inbound()
        self.unsent: deque[memoryview] = deque()
        self.socket = socket.create_connection((transport.host, transport.port), PATIENCE)
        try:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if transport.authority:
                self.socket = _context(transport.authority).wrap_socket(self.socket, server_hostname="localhost")
            for nbytes, end in transport.greeting():
                self.socket.sendall(nbytes)
                greet(self.socket, end)
        except BaseException:
            self.socket.close()
            raise

    def send(self, data: bytes) -> None:
        """Write now what the socket takes; `flush` writes the rest."""
        self.unsent.append(memoryview(data))
        self.flush()

    def flush(self) -> None:
        while self.unsent:
            data = self.unsent[0]
            try:
                taken = self.socket.send(data)
            except _NOT_NOW:
                return
            if taken < len(data):
                self.unsent[0] = data[taken:]
            else:
                self.unsent.popleft()

    def write_out(self) -> None:
        """Write all that was left, and wait for it."""
        self.socket.settimeout(PATIENCE)
        while self.unsent:
            self.socket.sendall(self.unsent.popleft())
        self.socket.setblocking(False)

    def read(self) -> bytes:
        """What has arrived; empty when nothing has."""
        try:
            chunk = self.socket.recv(CHUNK)
        except _NOT_NOW:
            return b""
        if not chunk:
            raise DeliveryError(f"the server closed a connection{self.inbound.farewell}")
        return chunk

    def request(self, command: str, **headers: object) -> list[bytes]:
        """Send this frame with a receipt, wait for the RECEIPT, and return the frames that came before it."""
        self.socket.settimeout(PATIENCE)
        wanted = f"bench-{command}"
        self.socket.sendall(self.transport.encode([frame(command, receipt=wanted, **headers)]))
        found: list[bytes] = []
        while True:
            frames = self.inbound.frames(self.read())
            for number, each in enumerate(frames):
                if receipt_id(each) == wanted.encode():
                    if frames[number + 1 :]:
                        raise DeliveryError(f"frames behind the last RECEIPT: {shown(frames[number + 1])}")
                    self.socket.setblocking(False)
                    return found
                if b"ERROR" in each[:8]:
                    raise DeliveryError(f"the server answered {command} by {shown(each)}")
                found.append(each)

    def leave(self) -> None:
        """DISCONNECT with a receipt; anything that arrives before the RECEIPT is a delivery too many."""
        surplus = self.request("DISCONNECT")
        self.socket.close()
        if surplus:
            raise DeliveryError(f"{len(surplus)} deliveries too many, the first: {shown(surplus[0])}")


@cache
def _context(authority: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority)


class Check:
    """What one link must receive: these bodies, each once, in this order, over and over; `count` are there already."""

    def __init__(self, expected: Sequence[bytes], count: int = 0) -> None:
        self.cycle = len(expected)
        # Twice, so that the slice to compare with never has to be put together from an end and a beginning.
        self._expected = [b"\n\n" + body for body in expected] * 2
        self.size = len(self._expected[0])
        self.count = count

    def take(self, deliveries: list[bytes]) -> None:
        """Count these deliveries, whole frames or their tails.

        Raises:
            DeliveryError: one is not what comes next.
        """
        for first in range(0, len(deliveries), self.cycle):
            found = deliveries[first : first + self.cycle]
            at = self.count % self.cycle
            wanted = self._expected[at : at + len(found)]
            if found != wanted and not all(map(bytes.endswith, found, wanted)):
                raise self._fault(found, at)
            self.count += len(found)

    def _fault(self, deliveries: list[bytes], at: int) -> DeliveryError:
        tails = [each[-self.size :] for each in deliveries]
        pairs = zip(tails, self._expected[at:], strict=False)
        found, wanted = next((found, wanted) for found, wanted in pairs if found != wanted)
        what = "altered, or of another length"
        if found in self._expected:
            step = (self._expected.index(found) - at) % self.cycle
            what = "messages are missing before it" if step < self.cycle // 2 else "repeated or out of order"
        return DeliveryError(f"delivery {self.count}: {what}: wanted {shown(wanted[:24])}, found {shown(found[:24])}")


class Receiver:
    """A link whose deliveries are checked, and acknowledged one by one when `acknowledges`."""

    def __init__(self, link: Link, check: Check, acknowledges: bool = False) -> None:
        self.link = link
        self.check = check
        self._acknowledges = acknowledges

    def receive(self) -> None:
        """Read once and check what came, if anything did."""
        if chunk := self.link.read():
            self._take(chunk)
        if self.link.inbound.replies:
            self.link.send(self.link.inbound.replies)
            self.link.inbound.replies = b""

    def _take(self, chunk: bytes) -> None:
        if self._acknowledges:
            frames = self.link.inbound.frames(chunk)
            self.check.take(frames)
            if frames:
                self.link.send(self.link.transport.encode([_ack(each) for each in frames]))
        else:
            self.check.take(self.link.inbound.tails(chunk, self.check.size))


class ReceiptReceiver(Receiver):
    """A link whose deliveries are RECEIPTs; `check` holds the receipt ids as bodies."""

    def _take(self, chunk: bytes) -> None:
        frames = self.link.inbound.frames(chunk)
        self.check.take([b"\n\n" + receipt_id(each) for each in frames])


def greet(connection: socket.socket, end: bytes) -> None:
    """Read the answer to one step of the greeting.

    Raises:
        DeliveryError: it is not a CONNECTED or a 101.
    """
    answer = b""
    while end not in answer:
        chunk = connection.recv(CHUNK)
        if not chunk:
            raise DeliveryError(f"the server refused the connection: {shown(answer)}")
        answer += chunk
    require_welcome(answer)


def require_welcome(answer: bytes) -> None:
    if b"CONNECTED" not in answer and b" 101 " not in answer:
        raise DeliveryError(f"the server refused the connection: {shown(answer)}")


def receipt_id(each: bytes) -> bytes:
    """The id of a RECEIPT; empty for any other frame."""
    found = _RECEIPT.search(each)
    return found[1] if found and b"RECEIPT" in each[:10] else b""


def shown(data: bytes) -> str:
    """Enough of a frame for an error message."""
    return repr(data[:200])[1:]


def _ack(message: bytes) -> bytes:
    found = _ACK.search(message)
    if found is None:
        raise DeliveryError(f"a MESSAGE without an ack header: {shown(message)}")
    return b"ACK\nid:" + found[1] + b"\n\n\0"
