"""The arithmetic of heart-beating: the header, the agreed interval, the margins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.headers.connect import beat_interval, parse_heart_beat, send_early
from gateway.codec import MalformedFrame

MILLISECONDS = st.integers(min_value=0, max_value=3_600_000)


@pytest.mark.requirement("HBT-02")
def test_a_missing_header_asks_for_no_beats() -> None:
    assert parse_heart_beat(None) == (0, 0)


@pytest.mark.requirement("HBT-01")
@given(MILLISECONDS, MILLISECONDS)
def test_the_header_is_two_numbers(cx: int, cy: int) -> None:
    assert parse_heart_beat(f"{cx},{cy}") == (cx, cy)


@pytest.mark.requirement("HBT-10")
def test_anything_else_is_refused() -> None:
    for value in [
        *("", ",", "5", "5,", ",5", "abc", "a,b", "-1,0", "0,-1", "+1,0", "1.5,0", "1e3,0", " 1,0", "1, 0", "1,0 "),
        *("1,2,3", "٣,٣", "²,0", "1_000,0", "9" * 13 + ",0", "0," + "9" * 5000),
    ]:
        with pytest.raises(MalformedFrame, match="heart-beat") as caught:
            parse_heart_beat(value)
        assert "10000,10000" in caught.value.detail
        assert len(caught.value.detail) < 200


@pytest.mark.requirement("HBT-03", "HBT-05", "HBT-06", "HBT-09")
def test_the_interval_is_the_longer_of_both_unless_one_declines() -> None:
    for ours, theirs, seconds in [
        (250, 10_000, 10.0),
        (10_000, 250, 10.0),
        (500, 500, 0.5),
        (0, 500, 0.0),
        (500, 0, 0.0),
        (0, 0, 0.0),
    ]:
        assert beat_interval(ours, theirs) == seconds


@given(MILLISECONDS, MILLISECONDS)
def test_who_asks_whom_makes_no_difference(ours: int, theirs: int) -> None:
    assert beat_interval(ours, theirs) == beat_interval(theirs, ours)


@pytest.mark.requirement("HBT-03")
@given(st.floats(min_value=0.001, max_value=3_600))
def test_we_send_before_the_interval_is_over_but_not_much(seconds: float) -> None:
    early = send_early(seconds)
    assert 0.75 * seconds <= early < seconds
    assert seconds - early <= 1.0


def test_a_quarter_early_and_never_more_than_a_second() -> None:
    for seconds, early in [(0.0, 0.0), (0.4, 0.3), (4.0, 3.0), (10.0, 9.0), (60.0, 59.0)]:
        assert send_early(seconds) == pytest.approx(early)
