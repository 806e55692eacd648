"""Signals as an event: real ones, to this process."""

from __future__ import annotations

import os
import signal

import pytest

from gateway.pipeline.stopping import Stopping


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_one_sets_the_event(number: signal.Signals) -> None:
    said: list[str] = []
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    with Stopping(said.append) as stopping:
        assert not stopping.event.is_set()
        os.kill(os.getpid(), number)
        assert stopping.event.is_set()
        assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == before
        stopping.catch()  # nothing more: the next one ends the process
        assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == before
    assert said == ["Ends when this batch is done; another Ctrl-C or SIGTERM ends it at once."]


def test_what_somebody_else_took_is_taken_back() -> None:
    before = signal.getsignal(signal.SIGINT)  # Spark's, where another test has a session
    with Stopping(lambda sentence: None) as stopping:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as Spark does
        stopping.catch()
        os.kill(os.getpid(), signal.SIGINT)
        assert stopping.event.is_set()
    assert signal.getsignal(signal.SIGINT) is before
