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


def test_with_and_without_a_certificate(secured: Terminal, there: Demanding, queue: str) -> None:
    files = ("--ca", str(there.ca), "--cert", str(there.cert), "--key", str(there.key))
    assert secured.run("send", queue, "tea", *files) == (0, b"", "1 message sent and confirmed\n")
    assert secured.run("subscribe", queue, "--count", "1", *files) == (0, b"tea\n", "")
    status, out, told = secured.run("send", queue, "tea", "--ca", str(there.ca))
    sentence = f"cannot connect to {HOST}:{there.port}: it demands a client certificate, and none was shown (cert, key)"
    assert (status, out, sentence in told, told.count("\n")) == (1, b"", True, 1)
    status, _, told = secured.run("send", queue, "tea", "--cert", str(there.cert), "--url", "stomp://localhost")
    assert (status, "has no TLS, and certificates are for TLS" in " ".join(told.split())) == (2, True)
