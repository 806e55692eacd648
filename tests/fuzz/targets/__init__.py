"""What is fuzzed: see `tests.fuzz`.  Here is what several targets need."""

from __future__ import annotations

import os


def check_refusal(refusal: Exception, named: str = "") -> None:
    """What is refused is refused in words, which name what they are about."""
    sentence = str(refusal)
    assert sentence
    assert named in sentence
    assert "Traceback" not in sentence


def in_memory() -> str | None:
    """Where files stand in memory; None: where files that last for a moment stand else."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
