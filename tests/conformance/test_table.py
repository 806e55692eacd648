"""The table has a test for each of its cells; and the strict reader judges as the table has it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest

from .requirements import COLUMNS, REQUIREMENTS, columns
from .wire import Reader

PACKAGE = __name__.rpartition(".")[0]


def definitions() -> Iterator[list[pytest.Mark]]:
    """The marks of every test of this folder that runs on a scene."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        module = importlib.import_module(f"{PACKAGE}.{path.stem}")
        for value in vars(module).values():
            marks = getattr(value, "pytestmark", [])
            if isinstance(value, FunctionType) and any(mark.name == "requirement" for mark in marks):
                yield marks


def arguments(marks: list[pytest.Mark], name: str) -> list[str]:
    return [argument for mark in marks if mark.name == name for argument in mark.args]


def test_the_table_is_read() -> None:
    assert len(REQUIREMENTS) == 203
    assert REQUIREMENTS["NEG-04"].levels == {"1.1": "SHOULD", "1.2": "MUST"}
    assert not REQUIREMENTS["WST-01"].binds("1.2", "tcp")


def test_every_requirement_that_binds_has_a_test() -> None:
    shown: set[tuple[str, str, str]] = set()
    for marks in definitions():
        ids = arguments(marks, "requirement")
        shown |= {(id, *column) for id in ids for column in columns(ids, arguments(marks, "columns"))}
    missing = [
        f"{row.id} ({version} over {transport})"
        for row in REQUIREMENTS.values()
        for version, transport in COLUMNS
        if row.binds(version, transport) and (row.id, version, transport) not in shown
    ]
    assert not missing


# -- the judge

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
    "behind an error": ("1.2", b"ERROR\nmessage:x\n\n\0RECEIPT\nreceipt-id:1\n\n\0"),
    "receipt with a body": ("1.0", b"RECEIPT\nreceipt-id:1\n\nx\0"),
    "no message-id": ("1.2", b"MESSAGE\nsubscription:0\ndestination:/queue/x\n\n\0"),
    "no colon": ("1.2", MESSAGE + b"colon\n\n\0"),
    "twice": ("1.2", MESSAGE + b"message-id:2\n\n\0"),
    "raw colon in 1.2": ("1.2", MESSAGE + b"k:a:b\n\n\0"),
    "escaped CR in 1.1": ("1.1", MESSAGE + b"k:a\\rb\n\n\0"),
    "not UTF-8": ("1.0", MESSAGE + b"k:\xff\n\n\0"),
    "wrong count": ("1.1", MESSAGE + b"content-length:1\n\nab\0"),
    "beat of 1.2 in 1.1": ("1.1", b"\r\n" + b"RECEIPT\nreceipt-id:1\n\n\0"),
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
