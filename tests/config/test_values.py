"""Addresses, sizes and durations: their forms, and what is none of them."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.values import Address, duration_in_words, duration_like, parse_duration, parse_size, size_in_words


class TestAddress:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("127.0.0.1:61613", Address("127.0.0.1", 61613)),
            ("localhost:1", Address("localhost", 1)),
            (":61613", Address("127.0.0.1", 61613)),
            ("[::1]:0", Address("::1", 0)),
            ("::1:61613", Address("::1", 61613)),
            ("unix:/run/gateway/stomp.sock", Address("", 0, "/run/gateway/stomp.sock")),
            ("systemd:tcp", Address("", 0, name="tcp")),
            ("systemd:8000", Address("systemd", 8000)),
        ],
    )
    def test_forms(self, text: str, expected: Address) -> None:
        assert Address.parse(text) == expected

    def test_nonsense(self) -> None:
        for text in (
            *("", "foo", "foo:", "foo:bar", "foo:-1", "foo:65536", "foo:٣", "foo:" + "9" * 5000),
            *("[::1:1", "a:b:1", "a/b:1", "http://x:80", "u@h:1", "systemd:", "systemd:a b"),
        ):
            with pytest.raises(ValueError, match="is not an address; write host:port"):
                Address.parse(text)
        with pytest.raises(ValueError, match="needs a path"):
            Address.parse("unix:")

    def test_text_is_what_was_parsed_and_loopback(self) -> None:
        for text in ("127.0.0.1:61613", "[::1]:61613", "unix:/x", "systemd:tcp", "example.org:80"):
            assert str(Address.parse(text)) == text
        ours = ("127.0.0.1:1", "127.8.9.10:1", "[::1]:1", "localhost:1", "unix:/x", "systemd:nobody")
        assert all(Address.parse(text).is_loopback for text in ours)
        others = ("0.0.0.0:1", "[::]:1", "192.0.2.1:1", "example.org:1")
        assert not any(Address.parse(text).is_loopback for text in others)


UNITS = {"B": 1, "kB": 1000, "MB": 1000**2, "TB": 1000**4, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}


def test_units_of_sizes() -> None:
    for unit, size in UNITS.items():
        for text in (f"3{unit}", f" 3 {unit} ", f"0_3{unit.lower()}", f"3{unit.upper()}"):
            assert parse_size(text) == 3 * size


@given(st.integers())
def test_sizes_that_are_numbers(number: int) -> None:
    assert parse_size(str(number)) == number


def test_what_is_no_size() -> None:
    for text in ("", "GB", "1G", "1 K", "1.5GiB", "1e9", "one", "1 GB GB", "\u0661MB", "1 k\u0130B", "_1", "x" * 1000):
        with pytest.raises(ValueError) as refusal:
            parse_size(text)
        sentence = (
            f"{text[:80]!r} is no number of bytes; write one like 1073741824, or with a unit, like 1GiB, 64KiB or"
        )
        assert str(refusal.value) == f"{sentence} 8MB"


SECONDS = {
    "ms": 0.001,
    "s": 1,
    "sec": 1,
    "m": 60,
    "min": 60,
    "h": 3600,
    "hours": 3600,
    "d": 86_400,
    "days": 86_400,
    "w": 604_800,
}


def test_units_of_durations() -> None:
    for unit, seconds in SECONDS.items():
        for text in (f"3{unit}", f" 3.0 {unit} ", f"0_3{unit.upper()}"):
            assert parse_duration(text) == parse_duration(text, "ms") / 1000 == pytest.approx(3 * seconds)
    assert (parse_duration("10"), parse_duration("10", "ms"), parse_duration(".5s"), parse_duration("-1")) == (
        10,
        10,
        0.5,
        -1,
    )


def test_what_is_no_duration() -> None:
    for text in ("", "s", "1 parsec", "1e3", "inf", "1h30m", "1 ms ms", "\u0661s", "9" * 16, "x" * 1000):
        with pytest.raises(ValueError) as refusal:
            parse_duration(text)
        assert str(refusal.value).startswith(f"{text[:80]!r} is no duration; write one like 250ms, 10s, 5 min, 1h or")
    for text, sentence in (("y", "'y' is no duration; write one like 5m"), ("1ms", "too short"), ("2h", "too long")):
        with pytest.raises(click.BadParameter, match=sentence):
            duration_like("5m", 0.1, 3600)(text)


def test_numbers_in_words() -> None:
    sizes = {0: "0 bytes", 1000: "1,000 bytes", 1536: "1.5 KiB", 1 << 30: "1 GiB", 1 << 40: "1 TiB"}
    assert {size: size_in_words(size) for size in sizes} == sizes
    durations = {0: "0 s", 0.25: "250 ms", 61: "61 s", 90: "1.5 min", 3600: "1 h", 604_800: "7 days"}
    assert {seconds: duration_in_words(seconds) for seconds in durations} == durations
