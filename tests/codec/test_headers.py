"""Header blocks between text and dictionary, version by version."""

from __future__ import annotations

import pytest

from gateway.codec import V10, V11, V12, MalformedFrame
from gateway.codec.headers import bad_line, format_lines, parse_lines, parse_opening


class TestLenient:
    """Rules of 1.0 that no whole frame shows; for all others see `cases`."""

    def test_1_0_has_no_control_characters_in_headers_that_are_sent_back(self) -> None:
        """A standard header is sent back (as receipt-id, destination ...), and 1.0 could not write it."""
        for character in "\t\x01\x1f\x00":
            with pytest.raises(MalformedFrame, match="control character in a header") as caught:
                parse_lines(f"SEND\nReceipt: a{character}b", V10)
            assert "receipt" in caught.value.detail
            assert parse_lines(f"SEND\nmine: a{character}b", V10)[1] == {"mine": f"a{character}b"}

    def test_1_0_folds_ascii_letters_only(self) -> None:
        """The long s is an S to Python's `upper`, and U+212A, the sign for Kelvin, a k to its `lower`."""
        for command in ("ſend", "dıſconnect", "ſtomp"):
            assert parse_lines(f"{command}\nk:v", V10)[0] not in ("SEND", "DISCONNECT", "STOMP")
        assert parse_opening("ſtomp")[0] != "STOMP"
        assert parse_lines("SUBSCRIBE\nac\u212a:client", V10)[1] == {"ac\u212a": "client"}


class TestFormatLines:
    def test_escaped(self) -> None:
        for version, expected in ((V11, "a\\cb:x\\ny\\\\z\\cw\rv\n"), (V12, "a\\cb:x\\ny\\\\z\\cw\\rv\n")):
            assert format_lines({"a:b": "x\ny\\z:w\rv"}, version) == expected
        for value in "\\\n:\r":
            assert format_lines({"k": value, "l": "plain"}, V12) == f"k:{V12.escapes[value]}\nl:plain\n"
        assert format_lines({"k": "a\r"}, V11) == "k:a\r\n"

    def test_1_0_leaves_out_what_it_cannot_say(self) -> None:
        headers = {"ok": "a:b\\c", "a:b": "v", "line": "x\ny", "tab": "x\ty", "c\r": "v", "cr": "v\r"}
        assert format_lines(headers, V10) == "ok:a:b\\c\n"


def test_a_bad_line_is_shown_but_not_a_long_one_whole() -> None:
    for line, shown in (("x" * 80, "x" * 80), ("x" * 81, "x" * 77 + "...")):
        assert bad_line(line).detail == f"{shown!r} is not name:value; write one header a line"
