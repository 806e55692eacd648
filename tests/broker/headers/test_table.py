"""The table of headers is complete, and its kinds of values accept what they say and nothing else."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.errors import NotAllowed
from gateway.broker.headers.row import HeaderRow, Treatment
from gateway.broker.headers.table import COMMANDS, INDEX, TABLE, ack_mode
from gateway.broker.headers.values import Choice, Integer, Text
from gateway.broker.model.options import SendOptions, SubscribeOptions
from gateway.broker.model.policy import QueueArguments
from gateway.codec.decoder import CLIENT_COMMANDS

# Parts of a field that the parser puts together: a pair of numbers, a selector's text, a pair of queue arguments.
PARTS = {"window", "text", "dead_letter_prefix", "dead_letter_key"}


def fields_of(*classes: type) -> set[str]:
    return {field.name for each in classes for field in dataclasses.fields(each)}


def test_every_command_of_a_client_is_in_the_table() -> None:
    assert set(COMMANDS) == CLIENT_COMMANDS
    assert {command for row in TABLE for command in row.frames} == CLIENT_COMMANDS


def test_names_of_a_row_are_neighbours_canonical_first_and_stand_for_one_header() -> None:
    """The parser relies on that order: the first name of a row that it meets counts."""
    for command in COMMANDS:
        ordered = sorted(INDEX[command].values(), key=lambda entry: entry.place)
        expected = [each.name for row in TABLE if command in row.frames for each in row.spellings]
        assert [entry.spelling.name for entry in ordered] == expected
        assert [entry.place for entry in ordered] == list(range(len(ordered)))
        assert len(expected) == len(set(expected))


def test_every_row_is_complete() -> None:
    for row in TABLE:
        check_row(row)


def check_row(row: HeaderRow) -> None:
    assert row.meaning.endswith(".")
    assert row.name == row.spellings[0].name
    for spelling in row.spellings:
        assert spelling.values.allowed
        known = fields_of(QueueArguments) if row.argument else fields_of(SendOptions, SubscribeOptions)
        assert spelling.field in known | PARTS | {""}
        assert not spelling.passes or row.treatment is Treatment.REFUSED
        assert all(word == word.lower() for word in spelling.passes)
        assert not spelling.field or row.treatment is Treatment.HONOURED
    # An alias is another broker's word; only STOMP's own and ours need no name beside them.
    assert all(spelling.broker for spelling in row.spellings[1:])
    assert row.visible or "SEND" in row.frames or row.treatment is Treatment.REFUSED


def test_every_field_has_a_header() -> None:
    """What the broker can be asked for can be said."""
    said = {spelling.field for row in TABLE if not row.argument for spelling in row.spellings}
    made = {"queue_arguments", "passed_on", "is_plain", "selector", "selector_text", "prefetch", "prefetch_bytes"}
    assert fields_of(SendOptions, SubscribeOptions) - made == said - PARTS - {""}
    arguments = {spelling.field for row in TABLE if row.argument for spelling in row.spellings}
    assert fields_of(QueueArguments) - {"dead_letter"} == arguments - PARTS - {""}


def test_ack_modes_of_other_brokers() -> None:
    assert ack_mode("none") == "auto"
    for mode in ("auto", "client", "client-individual", "x"):
        assert ack_mode(mode) == mode


def test_the_words_of_an_error_and_of_the_documentation() -> None:
    flock = Integer(-5, 120, "sheep", " (a flock)", convert=lambda number: number * 2)
    assert flock.read("flock", "-5") == -10
    retain = Choice({"set": 1, "remove": 2, "": None}, {"true": ("set", "Apollo")})
    for kind, value, words in [
        (flock, "121", "a whole number of sheep from -5 to 120 (a flock)"),
        (retain, "sets", "set, remove or (empty); true (Apollo) is set"),
        (Choice({"ANYCAST": 1, "MULTICAST": 2}, any_case=False), "anycast", "ANYCAST or MULTICAST"),
        (Text(3), "abcd", "1 to 3 characters, or empty for none"),
        (Text(3, required=True), "", "1 to 3 characters"),
        (Text(3), "x" * 5_000, "1 to 3 characters, or empty for none"),
    ]:
        with pytest.raises(NotAllowed, match=r"^bad value of name$") as refusal:
            kind.read("name", value)
        assert refusal.value.detail == f"name must be {words}; the frame has {value[:80]!r}"


@given(st.text())
def test_a_number_agrees_with_a_plain_reading(text: str) -> None:
    if re.fullmatch("-?[0-9]{1,19}", text) and -5 <= int(text) <= 120:
        assert Integer(-5, 120).read("flock", text) == int(text)
    else:
        with pytest.raises(NotAllowed):
            Integer(-5, 120).read("flock", text)
