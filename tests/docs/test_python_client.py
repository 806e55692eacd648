"""docs/python-client.md: its programs run as they stand, but for the port."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.page import Block, blocks
from tests.gateway_process import GatewayProcess, start_gateway

PROGRAMS = [block for block in blocks("docs/python-client.md") if block.kind == "python"]
SHOWN = {"worker.py": "tea for two\n", "several.py": "milk\n", "answers.py": "9\n"}
PATIENCE = 60


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayProcess]:
    with start_gateway() as process:
        yield process


@pytest.mark.parametrize("program", PROGRAMS, ids=[str(block.file) for block in PROGRAMS])
def test_the_programs(gateway: GatewayProcess, tmp_path: Path, program: Block) -> None:
    assert program.file is not None
    file = tmp_path / program.file
    file.write_text(program.text.replace("61613", str(gateway.tcp_port)))
    with subprocess.Popen(
        [sys.executable, "-u", file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == SHOWN[program.file]
            if program.file == "answers.py":  # the others work on
                assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
