"""A blocking STOMP client over TCP or TLS, on the gateway's own codec.

It knows connections, frames, receipts and heart-beats; it knows nothing of rows, of Spark and of reconnecting.  One
thread uses it.

The codec reads what clients send.  What a server sends has the same grammar but for its first frame: CONNECTED, or an
ERROR in its place, is read as STOMP 1.0, which unescapes nothing, and all behind it by the version agreed.

Sending never waits for reading and so never stands against a server that does the same: while the socket takes nothing
more, what has come is read and kept.  Heart-beats are sent and missed inside `receive`, so whoever holds a connection
open calls it often enough; a client without heart-beats (`beat=False`) may be left alone.
"""

from __future__ import annotations

import math
import select
import socket
import ssl
import time
from collections.abc import Sequence

from gateway.codec import V10, VERSIONS, Decoder, Frame, Limits, ProtocolError
from gateway.codec.encoder import frame
from gateway.codec.headers import escape

from .errors import CertificateRefused, ConnectionLost, ServerError
from .server import StompServer
from .tls import FileError, context_of, reason_of

# Frames of one chunk are taken together, so they should fit into a processor's cache.
_CHUNK = 64 * 1024
# Messages that came while something else was waited for are handed over in parts of about so many bytes: all of them
# at once might be more than an Arrow column of bytes can hold, which is 2 GiB.
_AT_ONCE = 64 * 1024**2
# A server's frames are ours to read: only what an Arrow column cannot hold is refused.
_LIMITS = Limits(headers=10_000, header_line=1024**2, body=1024**3, origin="")
# A peer is taken for dead after so many of its intervals without an byte.
_MARGIN = 2.5
# So RabbitMQ says that the session's process died, as it does for who subscribes to a stream that is just being made.
_CRASHED = "Processing error"
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Client:
    """One session.

    Args:
        where: the server, and who we are there.
        beat: heart-beats are wanted in both directions.

    Attributes:
        version: the one agreed.
        server: the header `server` of CONNECTED, or "".

    Raises:
        ConnectionLost: nobody answers.
        ServerError: the server refuses.
    """

    def __init__(self, where: StompServer, *, beat: bool = False) -> None:
        self._name = f"{where.host}:{where.port}"
        self._cert = where.cert
        self._timeout = where.receipt_timeout / 1000
        self._frames: list[Frame] = []
        self._held = 0  # bytes that have come and were not handed over, at most
        self._decoder = Decoder(_LIMITS)
        self._decoder.begin(V10, _LIMITS)
        self._send_interval = self._heard_interval = 0.0
        self._receipts = 0
        self.version = V10
        self.server = ""
        try:
            self._socket = _dial(where)
        except FileError as error:
            raise ConnectionLost(f"cannot connect to {self._name}: {error}") from None
        except OSError as error:
            reason = reason_of(error, where.ca, where.cert) or error
            raise ConnectionLost(f"cannot connect to {self._name}: {reason}") from None
        self._sent = self._heard = time.monotonic()
        try:
            self._open(where, where.heartbeat if beat else 0)
        except BaseException:
            self.close()
            raise

    def _open(self, where: StompServer, interval: int) -> None:
        lines = "".join([f"{name}:{value}\n" for name, value in where.connect_headers(interval).items()])
        self.send(f"CONNECT\n{lines}\n\0".encode())
        deadline = time.monotonic() + where.connect_timeout / 1000
        while not self._frames:
            left = deadline - time.monotonic()
            if left <= 0:
                raise ConnectionLost(f"{self._name} does not answer CONNECT")
            self._pull_first(left, where)
        answer = self._frames.pop(0)
        if answer.command != "CONNECTED":
            raise ServerError(f"{self._name} answered CONNECT with {answer.command}")
        self.server = answer.headers.get("server", "")
        self._beats(interval, answer.headers.get("heart-beat", "0,0"))

    def _pull_first(self, timeout: float, where: StompServer) -> None:
        """Read a chunk; who hangs up without a word has expected something else than STOMP."""
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

    def _beats(self, interval: int, answer: str) -> None:
        theirs, _, ours = answer.partition(",")
        if interval and ours.strip().isdigit() and int(ours):
            self._send_interval = max(interval, int(ours)) / 1000
        if interval and theirs.strip().isdigit() and int(theirs):
            self._heard_interval = max(interval, int(theirs)) / 1000

    def close(self) -> None:
        """End the connection at once; what is not acknowledged goes back."""
        self._socket.close()

    def disconnect(self) -> None:
        """End the session in order, as far as the server takes part."""
        try:
            self.request("DISCONNECT", {})
        except (ConnectionLost, ServerError):
            pass  # it is over, one way or the other
        finally:
            self.close()

    # Writing.

    def encode(self, command: str, headers: dict[str, str], body: bytes = b"") -> bytes:
        """A frame as the session's version writes it."""
        return frame(command, headers, body, version=self.version)

    def acks(self, subscription: str, handles: Sequence[str], receipt: str = "") -> bytes:
        """ACK frames for messages of a subscription; the last asks for the receipt, if one is named.

        Args:
            handles: the `ack` header of a 1.2 MESSAGE, the `message-id` of older ones.
        """
        if not handles:
            return b""
        version = self.version
        begin = "ACK\nid:"
        if not version.ack_id:
            about = f"subscription:{escape(subscription, version)}\n" if version.subscription_id else ""
            begin = f"ACK\n{about}message-id:"
        text = "".join(handles)
        if not version.lenient and ("\\" in text or ":" in text or "\n" in text or "\r" in text):
            handles = [escape(handle, version) for handle in handles]
        last = f"\nreceipt:{receipt}\n\n\0" if receipt else "\n\n\0"
        return (begin + ("\n\n\0" + begin).join(handles) + last).encode()

    def send(self, data: bytes) -> None:
        """Write all bytes.

        Raises:
            ConnectionLost: the connection has ended, or takes nothing for the time of `receiptTimeoutMs`.
            ServerError: an ERROR came meanwhile.
        """
        view = memoryview(data)
        deadline = time.monotonic() + self._timeout
        while view:
            try:
                count = self._socket.send(view)
            except _WOULD_BLOCK:
                if time.monotonic() > deadline:
                    raise ConnectionLost(f"{self._name} takes no more octets") from None
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
        """Send a frame and wait for its RECEIPT; other frames that come meanwhile wait for `receive`.

        Raises:
            ConnectionLost, ServerError: no receipt came.
        """
        self._receipts += 1
        receipt = f"r{self._receipts}"
        self.send(self.encode(command, {**headers, "receipt": receipt}, body))
        self.wait_for(receipt, command)

    def wait_for(self, receipt: str, what: str) -> None:
        """Wait for a RECEIPT.

        Raises:
            ConnectionLost, ServerError: it did not come.
        """
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
        """Frames that have come, MESSAGE and RECEIPT only; empty: none within the timeout, in seconds.

        They have a chunk more than `_AT_ONCE` bytes, at most, or are one.

        Raises:
            ConnectionLost: the connection has ended, or the server's heart-beats have.
            ServerError: an ERROR came, or what is no STOMP.
        """
        if not self._frames:
            self._pull(timeout)
        if self._held <= _AT_ONCE:
            frames, self._frames, self._held = self._frames, [], 0
            return frames
        count = size = 0
        while count < len(self._frames) and size < _AT_ONCE:
            size += len(self._frames[count].body) + self._frames[count].head.size
            count += 1
        frames, self._frames = self._frames[:count], self._frames[count:]
        self._held = max(0, self._held - size) if self._frames else 0
        return frames

    def rest(self, seconds: float) -> None:
        """Read nothing for so long, so that the server has to wait; it still hears that somebody is there.

        Raises:
            ConnectionLost: the connection has ended.
        """
        time.sleep(min(seconds, max(0.0, self._beat())))

    def _beat(self) -> float:
        """Send a heart-beat if it is time; the seconds until the next."""
        if not self._send_interval:
            return math.inf
        due = self._sent + 0.8 * self._send_interval - time.monotonic()
        if due > 0:
            return due
        self.send(b"\n")
        return 0.8 * self._send_interval

    def _pull(self, timeout: float) -> None:
        """Read one chunk, after waiting for it if need be."""
        due = self._beat()  # also where there is always something to read
        if not self._read_chunk():
            now = time.monotonic()
            if self._heard_interval and now - self._heard > _MARGIN * self._heard_interval:
                raise ConnectionLost(f"{self._name} has sent nothing for {now - self._heard:.1f} s")
            self._wait(min(timeout, due), select.POLLIN)
            self._read_chunk()

    def _wait(self, timeout: float, events: int) -> None:
        waiting = select.poll()
        waiting.register(self._socket, events)
        waiting.poll(max(0.0, timeout) * 1000)

    def _read_chunk(self) -> bool:
        """Whether bytes were there."""
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
        self._decoder.feed(chunk)
        try:
            for each in self._decoder.frames():
                if each.head.command != "MESSAGE":
                    self._look_at(each)
                self._frames.append(each)
        except ProtocolError as error:
            where = self._frames[-1].headers if self._frames else {}
            behind = f" behind {where['message-id']} of {where.get('destination')}" if "message-id" in where else ""
            raise ServerError(f"{self._name} sent what is no frame{behind}: {error}: {error.detail}") from None
        return True

    def _look_at(self, other: Frame) -> None:
        """What is no message may be an ERROR, or name the version of all further frames, even of the same chunk."""
        if other.command == "ERROR":
            told = _told(self._name, other)
            # So our gateway says that it is about to stop, and that another connection will do better.
            passing = "retry-after" in other.headers or other.headers.get("message") == _CRASHED
            raise ConnectionLost(str(told)) if passing else told
        if other.command == "CONNECTED":
            named = {version.name: version for version in VERSIONS}
            self.version = named.get(other.headers.get("version", "1.0"), V10)
            self._decoder.begin(self.version, _LIMITS)

    def _broken(self, error: OSError) -> ConnectionLost:
        if reason := reason_of(error, cert=self._cert):
            return CertificateRefused(f"cannot connect to {self._name}: {reason}")
        return ConnectionLost(f"the connection to {self._name} broke: {error}")

    def _last_words(self) -> None:
        """Raise the ERROR or the alert that explains why the server closed, if there is one."""
        try:
            while self._read_chunk():
                pass
        except CertificateRefused:
            raise
        except ConnectionLost:
            pass


def _dial(where: StompServer) -> socket.socket:
    """A connected socket that never blocks."""
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


def _told(name: str, error: Frame) -> ServerError:
    detail = error.body.decode(errors="replace").strip()[:500]
    return ServerError(f"{name} says: {error.headers.get('message', 'ERROR')}" + (f" ({detail})" if detail else ""))
