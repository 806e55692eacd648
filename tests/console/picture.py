"""Picture of the console for README.md: `python -m tests.console.picture` makes docs/console.webp again.

The load is that of examples/shop.py, which has consumers that fail, so the picture has rates, queues and dead letters.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.clients.driver import ROOT, tool
from tests.console.conftest import ARGUMENTS
from tests.gateway_process import GatewayProcess, start_gateway

PICTURE = ROOT / "docs" / "console.webp"
SECONDS = 60
"""Long enough for lines in the charts."""
RATE = 400
_SMALLER = """async png => {
  const picture = await createImageBitmap(await (await fetch("data:image/png;base64," + png)).blob());
  const canvas = Object.assign(document.createElement("canvas"), { width: picture.width, height: picture.height });
  canvas.getContext("2d").drawImage(picture, 0, 0);
  return canvas.toDataURL("image/webp", 0.9).split(",")[1];
}"""
"""Chromium writes PNG and JPEG alone into files."""


def take(gateway: GatewayProcess, path: Path) -> None:
    """Write the overview of a gateway that has been under load for a while."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=tool("chromium"), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1280, "height": 760}, color_scheme="light")
        page.goto(f"{gateway.http_url}/console/#/overview")
        page.wait_for_timeout(SECONDS * 1000)
        png = base64.b64encode(page.screenshot()).decode()
        path.write_bytes(base64.b64decode(browser.new_page().evaluate(_SMALLER, png)))
        browser.close()


def main() -> None:
    example = ROOT / "examples" / "shop.py"
    settings = {"config": example.with_suffix(".toml"), "store": "sqlite:store.db", "journal": ""}
    load = [sys.executable, str(example), ".", "--messages", str(RATE * (SECONDS + 5)), "--rate", str(RATE)]
    with start_gateway(**settings) as gateway:
        environment = {**os.environ, "STOMP_PORT": str(gateway.tcp_port)}
        with subprocess.Popen(load, env=environment, stdout=subprocess.DEVNULL):  # it ends by itself
            take(gateway, PICTURE)
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
