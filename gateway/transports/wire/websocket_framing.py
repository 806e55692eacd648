"""WebSocket framing (RFC 6455 section 5) for the server's side, without I/O.

A STOMP session over WebSocket is a stream of bytes like any other: message boundaries mean nothing (WST-04).  So the
payload of data frames is handed on as it arrives, even half a frame, and no message is ever put together; the limits of
the STOMP decoder bound the bytes that are kept.  The rest is unmasking, the rules of the RFC, and the control frames.

This code is our own because a message received through trio-websocket costs 22 us, through wsproto 9, here 1
(docs/design.md).  The masking is that of websockets, which has it in C: 50 us for 1 MiB, 3,800 in plain Python.
"""

import codecs
from enum import IntEnum

from gateway.codec import Binary

try:
    from websockets.speedups import apply_mask
except ImportError:  # no wheel for this machine, and no compiler
    from websockets.utils import apply_mask


class Opcode(IntEnum):
    """RFC 6455 section 11.8."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class CloseCode(IntEnum):
    """RFC 6455 section 7.4.1, those that we send."""

    NORMAL = 1000
    PROTOCOL_ERROR = 1002
    INVALID_DATA = 1007
    POLICY_VIOLATION = 1008
    SERVICE_RESTART = 1012
    TRY_AGAIN_LATER = 1013


class WebSocketError(Exception):
    """The peer broke RFC 6455; `code` is that of the Close frame."""

    def __init__(self, code: CloseCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


# Plain integers for the code that sees each frame: an attribute of an Enum costs five times a global.
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = (int(opcode) for opcode in Opcode)
_FIN = 0x80
_RESERVED_BITS = 0x70
_MASKED = 0x80
_LONGEST_CONTROL = 125


def header(opcode: int, size: int) -> bytes:
    """The header of an unmasked, final frame."""
    if size < 126:
        return bytes((_FIN | opcode, size))
    if size < 65536:
        return b"%c%c%b" % (_FIN | opcode, 126, size.to_bytes(2, "big"))
    return b"%c%c%b" % (_FIN | opcode, 127, size.to_bytes(8, "big"))


_text_headers: dict[int, bytes] = {}
_CACHED_HEADERS = 4096  # sizes; above it headers are made anew


def pack(parts: list[bytes]) -> list[bytes]:
    """STOMP frames, each a pair of parts, as one WebSocket message each: text where it is UTF-8 (WST-06, WST-12).

    Returns:
        Header, prefix, shared, header, prefix, shared, ...
    """
    packed = []
    pairs = iter(parts)
    for prefix, shared in zip(pairs, pairs, strict=True):
        size = len(prefix) + len(shared)
        if type(shared) is Binary:
            packed.append(header(Opcode.BINARY, size))
        else:
            known = _text_headers.get(size)
            if known is None:
                known = header(Opcode.TEXT, size)
                if size < _CACHED_HEADERS:
                    _text_headers[size] = known
            packed.append(known)
        packed.append(prefix)
        packed.append(shared)
    return packed


def close_frame(code: int, reason: str = "") -> bytes:
    """A Close frame; a long reason is cut."""
    payload = code.to_bytes(2, "big") + reason.encode()[: _LONGEST_CONTROL - 2].decode(errors="ignore").encode()
    return header(Opcode.CLOSE, len(payload)) + payload


class Deframer:
    """Bytes of a client's WebSocket to bytes of its STOMP stream."""

    __slots__ = ("_is_text", "_mask", "_open", "_pending", "_utf8", "close_reply", "closed", "left", "pong")

    def __init__(self) -> None:
        self.pong = b""  # the answer to the latest Ping (section 5.5.3 allows to answer only that one)
        self.closed = False  # a Close frame came; nothing after it counts
        self.close_reply = b""  # the Close frame that answers it
        self._pending = b""  # an incomplete header, or control frame
        self.left = 0  # bytes of the current data frame's payload that are still to come
        self._mask = b""
        self._open = False  # a fragmented message goes on
        self._is_text = False
        self._utf8: codecs.IncrementalDecoder | None = None  # where a text message is cut in pieces

    def feed(self, data: bytes) -> bytes:
        """Take bytes; returns the payload of data frames in them.  Raises `WebSocketError`."""
        if self._pending:
            data = self._pending + data
            self._pending = b""
        out: list[bytes] = []
        position, end = 0, len(data)
        while position < end and not self.closed:
            if self.left:
                position = self._continue_payload(data, position, out)
                continue
            start = self._read_header(data, position, end, out)
            if start < 0:
                self._pending = data[position:]
                break
            position = start
        return out[0] if len(out) == 1 else b"".join(out)

    def _read_header(self, data: bytes, position: int, end: int, out: list[bytes]) -> int:
        """Read one header, and a whole control frame; returns where the payload starts, -1 while incomplete."""
        if end < position + 2:
            return -1
        first, size = data[position], data[position + 1]
        # A fault shows in the first two bytes: the rest may never come.
        if size < _MASKED:
            raise WebSocketError(CloseCode.PROTOCOL_ERROR, "frames of a client must be masked")
        size -= _MASKED
        if first & _RESERVED_BITS:
            raise WebSocketError(CloseCode.PROTOCOL_ERROR, "a reserved bit is set")
        self._check_opcode(first & 15, size, final=first >= _FIN)
        start = position + 6
        if end < start:
            return -1
        if size > 125:
            wide = 2 if size == 126 else 8
            start += wide
            if end < start:
                return -1
            size = int.from_bytes(data[position + 2 : position + 2 + wide], "big")
            if size >> 63:
                raise WebSocketError(CloseCode.PROTOCOL_ERROR, "the payload length is out of range")
        mask = data[start - 4 : start]
        opcode = first & 15
        if opcode >= _CLOSE:
            return self._read_control(opcode, data, start, size, mask, end)
        if opcode != _CONTINUATION:
            self._is_text = opcode == _TEXT
        self._open = first < _FIN
        self.left = size
        self._mask = mask
        if not size:
            self._end_of_frame()
        return start

    def _check_opcode(self, opcode: int, size: int, *, final: bool) -> None:
        """Check that such a frame may come now (sections 5.2, 5.4, 5.5)."""
        fault = None
        if _BINARY < opcode < _CLOSE or opcode > _PONG:
            fault = "a reserved opcode"
        elif opcode >= _CLOSE:
            if size > _LONGEST_CONTROL or not final:
                fault = "a control frame that is fragmented or too long"
        elif opcode == _CONTINUATION:
            if not self._open:
                fault = "a continuation without a start"
        elif self._open:
            fault = "a new message inside a fragmented one"
        if fault is not None:
            raise WebSocketError(CloseCode.PROTOCOL_ERROR, fault)

    def _continue_payload(self, data: bytes, position: int, out: list[bytes]) -> int:
        """Unmask the bytes that came of a data frame's payload."""
        piece = data[position : position + self.left]
        size = len(piece)
        mask = self._mask
        self.left -= size
        piece = apply_mask(piece, mask)
        turn = size % 4
        if turn:
            self._mask = mask[turn:] + mask[:turn]
        out.append(piece)
        if self._is_text and (self._utf8 is not None or not piece.isascii()):
            self._check_text(piece)
        if not self.left:
            self._end_of_frame()
        return position + size

    def _check_text(self, piece: bytes) -> None:
        """Text must be UTF-8 (section 8.1); characters may be cut anywhere."""
        if self._utf8 is None:
            self._utf8 = codecs.getincrementaldecoder("utf-8")()
        try:
            self._utf8.decode(piece)
        except UnicodeDecodeError:
            raise WebSocketError(CloseCode.INVALID_DATA, "a text message is not UTF-8") from None

    def _end_of_frame(self) -> None:
        if not self._open and self._utf8 is not None:
            try:
                self._utf8.decode(b"", final=True)
            except UnicodeDecodeError:
                raise WebSocketError(CloseCode.INVALID_DATA, "a text message is not UTF-8") from None
            self._utf8 = None

    def _read_control(self, opcode: int, data: bytes, start: int, size: int, mask: bytes, end: int) -> int:
        if end < start + size:
            return -1
        payload = apply_mask(data[start : start + size], mask)
        if opcode == _PING:
            self.pong = header(_PONG, size) + payload
        elif opcode == _CLOSE:
            self.closed = True
            self.close_reply = close_frame(_code_to_echo(payload))
        return start + size


def _code_to_echo(payload: bytes) -> int:
    """The code with which a Close is answered: its own, if it may be sent at all (sections 5.5.1, 7.4)."""
    if not payload:
        return CloseCode.NORMAL
    try:
        payload[2:].decode()
    except UnicodeDecodeError:
        return CloseCode.INVALID_DATA
    code = int.from_bytes(payload[:2], "big")  # half a code is below 256, and refused below
    allowed = 1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999
    return code if allowed else CloseCode.PROTOCOL_ERROR
