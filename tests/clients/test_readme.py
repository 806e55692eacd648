"""The two examples of the README, run as written.

README.md shows examples/worker.py and examples/browser.js word for word, and this test holds them together.  They
are run on a gateway of the test's own, so the two default ports in them are replaced by its ports; nothing else is.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.clients.driver import ROOT, Driver
from tests.gateway_process import GatewayProcess

EXAMPLES = {"python": "worker.py", "js": "browser.js"}


def as_run(file: str, gateway: GatewayProcess) -> str:
    """The example, with the default ports replaced."""
    text = (ROOT / "examples" / file).read_text()
    return text.replace("61613", str(gateway.tcp_port)).replace("15674", str(gateway.ws_port))


@pytest.mark.parametrize(("language", "file"), EXAMPLES.items())
def test_the_readme_shows_the_example(language: str, file: str) -> None:
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    assert (ROOT / "examples" / file).read_text() in blocks, f"README.md does not show examples/{file} as it is"


def test_the_worker_answers_the_browser(gateway: GatewayProcess, chromium: Driver) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", as_run("worker.py", gateway)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said = chromium.run(
            "example",
            origin=f"{gateway.http_url}/",
            source=as_run("browser.js", gateway),
            context={"bypassCSP": True},
        )
        output, errors = worker.communicate("\n", timeout=20)
    finally:
        worker.kill()
        worker.communicate()
    assert said == "tea for two: done"
    assert output == "Working; press Enter to stop.\n"
    assert (worker.returncode, errors) == (0, "")
