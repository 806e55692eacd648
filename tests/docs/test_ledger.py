"""Whoever writes a command or an example into a page also has a test that runs it.

Commands: for each heading that has some, RUN names the module of tests that runs them, and LEFT has those that nobody
can run here, with the reason.  Examples: some module of tests names the page.  `test_docs_blocks` looks at names alone,
and does not count.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.docs.machine import ROOT
from tests.docs.page import blocks, commands

PAGES = [
    str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")]
]
WITH_EXAMPLES = sorted([page for page in PAGES if blocks(page)])
WITH_COMMANDS = sorted([page for page in PAGES if commands(page)])

# Page -> heading -> module in tests; "" stands for all headings that are not named.
RUN = {
    "README.md": {"See what goes on": "docs/test_terminal.py", "From nothing to a report": "docs/test_pipeline.py"},
    "docs/alerts.md": {"": "docs/test_terminal.py"},
    "docs/api.md": {"": "admin/test_reference.py"},
    "docs/archive.md": {"": "docs/test_pages.py"},
    "docs/benchmarks.md": {"": "docs/test_terminal.py"},
    "docs/doctor.md": {"": "docs/test_terminal.py"},
    "docs/durability.md": {"": "docs/test_pages.py"},
    "docs/first-steps.md": {"": "docs/test_howtos.py"},
    "docs/handlers.md": {"": "docs/test_pages.py"},
    "docs/howto-jwt.md": {"": "docs/test_howtos.py"},
    "docs/howto-nginx.md": {"": "docs/test_howtos.py"},
    "docs/howto-tls.md": {"": "docs/test_howtos.py"},
    "docs/logs.md": {"": "docs/test_terminal.py"},
    "docs/moving.md": {"": "docs/test_howtos.py"},
    "docs/operations.md": {
        "": "deploy/test_operations.py",
        "A relay to another server": "docs/test_relay.py",
        "TLS": "docs/test_terminal.py",
        "HTTP": "docs/test_terminal.py",
    },
    "docs/pipeline.md": {"": "docs/test_pipeline.py"},
    "docs/relay.md": {"": "docs/test_relay.py"},
    "docs/rules.md": {"": "cli/test_acl.py"},
    "docs/security.md": {"": "test_docs_security.py"},
    "docs/settings.md": {"": "docs/test_terminal.py"},
}

_NETWORK = "it brings packages from the network"
_MAKE = "it is these tests, or takes minutes; that make knows how, test_pages sees"
_SYSTEMD = "no systemd runs here; what it names deploy/test_units sees"
_ENGINE = "no engine of containers runs here; deploy/test_operations reads it as that would"
_CLUSTER = "its cluster is none; pyspark_stomp/test_elsewhere has one, and such a line"
# Page -> how a command begins -> why no test runs it.
LEFT = {
    "CONTRIBUTING.md": {"make ": _MAKE},
    "README.md": {
        **dict.fromkeys(["make run", "make test", "make wheel"], _MAKE),
        **dict.fromkeys(["python3 -m venv", "pip install"], f"{_NETWORK}; deploy/test_operations installs the wheel"),
        "make pipeline": _NETWORK,
    },
    "docs/archive.md": {'pip install "$(ls dist/*.whl)[pipeline]"': _NETWORK},
    "docs/benchmarks.md": {"make bench": _MAKE},
    "docs/connector.md": {
        'pip install "$(ls dist/*.whl)[pipeline]"': _NETWORK,
        "PYSPARK_DRIVER_PYTHON=.venv/bin/python spark-submit": _CLUSTER,
    },
    "docs/operations.md": {
        "journalctl ": _SYSTEMD,
        "docker ": _ENGINE,
        "GATEWAY_ADMIN_TOKEN=a-long-random-word docker ": _ENGINE,
        "kubectl ": _ENGINE,
        '/opt/stomp-gateway/bin/pip install "$(ls dist/*.whl)[pipeline,java]"': _NETWORK,
        "install -m 644 deploy/stomp-gateway-archive.service": _SYSTEMD,
        "install -m 644 deploy/stomp-gateway-compact.service": _SYSTEMD,
        "systemctl enable --now stomp-gateway-archive": _SYSTEMD,
        "systemctl enable --now stomp-gateway-relay": _SYSTEMD,
        "runuser -u stomp-gateway -- /opt/stomp-gateway/bin/gateway pipeline status": "docs/test_pipeline runs it",
    },
    "docs/pipeline.md": {'pip install "$(ls dist/*.whl)[pipeline,java]"': _NETWORK},
    "docs/security.md": {
        "curl -fsS https://login.example.org/": "the provider is none",
        "systemctl reload stomp-gateway": "docs/test_howtos types it on other pages",
        "make fuzz": _MAKE,
        "python -m tests.fuzz --again": "fuzz/test_corpus calls it",
    },
    "docs/tracing.md": {'pip install "$(ls dist/*.whl)[otel]"': _NETWORK},
    "examples/README.md": {
        "make wheel": _MAKE,
        **dict.fromkeys(["python3 -m venv", ". ~/stomp", "pip install", "cd examples"], "as README.md has it"),
    },
}


@cache
def words() -> str:
    """All strings in the tests but for documentation, and for what looks at every page."""
    left_out = {ROOT / "tests" / "test_docs_blocks.py", Path(__file__)}
    found = []
    for file in sorted((ROOT / "tests").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if file not in left_out and ".md" in text:
            tree = ast.parse(text)
            said = [id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)]
            constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in said]
            found += [node.value for node in constants if isinstance(node.value, str)]
    return "\n".join(found)


@pytest.mark.parametrize("page", WITH_EXAMPLES)
def test_somebody_runs_it(page: str) -> None:
    assert Path(page).name in words(), f"{page} has examples, and no test names the page: run them, see tests/docs"


@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_somebody_runs_its_commands(page: str) -> None:
    left, run = LEFT.get(page, {}), RUN.get(page, {})
    ran = [(title, command) for title, command in commands(page) if not command.startswith(tuple(left))]
    forgotten = [command for title, command in ran if title not in run and "" not in run]
    assert not forgotten, f"{page}: run it by a test (see tests/docs), and name that in RUN; or say in LEFT why not"
    for module in run.values():
        assert Path(page).stem in (ROOT / "tests" / module).read_text(encoding="utf-8"), (
            f"{module} does not know {page}"
        )


def test_nothing_is_named_that_is_not_there() -> None:
    for page, left in LEFT.items():
        lines = [command for _, command in commands(page)]
        assert [start for start in left if not any(line.startswith(start) for line in lines)] == []
    for page, run in RUN.items():
        assert run.keys() - {""} <= {title for title, _ in commands(page)}


def test_pages_were_found() -> None:
    assert len(WITH_EXAMPLES) > 10
    assert len(WITH_COMMANDS) > 20
