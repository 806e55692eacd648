"""The versions as data, and which one a client gets."""

from __future__ import annotations

import pytest

from gateway.codec import V10, V11, V12, VERSIONS, negotiate


def test_in_order_of_age() -> None:
    assert [version.name for version in VERSIONS] == ["1.0", "1.1", "1.2"]
    assert [version.index for version in VERSIONS] == [0, 1, 2]


@pytest.mark.requirement("ENC-01", "ENC-02", "ENC-10", "ENC-11")
def test_escapes_go_both_ways() -> None:
    for version, characters in ((V10, ""), (V11, "\\\n:"), (V12, "\\\n:\r")):
        assert set(version.escapes) == set(characters)
        assert {escape: character for character, escape in version.escapes.items()} == version.unescapes


@pytest.mark.requirement("FRM-02", "FRM-03")
def test_only_1_1_keeps_a_cr() -> None:
    assert [version.strips_cr for version in VERSIONS] == [True, False, True]
    assert [version.lenient for version in VERSIONS] == [True, False, False]


@pytest.mark.requirement("NEG-01", "NEG-02", "NEG-03", "NEG-04", "NEG-06", "NEG-07")
def test_the_highest_common_version() -> None:
    for chosen, offers in [
        (V10, [None, "1.0", "9.9,1.0", "1.0,", "1.0,,1.0", "0.9,1.0,1.3"]),
        (V11, ["1.1", "1.0,1.1", "1.1,1.1", " 1.0 , 1.1 ", "1.0,1.1,2.0"]),
        (V12, ["1.2", "1.0,1.1,1.2", "1.2,1.0,1.1", "1.2,1.1,1.0", "1.1, 1.2"]),
        (None, ["", ",", "2.0,9.9", "11.2", "1.20", "1.1.1", "1", "1.2;1.1", "V1.2", "v1.2", "1.2;q=1"]),
    ]:
        for offered in offers:
            assert negotiate(offered) is chosen, offered
