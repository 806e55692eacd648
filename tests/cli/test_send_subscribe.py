"""`gateway send` and `gateway subscribe` against the real gateway, as processes with pipes."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.auth.passwords import hash_passcode, write_user
from gateway.cli.connection import BadLine, read_line
from tests.cli.conftest import Terminal
from tests.demanding import Demanding, demanding
from tests.gateway_process import HOST, start_gateway


def consumes(queue: str) -> str:
    return f"consumes {queue}: each message shown is gone from the queue; --browse only looks\n"


def test_there_and_back(terminal: Terminal, queue: str) -> None:
    assert terminal.run("send", queue, "tea for two") == (0, b"", "1 message sent and confirmed\n")
    assert terminal.run("subscribe", queue, "--browse") == (0, b"tea for two\n", "")
    assert terminal.run("subscribe", queue, "--count", "1") == (0, b"tea for two\n", consumes(queue))
    assert terminal.run("subscribe", queue, "--browse") == (0, b"", "")  # it was acknowledged
    assert terminal.run("subscribe", "/topic/a", "--timeout", "50ms") == (0, b"", "")
    status, _, told = terminal.run("send", "/app/nothing", "x")
    assert (status, told.startswith(f"Error: cannot send: {HOST}:"), " says: " in told) == (1, True, True)
    assert told.endswith("(0 messages confirmed before)\n")


def test_standard_input(terminal: Terminal, queue: str) -> None:
    status, _, told = terminal.run("send", queue, stdin=b"one\ntwo\r\n\nlast")
    assert (status, told) == (0, "4 messages sent and confirmed\n")
    terminal.run("send", f"{queue}-b", "--whole", stdin=b"two\nlines\0and a NUL")
    assert terminal.run("subscribe", queue, "--count", "3")[1] == b"one\ntwo\n\n"
    assert terminal.run("subscribe", queue, "--browse")[1] == b"last\n", "not more than --count"
    out = terminal.run("subscribe", queue, f"{queue}-b", "--count", "2")[1]
    assert sorted(out.split(b"\n")) == [b"", b"last", b"lines\0and a NUL", b"two"]


def test_lines_of_json(terminal: Terminal, queue: str) -> None:
    lines = [
        {"headers": {"colour": "red: dark", "message-id": "of another run"}, "body": "grün"},
        {"body": "AP8=", "body_encoding": "base64"},
    ]
    text = "".join([f"{json.dumps(line)}\n" for line in lines])
    assert terminal.run("send", queue, "--json", stdin=text.encode())[0] == 0
    out = terminal.run("subscribe", queue, "--json", "--count", "2")[1]
    first, second = [json.loads(line) for line in out.splitlines()]
    assert (first["destination"], first["body"], first["headers"]["colour"]) == (queue, "grün", "red: dark")
    assert first["headers"]["message-id"] != "of another run"
    assert (second["body"], second["body_encoding"]) == ("AP8=", "base64")
    # What `subscribe` writes `send` reads, and needs no destination then.
    assert terminal.run("send", "--json", stdin=out)[2] == "2 messages sent and confirmed\n"
    again = terminal.run("subscribe", queue, "--count", "2")[1]
    assert again == "grün\n".encode() + b"\0\xff\n"


def test_headers_and_selectors(terminal: Terminal, queue: str) -> None:
    for colour in ("red", "green"):
        arguments = ("-H", f"colour:{colour}", "--content-type", "text/plain", "--persistent")
        assert terminal.run("send", queue, colour, *arguments)[0] == 0
    out = terminal.run("subscribe", queue, "--selector", "colour = 'green'", "--count", "1", "--json")[1]
    headers = json.loads(out)["headers"]
    assert (headers["content-type"], headers["persistent"]) == ("text/plain", "true")
    assert terminal.run("subscribe", queue, "--browse")[1] == b"red\n"


def test_lines_that_cannot_be_meant(terminal: Terminal) -> None:
    good = b'{"destination": "/topic/a", "body": ""}\n'
    for line, sentence in (
        (b"tea", "it is not JSON"),
        (b'{"body": ""}', "it has no destination, and the command names none"),
    ):
        status, _, told = terminal.run("send", "--json", stdin=good + line)
        assert status == 1
        assert told.startswith(f"Error: line 2 of standard input: {sentence}")
        assert told.rstrip().endswith("(1 message confirmed before)")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"[]", "it is not an object"),
        (b'{"bodies": 1}', "'bodies' is unknown: keys are body, body_encoding, destination, headers"),
        (b'{"headers": {"a": 1}}', "headers must be an object of strings"),
        (b'{"body": "", "body_encoding": "rot13"}', "body_encoding must be utf-8 or base64"),
        (b'{"body": "?", "body_encoding": "base64"}', "body is not base64"),
    ],
)
def test_wrong_json(line: bytes, sentence: str) -> None:
    with pytest.raises(BadLine, match=re.escape(sentence)):
        read_line(line)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["send"], "DESTINATION is missing"),
        (["send", "/queue/a", "b", "--whole"], "exclude each other"),
        (["send", "/queue/a", "b", "-H", "colour"], "'colour' is no header: write NAME:VALUE"),
        (["send", "/queue/a", "b", "--url", "stomp://host/queue/a"], "has a destination: write destinations as"),
        (["subscribe"], "Missing argument 'DESTINATION...'"),
    ],
)
def test_commands_that_cannot_be_meant(terminal: Terminal, words: list[str], sentence: str) -> None:
    status, out, told = terminal.run(*words)
    assert (status, out) == (2, b"")
    assert sentence in told


def test_passcodes(terminal: Terminal, tmp_path: Path) -> None:
    write_user(tmp_path / "users.txt", "alice", hash_passcode("wonderland"))
    (tmp_path / "passcode").write_text("wonderland\n")
    with start_gateway(users_file=tmp_path / "users.txt") as gateway:
        url = ["--url", f"stomp://alice@{HOST}:{gateway.tcp_port}"]
        status, _, told = terminal.run("send", "/queue/a", "b", *url)
        assert (status, "STOMP_PASSCODE or --passcode-file has the passcode" in told) == (1, True)
        assert terminal.run("send", "/queue/a", "b", *url, "--passcode-file", "passcode")[0] == 0
        terminal.environment["STOMP_PASSCODE"] = "wonderland"
        assert terminal.run("subscribe", "/queue/a", "--count", "1", *url)[1] == b"b\n"


def test_time_is_up(terminal: Terminal, queue: str) -> None:
    terminal.run("send", queue, "1")
    status, out, told = terminal.run("subscribe", queue, "--count", "2", "--timeout", "0.5")
    assert (status, out, told) == (3, b"1\n", f"{consumes(queue)}1 of 2 messages came in 0.5 s\n")
    assert terminal.run("subscribe", queue, "--timeout", "0.2")[0] == 0


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals(terminal: Terminal, queue: str, number: int, status: int) -> None:
    terminal.run("send", queue, "1")
    with terminal.start("subscribe", queue) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (status, b"", consumes(queue).encode())


def test_a_broken_pipe_loses_nothing(terminal: Terminal, queue: str) -> None:
    body = "x" * 100_000
    terminal.run("send", queue, stdin="".join([f"{number}{body}\n" for number in range(50)]).encode())
    read, write = os.pipe()
    with terminal.start("subscribe", queue, stdout=write) as process:
        os.close(write)
        assert os.read(read, 1) == b"0"
        os.close(read)
        assert process.stderr is not None
        assert process.stderr.read() == consumes(queue).encode()
        assert process.wait(20) == 0
    left = terminal.run("subscribe", queue, "--browse")[1].splitlines()
    assert left[-1].startswith(b"49x")
    assert len(left) >= 48  # the pipe took less than two of them


def test_a_terminal_is_not_told_what_to_do(terminal: Terminal, queue: str) -> None:
    terminal.run("send", queue, "\x1b[2Jred\u202e")
    controller, end = pty.openpty()
    with terminal.start("subscribe", queue, "--count", "1", stdout=end) as process:
        os.close(end)
        assert process.wait(20) == 0
        assert os.read(controller, 100) == rb"\x1b[2Jred\u202e" + b"\r\n"
    os.close(controller)


def test_somebody_types(terminal: Terminal, queue: str) -> None:
    """A line goes out at once, though standard input goes on."""
    with terminal.start("send", queue) as process:
        assert process.stdin is not None
        process.stdin.write(b"now\n")
        process.stdin.flush()
        assert terminal.run("subscribe", queue, "--count", "1")[1] == b"now\n"
        process.stdin.close()
        assert process.wait(20) == 0


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demanding]:
    with demanding(tmp_path_factory.mktemp("demanding")) as found:
        yield found


@pytest.fixture
def secured(there: Demanding, tmp_path: Path) -> Terminal:
    return Terminal(there.url, tmp_path)


def test_with_and_without_a_certificate(secured: Terminal, there: Demanding, queue: str) -> None:
    files = ("--ca", str(there.ca), "--cert", str(there.cert), "--key", str(there.key))
    assert secured.run("send", queue, "tea", *files) == (0, b"", "1 message sent and confirmed\n")
    assert secured.run("subscribe", queue, "--count", "1", *files) == (0, b"tea\n", consumes(queue))
    status, out, told = secured.run("send", queue, "tea", "--ca", str(there.ca))
    sentence = f"cannot connect to {HOST}:{there.port}: it demands a client certificate, and none was shown (cert, key)"
    assert (status, out, sentence in told, told.count("\n")) == (1, b"", True, 1)
    status, _, told = secured.run("send", queue, "tea", "--cert", str(there.cert), "--url", "stomp://localhost")
    assert (status, "has no TLS, and certificates are for TLS" in " ".join(told.split())) == (2, True)
