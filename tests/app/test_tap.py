"""The tap over real sockets: under hypercorn on trio, through the asyncio bridge, and from `gateway serve`.

That a reader has gone can be seen from outside by one thing: its place is free again.  So a test takes all places.
"""

from __future__ import annotations

import http.client
import json
import signal
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.transports.flow.frame_trace import MOST_VIEWS
from tests.app.process import BIN, DEADLINE, HYPERCORN, SERVE, Server, connect, server

WAYS = {"hypercorn": HYPERCORN, "hypercorn -k trio": [*HYPERCORN, "-k", "trio"], "gateway serve": SERVE}


class Stream:
    """A reader of server-sent events.

    Attributes:
        status: of the answer.
    """

    def __init__(self, running: Server, session_id: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", running.http_port(), timeout=DEADLINE)
        self._connection.connect()
        sock = self._connection.sock
        assert isinstance(sock, socket.socket)
        self.socket = sock
        self._connection.request("GET", f"/api/v1/sessions/{session_id}/tap")
        self._response = self._connection.getresponse()
        self.status = self._response.status
        self.headers = self._response.headers

    def events(self) -> Iterator[tuple[str, Any]]:
        name = ""
        while line := self._response.readline():
            if line.startswith(b"event: "):
                name = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                yield name, json.loads(line[6:])

    def close(self) -> None:
        self._response.close()
        self._connection.close()
        self.socket.close()

    def vanish(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()


def session_of(running: Server) -> str:
    _, listed = running.get("/api/v1/sessions")
    name = listed["sessions"][0]["id"]
    assert isinstance(name, str)
    return name


def wait_for_a_place(running: Server, session_id: str) -> Stream:
    deadline = time.monotonic() + DEADLINE
    while True:
        stream = Stream(running, session_id)
        if stream.status == 200:
            return stream
        stream.close()
        assert stream.status == 409
        assert time.monotonic() < deadline, "the reader that has gone keeps its place"
        time.sleep(0.02)


@pytest.mark.parametrize(
    "way", ["hypercorn", pytest.param("hypercorn -k trio", marks=pytest.mark.long), "gateway serve"]
)
def test_readers_see_frames_leave_their_places_and_keep_no_gateway_from_stopping(tmp_path: Path, way: str) -> None:
    with server(WAYS[way], tmp_path) as running, connect(running.tcp_port()) as client:
        name = session_of(running)
        streams = [Stream(running, name) for _ in range(MOST_VIEWS)]
        assert {each.status for each in streams} == {200}
        one_too_many = Stream(running, name)
        one_too_many.close()
        assert one_too_many.status == 409
        for leave in (Stream.close, Stream.vanish):
            leave(streams.pop())
            streams.append(wait_for_a_place(running, name))
        assert streams[0].headers["content-type"].startswith("text/event-stream")
        assert streams[0].headers["x-accel-buffering"] == "no"
        client.sendall(b"SEND\ndestination:/topic/a\npasscode:planted\nreceipt:r\n\nhello\0")
        events = streams[0].events()
        (first, sent), (second, receipt) = next(events), next(events)
        assert (first, second) == ("frame", "frame")
        assert (sent["direction"], sent["command"], sent["body"]) == ("in", "SEND", "hello")
        assert ["passcode", "(hidden)"] in sent["headers"]
        shown = (receipt["direction"], receipt["command"], receipt["headers"])
        assert shown == ("out", "RECEIPT", [["receipt-id", "r"]])
        running.process.send_signal(signal.SIGTERM)
        assert running.wait() == 0
        # asyncio's streams print one of their own for each connection that hypercorn cuts.
        assert "Traceback" not in running.log or way == "hypercorn"
        assert "planted" not in running.log
        if way == "gateway serve":  # which drains while HTTP still answers
            *frames, last = events
            assert [data["command"] for _, data in frames] == ["ERROR"]
            assert last == ("end", {"reason": "the gateway is shutting down"})
        for each in streams:
            each.close()


IMPATIENT = "import sys; from gateway.cli import main, serve; serve.LONGEST_STUCK = 500; sys.exit(main.main(['serve']))"


def test_a_reader_that_takes_nothing_does_not_either(tmp_path: Path) -> None:
    """hypercorn shields its writes, so one that is stuck cannot be cancelled; the system cuts the connection."""
    with server([str(BIN / "python"), "-c", IMPATIENT], tmp_path) as running, connect(running.tcp_port()) as client:
        name = session_of(running)
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", running.http_port()))
            reader.sendall(f"GET /api/v1/sessions/{name}/tap HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            running.await_in_log('"tap"')
            # As much as the ring has room for, of bytes that JSON makes six times as long: the system buffers less.
            frame = b"SEND\ndestination:/topic/a\ncontent-length:4000\n\n" + bytes(4000) + b"\0"
            client.sendall(frame * 250 + b"SEND\ndestination:/topic/a\nreceipt:r\n\n\0")
            assert b"RECEIPT\n" in client.recv(4096)
            running.process.send_signal(signal.SIGTERM)
            assert running.wait() == 0
