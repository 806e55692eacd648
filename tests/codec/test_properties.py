"""What holds for all octets, most of them pieces of STOMP in a wrong order: round trips, cuts, no crash, no loop."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.codec import V10, V11, V12, VERSIONS, Head, Limits, ProtocolError, Version, encoder
from gateway.codec.headers import STANDARD_NAMES, format_lines

from .reading import cut, decoder_for, held, octet_by_octet, read

# No deadline: the machine is shared.
codec = settings(deadline=None, max_examples=200)

TINY = Limits(headers=3, header_line=24, body=16)
PIECES = [
    *(b"SEND", b"CONNECT", b"STOMP", b"connect", b"SEND\n", b"k:v\n", b"k:v\r\n"),
    *(b"SEND\nk:v\n\nx\0", b"SEND\r\nk:v\r\n\r\nx\0"),
    *(b"accept-version:1.0\n", b"accept-version:1.1\n", b"accept-version:1.2\n", b"CONNECT\naccept-version:1.2\n\n\0"),
    *(b"content-length:3\n", b"content-length:0\n", b"content-length:17\n", b"content-length:x\n"),
    *(b"\n", b"\r", b"\r\n", b"\n\n", b"\n\r\n", b"\n \n", b"\0", b" ", b":", b"\\", b"\\n", b"\\r", b"\\t"),
    *(b"Content-Length: 2 \r\n", b"\xff", b"a", b"xyz", "é".encode(), "ſ".encode(), b"x" * 25, b"x" * 70, b"\x16\x03"),
]
STREAMS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=14).map(b"".join),
    st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=6)), max_size=10).map(b"".join),
    st.binary(max_size=80),
)
PLACES = st.lists(st.integers(1, 200), max_size=8)
MODES = st.sampled_from([None, *VERSIONS])
LIMITS = st.sampled_from([TINY, Limits()])


# Characters that a name or value may have; NUL can stand in none, and lone surrogates are no text.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
AWKWARD = st.text(st.sampled_from("\\:\r\nncr \té漢𝄞\u2028\x85a"), max_size=8)
NAMES = st.one_of(AWKWARD, TEXT, st.sampled_from(sorted(STANDARD_NAMES - {"content-length"}))).filter(
    lambda name: name and name != "content-length"
)
HEADERS = st.dictionaries(NAMES, st.one_of(AWKWARD, TEXT), max_size=6)
# Names that are ours on a MESSAGE, as a sender of 1.1 or 1.2 may spell headers of its own.
IMPOSTORS = ["Content-Length", "CONTENT-LENGTH", "Message-ID", "SUBSCRIPTION", "Receipt", "Ack"]
NOT_PASSED_ON = "ack content-length delivery-count message-id receipt redelivered subscription transaction".split()
BODIES = st.one_of(st.binary(max_size=40), st.binary(max_size=40).map(lambda body: body + b"\0\n\r\n"))


def wire(headers: dict[str, str], body: bytes, version: Version) -> bytes:
    """A SEND as a client of that version writes it; without content-length where none is needed."""
    length = f"content-length:{len(body)}\n" if b"\0" in body else ""
    return f"SEND\n{format_lines(headers, version)}{length}\n".encode() + body + b"\0"


def expected(headers: dict[str, str], body: bytes) -> tuple[str, dict[str, str], bytes]:
    return "SEND", headers | ({"content-length": str(len(body))} if b"\0" in body else {}), body


def sayable(headers: dict[str, str]) -> dict[str, str]:
    """What 1.0 can say of headers, and the lenient dialect does not trim away."""
    return {
        name: value
        for name, value in headers.items()
        if not any(character < " " for character in name + value)
        and ":" not in name
        and name == name.strip(" ")
        and value == value.strip(" ")
        and (name in STANDARD_NAMES or name.lower() not in STANDARD_NAMES)
    }


@settings(codec)
@given(st.lists(st.tuples(HEADERS, BODIES), min_size=1, max_size=4), st.sampled_from([V11, V12]), PLACES)
def test_round_trip(frames: list[tuple[dict[str, str], bytes]], version: Version, places: list[int]) -> None:
    octets = b"".join([wire(headers, body, version) for headers, body in frames])
    outcome = read(cut(octets, places), version)
    assert outcome.error is None
    assert outcome.plain == [expected(headers, body) for headers, body in frames]


@settings(codec)
@given(HEADERS, BODIES, PLACES)
def test_round_trip_of_1_0(headers: dict[str, str], body: bytes, places: list[int]) -> None:
    """What is left out stays out; all else arrives."""
    for line in format_lines(headers, V10).split("\n")[:-1]:
        assert not any(character < " " for character in line)
    headers = sayable(headers)
    outcome = read(cut(wire(headers, body, V10), places), V10)
    assert outcome.plain == [expected(headers, body)]


@settings(codec)
@given(
    st.dictionaries(st.one_of(NAMES, st.sampled_from(IMPOSTORS)), st.one_of(AWKWARD, TEXT), max_size=6),
    BODIES,
    st.sampled_from(VERSIONS),
)
def test_a_message_says_what_the_server_says(headers: dict[str, str], body: bytes, version: Version) -> None:
    """Whatever the sender put into its SEND, the receiver reads our id, our subscription and the right body; in 1.0,
    where letter case is free, also if the sender spelt its own in another case."""
    head = Head("SEND", headers)
    octets = encoder.message_prefix("our:id", version) + encoder.message(head, b"m-1", body, version)
    outcome = read([octets * 2], version)
    assert outcome.error is None
    assert [frame.command for frame in outcome.frames] == ["MESSAGE", "MESSAGE"]
    for frame in outcome.frames:
        assert frame.body == body
        assert frame.headers["subscription"] == "our:id"
        assert frame.headers["message-id"] == "m-1"
        assert "receipt" not in frame.headers
        for name in () if version.lenient else headers:
            assert name in NOT_PASSED_ON or frame.headers[name] == headers[name]


@settings(codec, max_examples=400)
@given(STREAMS, MODES, LIMITS, PLACES)
@example(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", None, Limits(), [5])
def test_any_split_equals_whole(octets: bytes, version: Version | None, limits: Limits, places: list[int]) -> None:
    """The same frames, and an error in both or in neither.

    Which error may differ where a stream is broken twice: the cut shows first what the whole shows second.
    """
    whole = read([octets] if octets else [], version, limits)
    for chunks in (cut(octets, places), octet_by_octet(octets)):
        split = read(chunks, version, limits)
        assert split.plain == whole.plain
        assert (split.error is None) is (whole.error is None)


@settings(codec, max_examples=300)
@given(STREAMS, MODES, LIMITS)
def test_no_octets_crash_it(octets: bytes, version: Version | None, limits: Limits) -> None:
    """They are frames or a `ProtocolError` with words for the peer; `read` counts against loops."""
    outcome = read([octets] if octets else [], version, limits)
    assert outcome.error is None or (str(outcome.error) and outcome.error.detail)
    for frame in outcome.frames:
        assert len(frame.body) <= limits.body
        assert len(frame.headers) <= limits.headers
        assert frame.head.size <= limits.header_block


@settings(codec, max_examples=300)
@given(
    st.lists(st.one_of(st.sampled_from(PIECES), st.binary(min_size=1, max_size=30)), max_size=40),
    st.sampled_from(VERSIONS),
)
def test_memory_is_bounded_by_the_limits(chunks: list[bytes], version: Version) -> None:
    """Never more than the largest header block, or body, and the chunk at hand."""
    decoder = decoder_for(version, TINY)
    most = max(TINY.header_block, TINY.body) + max(map(len, chunks), default=0)
    try:
        for chunk in chunks:
            decoder.feed(chunk)
            for _ in decoder.frames():
                pass
            assert held(decoder) <= most
    except ProtocolError:
        return
