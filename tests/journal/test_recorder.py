"""The journal is what the broker asks for."""

from __future__ import annotations

import inspect
from pathlib import Path

from gateway.broker.core.ports import Recorder
from gateway.journal import Journal
from tests.journal.desk import opened


def test_a_journal_is_a_recorder(tmp_path: Path) -> None:
    recorder: Recorder = opened(tmp_path)
    assert recorder.clock() > 0
    assert recorder.is_behind is False
    assert isinstance(recorder, Journal)
    recorder.close()


def test_parameters_have_the_same_names() -> None:
    for name, method in inspect.getmembers(Recorder, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.signature(method) == inspect.signature(getattr(Journal, name)), name
