"""Header blocks: text to command and headers and back, with the escapes, spaces and letter case of each version.

A block begins with the command and ends before the empty line.
"""

import re

from .errors import MalformedFrame
from .versions import Version

# Names that the broker reads.  In 1.0 their letter case is free (LEN-06); other names are the users' and keep their
# spelling.  `accept-version` is not among them: only its exact name leads out of 1.0.
STANDARD_NAMES = frozenset(
    "ack content-length content-type destination heart-beat host id login message message-id passcode "
    "receipt receipt-id server session subscription transaction username version".split()
)

_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")


def parse_lines(text: str, version: Version) -> tuple[str, dict[str, str]]:
    """Command and headers of a block, by a version.

    Raises:
        MalformedFrame: a line without colon or name (FRM-08), a CR behind a 1.1 command, an undefined escape (ENC-03).
    """
    lines = text.split("\n")
    if version.lenient:
        return _parse_lenient(lines)
    # FRM-02: one CR before the LF is part of the EOL; a second one is data.
    if version.strips_cr and "\r" in text:
        lines = [line[:-1] if line.endswith("\r") else line for line in lines]
    is_escaped = "\\" in text  # most blocks have no escape, and need not be searched line by line
    headers: dict[str, str] = {}
    for line in lines[1:]:
        # STOMP 1.2, BNF: a value has no raw colon; clients send them all the same, and the first colon splits (FRM-12).
        name, colon, value = line.partition(":")
        if not colon or not name:
            raise bad_line(line)  # FRM-08
        if is_escaped and "\\" in line:
            name, value = unescape(name, version), unescape(value, version)
        if name not in headers:  # STOMP 1.2, Repeated Header Entries: the first one counts (HDR-01)
            headers[name] = value
    return lines[0], headers


def parse_opening(text: str) -> tuple[str, dict[str, str]]:
    """Command and headers of the first frame, whose version is not known yet."""
    # The CR because 1.2 allows it.  Nothing is unescaped: STOMP 1.2 keeps CONNECT as it was in 1.0 (ENC-05).
    lines = [line[:-1] if line.endswith("\r") else line for line in text.split("\n")]
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name:
            raise bad_line(line)
        headers.setdefault(name, value)
    return _upper(lines[0].rstrip(" ")), headers


def _parse_lenient(lines: list[str]) -> tuple[str, dict[str, str]]:
    """Command and headers in the 1.0 dialect: spaces around lines and values are cut, standard names in any case."""
    headers: dict[str, str] = {}
    for line in lines[1:]:
        # LEN-04, LEN-05: clients of 1.0 write `name: value` and end lines with CR LF.
        name, colon, value = line.rstrip(" \r").partition(":")
        if not colon or not name:
            raise bad_line(line)
        lower = name.lower() if name.isascii() else name  # lower() makes a k of the sign for Kelvin
        if lower in STANDARD_NAMES:
            name = lower
            if _CONTROL.search(value):
                # The server sends these headers back, and 1.0 has no escape for a control character (LEN-07).
                raise MalformedFrame("control character in a header", f"{name} is {value[:80]!r}; leave it out")
        headers.setdefault(name, value.lstrip(" "))
    return _upper(lines[0].rstrip(" \r")), headers


def _upper(command: str) -> str:
    """Command in upper case (LEN-03)."""
    return command.upper() if command.isascii() else command  # upper() makes an S of the long s


def unescape(text: str, version: Version) -> str:
    """Undo the escapes of a name or value.  Raises MalformedFrame: the version does not define the escape."""

    def character(match: re.Match[str]) -> str:
        found = version.unescapes.get(match.group())
        if found is None:  # STOMP 1.2, Value Encoding: undefined escapes MUST be a fatal error (ENC-03, ENC-13)
            raise MalformedFrame(
                "undefined escape in a header",
                f"STOMP {version.name} does not define {match.group()!r}; it defines {' '.join(version.unescapes)}",
            )
        return found

    return _ESCAPE.sub(character, text) if "\\" in text else text


def escape(text: str, version: Version) -> str:
    """Name or value with the escapes of the version."""
    return "".join([version.escapes.get(character, character) for character in text])


def format_lines(headers: dict[str, str], version: Version) -> str:
    """Header lines of a frame for a peer of that version, each with its LF."""
    lines = "".join([f"{name}:{value}\n" for name, value in headers.items()])
    count = len(headers)
    # One line feed and one colon a header: no value needs an escape, and most blocks are like that.
    plain = "\\" not in lines and "\r" not in lines and lines.count("\n") == count == lines.count(":")
    if plain and not version.lenient:
        return lines
    if version.lenient:
        # XTR-02: 1.0 has no escapes: headers with control characters, or colons in their names, are left out (LEN-07).
        return "".join(
            [
                f"{name}:{value}\n"
                for name, value in headers.items()
                if ":" not in name and not _CONTROL.search(name) and not _CONTROL.search(value)
            ]
        )
    return "".join([f"{escape(name, version)}:{escape(value, version)}\n" for name, value in headers.items()])


def bad_line(line: str) -> MalformedFrame:
    """Error about a header line without colon or name."""
    shown = line if len(line) <= 80 else line[:77] + "..."
    return MalformedFrame("malformed header line", f"{shown!r} is not name:value; write one header a line")
