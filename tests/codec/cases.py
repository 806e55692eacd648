"""The table of decoder cases: octets and version to frames or error; each may be cut anywhere, repeated, followed."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.codec import V10, V11, V12, VERSIONS, LimitExceeded, Limits, MalformedFrame, ProtocolError, Version

from .reading import Plain

STANDARD = Limits()
SMALL = Limits(headers=4, header_line=32, body=20)
BLOCK_OF_128 = Limits(headers=100, header_line=32, body=20)
DISCONNECT: Plain = ("DISCONNECT", {}, b"")


@dataclass(frozen=True)
class Case:
    name: str
    requirements: tuple[str, ...]
    version: Version | None
    octets: bytes
    frames: tuple[Plain, ...] = ()  # those in front of the error, where there is one
    error: type[ProtocolError] | None = None  # its type, and `reason` a part of its message
    reason: str = ""
    limits: Limits = STANDARD

    def __str__(self) -> str:
        return f"{self.version.name if self.version else 'opening'}: {self.name}"


def good(
    name: str,
    requirements: str,
    versions: tuple[Version | None, ...],
    octets: bytes,
    *frames: Plain,
    limits: Limits = STANDARD,
) -> list[Case]:
    return [Case(name, tuple(requirements.split()), version, octets, frames, limits=limits) for version in versions]


def bad(
    name: str,
    requirements: str,
    versions: tuple[Version | None, ...],
    octets: bytes,
    reason: str,
    *frames: Plain,
    limits: Limits = STANDARD,
    error: type[ProtocolError] = MalformedFrame,
) -> list[Case]:
    return [
        Case(name, tuple(requirements.split()), version, octets, frames, error, reason, limits) for version in versions
    ]


def send(body: bytes = b"", **headers: str) -> Plain:
    return "SEND", {name.replace("_", "-"): value for name, value in headers.items()}, body


def connect(command: str = "CONNECT", **headers: str) -> Plain:
    return command, {name.replace("_", "-"): value for name, value in headers.items()}, b""


def lines(size: int) -> list[bytes]:
    """Header lines of so many octets together, with the LFs between them, none longer than 32."""
    found = [b"n%d:%b" % (number, b"v" * (12 - (number > 9))) for number in range(size // 16 - 1)]
    return [*found, b"last:" + b"v" * (size - 16 * len(found) - 5)]


def parsed(header_lines: list[bytes]) -> dict[str, str]:
    return dict(line.decode().split(":") for line in header_lines)


ALL = VERSIONS
STRICT = (V11, V12)
EOLS = (V10, V12)  # those in which CR LF ends a line
OPENING = (None,)

FRAMES = [
    *good("a body", "FRM-01 BOD-03 LEN-08", ALL, b"SEND\ndestination:/queue/a\n\nhello\0",
          send(b"hello", destination="/queue/a")),
    *good("no headers, no body", "FRM-05 BOD-13", ALL, b"DISCONNECT\n\n\0", DISCONNECT),
    *good("an empty value", "FRM-10", ALL, b"SEND\nk:\n\n\0", send(k="")),
    *good("colons in a value", "FRM-12", ALL, b"SEND\nk:a:b\n\n\0", send(k="a:b")),
    *good("the first of repeated entries", "HDR-01", ALL, b"SEND\nk:1\nk:2\n\n\0", send(k="1")),
    *good("UTF-8", "ENC-09 LEN-10", ALL, "SEND\nň:漢𝄞\n\né\0".encode(), send("é".encode(), ň="漢𝄞")),
    *good("LF in front, between and behind", "FRM-04 HBT-04 LEN-02", ALL, b"\n\nDISCONNECT\n\n\0\n\n\nSEND\n\nx\0\n",
          DISCONNECT, send(b"x")),
    *good("CR LF between frames", "FRM-04", ALL, b"\r\nDISCONNECT\n\n\0\r\n\n\r\r\nSEND\n\nx\0\r\n",
          DISCONNECT, send(b"x")),
    *good("NULs in front, between and behind", "FRM-04", ALL,
          b"\0DISCONNECT\n\n\0\0\nSEND\n\nx\0\n\0\r\n\0\0SEND\n\n\0\0\0", DISCONNECT, send(b"x"), send()),
    *good("a NUL behind a body with content-length", "FRM-04 BOD-07", ALL,
          b"SEND\ncontent-length:1\n\nx\0\0SEND\n\ny\0", send(b"x", content_length="1"), send(b"y")),
    *good("several frames", "FRM-09", ALL, b"SEND\n\na\0SEND\n\nb\0SEND\nk:v\n\nc\0",
          send(b"a"), send(b"b"), send(b"c", k="v")),
    *good("NUL in a body with content-length", "BOD-02 BOD-07 LEN-08", ALL,
          b"SEND\ncontent-length:5\n\na\0b\n\n\0SEND\n\n\0",
          send(b"a\0b\n\n", content_length="5"), send()),
    *good("an empty content-length without a body", "BOD-09 BOD-13", ALL,
          b"SEND\ncontent-length:\n\n\0SEND\n\nx\0SEND\ncontent-length:\n\n\0",
          send(content_length=""), send(b"x"), send(content_length="")),
    *good("zeros in front of content-length", "BOD-02", ALL, b"SEND\ncontent-length:" + b"0" * 20 + b"3\n\nabc\0",
          send(b"abc", content_length="0" * 20 + "3")),
    *good("a body of empty lines", "BOD-11", ALL, b"SEND\n\n\n\n\r\n\0", send(b"\n\n\r\n")),
    *good("a body of all octets", "BOD-11", ALL, b"SEND\ncontent-length:256\n\n" + bytes(range(256)) + b"\0",
          send(bytes(range(256)), content_length="256")),
    *good("a body on any frame", "BOD-01", ALL, b"ACK\n\nignored\0", ("ACK", {}, b"ignored")),
    *good("CR LF at the end of lines", "FRM-02 LEN-01 LEN-04", EOLS,
          b"SEND\r\nk:v\r\n\r\nx\0SEND\r\nk:v\r\n\r\ny\0",
          send(b"x", k="v"), send(b"y", k="v")),
    *good("an empty line of the other kind in the body", "FRM-02 BOD-11", EOLS,
          b"SEND\n\nx\n\r\n\0SEND\r\n\r\ny\n\n\0", send(b"x\n\r\n"), send(b"y\n\n")),
    *good("the body begins with CR LF", "FRM-02 BOD-11", EOLS, b"SEND\nk:v\n\n\r\nx\0", send(b"\r\nx", k="v")),
    *good("escapes", "ENC-01 ENC-07 HDR-01", STRICT, b"SEND\na\\cb:x\\ny\\\\\na\\cb:later\nback:\\\\n\n\n\0",
          ("SEND", {"a:b": "x\ny\\", "back": "\\n"}, b"")),
    *good("no trimming, case counts", "ENC-08 FRM-06 FRM-07", STRICT, b"Send \nDestination : x \n\n\0",
          ("Send ", {"Destination ": " x "}, b"")),
    *good("CR is data of a value", "FRM-03 ENC-11", (V11,), b"SEND\nk:v\r\nl:\r\r\n\n\0", send(k="v\r", l="\r\r")),
    *good("escaped CR", "ENC-02", (V12,), b"SEND\nk:a\\rb\r\n\n\0", send(k="a\rb")),
    *good("one CR is cut", "FRM-02", (V12,), b"SEND\nk:v\r\r\n\n\0", send(k="v\r")),
    *good("the lenient dialect", "LEN-01 LEN-02 LEN-03 LEN-04 LEN-05 LEN-06 ENC-10 ENC-12", (V10,),
          b"\n \n\r\nsEnd \r\nDestination:  /queue/a \r\r\nK:a\\cb\nContent-Length:1\n \r\nx\0",
          send(b"x", destination="/queue/a", K="a\\cb", content_length="1")),
    *good("the first of either spelling", "HDR-01 LEN-06", (V10,), b"SEND\nReceipt:1\nreceipt:2\nMine:x\nMINE:y\n\n\0",
          ("SEND", {"receipt": "1", "Mine": "x", "MINE": "y"}, b"")),
    *good("empty lines of spaces", "LEN-01 LEN-02", (V10,), b"  \nSEND\nk:v\n   \r\nx\0 \n \r\nSEND\nk:v\n\r\r\ny\0 \n",
          send(b"x", k="v"), send(b"y", k="v")),
]  # fmt: skip

OPENINGS = [
    *good("CONNECT", "CON-01 NEG-02", OPENING, b"CONNECT\naccept-version:1.2\n\n\0DISCONNECT\r\n\r\n\0",
          connect(accept_version="1.2"), DISCONNECT),
    *good("STOMP", "CON-02", OPENING, b"STOMP\naccept-version:1.2\n\n\0", connect("STOMP", accept_version="1.2")),
    *good("empty lines in front", "LEN-02", OPENING, b"\n\r\n \nCONNECT\naccept-version:1.1\n\n\0",
          connect(accept_version="1.1")),
    *good("as much in front as may be", "FRM-04", OPENING, b"\0\n" * 2048 + b"CONNECT\naccept-version:1.2\n\n\0",
          connect(accept_version="1.2")),
    *good("NULs and silence", "FRM-04", OPENING, b"\0" * 2000),
    *good("CR LF", "FRM-02", OPENING, b"CONNECT\r\naccept-version:1.2\r\nk:v \r\n\r\n\0SEND\r\nk:v\r\n\r\nx\0",
          connect(accept_version="1.2", k="v "), send(b"x", k="v")),
    *good("CR LF, then 1.1", "FRM-03 NEG-08", OPENING, b"CONNECT\r\naccept-version:1.1\r\n\r\n\0SEND\nk:v\r\n\nx\0",
          connect(accept_version="1.1"), send(b"x", k="v\r")),
    *good("never unescaped", "ENC-05", OPENING, b"CONNECT\naccept-version:1.2\nx:C:\\temp\\q\n\n\0SEND\nk:\\c\n\n\0",
          connect(accept_version="1.2", x="C:\\temp\\q"), send(k=":")),
    *good("any case, then strict", "LEN-03 FRM-06 NEG-08", OPENING, b"connect\naccept-version:1.2\n\n\0send\n\n\0",
          connect(accept_version="1.2"), ("send", {}, b"")),
    *good("no version", "NEG-01 LEN-01 LEN-03 LEN-05 LEN-06 LEN-11", OPENING,
          b"Connect \r\nUserName:  guest \r\nPASSCODE: x\n \n\0send\r\nDestination: a\n\nx\0",
          connect(username="guest", passcode="x"), send(b"x", destination="a")),
    *good("unknown versions", "NEG-04", OPENING, b"CONNECT\naccept-version:9.9\nk: v \n\n\0",
          connect(accept_version="9.9", k=" v ")),
    *good("another command", "SES-01", OPENING, b"SEND\ndestination:a\n\nx\0", send(b"x", destination="a")),
    *good("frames right behind", "CON-11 NEG-08", OPENING,
          b"CONNECT\naccept-version:1.2\n\n\0\nSEND\nk:\\c\n\nx\0\nSEND\nk:\\c\n\ny\0",
          connect(accept_version="1.2"), send(b"x", k=":"), send(b"y", k=":")),
]  # fmt: skip

MALFORMED = [
    *bad("a line without colon", "FRM-08", ALL, b"SEND\nk:v\nnothing\n\n\0", "malformed header line"),
    *bad("a line without name", "FRM-08", ALL, b"SEND\n:v\n\n\0", "malformed header line"),
    *bad("behind a good frame", "SES-04 ERR-05", ALL, b"SEND\n\nx\0SEND\nk\n\n\0SEND\n\ny\0", "malformed header line",
         send(b"x")),
    *bad("a NUL among the headers", "FRM-13", (None, *ALL), b"SEND\nk:\0v\n\n\0", "NUL byte among the headers"),
    *bad("too much in front", "FRM-13", OPENING, b"\0" * 4096 + b"\nCONNECT\naccept-version:1.2\n\n\0", "no CONNECT"),
    *bad("too many empty lines in front", "FRM-13", OPENING, b"\r\n" * 2048 + b" \nCONNECT\n\n\0", "no CONNECT"),
    *bad("no empty line", "FRM-01", (None, *ALL), b"SEND\nk:v\n\0", "NUL byte among the headers"),
    *bad("octets that are no UTF-8", "ENC-14", (None, *ALL), b"SEND\nk:\xc3\x28\n\n\0", "headers are not UTF-8"),
    *bad("an undefined escape", "ENC-03", STRICT, b"SEND\nk:a\\tb\n\n\0", "undefined escape"),
    *bad("an undefined escape in a name", "ENC-03 ENC-07", STRICT, b"SEND\na\\t:v\n\n\0", "undefined escape"),
    *bad("an escaped CR in 1.1", "ENC-03", (V11,), b"SEND\nk:a\\rb\n\n\0", "undefined escape"),
    *bad("a lone backslash", "ENC-13", STRICT, b"SEND\nk:v\\\n\n\0", "undefined escape"),
    *bad("CR LF in 1.1", "FRM-03", (V11,), b"SEND\r\nk:v\r\n\n\0", "CR behind the command"),
    *bad("content-length without end", "BOD-04", ALL, b"SEND\ncontent-length:2\n\nabc\0", "no NUL behind the body"),
    *[
        case
        for value in (b"abc", b"-1", b"+1", b"1.0", b"0x1", b"1_0", "٣".encode())
        for case in bad(f"content-length {value.decode()!r}", "BOD-10", ALL, b"SEND\ncontent-length:%b\n\nx\0" % value,
                        "content-length is no number")
    ],
    *bad("an empty content-length and a body", "BOD-04 BOD-10", ALL, b"SEND\ncontent-length:\n\nx\0",
         "empty content-length"),
    *bad("a content-length of a space", "BOD-10 ENC-08", STRICT, b"SEND\ncontent-length: \n\n\0",
         "content-length is no number"),
    *bad("a space behind content-length", "BOD-10 ENC-08", STRICT, b"SEND\ncontent-length:1 \n\nx\0",
         "content-length is no number"),
    *bad("no line", "FRM-13", (None, *ALL), b"x" * 100, "not STOMP"),
    *bad("a command without end", "FRM-13 FRM-09", (None, *ALL), b"X" * 100 + b"\n\n\0", "not STOMP"),
    *bad("a command behind which spaces run on", "FRM-09", (V10,), b"SEND" + b" " * 100 + b"\n\n\0", "not STOMP"),
    *bad("an unknown command first", "FRM-13 SES-01 SES-03", OPENING, b"MESSAGE\n\n\0", "not STOMP"),
    *bad("a TLS hello", "FRM-13", OPENING, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"\xaa" * 300, ""),
]  # fmt: skip

TOO_LARGE = [
    *good("as many headers as allowed", "LIM-05", ALL, b"SEND\na:1\nb:2\nc:3\nd:4\n\n\0",
          send(a="1", b="2", c="3", d="4"), limits=SMALL),
    *bad("too many headers", "LIM-01 LIM-04", (None, *ALL), b"SEND\na:1\nb:2\nc:3\nd:4\ne:5\n\n\0", "too many headers",
         limits=SMALL, error=LimitExceeded),
    *bad("too many headers of one name", "LIM-01", ALL, b"SEND\n" + b"a:1\n" * 5 + b"\n\0", "too many headers",
         limits=SMALL, error=LimitExceeded),
    *good("a line as long as allowed", "LIM-05", ALL, b"SEND\nk:" + b"v" * 30 + b"\n\n\0", send(k="v" * 30),
          limits=SMALL),
    *bad("a line too long", "LIM-02 LIM-04", (None, *ALL), b"SEND\nk:" + b"v" * 31 + b"\n\n\0", "header line too long",
         limits=SMALL, error=LimitExceeded),
    *good("header lines as large as allowed", "LIM-05 FRM-09", ALL, b"SEND\n" + b"\n".join(lines(128 - 5)) + b"\n\n\0",
          ("SEND", parsed(lines(128 - 5)), b""), limits=BLOCK_OF_128),
    *[
        case
        for size in (129, 130, 131, 132, 133, 200)
        for case in bad(f"header lines of {size} octets together", "LIM-02 LIM-04 FRM-09", (None, *ALL),
                        b"SEND\n" + b"\n".join(lines(size - 5)) + b"\n\n\0", "headers too large", limits=BLOCK_OF_128,
                        error=LimitExceeded)
    ],
    *good("a body as large as allowed", "LIM-05", ALL, b"SEND\n\n" + b"x" * 20 + b"\0", send(b"x" * 20), limits=SMALL),
    *bad("a body too large", "LIM-03 LIM-04", (None, *ALL), b"SEND\n\n" + b"x" * 21 + b"\0", "body too large",
         limits=SMALL, error=LimitExceeded),
    *bad("content-length too large", "LIM-03 LIM-04", (None, *ALL), b"SEND\ncontent-length:21\n\n", "body too large",
         limits=SMALL, error=LimitExceeded),
    *bad("content-length too long to be read", "LIM-03", ALL, b"SEND\ncontent-length:" + b"9" * 5000 + b"\n\n",
         "body too large", error=LimitExceeded),
]  # fmt: skip

CASES = [*FRAMES, *OPENINGS, *MALFORMED, *TOO_LARGE]
