"""Logs: the form of a line, in JSON and for people."""

from __future__ import annotations

import io
import json
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
import structlog

from gateway.observe import logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Logging is the whole process's: put it back."""
    before = structlog.get_config()
    handlers = {name: logging.getLogger(name).handlers for name in (*logs.FOREIGN, logs.HYPERCORN)}
    yield
    logging.getLogger(logs.HYPERCORN).filters.clear()
    structlog.contextvars.clear_contextvars()
    structlog.configure(**before)
    for name, old in handlers.items():
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = old, True
        logger.setLevel(logging.NOTSET)


@pytest.fixture
def stream() -> io.StringIO:
    stream = io.StringIO()
    logs.configure("json", stream=stream)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


class TestJson:
    def test_one_object_a_line_with_time_level_and_event_first(self, stream: io.StringIO) -> None:
        with structlog.contextvars.bound_contextvars(session="abc"):
            structlog.get_logger("gateway.x").info("session failed", reason="one\ntwo", value={1}, octets=b"\xff")
        assert stream.getvalue().count("\n") == 1
        line = lines(stream)[0]
        assert [*line][:4] == ["timestamp", "level", "logger", "event"]
        assert line["timestamp"].endswith("Z")
        assert (line["level"], line["event"], line["session"]) == ("info", "session failed", "abc")
        assert (line["reason"], line["value"], line["octets"]) == ("one\ntwo", "{1}", "b'\\xff'")
        try:
            raise ZeroDivisionError("why")
        except ZeroDivisionError:
            structlog.get_logger().exception("failed")
        assert "ZeroDivisionError: why" in lines(stream)[1]["exception"]

    def test_secrets_are_hidden(self, stream: io.StringIO) -> None:
        for key in logs.SECRETS:
            structlog.get_logger().info("login", **{key: "sesame"}, login="alice")
            assert lines(stream)[-1][key] == "(hidden)"
        assert "sesame" not in stream.getvalue()


class TestForm:
    @pytest.mark.parametrize(
        ("log_format", "stream", "human", "coloured"),
        [
            ("auto", io.StringIO, False, False),
            ("auto", Terminal, True, True),
            ("human", io.StringIO, True, False),
            ("json", Terminal, False, False),
        ],
    )
    def test_of_a_line(self, log_format: str, stream: type[io.StringIO], human: bool, coloured: bool) -> None:
        written = stream()
        logs.configure(log_format, stream=written)
        structlog.get_logger().info("hello", who="you")
        assert ("\x1b[" in written.getvalue()) is coloured
        assert written.getvalue().startswith("{") is not human
        assert "hello" in written.getvalue()

    @pytest.mark.parametrize(
        "name", ["\x1b[2J", "a\x9b31mb", "a\u202eb", "a b\x1b[2J", "a\n2026 [info] admin outcome=done"]
    )
    def test_what_clients_name_does_nothing_to_a_terminal(self, name: str) -> None:
        stream = io.StringIO()
        logs.configure("human", stream=stream)
        structlog.get_logger().info("admin", target=name)
        assert stream.getvalue().rstrip("\n").isprintable()
        structlog.get_logger().info("admin", target="Zürich")
        assert "target=Zürich" in stream.getvalue()


class TestJournal:
    """Under systemd standard error is a socket, and JOURNAL_STREAM names it."""

    @pytest.fixture
    def ends(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[TextIO, socket.socket]]:
        """What a service writes to, and what the journal reads."""
        ours, journal = socket.socketpair()
        with ours, journal, ours.makefile("w") as stream:
            found = os.fstat(ours.fileno())
            monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
            yield stream, journal

    def test_each_line_has_its_priority(self, ends: tuple[TextIO, socket.socket]) -> None:
        stream, journal = ends
        logs.configure("json", "debug", stream=stream)
        for level in ("debug", "info", "warning", "error", "critical"):
            getattr(structlog.get_logger(), level)(level)
        logging.getLogger("gateway.http").warning("of a library")
        logging.getLogger("gateway.http").log(35, "of a level that nobody knows")
        found = [(line[:3], json.loads(line[3:])["event"]) for line in journal.recv(65536).decode().splitlines()]
        assert found == [
            ("<7>", "debug"),
            ("<6>", "info"),
            ("<4>", "warning"),
            ("<3>", "error"),
            ("<2>", "critical"),
            ("<4>", "of a library"),
            ("<6>", "of a level that nobody knows"),
        ]

    def test_each_line_of_a_traceback(self, tmp_path: Path, ends: tuple[TextIO, socket.socket]) -> None:
        """And nothing in a file of another inode, as where an operator sends standard error to a file."""
        stream, journal = ends
        logs.configure("human", stream=stream)
        try:
            raise ZeroDivisionError("why")
        except ZeroDivisionError:
            structlog.get_logger().exception("failed")
        found = journal.recv(65536).decode().splitlines()
        assert {line[:3] for line in found} == {"<3>"}
        assert found[-1] == "<3>ZeroDivisionError: why"
        with (tmp_path / "log").open("w") as file:
            logs.configure("json", stream=file)
            structlog.get_logger().warning("hello")
        assert (tmp_path / "log").read_text().startswith("{")


@pytest.mark.parametrize(
    ("level", "written"), [("debug", "library debug info error"), ("info", "info error"), ("error", "error")]
)
def test_least_level(level: str, written: str) -> None:
    """What libraries call info is debug here; loggers that were made before follow."""
    log, stream = structlog.get_logger(), io.StringIO()
    logs.configure("json", level, stream=stream)
    logging.getLogger("trio-websocket").info("library")
    for name in ("debug", "info", "error"):
        getattr(log, name)(name)
    assert [line["event"] for line in lines(stream)] == written.split()


class TestHypercorn:
    def test_it_writes_our_lines_under_its_own_command_too(self) -> None:
        """It replaces the handlers of its logger when it first has something to say."""
        stream, own = io.StringIO(), io.StringIO()
        for _ in range(2):
            logs.configure("json", "info", "mind 100 % of it", stream=stream)
        logger = logging.getLogger(logs.HYPERCORN)
        logger.handlers = [logging.StreamHandler(own)]
        logger.setLevel(logging.INFO)
        logger.info("Running on %s", "http://x")
        (line,) = lines(stream)
        event = "Running on http://x; mind 100 % of it"
        assert (line["level"], line["logger"], line["event"]) == ("info", "hypercorn.error", event)
        assert own.getvalue() == ""

    def test_it_is_not_louder_than_we_are(self) -> None:
        stream = io.StringIO()
        logs.configure("json", "warning", stream=stream)
        logger = logging.getLogger(logs.HYPERCORN)
        logger.setLevel(logging.INFO)
        logger.info("Running")
        logger.error("Broken")
        assert [line["event"] for line in lines(stream)] == ["Broken"]
