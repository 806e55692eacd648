"""TLS pipe: TLS on any pipe, with the write that does not wait.

    peer <-- ciphertext --> pipe <--> TlsPipe: ciphertext in, OpenSSL, ciphertext out <--> plain bytes: the link

OpenSSL works in memory, so that one read of the system brings many records, and one write carries as many as we have.
A broadcast costs one encryption and one system call a receiver: 3.6 us for a message of 200 bytes, of 34 by
`trio.SSLStream`, which must await.  (OpenSSL on the socket itself takes 2.8, but cannot stand behind a PROXY header.)

The pipe below may take only a part of a record.  Such a record stands for plain bytes that the caller still has; they
count as written when the whole record is out, and the caller then passes the same bytes again.  If it passes others
(because it gave the first ones up), these go behind.

Versions below `tls_min_version`, renegotiation and compression are off.  The end of the stream without `close_notify`
counts as an end: STOMP frames say themselves whether they are complete.

TLS has records that carry nothing for us: new keys (12 us each, for 27 bytes), alerts.  OpenSSL takes any number of
them, and keeps its answers until we write.  A peer that sends nothing else, or has so many answers waiting, is cut off.
"""

import ssl
from contextlib import suppress
from typing import Any

import trio

from .link import BrokenLink, Buffers, Pipe, advance

# Plain bytes that become ciphertext at once: two records.  More would only make OpenSSL's buffer larger, which stays
# as large as it ever was.
_MOST = 32 * 1024
_RECORD = 16 * 1024  # plain bytes of a record, at most
# Bytes without a single plain one after which a peer is cut off; an incomplete record alone may have 16 KiB.
_MOST_BARREN = 32 * 1024
# Bytes of answers that a peer may have caused: new keys are answered with 27, and in years of traffic once or twice.
_MOST_ANSWERS = 4 * 1024
# First byte of every TLS connection: a handshake record.
HELLO = b"\x16\x03"


class HandshakeError(Exception):
    """The TLS handshake failed; `str()` says why, in words; empty: the peer came and went without one.

    `data` are the first bytes of a peer that does not speak TLS.
    """

    def __init__(self, reason: str, data: bytes = b"") -> None:
        super().__init__(reason)
        self.data = data


