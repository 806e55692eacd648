"""What the tests of the report share: Chromium, which opens pages from disk and says what is in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.driver import Driver, start_driver, tool

Look = Callable[..., dict[str, Any]]


@pytest.fixture(scope="package")
def chromium() -> Iterator[Driver]:
    with start_driver(str(Path(__file__).parent / "look.mjs"), tool("chromium")) as driver:
        yield driver


@pytest.fixture
def look(chromium: Driver, tmp_path: Path) -> Look:
    """Opens a page in Chromium; see `look.mjs` for what it says, `media` and `context`."""

    def found(page: str, media: str = "screen", **context: Any) -> dict[str, Any]:
        path = tmp_path / "report.html"
        path.write_text(page, encoding="utf-8")
        seen: dict[str, Any] = chromium.run("look", url=path.as_uri(), media=media, context=context)
        return seen

    return found
