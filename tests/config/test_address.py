"""Addresses: their forms, and what is none of them."""

from __future__ import annotations

import pytest

from gateway.config.address import Address


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

    def test_text_is_what_was_parsed(self) -> None:
        for text in ("127.0.0.1:61613", "[::1]:61613", "unix:/x", "systemd:tcp", "example.org:80"):
            assert str(Address.parse(text)) == text

    def test_loopback(self) -> None:
        ours = ("127.0.0.1:1", "127.8.9.10:1", "[::1]:1", "localhost:1", "unix:/x", "systemd:nobody")
        assert all(Address.parse(text).is_loopback for text in ours)
        others = ("0.0.0.0:1", "[::]:1", "192.0.2.1:1", "example.org:1")
        assert not any(Address.parse(text).is_loopback for text in others)
