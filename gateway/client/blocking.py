"""A blocking STOMP client over TCP or TLS, for one thread.  `protocol` has the frames, this module the connection.

It knows connections, receipts and heart-beats; it knows nothing of rows, of Spark and of reconnecting.

`send` reads while the socket is full, so two sides that both send never block each other.  Heart-beats are sent and
checked inside `receive`, so a program that holds a connection open calls it often enough; a client without heart-beats
(`beat=False`) may be left alone.
"""

import math
import select
import socket
import ssl
import time
from collections.abc import Sequence

from gateway.codec import Frame, ProtocolError, Version

from .errors import CertificateRefused, ConnectionLost, ServerError, refusal
from .protocol import ClientProtocol
from .server import FileError, StompServer, context_of, reason_of, unreachable

# Frames of one chunk are taken together, so they should fit into a processor's cache.
_CHUNK = 64 * 1024
# `receive` hands over about so many bytes at once: an Arrow column of bytes holds 2 GiB at most.
BYTES_AT_ONCE = 64 * 1024**2
# A server counts as dead after so many of its intervals without a byte.
_MARGIN = 2.5
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Client:
    """One session.

    Args:
        where: the server, and the login there.
        beat: ask for heart-beats in both directions.

    Attributes:
        protocol: the session's frames.

    Raises:
        ConnectionLost: the server cannot be reached, or does not answer.
        ServerError: the server refuses.
    """

    def __init__(self, where: StompServer, *, beat: bool = False) -> None:
        self._name = f"{where.host}:{where.port}"
        self._cert = where.cert
        self._timeout = where.receipt_timeout / 1000
        self._frames: list[Frame] = []
        self._held = 0  # bytes that have come and were not handed over, at most
        self._receipts = 0
        self.protocol = ClientProtocol()
        try:
            self._socket = _dial(where)
        except FileError as error:
            raise ConnectionLost(f"cannot connect to {self._name}: {error}") from None
        except OSError as error:
            reason = unreachable(error, where.ca, where.cert)
            raise ConnectionLost(f"cannot connect to {self._name}: {reason}") from None
        self._sent = self._heard = time.monotonic()
        try:
            self._open(where, where.heartbeat if beat else 0)
        except BaseException:
            self.close()
            raise

    @property
    def version(self) -> Version:
        return self.protocol.version

    @property
    def server(self) -> str:
        """The header `server` of CONNECTED, or ""."""
        return self.protocol.server

    def _open(self, where: StompServer, interval: int) -> None:
        self.send(self.protocol.connect(where.connect_headers(interval)))
        deadline = time.monotonic() + where.connect_timeout / 1000
        while not self._frames:
            left = deadline - time.monotonic()
            if left <= 0:
                raise ConnectionLost(f"{self._name} does not answer CONNECT")
            self._pull_first(left, where)
        answer = self._frames.pop(0)
        if answer.command != "CONNECTED":
            raise ServerError(f"{self._name} answered CONNECT with {answer.command}")

    def _pull_first(self, timeout: float, where: StompServer) -> None:
        """Read a chunk; a server that closes without an answer expected another protocol than STOMP."""
        try:
            self._pull(timeout)
        except CertificateRefused:
            raise
        except ConnectionLost as error:
            if self._held:
                raise
            other = "another protocol" if where.tls else "TLS"
            if where.tls and not where.cert:
                other = "a client certificate, another protocol"
            sentence = f"{error} without an answer to CONNECT; does it expect {other}, or a PROXY header first?"
            raise ConnectionLost(sentence) from None

    def close(self) -> None:
        """Close the connection at once; the server takes back the messages without an ACK."""
        self._socket.close()

    def disconnect(self) -> None:
        """End the session in order, as far as the server takes part."""
        try:
            self.request("DISCONNECT", {})
        except (ConnectionLost, ServerError):
            pass  # the connection has ended in any case
        finally:
            self.close()

    # Writing.

    def encode(self, command: str, headers: dict[str, str], body: bytes = b"") -> bytes:
        return self.protocol.encode(command, headers, body)

    def acks(self, subscription: str, handles: Sequence[str], receipt: str = "") -> bytes:
        return self.protocol.acks(subscription, handles, receipt)

    def send(self, data: bytes) -> None:
        """Write all bytes.

        Raises ConnectionLost: the connection has ended, or takes nothing for `receipt_timeout`; ServerError: an ERROR
        came meanwhile.
        """
        view = memoryview(data)
        deadline = time.monotonic() + self._timeout
        while view:
            try:
                count = self._socket.send(view)
            except _WOULD_BLOCK:
                if time.monotonic() > deadline:
                    raise ConnectionLost(f"{self._name} takes no more bytes") from None
                if not self._read_chunk():
                    self._wait(1.0, select.POLLIN | select.POLLOUT)
                continue
            except OSError as error:
                self._last_words()
                raise self._broken(error) from None
            view = view[count:]
            deadline = time.monotonic() + self._timeout
        self._sent = time.monotonic()

    def request(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        """Send a frame and wait for its RECEIPT; `receive` returns the frames that come meanwhile.

        Raises ConnectionLost, ServerError: the RECEIPT did not come.
        """
        self._receipts += 1
        receipt = f"r{self._receipts}"
        self.send(self.encode(command, {**headers, "receipt": receipt}, body))
        self.wait_for(receipt, command)

    def wait_for(self, receipt: str, what: str) -> None:
        """Wait for a RECEIPT.  Raises ConnectionLost, ServerError: it did not come."""
        deadline = time.monotonic() + self._timeout
        looked = 0
        while True:
            for place in range(looked, len(self._frames)):
                each = self._frames[place]
                if each.command == "RECEIPT" and each.headers.get("receipt-id") == receipt:
                    del self._frames[place]
                    return
            looked = len(self._frames)
            left = deadline - time.monotonic()
            if left <= 0:
                raise ConnectionLost(f"{self._name} did not confirm {what} in {self._timeout:g} s")
            self._pull(left)

    # Reading.

    def receive(self, timeout: float) -> list[Frame]:
        """MESSAGE and RECEIPT frames that have come; empty: none within the timeout, in seconds.

        Together they exceed `BYTES_AT_ONCE` bytes by a chunk at most, unless one frame alone does.

        Raises ConnectionLost: the connection has ended, or the server's heart-beats have; ServerError: an ERROR came,
        or bytes that are not STOMP.
        """
        if not self._frames:
            self._pull(timeout)
        if self._held <= BYTES_AT_ONCE:
            frames, self._frames, self._held = self._frames, [], 0
            return frames
        count = size = 0
        while count < len(self._frames) and size < BYTES_AT_ONCE:
            size += len(self._frames[count].body) + self._frames[count].head.size
            count += 1
        frames, self._frames = self._frames[:count], self._frames[count:]
        self._held = max(0, self._held - size) if self._frames else 0
        return frames

    def rest(self, seconds: float) -> None:
        """Read nothing for so many seconds, so that the server has to wait; heart-beats still go out.

        Raises ConnectionLost: the connection has ended.
        """
        time.sleep(min(seconds, max(0.0, self._beat())))

    def _beat(self) -> float:
        """Send a heart-beat if it is due; returns the seconds until the next."""
        if not self.protocol.send_interval:
            return math.inf
        due = self._sent + 0.8 * self.protocol.send_interval - time.monotonic()
        if due > 0:
            return due
        self.send(b"\n")
        return 0.8 * self.protocol.send_interval

    def _pull(self, timeout: float) -> None:
        """Read one chunk; wait for it if there is none."""
        due = self._beat()  # also while bytes come without a pause
        if not self._read_chunk():
            now = time.monotonic()
            if self.protocol.receive_interval and now - self._heard > _MARGIN * self.protocol.receive_interval:
                raise ConnectionLost(f"{self._name} has sent nothing for {now - self._heard:.1f} s")
            self._wait(min(timeout, due), select.POLLIN)
            self._read_chunk()

    def _wait(self, timeout: float, events: int) -> None:
        waiting = select.poll()
        waiting.register(self._socket, events)
        waiting.poll(max(0.0, timeout) * 1000)

    def _read_chunk(self) -> bool:
        """Read what has come; returns whether there were bytes."""
        try:
            chunk = self._socket.recv(_CHUNK)
        except _WOULD_BLOCK:
            return False
        except OSError as error:
            raise self._broken(error) from None
        if not chunk:
            raise ConnectionLost(f"{self._name} ended the connection")
        self._heard = time.monotonic()
        self._held += len(chunk)
        try:
            for each in self.protocol.receive(chunk):
                if each.head.command == "ERROR":
                    raise refusal(each, self._name)
                self._frames.append(each)
        except ProtocolError as error:
            where = self._frames[-1].headers if self._frames else {}
            behind = f" behind {where['message-id']} of {where.get('destination')}" if "message-id" in where else ""
            raise ServerError(f"{self._name} sent what is no frame{behind}: {error}: {error.detail}") from None
        return True

    def _broken(self, error: OSError) -> ConnectionLost:
        if reason := reason_of(error, cert=self._cert):
            return CertificateRefused(f"cannot connect to {self._name}: {reason}")
        return ConnectionLost(f"the connection to {self._name} broke: {error}")

    def _last_words(self) -> None:
        """Raise the ERROR or the TLS alert with the server's reason to close, if one has come."""
        try:
            while self._read_chunk():
                pass
        except CertificateRefused:
            raise
        except ConnectionLost:
            pass


def _dial(where: StompServer) -> socket.socket:
    """A connected socket in non-blocking mode."""
    plain = socket.create_connection((where.host, where.port), timeout=where.connect_timeout / 1000)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if where.tls:
            context = context_of(where.ca, where.cert, where.key)
            plain = context.wrap_socket(plain, server_hostname=where.host)
        plain.setblocking(False)
    except BaseException:
        plain.close()
        raise
    return plain
