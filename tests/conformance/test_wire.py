"""The judge is judged: the strict reader accepts what each version allows, and notes what it does not."""

from __future__ import annotations

import pytest

from .wire import Reader

parametrize = pytest.mark.parametrize

GREETING = {version: f"CONNECTED\nversion:{version}\n\n\0".encode() for version in ("1.0", "1.1", "1.2")}
MESSAGE = b"MESSAGE\nsubscription:0\ndestination:/queue/x\nmessage-id:1\n"


def read(version: str, stream: bytes) -> Reader:
    reader = Reader()
    for octet in GREETING[version] + stream:
        reader.feed(bytes([octet]))
    return reader


RIGHT = [
    ("1.0", MESSAGE + b"k:a\\cb:c\n\nbody\0\n"),
    ("1.0", b"ERROR\nmessage:x\n\n\0"),
    ("1.1", MESSAGE + b"k:a\\cb\\n\\\\\r\ncontent-length:3\n\na\0b\0\n\n"),
    ("1.2", MESSAGE + b"k:a\\r\n\n\0\r\n\n"),
    ("1.2", b"RECEIPT\r\nreceipt-id:r\r\n\r\n\0"),
]

WRONG = {
    "unknown command": ("1.2", b"HELLO\n\n\0"),
    "lower case": ("1.0", b"receipt\nreceipt-id:1\n\n\0"),
    "two greetings": ("1.1", GREETING["1.1"]),
    "behind an error": ("1.2", b"ERROR\nmessage:x\n\n\0RECEIPT\nreceipt-id:1\n\n\0"),
    "receipt with a body": ("1.0", b"RECEIPT\nreceipt-id:1\n\nx\0"),
    "receipt without id": ("1.1", b"RECEIPT\n\n\0"),
    "no message-id": ("1.2", b"MESSAGE\nsubscription:0\ndestination:/queue/x\n\n\0"),
    "no subscription": ("1.1", b"MESSAGE\nmessage-id:0\ndestination:/queue/x\n\n\0"),
    "no colon": ("1.2", MESSAGE + b"colon\n\n\0"),
    "no name": ("1.2", MESSAGE + b":v\n\n\0"),
    "twice": ("1.2", MESSAGE + b"message-id:2\n\n\0"),
    "raw colon in 1.1": ("1.1", MESSAGE + b"k:a:b\n\n\0"),
    "raw colon in 1.2": ("1.2", MESSAGE + b"k:a:b\n\n\0"),
    "raw CR in 1.2": ("1.2", MESSAGE + b"k:a\rb\n\n\0"),
    "escaped CR in 1.1": ("1.1", MESSAGE + b"k:a\\rb\n\n\0"),
    "undefined escape": ("1.2", MESSAGE + b"k:a\\tb\n\n\0"),
    "lone backslash": ("1.2", MESSAGE + b"k:a\\\n\n\0"),
    "control octet in 1.0": ("1.0", MESSAGE + b"k:a\tb\n\n\0"),
    "not UTF-8": ("1.0", MESSAGE + b"k:\xff\n\n\0"),
    "wrong count": ("1.1", MESSAGE + b"content-length:1\n\nab\0"),
    "no count": ("1.1", MESSAGE + b"content-length:x\n\n\0"),
    "uncounted NUL": ("1.1", MESSAGE + b"\na\0b\n\n\0"),
    "beat of 1.2 in 1.1": ("1.1", b"\r\n" + b"RECEIPT\nreceipt-id:1\n\n\0"),
    "lone CR between frames": ("1.2", b"\r" + b"RECEIPT\nreceipt-id:1\n\n\0"),
}


def test_what_a_version_allows_is_no_fault() -> None:
    for version, stream in RIGHT:
        assert read(version, stream).faults == []


def test_what_a_version_does_not_allow_is_a_fault() -> None:
    for kind in WRONG:
        assert read(*WRONG[kind]).faults


def test_before_connected_nothing_else_may_come() -> None:
    """And an ERROR there must read the same in all versions."""
    for first in [b"\n" + GREETING["1.2"], b"RECEIPT\nreceipt-id:1\n\n\0", b"ERROR\nmessage:a:b\n\n\0"]:
        reader = Reader()
        reader.feed(first)
        assert reader.faults
