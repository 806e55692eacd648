"""A header block between text and dictionary: escapes, spaces, letter case, all by version.

The block is the text between the start of the command and the empty line, without that empty line.
"""

from __future__ import annotations

import re

from .errors import MalformedFrame
from .versions import Version

# The names that the broker itself reads.  In 1.0 their letter case is free (LEN-06); all other names are the users' and
# keep their spelling.  `accept-version` is not among them: only its exact name leads out of 1.0.
STANDARD_NAMES = frozenset(
    "ack content-length content-type destination heart-beat host id login message message-id passcode "
    "receipt receipt-id server session subscription transaction username version".split()
)

_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")


def parse_lines(text: str, version: Version) -> tuple[str, dict[str, str]]:
    """Command and headers of a block of one version.

    Raises:
        MalformedFrame: a line without colon or name (FRM-08), a CR behind a 1.1 command, an undefined escape (ENC-03).
    """
    lines = text.split("\n")
    if version.lenient:
        return _parse_lenient(lines)
    if version.strips_cr and "\r" in text:
        lines = [line[:-1] if line.endswith("\r") else line for line in lines]
    is_escaped = "\\" in text
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name:
            raise bad_line(line)
        if is_escaped and "\\" in line:
            name, value = unescape(name, version), unescape(value, version)
        if name not in headers:
            headers[name] = value
    return lines[0], headers


def parse_opening(text: str) -> tuple[str, dict[str, str]]:
    """Command and headers of the first frame, whose version is not known yet.

    One CR in front of an LF is cut (1.2 allows it), nothing is unescaped (ENC-05), nothing is trimmed.
    """
    lines = [line[:-1] if line.endswith("\r") else line for line in text.split("\n")]
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name:
            raise bad_line(line)
        headers.setdefault(name, value)
    return _upper(lines[0].rstrip(" ")), headers


def _parse_lenient(lines: list[str]) -> tuple[str, dict[str, str]]:
    """The 1.0 dialect: trailing spaces and CRs go, leading spaces of a value go, standard names in any case."""
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.rstrip(" \r").partition(":")
        if not colon or not name:
            raise bad_line(line)
        lower = name.lower() if name.isascii() else name
        if lower in STANDARD_NAMES:
            name = lower
            if _CONTROL.search(value):
                # The server gives these back (LEN-07), and 1.0 has no way to write such an octet.
                raise MalformedFrame("control octet in a header", f"{name} holds {value[:80]!r}")
        headers.setdefault(name, value.lstrip(" "))
    return _upper(lines[0].rstrip(" \r")), headers


def _upper(command: str) -> str:
    """Letter case is free for the letters of commands, not for those that Unicode folds onto them."""
    return command.upper() if command.isascii() else command


def unescape(text: str, version: Version) -> str:
    """Undo the escapes of a name or value.

    Raises:
        MalformedFrame: the version does not define the escape (fatal by ENC-03, ENC-13).
    """

    def character(match: re.Match[str]) -> str:
        found = version.unescapes.get(match.group())
        if found is None:
            raise MalformedFrame(
                "undefined escape in a header",
                f"STOMP {version.name} does not define {match.group()!r}; it defines {' '.join(version.unescapes)}",
            )
        return found

    return _ESCAPE.sub(character, text) if "\\" in text else text


def escape(text: str, version: Version) -> str:
    """Write a name or value as the version's escapes have it."""
    return "".join([version.escapes.get(character, character) for character in text])


def format_lines(headers: dict[str, str], version: Version) -> str:
    """The header lines of a frame for a peer of that version, each with its LF.

    What the version cannot say is left out instead of being sent raw (XTR-02): in 1.0 control characters (LEN-07) and
    a colon in a name.
    """
    lines = "".join([f"{name}:{value}\n" for name, value in headers.items()])
    count = len(headers)
    plain = "\\" not in lines and "\r" not in lines and lines.count("\n") == count == lines.count(":")
    if plain and not version.lenient:
        return lines
    if version.lenient:
        return "".join(
            [
                f"{name}:{value}\n"
                for name, value in headers.items()
                if ":" not in name and not _CONTROL.search(name) and not _CONTROL.search(value)
            ]
        )
    return "".join([f"{escape(name, version)}:{escape(value, version)}\n" for name, value in headers.items()])


def bad_line(line: str) -> MalformedFrame:
    """The error for a header line without colon or without name."""
    shown = line if len(line) <= 80 else line[:77] + "..."
    return MalformedFrame("malformed header line", f"{shown!r} is not name:value")
