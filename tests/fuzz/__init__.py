"""Fuzzing: octets that nobody would send, into everything that reads what a stranger may have written.

    targets/    one module each, with one function `run(octets)`: it returns, or an invariant is broken
    corpus/     octets worth starting from, a folder for each target
    child       one target under atheris, which changes the octets by what code they reach, until the time is over
    __main__    `make fuzz`: all targets, two at a time, and what was found

A target lets through the one kind of error that its code promises; any other exception, a broken assertion, an input
that takes longer than `child.LONGEST` or memory above `child.MOST_MEMORY` is a finding.  `make test` runs the corpus
alone, without atheris.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
TARGETS = tuple(sorted(path.stem for path in (Path(__file__).parent / "targets").glob("[a-z]*.py")))


def target(name: str) -> Callable[[bytes], None]:
    run: Callable[[bytes], None] = importlib.import_module(f"{__name__}.targets.{name}").run
    return run


def seeds(name: str) -> list[Path]:
    return sorted((CORPUS / name).iterdir())
