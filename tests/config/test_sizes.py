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


@pytest.mark.parametrize(("unit", "octets"), UNITS.items())
def test_units(unit: str, octets: int) -> None:
    for text in (f"3{unit}", f" 3 {unit} ", f"0_3{unit.lower()}", f"3{unit.upper()}"):
        assert parse_size(text) == 3 * octets


@given(st.integers())
def test_numbers(number: int) -> None:
    assert parse_size(str(number)) == number


@pytest.mark.parametrize(
    "text", ["", "GB", "1G", "1 K", "1.5GiB", "1e9", "one", "1 GB GB", "\u0661MB", "1 k\u0130B", "_1"]
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError) as refusal:
        parse_size(text)
    assert str(refusal.value) == (
        f"{text!r} is no number of bytes; write one like 1073741824, or with a unit, like 1GiB, 64KiB or 8MB"
    )


def test_a_long_one_is_cut() -> None:
    with pytest.raises(ValueError, match=f"^'{'x' * 80}' is no"):
        parse_size("x" * 1000)
