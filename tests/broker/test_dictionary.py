"""The table of headers: that it is one, and that its kinds of values take what they say and nothing else."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.errors import NotAllowed
from gateway.broker.headers.row import HeaderRow, Treatment
from gateway.broker.headers.table import COMMANDS, INDEX, TABLE, ack_mode
from gateway.broker.headers.values import Anything, Choice, Credit, HeaderName, Integer, ReplyTo, StreamOffset, Text
from gateway.broker.model.options import Origin, SendOptions, Start, SubscribeOptions
from gateway.broker.model.policy import ClientArguments
from gateway.codec.decoder import CLIENT_COMMANDS

# Parts of a field that `reading` puts together: a pair of numbers, a selector's text, a pair of queue arguments.
PARTS = {"window", "text", "dead_letter_prefix", "dead_letter_key"}


def fields_of(*classes: type) -> set[str]:
    return {field.name for each in classes for field in dataclasses.fields(each)}


def test_every_command_of_a_client_is_in_the_table() -> None:
    assert set(COMMANDS) == CLIENT_COMMANDS
    assert {command for row in TABLE for command in row.frames} == CLIENT_COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_stands_for_one_header_of_a_frame(command: str) -> None:
    names = [spelling.name for row in TABLE if command in row.frames for spelling in row.spellings]
    assert len(names) == len(set(names))
    assert set(INDEX[command]) == set(names)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_names_of_a_row_are_neighbours_canonical_first(command: str) -> None:
    """`reading` goes by that: the first it meets of a row counts."""
    ordered = sorted(INDEX[command].values(), key=lambda entry: entry.place)
    expected = [each.name for row in TABLE if command in row.frames for each in row.spellings]
    assert [entry.spelling.name for entry in ordered] == expected
    assert [entry.place for entry in ordered] == list(range(len(ordered)))


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.frames[0]} {row.name}")
def test_every_row_is_complete(row: HeaderRow) -> None:
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


@pytest.mark.parametrize(
    ("value", "mode"),
    [("none", "auto"), ("auto", "auto"), ("client", "client"), ("client-individual", "client-individual"), ("x", "x")],
)
def test_ack_modes_of_other_brokers(value: str, mode: str) -> None:
    assert ack_mode(value) == mode


def test_anything() -> None:
    assert Anything().read("a", "") == ""
    assert Anything("a name").allowed == "a name"


class TestInteger:
    KIND = Integer(-5, 120, "sheep", " (a flock)", convert=lambda number: number * 2)

    @pytest.mark.parametrize(("text", "number"), [("0", 0), ("-5", -5), ("120", 120), ("007", 7), ("-0", 0)])
    def test_within_its_bounds(self, text: str, number: int) -> None:
        assert self.KIND.read("flock", text) == 2 * number
        assert Integer(-5, 120).read("flock", text) == number

    @pytest.mark.parametrize(
        "text",
        ["", " ", "-", "--1", "+1", " 1", "1 ", "1\n", "1_0", "1.0", "1e1", "0x1", "٣", "²", "-6", "121", "9" * 5_000],
    )
    def test_nothing_else(self, text: str) -> None:
        with pytest.raises(NotAllowed, match=r"^bad value of flock$") as refusal:
            self.KIND.read("flock", text)
        assert "flock must be a whole number of sheep from -5 to 120 (a flock)" in refusal.value.detail
        assert repr(text[:80]) in refusal.value.detail
        assert len(refusal.value.detail) < 300

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

    @pytest.mark.parametrize(("text", "meant"), [("set", 1), ("SET", 1), ("Remove", 2), ("", None), ("True", 1)])
    def test_words(self, text: str, meant: int | None) -> None:
        assert self.KIND.read("retain", text) == meant

    @pytest.mark.parametrize("text", ["sets", " set", "apollo", "ſet", "x" * 5_000])
    def test_nothing_else(self, text: str) -> None:
        with pytest.raises(NotAllowed, match=r"^bad value of retain$") as refusal:
            self.KIND.read("retain", text)
        assert "retain must be set, remove or (empty); true (Apollo) is set" in refusal.value.detail
        assert repr(text[:80]) in refusal.value.detail

    def test_where_letter_case_counts(self) -> None:
        kind = Choice({"ANYCAST": 1, "MULTICAST": 2}, any_case=False)
        assert kind.read("type", "ANYCAST") == 1
        assert kind.allowed == "ANYCAST or MULTICAST"
        with pytest.raises(NotAllowed):
            kind.read("type", "anycast")


class TestText:
    def test_bounds(self) -> None:
        assert Text(3).read("a", "abc") == "abc"
        assert Text(3).read("a", " ") == " "
        assert Text(3).read("a", "") is None
        assert Text(3).allowed == "1 to 3 characters; or empty, which counts as no header"
        with pytest.raises(NotAllowed, match="bad value of a"):
            Text(3).read("a", "abcd")

    def test_required(self) -> None:
        kind = Text(3, required=True)
        assert kind.read("a", "abc") == "abc"
        assert kind.allowed == "1 to 3 characters"
        for text in ("", "abcd"):
            with pytest.raises(NotAllowed, match="bad value of a"):
                kind.read("a", text)


class TestCredit:
    @pytest.mark.parametrize(
        ("text", "windows"),
        [("5", (5, None)), ("5,0", (5, 0)), ("0,1024", (0, 1024)), ("655360,655360", (655360, 655360))],
    )
    def test_messages_and_octets(self, text: str, windows: tuple[int, int | None]) -> None:
        assert Credit().read("credit", text) == windows

    @pytest.mark.parametrize("text", ["", "0", "0,0", "5,", ",5", "-1", "5,-1", "5, 1", "1,2,3", "5,5,true", "1" * 11])
    def test_nothing_else(self, text: str) -> None:
        with pytest.raises(NotAllowed, match=r"^bad value of credit$") as refusal:
            Credit().read("credit", text)
        assert "credit must be messages[,bytes]" in refusal.value.detail


class TestStreamOffset:
    @pytest.mark.parametrize(
        ("text", "origin", "value"),
        [
            ("first", Origin.FIRST, 0),
            ("last", Origin.LAST, 0),
            ("next", Origin.NEXT, 0),
            ("offset=12", Origin.SEQ, 12),
            ("offset=0", Origin.FIRST, 0),
            ("offset=" + "9" * 18, Origin.SEQ, 10**18 - 1),
            ("timestamp=0", Origin.TIME, 0),
            ("timestamp=" + "9" * 12, Origin.TIME, 10**12 - 1),
        ],
    )
    def test_as_rabbitmq_has_it(self, text: str, origin: Origin, value: int) -> None:
        """Messages have their number under that name then."""
        assert StreamOffset().read("x-stream-offset", text) == Start(origin, value, header="x-stream-offset")

    @pytest.mark.parametrize("text", ["", "1", "Last", "offset=x", "offset= 1", "offset=٣", "timestamp=now", "first "])
    def test_nothing_else(self, text: str) -> None:
        with pytest.raises(NotAllowed, match=r"^bad value of x-stream-offset$") as refusal:
            StreamOffset().read("x-stream-offset", text)
        assert "first, last, next, offset=N or timestamp=S" in refusal.value.detail


class TestHeaderName:
    @pytest.mark.parametrize("text", ["seq", "x-stream-offset", "S", "!", "~", "x" * 255])
    def test_names(self, text: str) -> None:
        assert HeaderName().read("include-seq", text) == text

    def test_none(self) -> None:
        assert HeaderName().read("include-seq", "") is None

    @pytest.mark.parametrize(
        "text", [":", "\\", " ", "\t", "\x7f", "é", "x" * 256, "subscription", "content-length", "redelivered"]
    )
    def test_nothing_that_would_break_a_frame_or_change_its_meaning(self, text: str) -> None:
        with pytest.raises(NotAllowed, match=r"^bad value of include-seq$") as refusal:
            HeaderName().read("include-seq", text)
        assert "the name of a header" in refusal.value.detail


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("/temp-queue/a", "/temp-queue/a"),
        ("/temp-topic/a", "/temp-topic/a"),
        ("/queue/a", None),
        ("/queue/temp-queue/", None),
        ("", None),
    ],
)
def test_reply_to(text: str, read: str | None) -> None:
    assert ReplyTo().read("reply-to", text) == read
