"""A configuration of nginx, read: what a WebSocket needs, and the time-outs that show only after a minute.

The file is cut into words, blocks become trees, and `include` is followed relative to the file (nginx: to its prefix).
The output of `nginx -T` has all files in one already.  Directives are inherited as nginx does it: from the nearest
block around that has any of that name.

A location is one of ours if the path is; where it passes to is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .finding import Finding, Trouble, fail, ok, warn

_WORD = re.compile(
    r"""\#[^\n]* | "((?:\\.|[^"\\])*)" | '((?:\\.|[^'\\])*)' | ([{};]) | ((?:\\.|\$\{\w+\}|[^\s{};"'\\])+)""",
    re.DOTALL | re.VERBOSE,
)
_SECONDS = re.compile(r"(\d+)(ms|s|m|h|d)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, None: 1.0}
_READ_TIMEOUT = "60s"  # nginx's default
_MOST_INCLUDES = 100
_DUMPED = "# configuration file /"  # what `nginx -T` writes above each file
_HEADERS = {
    "upgrade": ("$http_upgrade", "Upgrade $http_upgrade"),
    "connection": ("", 'Connection "upgrade"'),
    "host": ("", "Host $http_host"),
    "x-forwarded-for": ("$proxy_add_x_forwarded_for", "X-Forwarded-For $proxy_add_x_forwarded_for"),
}


@dataclass
class Block:
    """A directive with what stands in its braces."""

    words: list[str]
    around: Block | None = None
    directives: list[list[str]] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    def all(self, name: str) -> list[list[str]]:
        """Arguments of a directive, of the nearest block that has it."""
        own = [words[1:] for words in self.directives if words[0] == name]
        return own if own or self.around is None else self.around.all(name)

    def one(self, name: str, default: str) -> str:
        """Its only argument."""
        found = self.all(name)
        return " ".join(found[-1]) if found else default

    def walk(self) -> Iterator[Block]:
        """All blocks below."""
        for each in self.blocks:
            yield each
            yield from each.walk()


def read(path: Path) -> Block:
    """Read a configuration.

    Raises:
        Trouble: it cannot be read, or its braces do not close.
    """
    top = Block([])
    _read_into(top, path, [path])
    return top


def _read_into(block: Block, path: Path, seen: list[Path]) -> None:
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise Trouble(f"{path} cannot be read: {(error.strerror or '').lower()}", "Run it as root") from None
    outermost, words = block, []
    for match in _WORD.finditer(text):
        if match[0].startswith("#"):
            continue
        if match[3] is None:
            words.append(next((each for each in match.groups() if each is not None), ""))
        elif match[3] == "{":
            inner = Block(words, block)
            block.blocks.append(inner)
            block, words = inner, []
        elif match[3] == "}":
            if block is outermost or block.around is None:
                raise Trouble(f"{path} has a }} too many", "`nginx -t` says where")
            block = block.around
        elif words:
            if words[0] == "include" and len(words) == 2 and _DUMPED not in text:
                _include(block, path, words[1], seen)
            block.directives.append(words)
            words = []
    if block is not outermost or words:
        raise Trouble(f"{path} ends in the middle of a block or directive", "`nginx -t` says where")


def _include(block: Block, path: Path, pattern: str, seen: list[Path]) -> None:
    for each in sorted(Path("/").glob(pattern.lstrip("/")) if pattern.startswith("/") else path.parent.glob(pattern)):
        if each not in seen and len(seen) < _MOST_INCLUDES:
            seen.append(each)
            _read_into(block, each, seen)


def examine(path: Path, websocket_path: str, ping: float) -> Iterator[Finding]:
    """What the location of the WebSocket lacks.

    Args:
        ping: the setting `websocket_ping`, in seconds; 0: the gateway does not ping.
    """
    what = f"nginx {path}"
    try:
        top = read(path)
    except Trouble as trouble:
        yield trouble.finding(what)
        return
    found = [each for each in top.walk() if each.words[:1] == ["location"] and _matches(each.words[1:], websocket_path)]
    if not found:
        remedy = f"Write `location = {websocket_path} {{ proxy_pass http://127.0.0.1:15674; ... }}` (deploy/nginx.conf)"
        yield fail(what, f"no location is for {websocket_path}", remedy)
    for location in found:
        yield from _of_location(location, f"{what}, location {' '.join(location.words[1:])}", ping)


def _matches(words: list[str], path: str) -> bool:
    """Whether that location is for this path, and not for all."""
    if len(words) == 2 and words[0] in ("=", "^~"):
        return path == words[1] if words[0] == "=" else path.startswith(words[1])
    if len(words) == 2 and words[0] in ("~", "~*"):
        try:
            return re.search(words[1], path) is not None
        except re.error:
            return False
    return len(words) == 1 and words[0] != "/" and path.startswith(words[0])


def _of_location(location: Block, what: str, ping: float) -> Iterator[Finding]:
    faults = list(_faults(location, what, ping))
    yield from faults or [ok(what, "has what a WebSocket needs")]


def _faults(location: Block, what: str, ping: float) -> Iterator[Finding]:
    if not location.all("proxy_pass"):
        yield fail(what, "it passes nothing on", "Write `proxy_pass http://127.0.0.1:15674;`")
        return
    version = location.one("proxy_http_version", "1.0")
    if version != "1.1":
        yield fail(what, f"it asks the gateway by HTTP {version}", "Write `proxy_http_version 1.1;`")
    headers = {words[0].lower(): " ".join(words[1:]) for words in location.all("proxy_set_header") if words}
    for name, (wanted, directive) in _HEADERS.items():
        value = headers.get(name)
        if value is None or wanted not in value or (name == "connection" and value in ("", "close")):
            detail = f"the header {name} is not passed on"
            yield (warn if name == "x-forwarded-for" else fail)(what, detail, f"Write `proxy_set_header {directive};`")
    if headers.get("forwarded") != "":
        detail = "a client's own Forwarded passes through, and the gateway would believe it"
        yield warn(what, detail, 'Write `proxy_set_header Forwarded "";`')
    seconds = _seconds(location.one("proxy_read_timeout", _READ_TIMEOUT))
    shorter = f"websocket_ping = {max(seconds * 0.4, 1):.0f}"
    if not ping:
        yield fail(what, f"an idle WebSocket is cut after {seconds:g} s, for websocket_ping is 0", f"Write {shorter}")
    elif seconds <= ping:
        detail = f"proxy_read_timeout is {seconds:g} s, and the gateway pings each {ping:g} s (websocket_ping)"
        yield fail(what, detail, f"Write `proxy_read_timeout {max(60, ping * 2.4):.0f}s;`, or {shorter}")


def _seconds(text: str) -> float:
    """A time as nginx writes it, like `1m30s`."""
    return sum([int(each[1]) * _UNITS[each[2]] for each in _SECONDS.finditer(text)])
