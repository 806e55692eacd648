"""Frames of the server to octets: RECEIPT, ERROR, CONNECTED, and the two parts of a MESSAGE."""

from __future__ import annotations

import itertools

from gateway.codec import V10, V11, V12, VERSIONS, Binary, Head, encoder

ENDS = (b"\0\n", b"\0")


class TestFrame:
    def test_without_body(self) -> None:
        """Also where it is written by a shorter way."""
        for version, end in itertools.product(VERSIONS, ENDS):
            octets = b"RECEIPT\nreceipt-id:7\n\n" + end
            assert encoder.frame("RECEIPT", {"receipt-id": "7"}, version=version, end=end) == octets
            assert encoder.receipt("7", version, end) == octets

    def test_with_body(self) -> None:
        for version in VERSIONS:
            octets = encoder.frame("ERROR", {"message": "no"}, "é\0".encode(), version=version)
            assert octets == b"ERROR\nmessage:no\ncontent-length:3\n\n\xc3\xa9\0\0\n"

    def test_receipt_with_the_escapes_of_the_version(self) -> None:
        for version, line in [
            (V10, b""),
            (V11, b"receipt-id:a\\cb\\n\xc3\xa9\r\n"),
            (V12, b"receipt-id:a\\cb\\n\xc3\xa9\\r\n"),
        ]:
            assert encoder.receipt("a:b\né\r", version) == b"RECEIPT\n" + line + b"\n\0\n"

    def test_connected_is_not_escaped(self) -> None:
        for end in ENDS:
            octets = encoder.connected({"version": "1.2", "server": "a\\b:c"}, end)
            assert octets == b"CONNECTED\nversion:1.2\nserver:a\\b:c\n\n" + end


class TestMessage:
    def test_prefix(self) -> None:
        for version in VERSIONS:
            assert encoder.message_prefix("7", version) == b"MESSAGE\nsubscription:7\n"
        assert encoder.message_prefix(None, V10) == b"MESSAGE\n"
        assert encoder.message_prefix("a:b", V12) == b"MESSAGE\nsubscription:a\\cb\n"

    def test_shared_part(self) -> None:
        head = Head("SEND", {"destination": "/queue/a", "content-type": "text/plain", "k": "v"})
        for version, end in itertools.product(VERSIONS, ENDS):
            assert encoder.message(head, b"m-1", b"hello", version, end) == (
                b"destination:/queue/a\ncontent-type:text/plain\nk:v\nmessage-id:m-1\ncontent-length:5\n\nhello" + end
            )

    def test_the_senders_own_words_for_ours_end_here(self) -> None:
        """They steer the sender's session, or would pass for ours."""
        mine = "ack content-length delivery-count message-id receipt redelivered subscription transaction".split()
        head = Head("SEND", {"destination": "/queue/a", **dict.fromkeys(mine, "x")}, 1)
        assert encoder.message(head, b"m-1", b"x", V12) == (
            b"destination:/queue/a\nmessage-id:m-1\ncontent-length:1\n\nx\0\n"
        )

    def test_each_version_has_its_own_octets(self) -> None:
        head = Head("SEND", {"destination": "/queue/a", "k": "a\r\n"})
        first, second, third = (encoder.message(head, b"m", b"", version) for version in VERSIONS)
        assert b"k:" not in first
        assert b"k:a\r\\n\n" in second
        assert b"k:a\\r\\n\n" in third

    def test_header_lines_are_made_once_per_head_and_version(self) -> None:
        head = Head("SEND", {"destination": "/queue/a"})
        assert head.encoded is None
        encoder.message(head, b"m-1", b"1", V12)
        assert head.encoded == [None, None, b"destination:/queue/a\n"]
        kept = head.encoded[2]
        encoder.message(head, b"m-2", b"2", V12)
        assert head.encoded[2] is kept
        encoder.message(head, b"m-2", b"2", V11)
        assert head.encoded == [None, kept, kept]

    def test_a_body_that_is_not_utf8_makes_a_binary_message(self) -> None:
        texts = (b"", b"ascii \0", "é漢𝄞".encode())
        # The last but one is a surrogate, which is no UTF-8.
        for body in (*texts, b"\xff", "é".encode()[:1], b"\xed\xa0\x80", bytes(range(256))):
            octets = encoder.message(Head("SEND", {}), b"m", body, V12)
            assert octets == b"message-id:m\ncontent-length:%d\n\n%b\0\n" % (len(body), body)
            assert (type(octets) is Binary) is (body not in texts)
