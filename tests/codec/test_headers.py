"""Header blocks between text and dictionary, version by version."""

from __future__ import annotations

import pytest

from gateway.codec import V10, V11, V12, VERSIONS, MalformedFrame, Version
from gateway.codec.headers import bad_line, escape, format_lines, parse_lines, parse_opening, unescape

requirement, parametrize = pytest.mark.requirement, pytest.mark.parametrize
every_version = parametrize("version", VERSIONS, ids=lambda version: version.name)


class TestParseLines:
    @requirement("FRM-01", "HDR-01", "HDR-03", "FRM-10", "FRM-12")
    @every_version
    def test_names_and_values(self, version: Version) -> None:
        text = "SEND\ndestination:/queue/a\nk:first\nempty:\nk:second\ncolons:a:b:c"
        expected = {"destination": "/queue/a", "k": "first", "empty": "", "colons": "a:b:c"}
        assert parse_lines(text, version) == ("SEND", expected)

    @requirement("FRM-05")
    @every_version
    def test_no_headers(self, version: Version) -> None:
        assert parse_lines("DISCONNECT", version) == ("DISCONNECT", {})

    @requirement("FRM-08")
    @every_version
    @parametrize("line", ["no colon", ":no name", "", ":"])
    def test_a_line_needs_colon_and_name(self, version: Version, line: str) -> None:
        with pytest.raises(MalformedFrame, match="malformed header line"):
            parse_lines(f"SEND\nk:v\n{line}", version)

    @requirement("FRM-02")
    def test_1_2_cuts_one_cr_line_by_line(self) -> None:
        assert parse_lines("SEND\r\na:1\r\nb:2\nc:3\r\r", V12) == ("SEND", {"a": "1", "b": "2", "c": "3\r"})

    @requirement("FRM-03")
    def test_1_1_keeps_a_cr(self) -> None:
        assert parse_lines("SEND\na:1\r\nb:2", V11) == ("SEND", {"a": "1\r", "b": "2"})

    @requirement("ENC-01", "ENC-07", "HDR-01")
    @parametrize("version", [V11, V12], ids=["1.1", "1.2"])
    def test_names_and_values_are_unescaped(self, version: Version) -> None:
        text = "SEND\na\\cb:x\\ny\na\\cb:later\nplain:p\nback:\\\\n"
        assert parse_lines(text, version)[1] == {"a:b": "x\ny", "plain": "p", "back": "\\n"}

    @requirement("FRM-06", "FRM-07", "ENC-08")
    @parametrize("version", [V11, V12], ids=["1.1", "1.2"])
    def test_nothing_is_trimmed_and_case_counts(self, version: Version) -> None:
        text = "send \n Destination : /queue/a \nRECEIPT:1"
        assert parse_lines(text, version) == ("send ", {" Destination ": " /queue/a ", "RECEIPT": "1"})

    @requirement("LEN-01", "LEN-03", "LEN-04", "LEN-05", "LEN-06", "ENC-12")
    def test_1_0_trims_and_ignores_case(self) -> None:
        text = "sEnd \r\nDESTINATION:  /queue/a \r\r\nMy-Own:x\nMY-OWN:y\nreceipt: 1"
        expected = {"destination": "/queue/a", "My-Own": "x", "MY-OWN": "y", "receipt": "1"}
        assert parse_lines(text, V10) == ("SEND", expected)

    @requirement("HDR-01", "LEN-06")
    def test_1_0_takes_the_first_of_either_spelling(self) -> None:
        assert parse_lines("SEND\nReceipt:1\nreceipt:2", V10)[1] == {"receipt": "1"}

    @requirement("ENC-10")
    def test_1_0_knows_no_escapes(self) -> None:
        assert parse_lines("SEND\nk:a\\cb\\t", V10)[1] == {"k": "a\\cb\\t"}

    @requirement("LEN-07")
    @parametrize("octet", ["\t", "\x01", "\x1f", "\x00"])
    def test_1_0_has_no_control_octets_in_what_comes_back(self, octet: str) -> None:
        """A standard header is given back (as receipt-id, destination ...), and 1.0 could not write it."""
        with pytest.raises(MalformedFrame, match="control character in a header") as caught:
            parse_lines(f"SEND\nReceipt: a{octet}b", V10)
        assert "receipt" in caught.value.detail
        assert parse_lines(f"SEND\nmine: a{octet}b", V10)[1] == {"mine": f"a{octet}b"}

    @requirement("LEN-03", "FRM-13")
    @parametrize("command", ["ſend", "dıſconnect", "ſtomp"])
    def test_1_0_folds_ascii_letters_only(self, command: str) -> None:
        """The long s is an S to Python's `upper`; on the wire it is no part of any command."""
        assert parse_lines(f"{command}\nk:v", V10)[0] not in ("SEND", "DISCONNECT", "STOMP")

    @requirement("LEN-06")
    def test_1_0_folds_ascii_names_only(self) -> None:
        """U+212A, the sign for Kelvin, is a k to Python's `lower`."""
        assert parse_lines("SUBSCRIBE\nac\u212a:client", V10)[1] == {"ac\u212a": "client"}


