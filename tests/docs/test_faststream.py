"""docs/faststream.md: its program runs as it stands, but for the port."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gateway.testing import start_gateway
from tests.docs.page import blocks


def test_the_program(tmp_path: Path) -> None:
    (program,) = [block for block in blocks("docs/faststream.md") if block.kind == "python"]
    assert program.file == "orders.py"
    file = tmp_path / program.file
    with start_gateway() as started:
        file.write_text(program.text.replace("61613", str(started.port)))
        process = subprocess.Popen(
            [sys.executable, "-u", file], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            assert process.stdout is not None
            assert "2 cups\n" in process.stdout
            process.terminate()
            process.stdout.close()
            process.wait(30)
        finally:
            process.kill()
            process.wait()
