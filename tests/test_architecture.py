"""The arrows of docs/design.md, read out of the imports: each is one between two units, wherever in a file it stands.

A unit is a folder of `gateway`, or a module of its top level.  An import for the type checker alone counts, too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "gateway"

# Which units a unit may import.
LAYERS = ("codec", "broker", "transports", "runtime")
ARROWS = {
    "codec": set(),
    "broker": {"codec"},
    "client": {"codec"},
    "files": set(),
    "log_limiter": set(),
    "plugins": set(),
    "net": set(),
    "process": set(),
    "text": set(),
    "handlers": {"broker", "codec", "plugins"},
    "stores": {"broker", "log_limiter"},
    # The log of a cluster, and the part of a node in it.
    "cluster": {"broker", "stores"},
    "journal": {"files"},
    "transports": {"broker", "codec", "log_limiter", "net", "stores"},
    # The link between processes that have the sockets and the one with the broker.
    "edges": {"auth", "broker", "codec", "transports"},
    "edge_process": {"auth", "config", "edges", "observe", "runtime", "transports"},
    # Plain values, for the units that set up the others.
    "config": {"broker", "journal", "net", "process"},
    "auth": {"broker", "config", "files", "net", "plugins"},
    "observe": {"broker", "codec", "journal", "stores", "transports"},
    "runtime": set(
        "auth broker client cluster codec config edges files handlers journal observe process stores transports".split()
    ),
    "admin": set("auth broker cluster codec config handlers net observe runtime transports".split()),
    # The ASGI face.
    "app": {"admin", "auth", "config", "observe", "process", "runtime"},
    # The ASGI face as a part of another application.
    "embedded": {"app", "broker", "config", "runtime", "transports"},
    # The gateway inside a test of its users, and the plugin of pytest.
    "testing": {"admin", "auth", "broker", "codec", "config", "runtime", "transports"},
    # What reads the journal, in processes of their own.
    "archive": {"config", "files", "journal"},
    "pipeline": {"archive", "broker", "client", "codec", "config", "files", "journal", "text"},
    # Two clients in a process of their own, which logs as the gateway does.
    "relay": {"client", "codec", "config", "observe", "process"},
    # A client that POSTs what it gets.
    "push": {"client", "config", "observe", "process"},
    # A client of the gateway, and a reader of its settings.
    "doctor": {"client", "cluster", "codec", "config", "pipeline", "runtime", "stores", "transports"},
    # The command line.  `serve` stands where hypercorn stands, and is the one that imports the app as hypercorn does.
    "cli": set(
        "app archive auth broker client cluster codec config doctor files handlers observe pipeline process push "
        "relay runtime stores text transports".split()
    ),
    "__main__": {"cli"},
}
SOURCES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")

Place = tuple[Path, int, str]


def unit_of(path: Path) -> str:
    """The unit that a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """Line and full dotted name of whatever a file imports."""
    return list(_imports(path))


def _imports(path: Path) -> Iterator[tuple[int, str]]:
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


ORDERS = {
    "broker": "errors model selectors headers core queue topic routing session broker admin gauges recovery".split(),
    "transports": "wire flow server connection accept".split(),
}
"""The packages and modules of a unit: each imports from itself and from those before it, types included."""


@pytest.mark.parametrize("unit", ORDERS)
def test_packages_import_those_before_them(unit: str) -> None:
    order = ORDERS[unit]
    wrong: list[Place] = []
    for path in [each for each in SOURCES if unit_of(each) == unit and each != ROOT / unit / "__init__.py"]:
        own = path.relative_to(ROOT).with_suffix("").parts[1]
        for line, name in imports(path):
            parts = name.split(".")
            if parts[:2] == ["gateway", unit] and parts[2] in order[order.index(own) + 1 :]:
                wrong.append((path, line, name))
    assert not shown(wrong)


def test_no_file_is_in_a_circle() -> None:
    """Types under `TYPE_CHECKING` and imports within functions count: a reader follows them, too."""
    names = {".".join(("gateway", *path.relative_to(ROOT).with_suffix("").parts)): path for path in SOURCES}
    names = {name.removesuffix(".__init__"): path for name, path in names.items()}
    graph = {}
    for name, path in names.items():
        needed = {target if target in names else target.rpartition(".")[0] for _, target in imports(path)}
        graph[name] = (needed & set(names)) - {name}
    while graph:
        free = [name for name, needed in graph.items() if not needed & set(graph)]
        assert free, f"a circle among {sorted(graph)}"
        graph = {name: needed for name, needed in graph.items() if name not in free}


def users_of(*modules: str) -> set[str]:
    """The units that import one of them."""
    return {unit_of(path) for path in SOURCES for _, name in imports(path) if name.split(".")[0] in modules}


def test_only_the_pipeline_knows_spark_and_it_knows_no_server() -> None:
    assert users_of("pyspark", "pyarrow", "pandas", "numpy", "pyspark_stomp") == {"archive", "pipeline"}
    assert not users_of("trio", "starlette", "hypercorn") & {"archive", "pipeline", "journal"}


def test_codec_and_broker_have_no_sockets_no_tasks_no_clock() -> None:
    assert not users_of("socket", "asyncio", "threading", "time", "select", "trio") & {"codec", "broker"}


@pytest.mark.parametrize("unit", ["codec", "broker"])
def test_nothing_waits(unit: str) -> None:
    """No `async` and no `await` of any kind."""
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    found = [
        (path, getattr(node, "lineno", 0), type(node).__name__)
        for path in SOURCES
        if unit_of(path) == unit
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, waiting) or (isinstance(node, ast.comprehension) and node.is_async)
    ]
    assert not shown(found)


# The runtime knows nothing of HTTP; upgrades are trio-websocket's, masks of websockets, settings of pydantic.
BELOW_HTTP = {"trio", "trio_websocket", "websockets", "structlog", "cryptography", "pydantic"}
FOREIGN = {"codec": set(), "broker": {"cronsim"}, "journal": set(), "transports": BELOW_HTTP, "runtime": BELOW_HTTP}


@pytest.mark.parametrize("unit", FOREIGN)
def test_what_a_unit_imports_beside_the_standard_library(unit: str) -> None:
    allowed = {*sys.stdlib_module_names, "gateway", *FOREIGN[unit]}
    foreign = [
        (path, line, name)
        for path in SOURCES
        if unit_of(path) == unit
        for line, name in imports(path)
        if name.split(".")[0] not in allowed
    ]
    assert not shown(foreign)
