"""Sentences on files that are no TOML.

tomllib says which character it did not expect, and often on the line behind the fault.  So the text is read once more,
token by token, for the faults that people make: an open string or bracket, a text without quotes, a missing `=`, a
value of another language.  What is none of them is told as tomllib does, with its line.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

_TOKEN = re.compile(
    r"""
      (?P<blank> [ \t\r]+ | \#[^\n]* )
    | (?P<end> \n )
    | (?P<open> [\[{] )
    | (?P<close> [\]}] )
    | (?P<long> \"{3} (?: \\. | [^\\] )*? \"{3,5} | '{3} .*? '{3,5} )
    | (?P<text> (?!\"{3}|'{3}) (?: " (?: \\. | [^"\\\n] )* " | ' [^'\n]* ' ) )
    | (?P<torn> ["'].* )
    | [^\s\#"'\[\]{}]+
    """,
    re.VERBOSE | re.DOTALL,
)
_PLACE = re.compile(r"\(at (?:line (\d+), column \d+|end of document)\)$")
_HEADER = re.compile(r"(\[*)\s*([\w.-]+)\s*(\]*)")
_SETTING = re.compile(r"([\w.\"'-]+)\s*=\s*(.*?)\s*,?\s*((?<=\s)//.*|#.*)?")
_NO_SETTING = re.compile(r"([\w-]+)\s*:?\s*([^=]*)")
_SECOND = re.compile(r"(?:\"[^\"]*\"|'[^']*'|\[[^\]]*\]|[^\s,\"'\[]+)[\s,]+([\w-]+\s*=.*)")
_TEXTS = re.compile(r"(\"[^\"]*\"|'[^']*')\s*[\"']")
_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_GROUPED = re.compile(r"[0-9][0-9,_ ]*")
_SWITCHES = {"yes": "true", "on": "true", "no": "false", "off": "false"}
_SECRET = re.compile(r"token|passcode|password|secret|://[^/\s]*@", re.IGNORECASE)  # the value must not be in a log
_QUOTES = frozenset("“”„«»‘’`´")
_CLOSING = {"[": "]", "{": "}"}


def explain(path: Path, text: str, said: str) -> str:
    """The sentence on a text that is no TOML.  `said`: by tomllib."""
    found = _PLACE.search(said)
    line = int(found[1]) if found and found[1] else text.rstrip("\n").count("\n") + 1
    place, reason = next(_faults(text, line), (line, ""))
    if not reason:
        plain = _PLACE.sub("", said).strip()
        reason = plain[:1].lower() + plain[1:]
    return f"{path} line {place}: {reason}"


def _faults(text: str, line: int) -> Iterator[tuple[int, str]]:
    """Line and reason of what may be wrong, the likeliest first.  `line`: the one that tomllib names."""
    torn, opened, bracket = _left_open(text)
    if torn and torn[0] <= line:
        yield torn
    number = opened if 0 < opened < line else line
    lines = text.split("\n")[:number]
    content = lines[-1].strip()
    if reason := _of_line(content):
        # A value may have several lines: the one with its name is above.
        named = next((each for each in reversed(lines) if "=" in each), "") + content
        yield number, "the value cannot be read; a text needs quotes" if _SECRET.search(named) else reason
    if 0 < opened <= line:
        yield opened, f"the {bracket} is not closed; write a {_CLOSING[bracket]} where it ends"


def _left_open(text: str) -> tuple[tuple[int, str] | None, int, str]:
    """What has no end: the first string, with a sentence; the line of a bracket, and the bracket; 0: each has one."""
    line, opened = 1, list[tuple[int, str]]()
    for token in _TOKEN.finditer(text):
        kind, found = token.lastgroup, token[0]
        if kind == "torn":
            mark = found[:3] if found[:3] in ('"""', "'" * 3) else found[0]
            return (line, f"the string is not closed; write {mark} at its end"), 0, ""
        if kind == "open":
            opened.append((line, found))
        elif kind == "close" and opened:
            opened.pop()
        line += found.count("\n")
    return None, *(opened[0] if opened else (0, ""))


def _of_line(line: str) -> str:
    """The fault of a line, as far as it shows without the others; empty: none was found."""
    if _QUOTES & set(line):
        return "these quotes are not those of TOML; write them as \" or '"
    if line.startswith(("//", ";", "--", "/*")):
        return "a comment begins with #"
    if header := _HEADER.fullmatch(line.partition("#")[0].strip()):
        least = 2 if header[2] in ("policy", "rule") else 1
        if header[1] and (len(header[1]), len(header[3])) != (least, least):
            return f"the header must be {'[' * least}{header[2]}{']' * least}"
    if found := _SETTING.fullmatch(line):
        return _of_value(found[1], found[2], found[3] or "")
    if found := _NO_SETTING.fullmatch(line):
        return f"a setting needs =; write {found[1]} = {found[2] or '...'}"
    return "" if line[:1] in ("[", '"', "'") else "a line is NAME = VALUE, a [[header]], or a comment behind #"


def _of_value(key: str, value: str, comment: str) -> str:
    """The fault of a value; empty: none was found."""
    if not value:
        return f"{key} has no value; write one behind the ="
    if second := _SECOND.fullmatch(value):
        return f"each setting needs a line of its own: {second[1][:80]}"
    if comment.startswith("//") and (_NUMBER.fullmatch(value) or value[0] in "\"'["):
        return "a comment begins with #"
    if value[0] == '"' and "\\" in value:
        return "a backslash in double quotes begins an escape; write the text in single quotes"
    if value[0] == "[":
        return next(filter(None, [_of_item(item.strip()) for item in value.strip("[]").split(",")]), "")
    if value[0] in "\"'{" or _NUMBER.fullmatch(value):
        return ""
    if _GROUPED.fullmatch(value):
        return f"{value[:80]} is no number of TOML; write {key} = {re.sub('[,_ ]', '', value).lstrip('0')[:80] or 0}"
    switch = _SWITCHES.get(value.lower(), value.lower())
    right = switch if switch in ("true", "false") else json.dumps(value, ensure_ascii=False)
    return f"{value[:80]} is no value of TOML; write {key} = {right}"


def _of_item(item: str) -> str:
    if _TEXTS.match(item):
        return f"a comma is missing between two texts: {item[:80]}"
    if not item or item[0] in "\"'[{" or _NUMBER.fullmatch(item) or item in ("true", "false"):
        return ""
    return f"{item[:80]} is no value of TOML; write {json.dumps(item, ensure_ascii=False)}"
