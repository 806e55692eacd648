"""What is freed stays with the process, in a process of its own: the allocator is all of a process's."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from gateway.transports.flow import process_memory

PIECES = "pieces = [b'x' * 65536 for _ in range(16)]\n"
COUNT = (
    "import resource, sys\n"
    "from gateway.transports.flow.process_memory import keep_freed, resident, trim\n"
    "" + PIECES + "def faults():\n"
    "    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
)


def answer(program: str) -> list[int]:
    said = subprocess.run(
        [sys.executable, "-c", COUNT + program], capture_output=True, text=True, check=True, timeout=60
    )
    return [int(word) for word in said.stdout.split()]


@pytest.mark.parametrize(("mark", "is_kept"), [(0, True), (1024**3, True), (1024**2, False)])
def test_a_large_body_finds_its_memory_there(mark: int, is_kept: bool) -> None:
    (again,) = answer(
        f"keep_freed({mark})\n"
        "b''.join(pieces)\n"
        "before = faults()\n"
        "for _ in range(100):\n"
        "    b''.join(pieces)\n"
        "print(faults() - before)\n"
    )
    pages = 100 * 1024 * 1024 // 4096
    assert (again < pages / 100) is is_kept


def test_it_is_given_back_when_asked() -> None:
    kept, left = answer(
        "keep_freed(0)\n"
        "before = resident()\n"
        "bodies = [b''.join(pieces) for _ in range(32)]\n"
        "del bodies\n"
        "print(resident() - before)\n"
        "trim()\n"
        "print(resident() - before)\n"
    )
    assert kept > 30 * 1024 * 1024
    assert left < 4 * 1024 * 1024


def test_another_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    process_memory.keep_freed(0)
    process_memory.trim()
