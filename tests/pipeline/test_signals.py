"""Signals as an event: real ones, to this process, or, where they end it, to one of its own."""

from __future__ import annotations

import os
import signal

import pytest

from gateway.pipeline.signals import StopOnSignal

from .commands import python

UNTIL = "this batch is done"
SIGNALS = (signal.SIGTERM, signal.SIGINT)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_one_sets_the_event(number: signal.Signals) -> None:
    said: list[str] = []
    before = [signal.getsignal(each) for each in SIGNALS]
    with StopOnSignal(said.append, "nothing") as stopping:
        assert not stopping.event.is_set()
        stopping.until = UNTIL
        os.kill(os.getpid(), number)
        assert stopping.event.is_set()
    assert [signal.getsignal(each) for each in SIGNALS] == before
    assert said == ["Ends when this batch is done; another Ctrl-C or SIGTERM ends it at once."]


@pytest.mark.parametrize(("first", "second"), [SIGNALS, SIGNALS[::-1]])
def test_the_second_one_ends_the_process(first: signal.Signals, second: signal.Signals) -> None:
    """Whatever is behind: no handler of errors has a word, and no thread is waited for."""
    program = (
        "import signal, sys, threading\n"
        "from gateway.pipeline.signals import StopOnSignal\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "with StopOnSignal(lambda text: print(text, flush=True), 'all is over'):\n"
        "    try:\n"
        f"        for number in ({first:d}, {second:d}):\n"
        "            signal.raise_signal(number)\n"
        "    finally:\n"
        "        threading.Event().wait()\n"
    )
    told = python(program)
    assert (told.returncode, told.stderr) == (128 + second, "")
    assert told.stdout == "Ends when all is over; another Ctrl-C or SIGTERM ends it at once.\n"


@pytest.mark.parametrize("number", SIGNALS)
def test_a_block_that_may_be_left(number: signal.Signals) -> None:
    said: list[str] = []
    reached: list[str] = []
    with StopOnSignal(said.append, UNTIL) as stopping:
        try:
            with stopping.at_once():
                try:
                    os.kill(os.getpid(), number)
                except Exception:  # as libraries do
                    reached.append("a handler of errors")
                reached.append("what comes next")
        finally:
            reached.append("what is cleaned up")
        reached.append("what comes behind")
    assert reached == ["what is cleaned up"]
    assert stopping.event.is_set()
    assert said == ["Ends at once: nothing has begun."]
