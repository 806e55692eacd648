"""Process memory: what the system tells of it, the mark and limit that follow, and what the C library keeps.

What the C library keeps is tested in a process of its own, because all of a process shares it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from gateway.broker import Quotas
from gateway.transports.flow import process_memory as module
from gateway.transports.flow.process_memory import available, physical, resident, watch_process, within_mark

from .harness import Harness
from .peers import until

parametrize = pytest.mark.parametrize

MACHINE, CONTAINER = "the machine", "the container"
V1, V2 = "sys/fs/cgroup/memory/{}memory.limit_in_bytes", "sys/fs/cgroup/{}memory.max"
NO_LIMIT = "9223372036854771712"


def test_this_process(tmp_path: Path) -> None:
    assert 1_000_000 < resident() < available()[0]
    assert resident(tmp_path) == 0, "there is no /proc"
    assert available(tmp_path) == (physical(), MACHINE)
    assert physical() > 100_000_000


@parametrize(
    ("groups", "files", "answer"),
    [
        ("", {}, (8_192_000, MACHINE)),
        ("0::/\n", {V2.format(""): "4096000"}, (4_096_000, CONTAINER)),
        ("0::/a/b\n", {V2.format("a/b/"): "max", V2.format("a/"): "5000000"}, (5_000_000, CONTAINER)),
        ("0::/of/the/host\n", {V2.format(""): "4096000"}, (4_096_000, CONTAINER)),
        (
            "5:cpu,cpuacct:/x\n4:memory:/x\n",
            {V1.format("x/"): "3000000", V1.format(""): NO_LIMIT},
            (3_000_000, CONTAINER),
        ),
    ],
)
def test_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: str, files: dict[str, str], answer: tuple[int, str]
) -> None:
    monkeypatch.setattr(module, "physical", lambda: 8_192_000)
    for name, text in {"proc/self/cgroup": groups, **files}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n" if name in files else text)
    assert available(tmp_path) == answer


@parametrize(
    ("limit", "mark", "left"),
    [(200_000_000, 256_000_000, 196_000_000), (196_000_000, 256_000_000, 196_000_000), (2_000_000, 1_000, 1024 * 1024)],
    ids=["too much", "with room", "a mark that is taken already"],
)
def test_a_memory_limit_is_within_the_mark(monkeypatch: pytest.MonkeyPatch, limit: int, mark: int, left: int) -> None:
    monkeypatch.setattr(module, "resident", lambda: 60_000_000)
    with structlog.testing.capture_logs() as logs:
        assert within_mark(Quotas(memory_limit=limit), mark) == Quotas(memory_limit=left)
    sentence = f"memory_limit is taken as {left} and not {limit} bytes: {mark} may be taken (memory_mark)"
    assert [line["event"] for line in logs] == ([sentence] if left < limit else [])


async def test_the_guard_watches_a_part_of_what_there_is(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "available", lambda: (8_000_000, CONTAINER))
    guard = harness.server.memory_guard
    watch_process(guard, 0)
    await until(lambda: guard.resident > 6_000_000)
    assert guard.mark == 6_000_000
    assert guard.reason.endswith("6,000,000 may (memory_mark, 3/4 of what the container has)")
    with structlog.testing.capture_logs() as logs:
        watch_process(guard, 9_000_000)
    assert guard.mark == 9_000_000
    assert [line["event"].partition(":")[0] for line in logs] == [
        "memory_mark is 9000000 bytes and the container has 8000000"
    ]


COUNT = """
import resource
from gateway.transports.flow.process_memory import keep_freed, resident, trim
pieces = [b'x' * 65536 for _ in range(16)]
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
"""
JOIN = """
keep_freed({})
b''.join(pieces)
before = faults()
for _ in range(100):
    b''.join(pieces)
print(faults() - before)
"""
FREE = """
keep_freed(0)
before = resident()
bodies = [b''.join(pieces) for _ in range(32)]
del bodies
print(resident() - before)
trim()
print(resident() - before)
"""


def answer(program: str) -> list[int]:
    command = [sys.executable, "-c", COUNT + program]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [int(word) for word in said.stdout.split()]


@parametrize(("mark", "is_kept"), [(0, True), (1024**3, True), (1024**2, False)])
def test_a_large_body_finds_its_memory_there(mark: int, is_kept: bool) -> None:
    (again,) = answer(JOIN.format(mark))
    pages = 100 * 1024 * 1024 // 4096
    assert (again < pages / 100) is is_kept


def test_freed_memory_is_given_back_when_asked() -> None:
    kept, left = answer(FREE)
    assert kept > 30 * 1024 * 1024
    assert left < 4 * 1024 * 1024
