"""`gateway send` and `gateway subscribe` at a gateway that demands certificates of its clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Terminal
from tests.demanding import Demanding, demanding
from tests.gateway_process import HOST


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demanding]:
    with demanding(tmp_path_factory.mktemp("demanding")) as found:
        yield found


@pytest.fixture
def secured(there: Demanding, tmp_path: Path) -> Terminal:
    return Terminal(there.url, tmp_path)


def test_there_and_back(secured: Terminal, there: Demanding, queue: str) -> None:
    files = ("--ca", str(there.ca), "--cert", str(there.cert), "--key", str(there.key))
    assert secured.run("send", queue, "tea", *files) == (0, b"", "1 message sent and confirmed\n")
    assert secured.run("subscribe", queue, "--count", "1", *files) == (0, b"tea\n", "")


@pytest.mark.parametrize("command", [("send", "/queue/a", "tea"), ("subscribe", "/queue/a")])
def test_nothing_is_shown(secured: Terminal, there: Demanding, command: tuple[str, ...]) -> None:
    status, out, told = secured.run(*command, "--ca", str(there.ca))
    place = f"{HOST}:{there.port}"
    sentence = f"cannot connect to {place}: it demands a client certificate, and none was shown (cert, key)"
    assert (status, out, sentence in told, "PROXY" in told) == (1, b"", True, False)
    assert told.count("\n") == 1
