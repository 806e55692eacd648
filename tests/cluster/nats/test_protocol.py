"""The protocol of NATS: each operation, cut at every byte; what breaks it ends in one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.cluster.nats import protocol
from gateway.cluster.nats.protocol import (
    LONGEST_LINE,
    LONGEST_MESSAGE,
    Event,
    Info,
    Message,
    NatsProtocolError,
    Parser,
    Ping,
    Pong,
    ServerError,
)
from tests.codec.reading import cut, octet_by_octet

# No deadline: the machine is shared.
cheap = settings(deadline=None, max_examples=100)

HEADERS = b"NATS/1.0\r\nNats-Stream: s\r\nA:b: c \r\n\r\n"
OPERATIONS: dict[bytes, Event | None] = {
    b"PING\r\n": Ping(),
    b"ping\r\n": Ping(),
    b"PONG\r\n": Pong(),
    b"+OK\r\n": None,
    b"-ERR 'Authorization Violation'\r\n": ServerError("Authorization Violation"),
    b"-ERR\r\n": ServerError(""),
    b'INFO {"version":"2.11.0","ldm":true}\r\n': Info({"version": "2.11.0", "ldm": True}),
    b'INFO {"a":1} \r\n': Info({"a": 1}),
    b"MSG a.b 1 5\r\nhello\r\n": Message("a.b", "", b"hello"),
    b"MSG a.b 1 r.1 5\r\n\r\nMSG\r\n": Message("a.b", "r.1", b"\r\nMSG"),
    b"MSG\ta 1  0\r\n\r\n": None,  # a tab is no end of the word
    b"MSG a  1 0\r\n\r\n": Message("a", "", b""),
    b"HMSG a 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n": Message("a", "", b"hi"),
    b"HMSG a 1 r 16 16\r\nNATS/1.0 503\r\n\r\n\r\n": Message("a", "r", b"", {}, 503),
    b"HMSG a 1 28 28\r\nNATS/1.0 404 No Messages\r\n\r\n\r\n": Message("a", "", b"", {}, 404, "No Messages"),
    b"HMSG a 1 %d %d\r\n%sx\r\n" % (len(HEADERS), len(HEADERS) + 1, HEADERS): Message(
        "a", "", b"x", {"Nats-Stream": "s", "A": "b: c"}
    ),
    b"HMSG a 1 0 1\r\nx\r\n": Message("a", "", b"x"),
}
GOOD = {line: event for line, event in OPERATIONS.items() if b"\t" not in line}


def parsed(chunks: Iterable[bytes]) -> list[Event]:
    parser = Parser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


@pytest.mark.parametrize("data", GOOD)
def test_an_operation_cut_anywhere(data: bytes) -> None:
    expected = [] if GOOD[data] is None else [GOOD[data]]
    assert parsed([data]) == expected
    assert parsed(octet_by_octet(data)) == expected
    for place in range(1, len(data)):
        assert parsed(cut(data + b"PONG\r\n", [place])) == [*expected, Pong()]
        assert parsed([data[:place]]) == []


def test_all_operations_in_one_chunk() -> None:
    expected = [event for event in GOOD.values() if event is not None]
    assert parsed([b"".join(GOOD)]) == expected
    assert parsed(octet_by_octet(b"".join(GOOD))) == expected


@pytest.mark.parametrize(
    "data",
    [
        b"HELLO\r\n",
        b"\r\n",
        b"SUB a 1\r\n",
        b"MSG\ta 1 0\r\n\r\n",
        b"MSG\r\n",
        b"MSG a 1\r\n",
        b"MSG a 1 r 0 0\r\n",
        b"MSG a 1 -1\r\n",
        b"MSG a 1 +1\r\nx\r\n",
        b"MSG a 1 1_0\r\n",
        b"MSG a 1 x\r\n",
        b"MSG a 1 %s\r\n" % (b"9" * 5_000),
        b"MSG \xff 1 0\r\n\r\n",
        b"MSG a 1 %d\r\n" % (LONGEST_MESSAGE + 1),
        b"MSG a 1 1\r\nxyz",
        b"HMSG a 1 1\r\n",
        b"HMSG a 1 2 1\r\n",
        b"HMSG a 1 r s 1 1\r\n",
        b"HMSG a 1 4 4\r\nNATS\r\n",
        b"HMSG a 1 12 12\r\nHTTP/1.0\r\n\r\n\r\n",
        b"HMSG a 1 15 15\r\nNATS/1.0503\r\n\r\n\r\n",
        b"HMSG a 1 16 16\r\nNATS/1.0 5x3\r\n\r\n\r\n",
        b"HMSG a 1 17 17\r\nNATS/1.0 5030\r\n\r\n\r\n",
        b"HMSG a 1 5013 5013\r\nNATS/1.0 %s\r\n\r\n\r\n" % (b"5" * 5_000),
        b"INFO\r\n",
        b"INFO []\r\n",
        b"INFO {\r\n",
        b"INFO %s\r\n" % (b"[" * 200_000),
        b'INFO {"a":%s}\r\n' % (b"9" * 5_000),
        b"x" * LONGEST_LINE,
    ],
    ids=range(30),
)
def test_what_is_no_operation_ends_the_connection(data: bytes) -> None:
    with pytest.raises(NatsProtocolError) as refusal:
        parsed([data])
    assert 10 < len(str(refusal.value)) < 200
    with pytest.raises(NatsProtocolError):
        parsed(cut(data, [1, len(data) // 2, len(data) - 1]))


def test_an_endless_line_is_refused_before_it_ends() -> None:
    parser = Parser()
    assert parser.feed(b"x" * (LONGEST_LINE - 1)) == []
    with pytest.raises(NatsProtocolError, match="is longer than"):
        parser.feed(b"x")


def test_the_longest_line() -> None:
    line = b'INFO {"a":"%s"}\r\n'
    line %= b"x" * (LONGEST_LINE - len(line) + 2)
    assert len(line) == LONGEST_LINE
    [info] = parsed(cut(line, range(10_000, len(line), 10_000)))
    assert isinstance(info, Info)


def test_a_refusal_shows_little_of_what_came() -> None:
    with pytest.raises(NatsProtocolError) as refusal:
        parsed([b"x" * 100_000 + b"\r\n"])
    assert len(str(refusal.value)) < 200


WORDS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=12)
VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=20).map(str.strip)


@cheap
@given(WORDS, WORDS, st.binary(max_size=50), st.dictionaries(WORDS, VALUES, max_size=4), st.integers(1, 20))
def test_what_is_published_comes_back(
    subject: str, reply: str, payload: bytes, headers: dict[str, str], step: int
) -> None:
    """A server hands on what it got, with a subscription's number behind the subject."""
    sent = protocol.publish(subject, reply, payload, headers)
    head, _, rest = sent.partition(b"\r\n")
    verb, name, *words = head.split()
    data = b" ".join([{b"PUB": b"MSG", b"HPUB": b"HMSG"}[verb], name, b"1", *words]) + b"\r\n" + rest
    # What `bytes.strip` takes off is no part of a value.
    known = {each: value.encode().strip().decode() for each, value in headers.items()}
    assert parsed(cut(data, range(step, len(data), step))) == [Message(subject, reply, payload, known)]


@cheap
@given(st.lists(st.sampled_from([*OPERATIONS, b"MSG a 1 3\r\n", b"\r\n", b"x", b"HMSG a 1 1 1\r\n"]), max_size=8))
def test_the_cuts_make_no_difference(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    assert outcome(octet_by_octet(data)) == outcome([data])


def outcome(chunks: Iterable[bytes]) -> list[Event] | str:
    """The events, or the refusal: those before it may be told or not, as the chunks have them."""
    try:
        return parsed(chunks)
    except NatsProtocolError as refusal:
        return str(refusal)


def test_what_a_client_says_first() -> None:
    said = protocol.connect({"user": "a\r\nb"})
    assert said.startswith(b"CONNECT {")
    assert said.count(b"\r\n") == 1
    assert json.loads(said.removeprefix(b"CONNECT ")) == {"user": "a\r\nb"}
    assert protocol.subscribe("a.*", 1) == b"SUB a.* 1\r\n"
