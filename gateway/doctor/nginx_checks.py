"""A configuration of nginx: its location for the WebSocket has all directives, and no time-out is too short.

The file is read into nested blocks.  `include` is followed relative to the file; the output of `nginx -T` has all files
in one already.  A block inherits the directives of the block around it, except names that it writes itself.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from .model import Check, CheckReport, Problem

# Comments, quoted words, punctuation, other words.
_TOKEN = re.compile(
    r"""\#[^\n]* | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | [{};] | (?:\\.|\$\{\w+\}|[^\s{};"'\\])+""",
    re.DOTALL | re.VERBOSE,
)
_SECONDS = re.compile(r"(\d+)(ms|s|m|h|d)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "": 1.0}
_READ_TIMEOUT = "60s"  # nginx's default
_DUMPED = "# configuration file /"  # `nginx -T` writes this above each file
# The header that nginx must set, a pattern for its value, and what to write.
_HEADERS = {
    "upgrade": (r"\$http_upgrade", "Upgrade $http_upgrade"),
    "connection": (r"^(?!close$).", 'Connection "upgrade"'),
    "host": (r"", "Host $http_host"),
    "x-forwarded-for": (r"\$proxy_add_x_forwarded_for", "X-Forwarded-For $proxy_add_x_forwarded_for"),
}

Statements = list[tuple[list[str], "Statements | None"]]  # words of each directive, with the statements in its braces
Directives = dict[str, list[list[str]]]  # arguments of each directive, by its name


def read(path: Path, seen: set[Path] | None = None) -> Statements:
    """A configuration with the files that it includes; raises Problem where it cannot be read."""
    seen = (seen or set()) | {path}
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise Problem(f"{path} cannot be read: {(error.strerror or '').lower()}", "Run the doctor as root") from None
    tokens = (match[0] for match in _TOKEN.finditer(text) if match[0][0] != "#")
    statements = _parse(tokens, path, is_top=True)
    return statements if _DUMPED in text else list(_included(statements, path, seen))


def _parse(tokens: Iterator[str], path: Path, *, is_top: bool = False) -> Statements:
    statements: Statements = []
    words: list[str] = []
    for token in tokens:
        if token == "}" and not is_top:
            return statements
        if token == "}":
            raise Problem(f"{path} has a }} too many", "`nginx -t` shows the line")
        if token == "{":
            statements.append((words, _parse(tokens, path)))
        elif token == ";":
            statements.append((words, None))
        else:
            words.append(token[1:-1] if token[0] in "\"'" else token)
            continue
        words = []
    if words or not is_top:
        raise Problem(f"{path} ends in the middle of a block or directive", "`nginx -t` shows the line")
    return statements


def _included(statements: Statements, path: Path, seen: set[Path]) -> Iterator[tuple[list[str], Statements | None]]:
    for words, inner in statements:
        if inner is not None:
            yield words, list(_included(inner, path, seen))
        elif words[:1] == ["include"] and len(words) == 2:
            folder = Path("/") if words[1].startswith("/") else path.parent
            for each in sorted(folder.glob(words[1].lstrip("/"))):
                if each not in seen:
                    yield from read(each, seen)
        else:
            yield words, None


def _locations(words: list[str], statements: Statements, outer: Directives) -> Iterator[tuple[list[str], Directives]]:
    """Words and directives of all locations in a block."""
    own: Directives = {}
    for name, *arguments in [each for each, inner in statements if inner is None and each]:
        own.setdefault(name, []).append(arguments)
    if words[:1] == ["location"]:
        yield words[1:], outer | own
    for each, inner in statements:
        if inner is not None:
            yield from _locations(each, inner, outer | own)


def check_nginx(path: Path, websocket_path: str, ping: float, report: CheckReport) -> None:
    """Check the location of the WebSocket; `ping` is the setting websocket_ping in seconds, or 0 for no pings."""
    with report.check(f"nginx {path}"):
        locations = [each for each in _locations([], read(path), {}) if _matches(each[0], websocket_path)]
        if not locations:
            directive = f"location = {websocket_path} {{ proxy_pass http://127.0.0.1:15674; ... }}"
            raise Problem(f"it has no location for {websocket_path}", f"Write `{directive}` (deploy/nginx.conf)")
        for words, directives in locations:
            _check_location(report.check(f"nginx {path}, location {' '.join(words)}"), directives, ping)


def _matches(words: list[str], path: str) -> bool:
    """True if a location is for this path, and not for all paths."""
    modifier, pattern = words if len(words) == 2 else ("", "".join(words))
    if modifier in ("~", "~*"):
        try:
            return re.search(pattern, path) is not None
        except re.error:
            return False
    return path == pattern if modifier == "=" else pattern not in ("", "/") and path.startswith(pattern)


def _check_location(check: Check, directives: Directives, ping: float) -> None:
    faults = list(_faults(directives, ping))
    for detail, remedy in faults:
        # Without these two a WebSocket works, and its clients have another address.
        is_minor = "forwarded" in detail.lower()
        (check.warn if is_minor else check.fail)(detail, remedy)
    if not faults:
        check.ok("it has all that a WebSocket needs")


def _faults(directives: Directives, ping: float) -> Iterator[tuple[str, str]]:
    """Detail and remedy of each fault."""

    def last(name: str, default: str) -> str:
        return " ".join(directives[name][-1]) if name in directives else default

    if "proxy_pass" not in directives:
        yield "it has no proxy_pass", "Write `proxy_pass http://127.0.0.1:15674;`"
        return
    version = last("proxy_http_version", "1.0")
    if version != "1.1":
        yield f"it uses HTTP {version} to the gateway", "Write `proxy_http_version 1.1;`"
    headers = {words[0].lower(): " ".join(words[1:]) for words in directives.get("proxy_set_header", []) if words}
    for name, (pattern, directive) in _HEADERS.items():
        if name not in headers or not re.search(pattern, headers[name]):
            yield f"the header {name} is not passed on", f"Write `proxy_set_header {directive};`"
    if headers.get("forwarded") != "":
        detail = "the header Forwarded of a client is passed on, and the gateway would trust it"
        yield detail, 'Write `proxy_set_header Forwarded "";`'
    timeout = last("proxy_read_timeout", _READ_TIMEOUT)
    seconds = sum([int(number) * _UNITS[unit] for number, unit in _SECONDS.findall(timeout)])
    shorter = f"websocket_ping = {max(seconds * 0.4, 1):.0f}"
    if not ping:
        yield f"an idle WebSocket is cut after {seconds:g} s, because websocket_ping is 0", f"Write {shorter}"
    elif seconds <= ping:
        detail = f"proxy_read_timeout is {seconds:g} s, and the gateway pings each {ping:g} s (websocket_ping)"
        yield detail, f"Write `proxy_read_timeout {max(60, ping * 2.4):.0f}s;`, or {shorter}"
