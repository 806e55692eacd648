"""Page of the log: every line that the gateway can log, read out of its source: logger, event, level, fields.

    python -m docs.generate.logs             writes the lists of docs/logs.md anew

An event that is put together shows what varies in braces.  One that is a variable is found where the module has it as a
constant; else it is a sentence of another module (`listeners.warnings`), and is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2] / "gateway"
PAGE = ROOT.parent / "docs" / "logs.md"

LEVELS = ("debug", "info", "warning", "error", "exception")

_CLIENT = ("session", "login", "peer")

# In processes of their own, with words of their own.
_OTHERS = ("archive", "pipeline", "client")

# Told by a function that is told what to tell.
_TOLD = {"tell_of_login": ("connected", "renewed")}


@dataclass
class Event:
    """One event, from all places that log it.

    Attributes:
        levels: that it has; `?`: it depends.
        fields: in the order in which they are first named; `...`: and others.
    """

    logger: str
    text: str
    levels: dict[str, None] = field(default_factory=dict)
    fields: dict[str, None] = field(default_factory=dict)

    def line(self) -> str:
        """The event with its level, unless that is info, and its fields, those of a client in one word."""
        shown = [f"`{name}`" if name != "..." else name for name in self.fields]
        if self.fields.keys() >= set(_CLIENT):
            shown = ["*client*", *[name for name in shown if name.strip("`") not in _CLIENT]]
        levels = ", ".join(["error" if level == "exception" else level for level in self.levels])
        return f"* `{self.text}`{f' ({levels})' if levels != 'info' else ''}{': ' if shown else ''}{', '.join(shown)}"


@cache
def events() -> dict[tuple[str, str], Event]:
    """Logger and text -> event, by logger and then in the order of their texts."""
    found: dict[tuple[str, str], Event] = {}
    for path in sorted(ROOT.rglob("*.py")):
        if path.relative_to(ROOT).parts[0] in _OTHERS:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = dict(_constants(tree))
        loggers = _loggers(tree)
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and (found_level := _level(call, loggers)) is not None:
                logger, level = found_level
                for text in _texts(call, constants):
                    event = found.setdefault((logger, text), Event(logger, text))
                    event.levels[level] = None
                    event.fields |= dict.fromkeys(_fields(call))
    return dict(sorted(found.items()))


def _fields(call: ast.Call) -> Iterator[str]:
    for each in call.keywords:
        if each.arg is None and ast.unparse(each.value).startswith("log_fields("):
            yield from _CLIENT
        else:
            yield each.arg or "..."


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield ast.unparse(node.targets[0]), node.value.value


def _loggers(tree: ast.Module) -> dict[str, str]:
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            call = node.value
            if ast.unparse(call.func) == "structlog.get_logger":
                found[ast.unparse(node.targets[0])] = ast.literal_eval(call.args[0]) if call.args else ""
    # `say = log.info if ... else log.warning`: it is of that logger.
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.IfExp) and ast.unparse(node.targets[0]) == "say":
            found["say"] = found.get(ast.unparse(node.value.body).rpartition(".")[0], "")
    return found


def _level(call: ast.Call, loggers: dict[str, str]) -> tuple[str, str] | None:
    """Logger and level of a call that logs."""
    name = ast.unparse(call.func)
    if name == "say":
        return loggers.get("say", ""), "?"
    start, _, level = name.rpartition(".")
    is_log = start == "log" or start in loggers
    return (loggers.get(start, ""), level) if is_log and level in LEVELS else None


def _texts(call: ast.Call, constants: dict[str, str]) -> Iterator[str]:
    text = call.args[0]
    if isinstance(text, ast.Constant):
        yield str(text.value)
    elif isinstance(text, ast.JoinedStr):
        yield "".join([str(each.value) if isinstance(each, ast.Constant) else _braces(each) for each in text.values])
    elif ast.unparse(text) in constants:
        yield constants[ast.unparse(text)]
    elif ast.unparse(text) == "event":
        yield from _TOLD["tell_of_login"]


def _braces(part: ast.expr) -> str:
    assert isinstance(part, ast.FormattedValue)
    return "{" + ast.unparse(part.value).rpartition(".")[2].lstrip("_") + "}"


def words() -> str:
    page = PAGE.read_text()
    return page[: page.index("\n\n### ")]


def lists() -> Iterator[str]:
    logger = None
    for event in events().values():
        if event.logger != logger:
            yield from ("", f"### {event.logger or 'Without a logger'}", "")
            logger = event.logger
        yield event.line()


if __name__ == "__main__":
    PAGE.write_text("\n".join([words(), *lists(), ""]))
