"""Options: text in, checked values out, one sentence for what cannot be meant; docs/connector.md says the same."""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import pytest

from pyspark_stomp.errors import OptionError
from pyspark_stomp.options import Options
from pyspark_stomp.rows import COLUMNS


def test_names_in_any_case_and_values_of_all_kinds() -> None:
    options = Options.of(
        {
            "DESTINATION": "/queue/a, /queue/b",
            "MaxBytesPerTrigger": "2MiB",
            "ssl": "TRUE",
            "subscribeheaders": '{"durable": "true"}',
            "version": "1.1, 1.2",
            "startingOffsets": '{"/queue/a": 17}',
        }
    )
    assert options.destination == ("/queue/a", "/queue/b")
    assert (options.max_bytes, options.ssl, options.version) == (2 * 1024**2, True, "1.1,1.2")
    assert options.subscribe_headers == {"durable": "true"}
    assert options.starting == {"/queue/a": 17}
    for text, size in (("1", 1), ("4k", 4096), ("4 KiB", 4096), ("1g", 1024**3), ("2MB", 2**21)):
        assert Options.of({"transactionOctets": text}).transaction_bytes == size


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("maxRowPerTrigger", "1", "is maxRowsPerTrigger meant?"),
        ("qwertz", "1", "there is no option qwertz"),
        ("port", "0", "option port must be a whole number from 1 to 65535, not '0'"),
        ("ssl", "yes", "option ssl must be true or false"),
        ("mode", "queue", "option mode must be one of spool, ack, offset"),
        ("maxBytesPerTrigger", "9g", "option maxBytesPerTrigger"),
        ("destination", "a,a", "option destination"),
        ("version", "1.3", "option version must be one or several of 1.0, 1.1, 1.2"),
        ("sendHeaders", '{"a": 1}', "option sendHeaders must be a JSON object"),
        ("sendHeaders", '{"a": "b\\nc"}', "option sendHeaders must be one line"),
        ("startingOffsets", '{"a": -1}', "option startingOffsets must be earliest, latest"),
        ("login", "a\nb", "option login must be one line"),
    ],
)
def test_invalid_values(name: str, value: str, sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence.replace("?", r"\?")):
        Options.of({name: value})


def test_no_passcode_is_ever_shown() -> None:
    assert "engine" not in repr(Options.of({"passcode": "engine"}))
    with pytest.raises(OptionError) as caught:
        Options.of({"passcode": "engine\n"})
    assert "engine" not in str(caught.value)


def test_passcode_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOMP_TEST_PASSCODE", "engine")
    assert Options.of({"passcodeEnv": "STOMP_TEST_PASSCODE"}).server().passcode == "engine"
    assert Options.of({"passcode": "analytical"}).server().passcode == "analytical"
    monkeypatch.delenv("STOMP_TEST_PASSCODE")
    with pytest.raises(OptionError, match="passcodeEnv names STOMP_TEST_PASSCODE"):
        Options.of({"passcodeEnv": "STOMP_TEST_PASSCODE"}).server()
    with pytest.raises(OptionError, match="passcodeEnv cannot stand beside passcode"):
        Options.of({"passcodeEnv": "A", "passcode": "b"})


def test_prefetch_by_mode() -> None:
    assert Options.of({"mode": "spool"}).prefetch == 10_000
    assert Options.of({"mode": "ack", "maxRowsPerTrigger": "70"}).prefetch == 140
    assert Options.of({"mode": "ack", "prefetch": "9"}).prefetch == 9
    assert Options.of({"destination": "a,b,c", "prefetch": "7"}).in_flight == 21


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({}, "option destination is missing"),
        ({"destination": "a"}, "option spoolDir is missing"),
        ({"destination": "a", "mode": "ack", "ackMode": "client"}, "acknowledges one by one"),
        ({"destination": "a", "mode": "ack", "version": "1.0"}, "acknowledges one by one"),
    ],
)
def test_required_options_of_a_stream(told: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        Options.of(told).check_stream()
    Options.of({"destination": "a", "spoolDir": "b"}).check_stream()
    Options.of({"destination": "a", "mode": "offset"}).check_stream()


_TEXT = (Path(__file__).parents[2] / "docs" / "connector.md").read_text(encoding="utf-8")


def listed(heading: str) -> list[list[str]]:
    """Names, and what stands in brackets behind them, of the list below a heading."""
    section = _TEXT.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return [list(pair) for pair in re.findall(r"^\* `(\w+)`(?: \(`([^`]*)`\))?", section, re.MULTILINE)]


def default(field: Field[Any]) -> str:
    """A default as one would write it."""
    value = field.default
    if field.default_factory is not MISSING:
        value = field.default_factory()
    return value if isinstance(value, str) else json.dumps(value) if value != () else ""


def test_options() -> None:
    assert listed("Options") == [[field.metadata["option"], default(field)] for field in fields(Options)]


def test_columns() -> None:
    assert listed("Columns") == [[name, kind] for name, kind, _ in COLUMNS]
