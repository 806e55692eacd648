r"""Octets of a client to frames.

The grammar, with `EOL` as the version has it (see `versions`):

    stream  = *( *( EOL / NUL ) frame )
    frame   = command EOL *( name ":" value EOL ) EOL body NUL
    body    = content-length octets, or everything up to the first NUL where that header is missing

What we do beside the grammar, one by one:

* CR, LF and NUL between frames are skipped in every version, not only where the version calls them EOL: there are
  clients that end a frame twice, and both common brokers take them.  In front of the first frame a few thousand octets
  are, for a stranger has no session whose rates would bound it.
* An empty content-length is 0.
* The first frame has no version yet.  Its command is matched in any case, one CR before LF is cut, nothing is
  unescaped; when its `accept-version` leaves only 1.0, it is read again as the lenient dialect has it.
* A raw colon in a 1.1 or 1.2 value is accepted: the first colon of a line splits it.
* In 1.1 a CR in front of LF is data of a value, and an error behind a command.

How it is fast.  Blocks are found by `bytes.find`, bodies by their length; nothing loops over octets.  Equal header
blocks of SEND frames are parsed once: the raw block is the key of a small cache of `Head`s.  A block found there was
checked when it came in, so the checks are skipped with the parsing.

How it stays bounded.  Before a block is complete, at most `header_block` octets are looked at again per chunk.  An
incomplete body is a list of chunks, joined once: with content-length when the last octet is there, without it when a
chunk holds a NUL.

A receipt makes each block another one; so it is taken out before, if it is plain, and stands in the frame instead.

The known weakness: a client whose every block is unique all the same pays the parse each time, 2.5 us.
"""

from __future__ import annotations

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
_S = ord("S")  # only blocks of SEND frames are kept
_LF_LF = b"\n\n"
_LF_CR_LF = b"\n\r\n"
_BETWEEN = re.compile(rb"[\r\n\0]*")
_LENIENT_BETWEEN = re.compile(rb"(?:[\r\n\0]+| +(?=[ \r\n\0]))*")
_LENIENT_BLANK = re.compile(rb"\n[ \r]*\n")
# Octets that are skipped in front of the first frame, in all: twice what the longest greeting of this kind has that we
# know of (2,000 NULs), so that nothing that says CONNECT in the end is refused, and no stranger keeps us reading.
_MOST_IN_FRONT = 4 * 1024
# Longer than any command with its CR and some spaces: without an LF by then, it is no STOMP.
_LONGEST_COMMAND_LINE = 64
# Chunks smaller than this are kept together in pieces of up to that.
_CRUMB = 4 * 1024
_CRUMBS = 64 * 1024
# The line of a header that may differ in each of a client's frames, and the values that are taken as they stand.
_RECEIPT = b"\nreceipt:"
_PLAIN_VALUE = re.compile(rb"[!-\[\]-~]*").fullmatch
# A block longer than this is not worth keeping: the cache is per connection and bounded by entries times this.
_LONGEST_CACHED_BLOCK = 1024
_CACHED_BLOCKS = 64