class TlsPipe:
    """A pipe that carries TLS on another one; we are the server, unless a `server_name` to ask for is given."""

    # One for each connection, of which ten thousand may be idle: without a dictionary it costs some 200 bytes less.
    __slots__ = (
        *("_barren", "_cipher", "_encrypt", "_encrypted", "_ended", "_incoming", "_left", "_owed", "_pipe"),
        *("_send_below", "_tls", "_writer"),
    )

    def __init__(self, pipe: Pipe, context: ssl.SSLContext, server_name: str | None = None) -> None:
        self._pipe = pipe
        self._incoming = ssl.MemoryBIO()
        self._writer = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._writer, server_side=server_name is None, server_hostname=server_name
        )
        # Looked up once: a broadcast does nothing but this.
        self._encrypt = self._tls.write
        self._encrypted = self._writer.read
        self._send_below = pipe.send_nowait
        self._cipher: Buffers = []  # ciphertext that the pipe did not take yet
        self._owed = b""  # the plain bytes that it stands for
        self._left = b""  # plain bytes that came and were not asked for yet
        self._barren = 0  # bytes since the last plain one
        self._ended = False  # the peer has said `close_notify`, or broken the stream

    async def handshake(self) -> None:
        """Do the TLS handshake; raises `HandshakeError`."""
        first = b""
        try:
            while True:
                try:
                    self._tls.do_handshake()
                except ssl.SSLWantReadError:
                    await self._write_out()
                    data = await self._pipe.receive(_RECORD)
                    if not data:
                        raise HandshakeError("the peer closed during the TLS handshake" if first else "") from None
                    first = first or data
                    if self._tls.server_side and not first.startswith(HELLO[: len(first)]):
                        raise HandshakeError("the peer does not speak TLS", first) from None
                    self._incoming.write(data)
                else:
                    return await self._write_out()
        except ssl.SSLError as error:
            with suppress(BrokenLink):
                await self._write_out()  # the alert that tells the peer why
            raise HandshakeError(_reason(error)) from None
        except BrokenLink:
            raise HandshakeError("the peer closed during the TLS handshake") from None

    async def _write_out(self) -> None:
        left: Buffers = [self._writer.read()] if self._writer.pending else []
        while left:
            left = advance(left, await self._pipe.send_some(left))

    @property
    def certificate(self) -> bytes | None:
        """The peer's certificate in DER, verified; None: it showed none."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def protocol(self) -> str | None:
        """The protocol inside that both ends know (ALPN); None: there is none."""
        return self._tls.selected_alpn_protocol()

    @property
    def peer_name(self) -> str:
        """The common name in the peer's certificate, verified; empty: it has none."""
        shown: Any = self._tls.getpeercert() or {}
        names = [str(value) for part in shown.get("subject", ()) for key, value in part if key == "commonName"]
        return names[-1] if names else ""

    async def receive(self, size: int) -> bytes:
        incoming = self._incoming
        while not self._left:
            if self._ended:
                return b""
            if not incoming.pending:  # else bytes came together with the handshake
                data = await self._pipe.receive(size)
                if not data:
                    return b""
                incoming.write(data)
                self._barren += len(data)
            plain = self._decrypt()
            if plain:
                self._barren = 0
            if self._barren > _MOST_BARREN or self._writer.pending > _MOST_ANSWERS:
                self._ended = True
            if plain and len(plain) <= size:
                return plain
            self._left = plain
        plain, self._left = self._left[:size], self._left[size:]
        return plain

    def _decrypt(self) -> bytes:
        """All plain bytes that came; empty if no record is complete yet."""
        incoming, read = self._incoming, self._tls.read
        parts: list[bytes] = []
        try:
            while incoming.pending:
                part = read(_RECORD)
                if not part:
                    self._ended = True
                    break
                parts.append(part)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self._ended = True
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def send_nowait(self, buffers: Buffers) -> int:
        if not self._cipher and len(buffers) == 1 and len(buffers[0]) <= _RECORD:  # nearly always
            return self._send(buffers[0])
        total = 0
        if self._cipher:
            self._cipher = advance(self._cipher, self._pipe.send_nowait(self._cipher))
            if self._cipher:
                return 0
            total = self._credit(buffers)
            buffers = advance(buffers, total)
        buffers = [each for each in buffers if len(each)]
        while buffers:
            sent = self._send(_gathered(buffers))
            total += sent
            if not sent:
                break
            buffers = advance(buffers, sent)
        return total

    def _send(self, data: bytes | memoryview) -> int:
        """Encrypt and write; returns the number of bytes, or 0 if the record is not all out."""
        size = len(data)
        try:
            sent = self._encrypt(data)
            while sent < size:
                sent += self._encrypt(memoryview(data)[sent:])
        except ssl.SSLError as error:
            raise BrokenLink(_reason(error)) from None
        cipher = self._encrypted()
        taken = self._send_below([cipher])
        if taken == len(cipher):
            return size
        self._cipher = advance([cipher], taken)
        self._owed = bytes(data)
        return 0

    def _credit(self, buffers: Buffers) -> int:
        """How many of the caller's bytes are out with the record."""
        owed, self._owed = self._owed, b""
        return len(owed) if _gathered(buffers)[: len(owed)] == owed else 0

    async def send_some(self, buffers: Buffers) -> int:
        while True:
            if not self._cipher:
                # In front: cancelled behind the write, the caller would write the same bytes again.
                await trio.lowlevel.checkpoint()
                sent = self.send_nowait(buffers)
                if sent:
                    return sent
            self._cipher = advance(self._cipher, await self._pipe.send_some(self._cipher))
            if not self._cipher:
                credit = self._credit(buffers)
                if credit:
                    return credit

    def peer_has_gone(self) -> bool:
        return self._pipe.peer_has_gone()

    def has_bytes(self) -> bool:
        return bool(self._left) or self._pipe.has_bytes()

    async def send_eof(self) -> None:
        """Send `close_notify`, and then end the pipe below."""
        with suppress(ssl.SSLError):
            self._tls.unwrap()
        if self._writer.pending:
            self._cipher.append(self._writer.read())
        with suppress(BrokenLink):
            while self._cipher:
                self._cipher = advance(self._cipher, await self._pipe.send_some(self._cipher))
        await self._pipe.send_eof()

    async def aclose(self) -> None:
        await self._pipe.aclose()


def _gathered(buffers: Buffers) -> bytes | memoryview:
    """The first bytes: as many buffers as stay below `_MOST` together, or the start of the first."""
    size = 0
    for index, buffer in enumerate(buffers):
        size += len(buffer)
        if size > _MOST:
            return b"".join(buffers[:index]) if index else memoryview(buffer)[:_MOST]
    return b"".join(buffers) if len(buffers) > 1 else buffers[0]


# The most frequent errors of OpenSSL, in our words.
_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client shows no certificate, and tls_client_certificates is required",
    "CERTIFICATE_VERIFY_FAILED": "the client's certificate is not one that tls_client_ca vouches for, or has expired",
    "UNSUPPORTED_PROTOCOL": "the client offers no TLS version from tls_min_version on",
    "NO_SHARED_CIPHER": "client and gateway have no cipher in common",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not know the authority of the gateway's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not accept the gateway's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not accept the gateway's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client says that the gateway's certificate has expired",
}


def _reason(error: ssl.SSLError) -> str:
    name = error.reason or ""
    words = _REASONS.get(name) or name.lower().replace("_", " ") or "the TLS record is broken"
    return f"{words}: {error.verify_message}" if isinstance(error, ssl.SSLCertVerificationError) else words
