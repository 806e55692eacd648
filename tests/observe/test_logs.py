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
        structlog.get_logger().info("session failed", reason="line one\nline two", octets=7)
        assert stream.getvalue().count("\n") == 1
        line = lines(stream)[0]
        assert list(line) == ["timestamp", "level", "event", "reason", "octets"]
        assert line["timestamp"].endswith("Z")
        assert (line["level"], line["event"], line["reason"]) == ("info", "session failed", "line one\nline two")

    def test_what_json_does_not_know_is_written_as_text(self, stream: io.StringIO) -> None:
        structlog.get_logger().info("x", value={1}, octets=b"\xff")
        assert (lines(stream)[0]["value"], lines(stream)[0]["octets"]) == ("{1}", "b'\\xff'")

    def test_exceptions(self, stream: io.StringIO) -> None:
        try:
            raise ZeroDivisionError("why")
        except ZeroDivisionError:
            structlog.get_logger().exception("failed")
        assert "ZeroDivisionError: why" in lines(stream)[0]["exception"]

    def test_bound_session_ids(self, stream: io.StringIO) -> None:
        with structlog.contextvars.bound_contextvars(session="abc"):
            structlog.get_logger().info("one")
        structlog.get_logger().info("two")
        assert [line.get("session") for line in lines(stream)] == ["abc", None]

    @pytest.mark.parametrize("key", sorted(logs.SECRETS))
    def test_secrets_are_hidden(self, stream: io.StringIO, key: str) -> None:
        structlog.get_logger().info("login", **{key: "sesame"}, login="alice")
        assert "sesame" not in stream.getvalue()
        assert lines(stream)[0][key] == "(hidden)"


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

    def test_standard_error_by_default(self, capsys: pytest.CaptureFixture[str]) -> None:
        logs.configure()
        structlog.get_logger().info("hello")
        output = capsys.readouterr()
        assert (output.out, json.loads(output.err)["event"]) == ("", "hello")


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

    def test_each_line_of_a_traceback(self, ends: tuple[TextIO, socket.socket]) -> None:
        stream, journal = ends
        logs.configure("human", stream=stream)
        try:
            raise ZeroDivisionError("why")
        except ZeroDivisionError:
            structlog.get_logger().exception("failed")
        found = journal.recv(65536).decode().splitlines()
        assert {line[:3] for line in found} == {"<3>"}
        assert found[-1] == "<3>ZeroDivisionError: why"

    def test_nothing_in_a_file_of_another_inode(self, tmp_path: Path, ends: tuple[TextIO, socket.socket]) -> None:
        """As where an operator sends standard error to a file of his own."""
        with (tmp_path / "log").open("w") as stream:
            logs.configure("json", stream=stream)
            structlog.get_logger().warning("hello")
        assert (tmp_path / "log").read_text().startswith("{")


class TestLevel:
    @pytest.mark.parametrize(
        ("level", "written"),
        [("debug", "debug info warning error"), ("info", "info warning error"), ("error", "error")],
    )
    def test_least_level(self, level: str, written: str) -> None:
        stream = io.StringIO()
        logs.configure("json", level, stream=stream)
        log = structlog.get_logger()
        for name in ("debug", "info", "warning", "error"):
            getattr(log, name)(name)
        assert [line["event"] for line in lines(stream)] == written.split()

    def test_loggers_made_before_follow(self) -> None:
        log = structlog.get_logger()
        first, second = io.StringIO(), io.StringIO()
        logs.configure("json", stream=first)
        log.info("one")
        logs.configure("json", stream=second)
        log.info("two")
        assert ([line["event"] for line in lines(first)], lines(second)[0]["event"]) == (["one"], "two")


class TestLibraries:
    @pytest.mark.parametrize(("level", "count"), [("debug", 1), ("info", 0), ("error", 0)])
    def test_their_info_is_our_debug(self, level: str, count: int) -> None:
        stream = io.StringIO()
        logs.configure("json", level, stream=stream)
        logging.getLogger("trio-websocket").info("accepted")
        assert len(lines(stream)) == count

    def test_hypercorn_under_its_own_command_whoever_comes_first(self) -> None:
        """It replaces the handlers of its logger when it first has something to say."""
        stream, own = io.StringIO(), io.StringIO()
        for _ in range(2):
            logs.configure("json", stream=stream)
        logger = logging.getLogger(logs.HYPERCORN)
        logger.handlers = [logging.StreamHandler(own)]
        logger.setLevel(logging.INFO)
        logger.info("Running on %s", "http://x")
        (line,) = lines(stream)
        assert (line["level"], line["logger"], line["event"]) == ("info", "hypercorn.error", "Running on http://x")
        assert own.getvalue() == ""

    def test_hypercorn_is_not_louder_than_we_are(self) -> None:
        stream = io.StringIO()
        logs.configure("json", "warning", stream=stream)
        logger = logging.getLogger(logs.HYPERCORN)
        logger.setLevel(logging.INFO)
        logger.info("Running")
        logger.error("Broken")
        assert [line["event"] for line in lines(stream)] == ["Broken"]


class TestLoggers:
    def test_between_level_and_event(self, stream: io.StringIO) -> None:
        structlog.get_logger("gateway.audit").info("admin", action="drain")
        assert list(lines(stream)[0]) == ["timestamp", "level", "logger", "event", "action"]
