"""Imports of the clients: the blocking one brings no event loop, and both are quick."""

from __future__ import annotations

import subprocess
import sys

import gateway.client

# Modules that take long; AnyIO imports asyncio or Trio.
_NOT_NEEDED = {"anyio", "asyncio", "trio", "wsproto", "h11", "logging"}


def shown(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout


def test_the_blocking_client_brings_no_event_loop() -> None:
    program = f"import sys, gateway.client; print(sorted({_NOT_NEEDED!r} & set(sys.modules)))"
    assert shown(program) == "[]\n"


def test_processor_time() -> None:
    """In seconds, the least of some: others run here, too."""
    program = "import time; start = time.process_time(); import gateway.client; print(time.process_time() - start)"
    assert min(float(shown(program)) for _ in range(5)) < 0.15


def test_every_public_name_is_there() -> None:
    assert all(getattr(gateway.client, name) is not None for name in gateway.client.__all__)
    assert not hasattr(gateway.client, "nothing")
