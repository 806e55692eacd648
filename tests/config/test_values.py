"""Addresses and sizes: their forms, and what is none of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.values import Address, parse_size


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
