"""A project in a folder, whose tests pytest runs in another process as it would with the plugin installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

# The entry point names the same module, and may be installed here or not.
_PLUGIN = ["-p", "no:stomp-gateway", "-p", "gateway.testing.plugin", "-p", "no:cacheprovider", "-W", "error"]
PATIENCE = 120


def run_tests(folder: Path, *options: str, **files: str) -> str:
    """Write files (name without .py -> text), run pytest there, and return what it shows behind its exit status."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(dedent(text))
    (folder / "pytest.ini").write_text("[pytest]\n")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "GATEWAY"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *_PLUGIN, *options],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return f"{done.returncode}\n{done.stdout}{done.stderr}"