class TestParseOpening:
    @requirement("FRM-02", "ENC-05", "ENC-08", "HDR-01", "CON-02")
    def test_lines_are_cut_and_nothing_else_is_done(self) -> None:
        text = "stomp\r\naccept-version:1.2\r\npath:C:\\temp\\q \r\npath:other\nHost:h"
        expected = {"accept-version": "1.2", "path": "C:\\temp\\q ", "Host": "h"}
        assert parse_opening(text) == ("STOMP", expected)

    def test_spaces_behind_the_command(self) -> None:
        assert parse_opening("CONNECT  ") == ("CONNECT", {})

    @requirement("FRM-08")
    @parametrize("line", ["no colon", ":no name"])
    def test_a_line_needs_colon_and_name(self, line: str) -> None:
        with pytest.raises(MalformedFrame, match="malformed header line"):
            parse_opening(f"CONNECT\n{line}")

    @requirement("FRM-13")
    def test_ascii_letters_only(self) -> None:
        assert parse_opening("ſtomp")[0] != "STOMP"


class TestEscapes:
    @requirement("ENC-01", "ENC-02")
    @parametrize(
        ("version", "text", "expected"),
        [
            (V11, "plain", "plain"),
            (V11, "a\\nb\\cc\\\\d", "a\nb:c\\d"),
            (V12, "a\\nb\\cc\\\\d\\re", "a\nb:c\\d\re"),
            (V12, "\\\\n", "\\n"),
            (V12, "\\\\\\n", "\\\n"),
        ],
    )
    def test_unescape(self, version: Version, text: str, expected: str) -> None:
        assert unescape(text, version) == expected
        assert escape(expected, version) == text

    @requirement("ENC-03", "ENC-13")
    @parametrize(
        ("version", "text"),
        [
            (V11, "\\r"),
            (V11, "\\t"),
            (V12, "\\t"),
            (V12, "\\"),
            (V11, "a\\"),
            (V12, "a\\\\\\"),
            (V12, "\\\n"),
            (V12, "\\é"),
        ],
    )
    def test_undefined(self, version: Version, text: str) -> None:
        with pytest.raises(MalformedFrame, match="undefined escape in a header") as caught:
            unescape(text, version)
        assert f"STOMP {version.name} does not define" in caught.value.detail

    @requirement("ENC-03", "ENC-07")
    @parametrize("line", ["k:\\t", "\\t:v"])
    def test_undefined_in_name_or_value(self, line: str) -> None:
        with pytest.raises(MalformedFrame, match="undefined escape"):
            parse_lines(f"SEND\n{line}", V12)


class TestFormatLines:
    @every_version
    def test_plain(self, version: Version) -> None:
        assert format_lines({"a": "1", "b": "é 漢"}, version) == "a:1\nb:é 漢\n"
        assert format_lines({}, version) == ""

    @requirement("ENC-04", "ENC-07", "ENC-11")
    @parametrize(
        ("version", "expected"),
        [(V11, "a\\cb:x\\ny\\\\z\\cw\rv\n"), (V12, "a\\cb:x\\ny\\\\z\\cw\\rv\n")],
        ids=["1.1", "1.2"],
    )
    def test_escaped(self, version: Version, expected: str) -> None:
        assert format_lines({"a:b": "x\ny\\z:w\rv"}, version) == expected

    @requirement("ENC-04")
    @parametrize("value", ["\\", "\n", ":", "\r"])
    def test_each_character_alone(self, value: str) -> None:
        line = format_lines({"k": value, "l": "plain"}, V12)
        assert line == f"k:{V12.escapes[value]}\nl:plain\n"

    @requirement("ENC-11", "FRM-03")
    def test_1_1_sends_a_cr_raw(self) -> None:
        assert format_lines({"k": "a\r"}, V11) == "k:a\r\n"

    @requirement("XTR-02", "LEN-07", "LEN-17", "ENC-10")
    def test_1_0_leaves_out_what_it_cannot_say(self) -> None:
        headers = {"ok": "a:b\\c", "a:b": "v", "line": "x\ny", "tab": "x\ty", "c\r": "v", "cr": "v\r"}
        assert format_lines(headers, V10) == "ok:a:b\\c\n"


class TestBadLine:
    def test_short_ones_are_shown_whole(self) -> None:
        assert bad_line("x" * 80).detail == f"{'x' * 80!r} is not name:value; write one header a line"

    def test_long_ones_are_cut(self) -> None:
        assert bad_line("x" * 81).detail == f"{'x' * 77 + '...'!r} is not name:value; write one header a line"
