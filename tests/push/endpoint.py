"""An endpoint: an HTTP server that notes what it gets, and answers as the test wants.

    python -m tests.push.endpoint PORT FILE SECRET      a process that may be killed: it notes, and then answers 204
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.gateway_process import HOST


@dataclass(frozen=True)
class Got:
    """A request; names of headers in lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


Answer = tuple[int, dict[str, str], bytes]
Answering = Callable[[Got], Answer | int]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: EndpointServer

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) < length:  # the client was killed
            self.close_connection = True
            return
        got = Got(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        self.server.requests.append(got)
        answer = self.server.answering(got)
        if answer == 0:  # no answer at all
            self.close_connection = True
            return
        status, headers, said = (answer, {}, b"") if isinstance(answer, int) else answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


class EndpointServer(ThreadingHTTPServer):
    """`answering` may be replaced at any time; it returns a status, or status, headers and body; 0: no answer."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int = 0, answering: Answering = lambda got: 204) -> None:
        self.requests: list[Got] = []
        self.answering = answering
        super().__init__((HOST, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone."""

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}/hook"

    @property
    def bodies(self) -> list[bytes]:
        return [got.body for got in self.requests]


@contextmanager
def running(
    answering: Answering = lambda got: 204, *, port: int = 0, context: ssl.SSLContext | None = None
) -> Iterator[EndpointServer]:
    """An endpoint for the block; with a context it speaks TLS."""
    server = EndpointServer(port, answering)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def is_signed(got: Got, secret: str) -> bool:
    """What a receiver does, by the words of the specification and without the gateway's code."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{got.id}.{got.headers['webhook-timestamp']}.".encode() + got.body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return f"v1,{expected}" in got.headers["webhook-signature"].split(" ")


def main(port: int, path: str, secret: str) -> None:
    notes = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(got: Got) -> int:
        line = {"id": got.id, "body": got.body.decode(), "signed": is_signed(got, secret)}
        os.write(notes, json.dumps(line).encode() + b"\n")  # one write, so that a kill leaves no half of a line
        time.sleep(0.02)  # a kill between note and answer makes a double
        return 204

    EndpointServer(port, note).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