class Decoder:
    """Turns chunks into frames, lazily: `feed` a chunk, then exhaust `frames()`.

    It starts without a version and reads one CONNECT or STOMP frame; set `version` and `limits` (`begin`) before the
    next frame is asked for.

    Raises, from `frames()`:
        MalformedFrame: the octets are no frame.
        LimitExceeded: a limit is exceeded; the message names it.

    After an error the decoder is of no further use.
    """

    __slots__ = (
        "_blank",
        "_buffer",
        "_cache",
        "_head",
        "_in_front",
        "_later",
        "_later_size",
        "_limits",
        "_position",
        "_receipt",
        "_searched",
        "_version",
    )

    def __init__(self, limits: Limits) -> None:
        self._version: Version | None = None
        self._limits = limits
        self._blank = _LF_LF
        self._buffer = b""
        self._position = 0
        self._head: Head | None = None  # of the frame whose body is incomplete
        self._receipt: str | None = None  # likewise, where its head lacks that
        self._later: list[bytes | bytearray] = []  # chunks behind an incomplete frame
        self._later_size = 0
        self._searched = 0  # octets of the incomplete frame in which no end was found
        self._cache: dict[bytes, Head] = {}
        self._in_front = 0  # octets that were skipped before the first frame

    def begin(self, version: Version, limits: Limits) -> None:
        """Read all further frames by this version and these limits."""
        self._version = version
        self._limits = limits

    @property
    def first_octets(self) -> bytes:
        """The first octets not yet understood, for a log line about a peer that speaks something else."""
        return self._buffer[self._position : self._position + 16]

    @property
    def incomplete(self) -> int:
        """Octets that are kept of a frame which is not complete."""
        return len(self._buffer) - self._position + self._later_size if self._buffer else 0

    def feed(self, chunk: bytes) -> None:
        """Take the next octets of the stream."""
        if self._position >= len(self._buffer):
            self._buffer = chunk
            self._position = 0
        else:
            self._keep(chunk)

    def _keep(self, chunk: bytes) -> None:
        """Keep a chunk of an incomplete frame; crumbs together, for an object each would cost more than they do."""
        later = self._later
        self._later_size += len(chunk)
        if len(chunk) >= _CRUMB:
            later.append(chunk)
        elif later and isinstance(later[-1], bytearray) and len(later[-1]) < _CRUMBS:
            later[-1] += chunk
        else:
            later.append(bytearray(chunk))

    def frames(self) -> Iterator[Frame]:
        """All frames that are complete by now."""
        if self._later:
            if self._head is not None and self._head.content_length >= 0:
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
            if length < 0:
                stop = self._find_nul(buffer, position, end)
                if stop < 0:
                    break
            else:
                stop = position + length
                if stop >= end:
                    break
                if buffer[stop] != _NUL:
                    raise _no_nul(head)
            frame = Frame(head, buffer[position:stop], self._receipt)
            head = self._head = self._receipt = None
            # The state is whole at each yield: the handshake takes one frame and comes back later for the rest.
            position = self._position = stop + 1
            self._searched = 0
            yield frame
        self._head = head
        self._position = position
        if position >= end:
            self._buffer = b""  # an idle client shall not cost its last chunk
        elif position > _CRUMB:
            self._buffer, self._position = buffer[position:], 0  # nor one that stops in the middle of a frame

    def _assemble(self, head: Head) -> Frame:
        """The frame whose body of known length the last chunk completes: its pieces are copied once."""
        last = bytes(self._later.pop())
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
        """Join what came behind an incomplete frame, if that can complete it."""
        if self._head is not None and _NUL not in self._later[-1]:
            self._limits.check_body(len(self._buffer) - self._position + self._later_size)
            return False
        self._buffer = b"".join([self._buffer[self._position :], *self._later])
        self._position = 0
        self._later = []
        self._later_size = 0
        return True

    def _find_nul(self, buffer: bytes, start: int, end: int) -> int:
        """Where a body of unknown length ends, or -1 when its NUL is not there yet."""
        stop = buffer.find(b"\0", start + self._searched)
        self._limits.check_body((end if stop < 0 else stop) - start)
        if stop < 0:
            self._searched = end - start
        return stop

    # Header blocks, off the fast path.

    def _read_head(self, buffer: bytes, position: int, cut: int) -> tuple[Head | None, int]:
        """Parse one block, whose end may be at `cut` (-1: unknown): its head, or None, and where to go on."""
        if buffer[position] <= _SPACE:
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
            behind = cut + 2  # no CR in it, so nothing in front of this empty line can be one
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
                headers = dict(head.headers)
                del headers["receipt"]
                head = Head(head.command, headers, head.content_length, len(block))
            if len(self._cache) >= _CACHED_BLOCKS:
                self._cache.clear()
            self._cache[block] = head
        return head, behind

    def _check_in_front(self, skipped: int) -> None:
        """Refuse a peer that sends on and on, and no frame."""
        self._in_front += skipped
        if self._in_front > _MOST_IN_FRONT:
            raise MalformedFrame(
                "no CONNECT",
                f"more than {_MOST_IN_FRONT} octets came, and they are NULs and empty lines; "
                "a session opens with CONNECT or STOMP",
            )

    def _find_but_receipt(self, block: bytes) -> Head | None:
        """The head of a block that was there before, with another receipt."""
        if _RECEIPT in block and (parts := self._split(block)) is not None:
            head = self._cache.get(parts[0])
            if head is not None:
                self._receipt = parts[1]
                return head
        return None

    def _split(self, block: bytes) -> tuple[bytes, str] | None:
        """A block without its receipt, and that one; None: it is not there once, or not as plain as it mostly is."""
        start = block.find(_RECEIPT)
        end = block.find(b"\n", start + 1)
        value = block[start + len(_RECEIPT) : end if end >= 0 else len(block)]
        is_plain = _PLAIN_VALUE(value) is not None and len(value) <= self._limits.header_line - len(_RECEIPT)
        is_lenient = self._version is not None and self._version.lenient
        if not is_plain or is_lenient or block.find(_RECEIPT, start + 1) >= 0:
            return None
        return block[:start] + (block[end:] if end >= 0 else b""), value.decode()

    def _find_blank_line(self, buffer: bytes, position: int, cut: int) -> tuple[int, int]:
        """Start and end of the empty line that ends the block, or (-1, -1).

        A client keeps to one EOL; the one it used last is searched first, the other only in front of that hit (else a
        CRLF client would have every chunk searched to its end for each frame).
        """
        limit = position + self._limits.header_block + 4
        version = self._version
        if version is None or version.lenient:
            found = _LENIENT_BLANK.search(buffer, position, limit)
            if found is None:
                return -1, -1
            self._blank = _LF_CR_LF if found.group() == _LF_CR_LF else _LF_LF
            return found.span()
        position += max(0, self._searched - 3)  # an empty line may have begun in what was searched before
        if not version.strips_cr and self._blank != _LF_LF:  # left over from the CONNECT
            self._blank, cut = _LF_LF, -1
        blank = self._blank
        if cut < 0 or cut > limit:
            cut = buffer.find(blank, position, limit)
        if version.strips_cr:
            other = _LF_CR_LF if blank is _LF_LF else _LF_LF
            earlier = buffer.find(other, position, cut + 1 if cut >= 0 else limit)
            if earlier >= 0:
                self._blank = other
                return earlier, earlier + len(other)
        return (cut, cut + len(blank)) if cut >= 0 else (-1, -1)

    def _check_incomplete(self, buffer: bytes, position: int) -> None:
        """Refuse early what can never become a frame, instead of waiting for more of it."""
        size = len(buffer) - position
        if size > self._limits.header_block + 2:  # the start of an empty line may be there
            raise self._limits.headers_too_large()
        if buffer.find(b"\0", position + self._searched) >= 0:
            raise MalformedFrame("NUL octet among the headers", "an empty line must stand between headers and body")
        line_end = buffer.find(b"\n", position, position + _LONGEST_COMMAND_LINE)
        line = buffer[position : line_end if line_end >= 0 else position + _LONGEST_COMMAND_LINE]
        if self._version is None:
            self._check_opening(line, complete=line_end >= 0)
        elif line_end < 0 and size >= _LONGEST_COMMAND_LINE:
            raise _no_command(line)
        elif line_end >= 0 and not self._version.strips_cr and line.endswith(b"\r"):
            raise _cr_behind_command()
        self._searched = size

    def _check_opening(self, line: bytes, *, complete: bool) -> None:
        """Refuse what another protocol says first, at its first octets."""
        command = line.rstrip(b" \r").upper().decode("latin-1")  # octets: upper() leaves all but ASCII
        if command not in CLIENT_COMMANDS and (
            complete or not any(known.startswith(command) for known in CLIENT_COMMANDS)
        ):
            raise _no_command(line)

    def _parse(self, block: bytes) -> Head:
        limits, version = self._limits, self._version
        if len(block) > limits.header_line:
            limits.check_lines(block)
        if len(block) >= _LONGEST_COMMAND_LINE and block.find(b"\n", 0, _LONGEST_COMMAND_LINE) < 0:
            raise _no_command(block)
        if len(block) > limits.headers:
            limits.check_count(block)
        if _NUL in block:
            raise MalformedFrame("NUL octet among the headers", "an empty line must stand between headers and body")
        try:
            text = block.decode()
        except UnicodeDecodeError as error:
            raise MalformedFrame("headers are not UTF-8", f"octet {error.start} of the frame is not UTF-8") from None
        if version is None:
            command, headers = parse_opening(text)
            if command not in CLIENT_COMMANDS:
                raise _no_command(block.partition(b"\n")[0])
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
            "empty content-length", "a content-length without a number counts as 0, and there is a body; leave it out"
        )
    return MalformedFrame(
        "no NUL behind the body",
        f"content-length says {head.content_length}, and the octet behind that body is not NUL",
    )


def _no_command(line: bytes) -> MalformedFrame:
    shown = line[:40].decode("latin-1")
    return MalformedFrame(
        "this is not STOMP", f"{shown!r} is not a STOMP command; a session opens with CONNECT or STOMP"
    )


def _cr_behind_command() -> MalformedFrame:
    return MalformedFrame(
        "CR behind the command", "lines of STOMP 1.1 end in LF alone; offer accept-version 1.2 for CR LF"
    )
