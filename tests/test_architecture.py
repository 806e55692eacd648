"""The arrows of docs/design.md, read out of the imports.

    codec  <-  broker  <-  transports  <-  runtime  <-  app, cli
                 ^ ports                     ^
                 +-- auth, handlers          +-- admin, observe
                 '-- journal <- archive <- pipeline, in processes of their own

Every import of the package `gateway` is an arrow between two of its units (a folder, or a module of the top level),
wherever in a file it stands and also where it is only for the type checker: who names a thing knows of it.  An arrow
that the design does not have fails here, and so does a unit that the design does not have.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "gateway"

# Whom a unit may import.  `settings` stands beside the picture: plain values, for whoever sets up the rest.
LAYERS = ("codec", "broker", "transports", "runtime")
ARROWS = {
    "codec": set(),
    "broker": {"codec"},
    "client": {"codec"},
    "visible": set(),
    "commands": {"client", "codec", "settings", "visible"},
    # Two clients in a process of their own, which logs as the gateway does.
    "relay": {"address", "client", "codec", "observe", "service"},
    "transports": {"codec", "broker", "networks", "origins"},
    "service": set(),
    "address": {"service"},
    "handover": {"address", "service", "settings"},
    "octets": set(),
    "networks": set(),
    "origins": set(),
    "durations": set(),
    "storing": set(),
    "settings_file": set(),
    "settings_kinds": {"address", "octets", "origins", "settings_file", "journal"},
    "settings_tables": {"settings_file"},
    "policies": {"broker", "octets", "settings_kinds", "settings_tables"},
    "rules": {"broker", "settings_file", "settings_tables"},
    "mistakes": {"policies", "rules", "settings_file", "settings_tables"},
    "settings_security": {"rules", "settings_kinds"},
    "settings_observe": {"broker", "settings_file"},
    "settings_journal": {"journal", "settings_kinds", "settings_security"},
    "settings": {
        "address",
        "policies",
        "rules",
        "settings_file",
        "settings_journal",
        "settings_kinds",
        "settings_observe",
        "settings_security",
        "mistakes",
    },
    "settings_reference": {"settings", "settings_journal", "settings_observe", "settings_security", "mistakes"},
    "dictionary_reference": {"broker"},
    "handlers": {"codec", "broker"},
    "stores": {"broker"},
    "journal": {"storing"},
    "recording": {"broker", "journal", "transports", "settings", "settings_kinds"},
    # What reads the journal, in processes of its own.
    "archive": {"durations", "journal", "mistakes", "octets", "settings", "storing"},
    "pipeline": {
        "archive",
        "broker",
        "client",
        "codec",
        "durations",
        "journal",
        "octets",
        "settings",
        "storing",
        "visible",
    },
    # What the runtime makes of the settings: parts of each layer, and open listeners.
    "parts": {"codec", "broker", "transports", "handlers", "settings"},
    "secrecy": {"auth", "settings"},
    "listeners": {"address", "mistakes", "secrecy", "service", "settings", "transports"},
    "runtime": {
        "auth",
        "codec",
        "broker",
        "transports",
        "handlers",
        "stores",
        "journal",
        "recording",
        "recovery",
        "reload",
        "listeners",
        "mistakes",
        "parts",
        "settings",
        "observe",
        "tracing",
    },
    "recovery": {"broker", "mistakes", "settings", "stores"},
    "reload": {"mistakes", "settings", "settings_file"},
    "tracing": {"broker", "journal", "mistakes", "observe", "settings"},
    "auth": {"broker", "networks", "rules", "settings"},
    "observe": {"codec", "broker", "journal", "transports"},
    "admin": {
        "auth",
        "codec",
        "broker",
        "networks",
        "origins",
        "transports",
        "runtime",
        "observe",
        "settings",
        "settings_reference",
    },
    # The ASGI face, and what it is made of: the thread below an asyncio worker, the rules of a worker process.
    "bridge": set(),
    "worker": set(),
    "app": {"bridge", "service", "worker", "runtime", "mistakes", "settings", "admin", "observe", "auth"},
    # The command line.  `serve` stands where hypercorn stands, and is the one that imports the app as hypercorn does.
    "serve": {"app", "bridge", "service", "worker", "listeners", "mistakes", "transports", "settings", "observe"},
    # Reads the rules, and says what they mean.
    "acl": {"auth", "broker", "mistakes", "rules", "settings"},
    # A client of the gateway, and a reader of its settings.
    "doctor": {
        "address",
        "client",
        "codec",
        "listeners",
        "mistakes",
        "pipeline",
        "settings",
        "stores",
        "transports",
    },
    "cli": {
        "acl",
        "doctor",
        "address",
        "serve",
        "listeners",
        "mistakes",
        "transports",
        "settings",
        "settings_reference",
        "auth",
        "handlers",
        "stores",
        "archive",
        "commands",
        "pipeline",
        "relay",
    },
    "commands_reference": {"cli"},
    "__main__": {"cli"},
}
SOURCES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")

Place = tuple[Path, int, str]


def unit_of(path: Path) -> str:
    """The unit that a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of whatever a file imports."""
    package = ("gateway", *path.relative_to(ROOT).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, node.module] if node.module else above)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def arrows(path: Path) -> Iterator[Place]:
    """Line and unit of each import of another unit of the package."""
    for line, name in imports(path):
        package, *parts = name.split(".")
        # `import gateway` and `from gateway import __version__` name no unit: the package itself knows nothing.
        if package == "gateway" and parts and parts[0] not in ("__version__", unit_of(path)):
            yield path, line, parts[0]


def shown(places: list[Place]) -> list[str]:
    return [f"{path.relative_to(ROOT.parent)}:{line}: {what}" for path, line, what in places]


def test_every_unit_is_in_the_design() -> None:
    assert {unit_of(path) for path in SOURCES} <= set(ARROWS)


def test_no_other_arrows() -> None:
    wrong = [place for path in SOURCES for place in arrows(path) if place[2] not in ARROWS[unit_of(path)]]
    assert not shown(wrong)


def test_the_layers_stand_on_each_other() -> None:
    """Of the table above: a lower layer knows of no higher one, and a circle is nowhere."""
    for place, unit in enumerate(LAYERS):
        assert not ARROWS[unit] & set(LAYERS[place:])
    order: list[str] = []
    while len(order) < len(ARROWS):
        free = [unit for unit in ARROWS if unit not in order and ARROWS[unit] <= set(order)]
        assert free, f"a circle among {set(ARROWS) - set(order)}"
        order += free


def test_nobody_imports_the_app() -> None:
    assert {unit for unit, targets in ARROWS.items() if "app" in targets} == {"serve"}


@pytest.mark.parametrize("unit", ["codec", "broker", "journal"])
def test_only_the_standard_library(unit: str) -> None:
    foreign = [
        (path, line, name)
        for path in SOURCES
        if unit_of(path) == unit
        for line, name in imports(path)
        if name.split(".")[0] not in {*sys.stdlib_module_names, "gateway"}
    ]
    assert not shown(foreign)


@pytest.mark.parametrize("module", ["pyspark", "pyarrow", "pandas", "numpy", "pyspark_stomp"])
def test_only_the_pipeline_knows_spark(module: str) -> None:
    users = {unit_of(path) for path in SOURCES for _, name in imports(path) if name.split(".")[0] == module}
    assert users <= {"archive", "pipeline"}


@pytest.mark.parametrize("module", ["trio", "starlette", "hypercorn"])
def test_the_pipeline_knows_no_server(module: str) -> None:
    users = {unit_of(path) for path in SOURCES for _, name in imports(path) if name.split(".")[0] == module}
    assert not users & {"archive", "pipeline", "journal"}


@pytest.mark.parametrize("unit", ["codec", "broker"])
@pytest.mark.parametrize("module", ["socket", "asyncio", "threading", "time", "select", "trio"])
def test_no_sockets_no_tasks_no_clock(unit: str, module: str) -> None:
    used = [
        (path, line, name)
        for path in SOURCES
        if unit_of(path) == unit
        for line, name in imports(path)
        if name.split(".")[0] == module
    ]
    assert not shown(used)


@pytest.mark.parametrize("unit", ["codec", "broker"])
def test_nothing_waits(unit: str) -> None:
    """No `async` and no `await` of any kind."""
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    found = [
        (path, node.lineno, type(node).__name__)
        for path in SOURCES
        if unit_of(path) == unit
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, waiting)
    ]
    comprehensions = [
        path
        for path in SOURCES
        if unit_of(path) == unit
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.comprehension) and node.is_async
    ]
    assert not shown(found)
    assert not comprehensions


@pytest.mark.parametrize("unit", ["transports", "runtime"])
def test_no_http_below_the_app(unit: str) -> None:
    """The runtime knows nothing of HTTP; upgrades are trio-websocket's, masks those of websockets."""
    known = {"trio", "trio_websocket", "websockets", "structlog", "cryptography"}
    allowed = {*sys.stdlib_module_names, "gateway", *known}
    foreign = [
        (path, line, name)
        for path in SOURCES
        if unit_of(path) == unit
        for line, name in imports(path)
        if name.split(".")[0] not in allowed
    ]
    assert not shown(foreign)


def test_the_reading_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That the tests above would see what they look for."""
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    path = tmp_path / "broker" / "thing.py"
    path.parent.mkdir()
    path.write_text(
        "import os, gateway, gateway.app\n"
        "from gateway import settings, __version__\n"
        "from gateway.codec import Frame\n"
        "from . import queue\n"
        "from .queue import Queue\n"
        "from ..transports.hub import Hub\n"
        "def late():\n    from gateway.runtime import open_gateway\n"
    )
    assert [(line, unit) for _, line, unit in arrows(path)] == [
        (1, "app"),
        (2, "settings"),
        (3, "codec"),
        (6, "transports"),
        (8, "runtime"),
    ]
