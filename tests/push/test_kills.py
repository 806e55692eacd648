"""Gateway, push and endpoint are killed in turn: nothing is lost, and doubles have the same `webhook-id`.

`python -m tests.push.kills --rounds 100` is the long form.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .kills import run


@pytest.mark.long
def test_each_is_killed_twice(tmp_path: Path) -> None:
    result = run(6, tmp_path)
    assert result.is_good, result
    assert result.received >= result.sent == 600
