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

    @pytest.mark.parametrize(
        "text",
        [
            *("", "foo", "foo:", "foo:bar", "foo:-1", "foo:65536", "foo:٣", "foo:" + "9" * 5000),
            *("[::1:1", "a:b:1", "a/b:1", "http://x:80", "u@h:1", "systemd:", "systemd:a b"),
        ],
    )
    def test_nonsense(self, text: str) -> None:
        with pytest.raises(ValueError, match="is not an address; write host:port"):
            Address.parse(text)

    def test_unix_without_path(self) -> None:
        with pytest.raises(ValueError, match="needs a path"):
            Address.parse("unix:")

    @pytest.mark.parametrize("text", ["127.0.0.1:61613", "[::1]:61613", "unix:/x", "systemd:tcp", "example.org:80"])
    def test_text_is_what_was_parsed(self, text: str) -> None:
        assert str(Address.parse(text)) == text

    @pytest.mark.parametrize(
        ("text", "loopback"),
        [
            ("127.0.0.1:1", True),
            ("127.8.9.10:1", True),
            ("[::1]:1", True),
            ("localhost:1", True),
            ("unix:/x", True),
            ("systemd:nobody", True),
            ("0.0.0.0:1", False),
            ("[::]:1", False),
            ("192.0.2.1:1", False),
            ("example.org:1", False),
        ],
    )
    def test_loopback(self, text: str, loopback: bool) -> None:
        assert Address.parse(text).is_loopback is loopback
