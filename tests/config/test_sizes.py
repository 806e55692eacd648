"""Octets as settings write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.units import parse_size

UNITS = {
    "B": 1,
    "kB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "TiB": 1024**4,
}


def test_units() -> None:
    for unit, size in UNITS.items():
        for text in (f"3{unit}", f" 3 {unit} ", f"0_3{unit.lower()}", f"3{unit.upper()}"):
            assert parse_size(text) == 3 * size


@given(st.integers())
def test_numbers(number: int) -> None:
    assert parse_size(str(number)) == number


def test_what_is_none() -> None:
    for text in ("", "GB", "1G", "1 K", "1.5GiB", "1e9", "one", "1 GB GB", "\u0661MB", "1 k\u0130B", "_1", "x" * 1000):
        with pytest.raises(ValueError) as refusal:
            parse_size(text)
        sentence = (
            f"{text[:80]!r} is no number of bytes; write one like 1073741824, or with a unit, like 1GiB, 64KiB or"
        )
        assert str(refusal.value) == f"{sentence} 8MB"
