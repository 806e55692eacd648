r"""Decoder: makes frames of the bytes of a client.

The grammar, with `EOL` as the version has it (see `versions`):

    stream  = *( *( EOL / NUL ) frame )
    frame   = command EOL *( name ":" value EOL ) EOL body NUL
    body    = content-length bytes, or everything up to the first NUL where that header is missing

Blocks are found by `bytes.find`, bodies by their length; nothing loops over bytes.  Equal header blocks of SEND frames
are parsed once: a small cache maps the raw block to its `Head`.  A receipt would make each block unique, so a plain one
is cut out of the key and kept in the frame.  An incomplete body is a list of chunks that is joined once.

Known weakness: a client that varies its blocks for another reason pays 2.5 us for each parse.
"""

import re
from collections.abc import Iterator

from .errors import MalformedFrame
from .frame import Frame, Head
from .headers import parse_lines, parse_opening
from .limits import Limits
from .versions import Version, negotiate

CLIENT_COMMANDS = frozenset("CONNECT STOMP SEND SUBSCRIBE UNSUBSCRIBE ACK NACK BEGIN COMMIT ABORT DISCONNECT".split())

_NUL = 0
_CR = 13
_SPACE = 32
_S = ord("S")  # only blocks of SEND frames are cached: those of ACK frames are all different
_LF_LF = b"\n\n"
_LF_CR_LF = b"\n\r\n"
# STOMP 1.2, BNF: EOLs may follow a frame, and are heart-beats.  NULs, and CRs in 1.1, are skipped as well: there are
# clients that end a frame twice, and RabbitMQ and ActiveMQ accept them (FRM-04).
_BETWEEN = re.compile(rb"[\r\n\0]*")
# LEN-01, LEN-02: in 1.0 a line of spaces is an empty line.
_LENIENT_BETWEEN = re.compile(rb"(?:[\r\n\0]+| +(?=[ \r\n\0]))*")
_LENIENT_BLANK = re.compile(rb"\n[ \r]*\n")
# Bytes that are skipped before the first frame at most: twice the longest known run (2,000 NULs of a client that does
# send CONNECT).  There is no session yet, with rate limits that would bound them.
_MOST_IN_FRONT = 4 * 1024
# Longer than any command with its CR and some spaces; a longer first line is not STOMP.
_LONGEST_COMMAND_LINE = 64
# Smaller chunks are collected in pieces of up to `_CRUMBS` bytes: an object costs more than a few bytes.
_CRUMB = 4 * 1024
_CRUMBS = 64 * 1024
# The header line that differs in each frame, and its plain values: no space, backslash or CR that versions read apart.
_RECEIPT = b"\nreceipt:"
_PLAIN_VALUE = re.compile(rb"[!-\[\]-~]*").fullmatch
# Longer blocks are not cached: a cache belongs to one connection, and its memory is entries times this.
_LONGEST_CACHED_BLOCK = 1024
_CACHED_BLOCKS = 64


