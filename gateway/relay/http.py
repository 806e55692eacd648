"""What a relay says of itself over HTTP: three pages, for who watches it.

    /healthz    200: its threads turn; 503: one of them stands still, and the process should be started again
    /readyz     200: both servers of each relay are there; 503, and which is away, and why
    /metrics    for Prometheus

It has no login, and says nothing that is secret: addresses, names of destinations, numbers.  It is off until an address
is named, and belongs on an address that only who watches can reach.

A request has a thread, and some seconds in all, however busy it looks.  There are few at once: whoever comes then is
hung up on.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

import structlog

from gateway.config.address import Address

from .metrics import RelayMetrics
from .status import RelayStatus, not_alive, not_ready

log = structlog.get_logger("gateway.relay")

_MOST = 16
# Seconds for a request, from the accept to the last octet of its answer; and between two looks at who takes longer.
_PATIENCE = 5.0
_LOOK = 0.1


class HttpError(OSError):
    """The address cannot be listened on; the text is a sentence."""


class _Pages(BaseHTTPRequestHandler):
    """One connection, one request."""

    server: _Server
    server_version = "stomp-gateway-relay"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(200, *self.server.metrics.render(self.headers.get("Accept", "")))
        elif path == "/healthz":
            self._tell("alive", not_alive(self.server.every))
        elif path == "/readyz":
            self._tell("ready", not_ready(self.server.every))
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
        """Who watches asks all day."""


def _json(said: dict[str, str]) -> bytes:
    return json.dumps(said).encode() + b"\n"


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True  # whoever is asked at the end is not waited for

    def __init__(self, address: Address, every: Sequence[RelayStatus]) -> None:
        self.every = every
        self.metrics = RelayMetrics(every)
        self._room = threading.BoundedSemaphore(_MOST)
        self._deadlines: dict[socket.socket, float] = {}
        if ":" in address.host:
            self.address_family = socket.AF_INET6
        super().__init__((address.host, address.port), _Pages)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            self._deadlines[request] = time.monotonic() + _PATIENCE
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
        """Hang up on whoever takes too long; its thread finds that out by itself."""
        now = time.monotonic()
        for request, deadline in list(self._deadlines.items()):  # other threads change it
            if deadline < now:
                with suppress(OSError):  # it has just ended
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asks and goes is no event."""
        if not isinstance(sys.exception(), OSError):
            log.exception("a page failed")


@contextmanager
def serving(address: Address | None, every: Sequence[RelayStatus]) -> Iterator[None]:
    """Answer for the time of the block; None: nobody asks.

    Raises:
        HttpError: the address cannot be listened on.
    """
    if address is None:
        yield
        return
    try:
        server = _Server(address, every)
    except OSError as error:
        raise HttpError(f"cannot listen on {address}: {(error.strerror or str(error)).lower()}; change http") from None
    thread = threading.Thread(target=server.serve_forever, args=(_LOOK,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
