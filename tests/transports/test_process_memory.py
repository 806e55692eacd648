"""Process memory: what the system tells of it, the mark and limit that follow, and what the C library keeps.

What the C library keeps is tested in a process of its own, because all of a process shares it.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
import trio

from gateway.broker import Quotas
from gateway.transports.flow import process_memory as memory_module
from gateway.transports.flow.process_memory import available, physical, resident, watch_process, within_mark

from .harness import Harness

MakeHarness = Callable[..., Harness]


class TestSystem:
    def test_this_process(self) -> None:
        assert 1_000_000 < resident() < available()[0]

    def test_no_proc(self, tmp_path: Path) -> None:
        assert resident(tmp_path) == 0
        total = physical()
        assert total > 100_000_000
        assert available(tmp_path) == (total, "the machine")

    def test_a_system_that_does_not_tell(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        def unknown(name: str) -> int:
            raise ValueError(f"unrecognized configuration name: {name}")

        monkeypatch.setattr(os, "sysconf", unknown)
        assert available(tmp_path) == (0, "")

    @pytest.mark.parametrize(
        ("files", "answer"),
        [
            ({}, (8_192_000, "the machine")),
            ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, (8_192_000, "the machine")),
            ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "4096000\n"}, (4_096_000, "the container")),
            (
                {
                    "proc/self/cgroup": "0::/a/b\n",
                    "sys/fs/cgroup/a/b/memory.max": "max\n",
                    "sys/fs/cgroup/a/memory.max": "5000000\n",
                },
                (5_000_000, "the container"),
            ),
            (
                {"proc/self/cgroup": "0::/of/the/host\n", "sys/fs/cgroup/memory.max": "4096000\n"},
                (4_096_000, "the container"),
            ),
            (
                {
                    "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/x\n",
                    "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "3000000\n",
                    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                },
                (3_000_000, "the container"),
            ),
            (
                {
                    "proc/self/cgroup": "4:memory:/x\n",
                    "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "9223372036854771712\n",
                },
                (8_192_000, "the machine"),
            ),
        ],
    )
    def test_what_there_is(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], answer: tuple[int, str]
    ) -> None:
        monkeypatch.setattr(memory_module, "physical", lambda: 8_192_000)
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert available(tmp_path) == answer


class TestWatchProcess:
    async def test_a_part_of_what_there_is(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(memory_module, "available", lambda: (8_000_000, "the container"))
        watch_process(harness.server.memory_guard, 0)
        assert harness.server.memory_guard.mark == 6_000_000
        await trio.sleep(0.05)
        assert harness.server.memory_guard.resident > 6_000_000
        assert harness.server.memory_guard.reason.endswith("6000000 may (memory_mark, 3/4 of what the container has)")

    @pytest.mark.parametrize(
        ("available", "wanted", "mark", "line"),
        [
            (
                (8_000_000, "the container"),
                9_000_000,
                9_000_000,
                "memory_mark is 9000000 bytes and the container has 8000000",
            ),
            ((0, ""), 0, 0, "memory is not watched"),
        ],
    )
    async def test_it_is_logged(
        self,
        harness: Harness,
        monkeypatch: pytest.MonkeyPatch,
        available: tuple[int, str],
        wanted: int,
        mark: int,
        line: str,
    ) -> None:
        monkeypatch.setattr(memory_module, "available", lambda: available)
        with structlog.testing.capture_logs() as logs:
            watch_process(harness.server.memory_guard, wanted)
        assert harness.server.memory_guard.mark == mark
        assert [each["event"].startswith(line) for each in logs] == [True]


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
    memory_module.keep_freed(0)
    memory_module.trim()


@pytest.mark.parametrize(
    ("limit", "mark", "left"),
    [(200_000_000, 256_000_000, 196_000_000), (196_000_000, 256_000_000, 196_000_000), (2_000_000, 1_000, 1024 * 1024)],
    ids=["too much", "with room", "a mark that is taken already"],
)
def test_a_memory_limit_is_within_the_mark(monkeypatch: pytest.MonkeyPatch, limit: int, mark: int, left: int) -> None:
    monkeypatch.setattr(memory_module, "resident", lambda: 60_000_000)
    with structlog.testing.capture_logs() as logs:
        assert within_mark(Quotas(memory_limit=limit), mark) == Quotas(memory_limit=left)
    sentence = f"memory_limit is taken as {left} and not {limit} bytes: {mark} may be taken (memory_mark)"
    assert [line["event"] for line in logs] == ([sentence] if left < limit else [])


def test_a_memory_limit_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "available", lambda: (0, ""))
    quotas = Quotas()
    assert within_mark(quotas, 0) is quotas
