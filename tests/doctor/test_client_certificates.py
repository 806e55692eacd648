"""A gateway that demands certificates of its clients: with none, with one that it does not take, with the right one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demanding import Demanding, demanding
from tests.doctor.scene import faults, look, tcp, websocket
from tests.gateway_process import HOST


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demanding]:
    with demanding(tmp_path_factory.mktemp("demanding")) as found:
        yield found


async def found_at(there: Demanding, cert: Path | None = None, key: Path | None = None) -> list[str]:
    """The faults of both ports."""
    places = {"tcp": (tcp(there.port, tls=True),), "websocket": (websocket(there.websocket, tls=True),)}
    return faults(await look(**places, authorities=there.ca, certificate=cert, key=key))


async def test_the_right_one(there: Demanding) -> None:
    assert await found_at(there, there.cert, there.key) == []


@pytest.mark.parametrize(
    ("is_shown", "words"),
    [
        (False, "it demands a client certificate, and none was shown"),
        (True, "it does not take the certificate in {stranger}: tlsv1 alert unknown ca"),
    ],
)
async def test_the_wrong_one(there: Demanding, is_shown: bool, words: str) -> None:
    lines = await found_at(there, there.stranger if is_shown else None)
    assert any(f"{HOST}:{there.port}" in line for line in lines)
    assert any(f"{HOST}:{there.websocket}" in line for line in lines)
    for line in lines:
        assert words.format(stranger=there.stranger) in line
        assert "Give one by --cert and --key that an authority in tls_client_ca vouches for" in line


async def test_nobody_is_told_of_ours_who_is_not_believed(there: Demanding) -> None:
    """The server's own certificate is the fault; that it was shown none follows from it."""
    places = {"tcp": (tcp(there.port, tls=True),)}
    lines = faults(await look(**places, certificate=there.cert, key=there.key))
    assert "nobody whom clients know vouches for the certificate" in lines[0]
    assert not any("client certificate" in line for line in lines)


async def test_a_file_that_is_none(there: Demanding) -> None:
    (line,) = await found_at(there, there.key)
    assert "has no certificate with its key in PEM" in line
    assert "Name files in PEM by --ca, --cert and --key" in line
