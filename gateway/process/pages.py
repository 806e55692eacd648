"""Pages of a process that is no gateway, for its monitoring: /healthz, /readyz and /metrics, in threads of their own.

They have no login, and show no secret.  They are off by default, and belong on an address that only the monitoring
reaches.  A request has a thread, and a few seconds in all, even if the client keeps sending.  Beyond a few requests at
once, connections are closed.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

import structlog

log = structlog.get_logger("gateway.pages")

_MOST = 16
# Seconds for a request, from the accept to the last byte of its answer; and between two checks of that.
ANSWER_TIMEOUT = 5.0
_LOOK = 0.1


class HttpError(OSError):
    """The address cannot be used; the text is a sentence."""


@dataclass(frozen=True)
class ProcessPages:
    """What the pages say; the functions are called in threads.

    `not_alive`: the reason to restart the process, or "".  `not_ready`: the reason why it does not work, or "".
    `metrics`: an Accept header -> the exposition and its content type.
    """

    name: str  # of the process, in the header `Server` and in the log
    not_alive: Callable[[], str]
    not_ready: Callable[[], str]
    metrics: Callable[[str], tuple[bytes, str]]


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    sys_version = ""

    def version_string(self) -> str:
        return f"stomp-gateway-{self.server.pages.name}"

    def do_GET(self) -> None:
        path, pages = self.path.partition("?")[0], self.server.pages
        if path == "/metrics":
            self._answer(200, *pages.metrics(self.headers.get("Accept", "")))
        elif path == "/healthz":
            self._tell("alive", pages.not_alive())
        elif path == "/readyz":
            self._tell("ready", pages.not_ready())
        else:
            self._answer(404, _json({"error": "there are /healthz, /readyz and /metrics"}), "application/json")

    do_HEAD = do_GET

    def _tell(self, state: str, fault: str) -> None:
        said = {"status": f"not {state}", "error": fault} if fault else {"status": state}
        self._answer(503 if fault else 200, _json(said), "application/json")

    def _answer(self, status: int, body: bytes, media_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests of the monitoring are not logged."""


def _json(said: dict[str, str]) -> bytes:
    return json.dumps(said).encode() + b"\n"


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True  # a request does not delay the end of the process

    def __init__(self, host: str, port: int, pages: ProcessPages) -> None:
        self.pages = pages
        self._room = threading.BoundedSemaphore(_MOST)
        self._deadlines: dict[socket.socket, float] = {}
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            self._deadlines[request] = time.monotonic() + ANSWER_TIMEOUT
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            del self._deadlines[request]
            self._room.release()

    def service_actions(self) -> None:
        """Shut down connections that take too long; their threads end by that."""
        now = time.monotonic()
        for request, deadline in list(self._deadlines.items()):  # other threads change the table
            if deadline < now:
                with suppress(OSError):  # the connection has just ended
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is no failure."""
        if not isinstance(sys.exception(), OSError):
            log.exception("a page failed", process=self.pages.name)


@contextmanager
def serving_pages(address: tuple[str, int] | None, pages: ProcessPages) -> Iterator[None]:
    """Serve for the time of the block; None: do not serve.  Raises HttpError: the address cannot be used."""
    if address is None:
        yield
        return
    host, port = address
    try:
        server = _Server(host, port, pages)
    except OSError as error:
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        raise HttpError(f"cannot listen on {shown}: {(error.strerror or str(error)).lower()}; change http") from None
    thread = threading.Thread(target=server.serve_forever, args=(_LOOK,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