class Decoder:
    """Lazy decoder: `feed` it a chunk, then exhaust `frames()`.

    It starts without a version, for one CONNECT or STOMP frame; call `begin` before the next frame is read.  After an
    error it must not be used any more.
    """

    __slots__ = (
        *("_blank", "_buffer", "_cache", "_head", "_in_front", "_later", "_later_size", "_limits", "_position"),
        *("_receipt", "_searched", "_version"),
    )

    def __init__(self, limits: Limits) -> None:
        self._version: Version | None = None
        self._limits = limits
        self._blank = _LF_LF
        self._buffer = b""
        self._position = 0
        self._head: Head | None = None  # of the frame with an incomplete body
        self._receipt: str | None = None  # of that frame, where its head lacks it
        self._later: list[bytes | bytearray] = []  # chunks after the buffer, of the same incomplete frame
        self._later_size = 0
        self._searched = 0  # bytes of the incomplete frame in which no end was found
        self._cache: dict[bytes, Head] = {}
        self._in_front = 0  # bytes skipped before the first frame

    def begin(self, version: Version, limits: Limits) -> None:
        """Read all further frames by this version and these limits."""
        # `frames` is lazy, so this takes effect within a chunk: CONNECT and SEND may share one (CON-11, NEG-08).
        self._version = version
        self._limits = limits

    @property
    def first_bytes(self) -> bytes:
        """The first bytes that are not decoded, for a log line about a peer that does not speak STOMP."""
        return self._buffer[self._position : self._position + 16]

    @property
    def incomplete(self) -> int:
        """Bytes kept of an incomplete frame."""
        return len(self._buffer) - self._position + self._later_size if self._buffer else 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the client."""
        # A chunk that begins a frame is used as it is, without a copy.
        if self._position >= len(self._buffer):
            self._buffer = chunk
            self._position = 0
        else:
            self._keep(chunk)

    def _keep(self, chunk: bytes) -> None:
        """Keep a chunk of an incomplete frame."""
        later = self._later
        self._later_size += len(chunk)
        if len(chunk) >= _CRUMB:
            later.append(chunk)
        elif later and isinstance(later[-1], bytearray) and len(later[-1]) < _CRUMBS:
            later[-1] += chunk
        else:
            later.append(bytearray(chunk))

    def frames(self) -> Iterator[Frame]:
        """All frames that are complete so far.

        Raises MalformedFrame: the bytes are no frame; LimitExceeded: a limit is exceeded; the message names it.
        """
        if self._later:
            if self._head is not None and self._head.content_length >= 0:
                # BOD-02: the length is known, so until the NUL behind it has come, no byte is looked at.
                have = len(self._buffer) - self._position + self._later_size
                if have <= self._head.content_length:
                    return
                yield self._assemble(self._head)
            elif not self._gather():
                return
        buffer, position, end = self._buffer, self._position, len(self._buffer)
        cache, blank = self._cache, self._blank
        head = self._head
        while position < end:
            if head is None:
                # The hot path: a block that is in the cache was checked when it came first, so it is not checked again.
                cut = buffer.find(blank, position, position + _LONGEST_CACHED_BLOCK)
                if (
                    cut >= 0
                    and buffer[position] == _S
                    and (head := cache.get(block := buffer[position:cut]) or self._find_but_receipt(block)) is not None
                ):
                    position = cut + len(blank)
                    self._searched = 0
                else:
                    head, position = self._read_head(buffer, position, cut)
                    blank = self._blank
                    if head is None:
                        break
            length = head.content_length
            if length < 0:  # BOD-03: the body ends at the first NUL
                stop = self._find_nul(buffer, position, end)
                if stop < 0:
                    break
            else:
                stop = position + length
                if stop >= end:
                    break
                if buffer[stop] != _NUL:  # BOD-04: STOMP 1.2, Body: the NUL must follow all the same
                    raise _no_nul(head)
            frame = Frame(head, buffer[position:stop], self._receipt)
            head = self._head = self._receipt = None
            # All state is stored before each yield: the handshake takes one frame, and the rest of the chunk later.
            position = self._position = stop + 1
            self._searched = 0
            yield frame
        self._head = head
        self._position = position
        if position >= end:
            self._buffer = b""  # an idle client must not cost the memory of its last chunk
        elif position > _CRUMB:
            self._buffer, self._position = buffer[position:], 0  # nor a client that stops within a frame

    def _assemble(self, head: Head) -> Frame:
        """The frame with a body of known length, which the last chunk completes."""
        # The pieces are joined once: a join per chunk would copy a body of n chunks n times.
        last = bytes(self._later.pop())
        # Bytes after the body: all that is kept, less the body; so many of the last chunk do not belong to it.
        behind = len(self._buffer) - self._position + self._later_size - head.content_length
        stop = len(last) - behind
        if last[stop] != _NUL:
            raise _no_nul(head)
        body = b"".join([self._buffer[self._position :], *self._later, last[:stop]])
        receipt, self._head, self._receipt = self._receipt, None, None
        self._buffer = last
        self._position = stop + 1
        self._later = []
        self._later_size = 0
        return Frame(head, body, receipt)

    def _gather(self) -> bool:
        """Join the kept chunks, if they may complete the frame."""
        # Older chunks were searched when they came, so only the last one can hold the NUL.
        if self._head is not None and _NUL not in self._later[-1]:
            self._limits.check_body(len(self._buffer) - self._position + self._later_size)
            return False
        self._buffer = b"".join([self._buffer[self._position :], *self._later])
        self._position = 0
        self._later = []
        self._later_size = 0
        return True

    def _find_nul(self, buffer: bytes, start: int, end: int) -> int:
        """End of a body of unknown length; -1: its NUL has not come yet."""
        # From where the last search ended: else each chunk would cost a search of the whole body.
        stop = buffer.find(b"\0", start + self._searched)
        self._limits.check_body((end if stop < 0 else stop) - start)
        if stop < 0:
            self._searched = end - start
        return stop

    # Header blocks, off the fast path.

    def _read_head(self, buffer: bytes, position: int, cut: int) -> tuple[Head | None, int]:
        """Parse one block.

        `cut`: the end of the block; -1: not found yet.  Returns Its head, or None if it is incomplete; and the position
        after it.
        """
        if buffer[position] <= _SPACE:  # no command starts so: an EOL between frames, or a NUL
            skip = _LENIENT_BETWEEN if self._version is None or self._version.lenient else _BETWEEN
            found = skip.match(buffer, position)
            assert found is not None  # both patterns match the empty string
            if self._version is None:
                self._check_in_front(found.end() - position)
            position = found.end()
            if position >= len(buffer):
                return None, position
            cut = -1
            self._searched = 0
        block = buffer[position:cut] if cut >= 0 else b"\r"
        if self._blank is _LF_LF and _CR not in block and self._version is not None and not self._version.lenient:
            behind = cut + 2  # without a CR in the block there is no earlier empty line of CR LF
        else:
            cut, behind = self._find_blank_line(buffer, position, cut)
            if cut < 0:
                self._check_incomplete(buffer, position)
                return None, position
            block = buffer[position:cut]
        head = self._parse(block)
        self._searched = 0
        if head.command == "SEND" and len(block) <= _LONGEST_CACHED_BLOCK:
            if "receipt" in head.headers and (parts := self._split(block)) is not None:
                block, self._receipt = parts
                # The cached head lacks the receipt, so that frames with other receipts can share it.
                headers = dict(head.headers)
                del headers["receipt"]
                head = Head(head.command, headers, head.content_length, len(block))
            if len(self._cache) >= _CACHED_BLOCKS:
                self._cache.clear()  # an LRU would cost each hit more than this costs a client of many blocks
            self._cache[block] = head
        return head, behind

    def _check_in_front(self, skipped: int) -> None:
        """Refuse a peer that sends only line ends and NULs."""
        self._in_front += skipped
        if self._in_front > _MOST_IN_FRONT:
            raise MalformedFrame(
                "no CONNECT",
                f"the client sent over {_MOST_IN_FRONT} bytes of NULs and empty lines; open the session with CONNECT "
                "or STOMP",
            )

    def _find_but_receipt(self, block: bytes) -> Head | None:
        """Cached head of a block that differs only in its receipt; None: there is none."""
        if _RECEIPT in block and (parts := self._split(block)) is not None:
            head = self._cache.get(parts[0])
            if head is not None:
                self._receipt = parts[1]
                return head
        return None

    def _split(self, block: bytes) -> tuple[bytes, str] | None:
        """A block without its receipt, and the receipt; None: it occurs twice or is not plain."""
        start = block.find(_RECEIPT)
        end = block.find(b"\n", start + 1)
        value = block[start + len(_RECEIPT) : end if end >= 0 else len(block)]
        # The shortcut skips the parser, so it must not accept what the parser refuses, like a line over the limit.
        is_plain = _PLAIN_VALUE(value) is not None and len(value) <= self._limits.header_line - len(_RECEIPT)
        is_lenient = self._version is not None and self._version.lenient
        if not is_plain or is_lenient or block.find(_RECEIPT, start + 1) >= 0:
            return None
        return block[:start] + (block[end:] if end >= 0 else b""), value.decode()

    def _find_blank_line(self, buffer: bytes, position: int, cut: int) -> tuple[int, int]:
        """Start and end of the empty line that ends the block, or (-1, -1)."""
        limit = position + self._limits.header_block + 4
        version = self._version
        if version is None or version.lenient:
            found = _LENIENT_BLANK.search(buffer, position, limit)
            if found is None:
                return -1, -1
            self._blank = _LF_CR_LF if found.group() == _LF_CR_LF else _LF_LF
            return found.span()
        position += max(0, self._searched - 3)  # an empty line may have begun in the bytes searched before
        if not version.strips_cr and self._blank != _LF_LF:  # left over from the CONNECT
            self._blank, cut = _LF_LF, -1
        # Each client keeps to one EOL.  The one that it used last is searched first, the other only before that hit:
        # else each chunk of a CRLF client would be searched to its end for each frame.
        blank = self._blank
        if cut < 0 or cut > limit:
            cut = buffer.find(blank, position, limit)
        if version.strips_cr:
            # FRM-02: 1.2 allows both EOLs side by side, so the block ends at the first of them.
            other = _LF_CR_LF if blank is _LF_LF else _LF_LF
            earlier = buffer.find(other, position, cut + 1 if cut >= 0 else limit)
            if earlier >= 0:
                self._blank = other
                return earlier, earlier + len(other)
        return (cut, cut + len(blank)) if cut >= 0 else (-1, -1)

    def _check_incomplete(self, buffer: bytes, position: int) -> None:
        """Refuse bytes that can never become a frame, instead of waiting for more of them (FRM-13)."""
        size = len(buffer) - position
        if size > self._limits.header_block + 2:  # two for the start of an empty line
            raise self._limits.headers_too_large()
        nul = buffer.find(b"\0", position + self._searched)
        if nul > position and self._version is None:  # most other protocols have a NUL early
            self._check_opening(buffer[position:nul].partition(b"\n")[0], complete=True)
        if nul >= 0:
            raise _nul_in_headers()
        line_end = buffer.find(b"\n", position, position + _LONGEST_COMMAND_LINE)
        line = buffer[position : line_end if line_end >= 0 else position + _LONGEST_COMMAND_LINE]
        if self._version is None:
            self._check_opening(line, complete=line_end >= 0)
        elif line_end < 0 and size >= _LONGEST_COMMAND_LINE:
            raise _no_command(line)
        elif line_end >= 0 and not self._version.strips_cr and line.endswith(b"\r"):
            raise _cr_behind_command()  # FRM-03: to 1.1 the CR is a part of the command
        self._searched = size

    def _check_opening(self, line: bytes, *, complete: bool) -> None:
        """Refuse other protocols, like HTTP or TLS, at their first bytes."""
        command = line.rstrip(b" \r").upper().decode("latin-1")  # upper() of bytes changes ASCII letters only
        if command not in CLIENT_COMMANDS and (
            complete or not any(known.startswith(command) for known in CLIENT_COMMANDS)
        ):
            raise _no_command(line)

    def _parse(self, block: bytes) -> Head:
        limits, version = self._limits, self._version
        # Limits come first: a block that exceeds them must not cost a parse (LIM-01, LIM-02).
        if len(block) > limits.header_line:
            limits.check_lines(block)
        if len(block) >= _LONGEST_COMMAND_LINE and block.find(b"\n", 0, _LONGEST_COMMAND_LINE) < 0:
            raise _no_command(block)
        if len(block) > limits.headers:
            limits.check_count(block)
        if _NUL in block:
            raise _nul_in_headers()
        try:
            text = block.decode()  # STOMP 1.2: commands and headers are UTF-8 (ENC-09); so is 1.0 (LEN-10)
        except UnicodeDecodeError as error:
            detail = f"byte {error.start} of the frame is not UTF-8; encode commands and headers in UTF-8"
            raise MalformedFrame("headers are not UTF-8", detail) from None
        if version is None:
            command, headers = parse_opening(text)
            if command not in CLIENT_COMMANDS:
                raise _no_command(block.partition(b"\n")[0])
            # NEG-01: without accept-version the session is one of 1.0, and this frame is in its dialect already.
            chosen = negotiate(headers.get("accept-version"))
            if chosen is not None and chosen.lenient:
                command, headers = parse_lines(text, chosen)
        else:
            command, headers = parse_lines(text, version)
            if not version.strips_cr and command.endswith("\r"):
                raise _cr_behind_command()
        length = headers.get("content-length")
        return Head(command, headers, -1 if length is None else limits.length_of(length), len(block))


def _no_nul(head: Head) -> MalformedFrame:
    if not head.headers.get("content-length"):
        return MalformedFrame(
            "empty content-length",
            "an empty content-length counts as 0, and the frame has a body; leave the header out",
        )
    return MalformedFrame(
        "no NUL behind the body",
        f"content-length is {head.content_length}, and no NUL follows that many bytes; count bytes, not characters",
    )


def _nul_in_headers() -> MalformedFrame:
    return MalformedFrame("NUL byte among the headers", "end the headers with an empty line, also before an empty body")


_PROTOCOLS = {
    b"\x16": "is the start of TLS, and this port has none",
    b"AMQP": "is the start of AMQP, and this port speaks STOMP",
    b"\x10": "is the start of MQTT, and this port speaks STOMP",
    b"PROXY ": "is a PROXY header, and this port expects none",
    **{method + b" /": "is a request of HTTP, and this port speaks STOMP" for method in (b"GET", b"POST", b"HEAD")},
}
"""First bytes of other protocols, and what to say of them."""


def _no_command(line: bytes) -> MalformedFrame:
    shown = line[:40].rstrip(b"\r").decode("latin-1")
    other = next((name for start, name in _PROTOCOLS.items() if line.startswith(start)), "")
    detail = "is not a STOMP command; open the session with CONNECT or STOMP"
    return MalformedFrame("this is not STOMP", f"{shown!r} {other or detail}")


def _cr_behind_command() -> MalformedFrame:
    return MalformedFrame(
        "CR behind the command", "lines of STOMP 1.1 end with LF alone; use accept-version 1.2 for CR LF"
    )
