"""The table of headers is complete, and its kinds of values accept what they say and nothing else."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.errors import NotAllowed
from gateway.broker.headers.row import HeaderRow, Treatment
from gateway.broker.headers.table import COMMANDS, INDEX, TABLE, ack_mode
from gateway.broker.headers.values import (
    Anything,
    Choice,
    Credit,
    HeaderName,
    Integer,
    ReplyTo,
    StreamOffset,
    Text,
    Values,
)
from gateway.broker.model.options import Origin, SendOptions, Start, SubscribeOptions
from gateway.broker.model.policy import ClientArguments
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
        known = fields_of(ClientArguments) if row.argument else fields_of(SendOptions, SubscribeOptions)
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
    hinted = {spelling.field for row in TABLE if row.argument for spelling in row.spellings}
    assert fields_of(ClientArguments) - {"dead_letter"} == hinted - PARTS - {""}


def test_ack_modes_of_other_brokers() -> None:
    assert ack_mode("none") == "auto"
    for mode in ("auto", "client", "client-individual", "x"):
        assert ack_mode(mode) == mode


def test_anything() -> None:
    assert Anything().read("a", "") == ""
    assert Anything("a name").allowed == "a name"


def check_refused(kind: Values, name: str, texts: Iterable[str], words: str) -> None:
    for text in texts:
        with pytest.raises(NotAllowed, match=f"^bad value of {name}$") as refusal:
            kind.read(name, text)
        assert f"{name} must be {words}" in refusal.value.detail, text
        assert repr(text[:80]) in refusal.value.detail
        assert len(refusal.value.detail) < 300


class TestInteger:
    KIND = Integer(-5, 120, "sheep", " (a flock)", convert=lambda number: number * 2)

    def test_within_its_bounds(self) -> None:
        for text, number in (("0", 0), ("-5", -5), ("120", 120), ("007", 7), ("-0", 0)):
            assert self.KIND.read("flock", text) == 2 * number
            assert Integer(-5, 120).read("flock", text) == number

    def test_nothing_else(self) -> None:
        texts = [
            "",
            " ",
            "-",
            "--1",
            "+1",
            " 1",
            "1 ",
            "1\n",
            "1_0",
            "1.0",
            "1e1",
            "0x1",
            "٣",
            "²",
            "-6",
            "121",
            "9" * 5_000,
        ]
        check_refused(self.KIND, "flock", texts, "a whole number of sheep from -5 to 120 (a flock)")

    @given(st.text())
    def test_agrees_with_a_plain_reading(self, text: str) -> None:
        plain = re.fullmatch("-?[0-9]{1,19}", text)
        if plain is not None and -5 <= int(text) <= 120:
            assert self.KIND.read("flock", text) == 2 * int(text)
        else:
            with pytest.raises(NotAllowed):
                self.KIND.read("flock", text)


class TestChoice:
    KIND = Choice({"set": 1, "remove": 2, "": None}, {"true": ("set", "Apollo")})

    def test_words(self) -> None:
        for text, value in (("set", 1), ("SET", 1), ("Remove", 2), ("", None), ("True", 1)):
            assert self.KIND.read("retain", text) == value
        texts = ["sets", " set", "apollo", "ſet", "x" * 5_000]
        check_refused(self.KIND, "retain", texts, "set, remove or (empty); true (Apollo) is set")

    def test_where_letter_case_counts(self) -> None:
        kind = Choice({"ANYCAST": 1, "MULTICAST": 2}, any_case=False)
        assert kind.read("type", "ANYCAST") == 1
        assert kind.allowed == "ANYCAST or MULTICAST"
        with pytest.raises(NotAllowed):
            kind.read("type", "anycast")


def test_text() -> None:
    assert [Text(3).read("a", text) for text in ("abc", " ", "")] == ["abc", " ", None]
    check_refused(Text(3), "a", ["abcd"], "1 to 3 characters; or empty, which counts as no header")
    required = Text(3, required=True)
    assert required.read("a", "abc") == "abc"
    check_refused(required, "a", ["", "abcd"], "1 to 3 characters; the frame has")


def test_credit() -> None:
    for text, windows in (("5", (5, None)), ("5,0", (5, 0)), ("0,1024", (0, 1024)), ("655360,655360", (655360,) * 2)):
        assert Credit().read("credit", text) == windows
    texts = ["", "0", "0,0", "5,", ",5", "-1", "5,-1", "5, 1", "1,2,3", "5,5,true", "1" * 11]
    check_refused(Credit(), "credit", texts, "messages[,bytes]")


def test_stream_offset() -> None:
    """As in RabbitMQ, messages then have their number under that name."""
    for text, origin, value in [
        ("first", Origin.FIRST, 0),
        ("last", Origin.LAST, 0),
        ("next", Origin.NEXT, 0),
        ("offset=12", Origin.SEQ, 12),
        ("offset=0", Origin.FIRST, 0),
        ("offset=" + "9" * 18, Origin.SEQ, 10**18 - 1),
        ("timestamp=0", Origin.TIME, 0),
        ("timestamp=" + "9" * 12, Origin.TIME, 10**12 - 1),
    ]:
        assert StreamOffset().read("x-stream-offset", text) == Start(origin, value, header="x-stream-offset")
    texts = ["", "1", "Last", "offset=x", "offset= 1", "offset=٣", "timestamp=now", "first "]
    check_refused(StreamOffset(), "x-stream-offset", texts, "first, last, next, offset=N or timestamp=S")


def test_header_name() -> None:
    for text in ("seq", "x-stream-offset", "S", "!", "~", "x" * 255):
        assert HeaderName().read("include-seq", text) == text
    assert HeaderName().read("include-seq", "") is None
    # These would break a frame, or change its meaning.
    texts = [":", "\\", " ", "\t", "\x7f", "é", "x" * 256, "subscription", "content-length", "redelivered"]
    check_refused(HeaderName(), "include-seq", texts, "the name of a header")


def test_reply_to() -> None:
    for text in ("/temp-queue/a", "/temp-topic/a"):
        assert ReplyTo().read("reply-to", text) == text
    for text in ("/queue/a", "/queue/temp-queue/", ""):
        assert ReplyTo().read("reply-to", text) is None
