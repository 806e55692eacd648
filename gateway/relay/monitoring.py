"""Monitoring of a relay: its state, counted by its threads, and pages that another one serves.

Each number has one thread that writes it, so no lock is needed; numbers read together need not agree to the message.
A thread that waits for a server still turns, twice a second.  The longest call to a server takes some ten seconds, so a
thread that has not turned for `STILL` is stuck for good.

The pages are /healthz (its threads turn), /readyz (both servers are connected) and /metrics.  They have no login, and
show no secret.  They are off by default, and belong on an address that only the monitoring reaches.  A request has a
thread, and a few seconds in all, even if the client keeps sending.  Beyond a few requests at once, connections are
closed.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gateway.config.values import Address

from .link import ServerLink
from .settings import RelayPlan, address

log = structlog.get_logger("gateway.relay")

_MOST = 16
# Seconds for a request, from the accept to the last byte of its answer; and between two checks of that.
ANSWER_TIMEOUT = 5.0
_LOOK = 0.1

STILL = 60.0  # seconds without a turn after which a thread counts as stuck: a silent name server takes half of them


@dataclass
class Counts:
    """Numbers of messages, and the bytes of the relayed ones."""

    messages: int = 0
    nbytes: int = 0
    refused: int = 0
    loops: int = 0

    def __sub__(self, before: Counts) -> Counts:
        return Counts(*[each - other for each, other in zip(astuple(self), astuple(before), strict=True)])


class RelayStatus:
    """One direction.

    `held`: returns the number of messages in flight.  `routes`: source of a route -> its counts since the start.
    """

    def __init__(self, plan: RelayPlan, source: ServerLink, target: ServerLink, held: Callable[[], int]) -> None:
        self.plan = plan
        self.links = (source, target)  # to both servers, the source first
        self.routes = {route.source: Counts() for route in plan.routes}
        self._held = held
        self._told = Counts()
        self._last: float | None = None
        self._turned = time.monotonic()

    # In the relay's own thread.

    def turns(self) -> None:
        self._turned = time.monotonic()

    def passed(self, route: str, nbytes: int) -> None:
        """The target confirmed a message."""
        counts = self.routes[route]
        counts.messages += 1
        counts.nbytes += nbytes
        self._last = time.monotonic()

    def news(self) -> Counts:
        """Counts of all routes since the last call."""
        total = Counts(*[sum(column) for column in zip(*map(astuple, self.routes.values()), strict=True)])
        fresh, self._told = total - self._told, total
        return fresh

    # In any thread.

    @property
    def held(self) -> int:
        return self._held()

    @property
    def ends(self) -> dict[str, str]:
        return {"source": address(self.plan.source), "target": address(self.plan.target)}

    def idle(self) -> float | None:
        """Seconds since the last message was confirmed; None: there was none."""
        return None if self._last is None else time.monotonic() - self._last

    def stuck(self) -> float:
        """Seconds since the last turn if the thread is stuck; else 0."""
        still = time.monotonic() - self._turned
        return still if still > STILL else 0.0


def not_alive(every: Iterable[RelayStatus]) -> str:
    """The reason to restart the process; "": none."""
    stuck = [(" to ".join(each.ends.values()), each.stuck()) for each in every]
    return "; ".join(
        [f"the relay from {ends} has stood still for {seconds:.0f} s" for ends, seconds in stuck if seconds]
    )


def not_ready(every: Iterable[RelayStatus]) -> str:
    """The servers that are away, with reasons; "": all are connected."""
    away = {str(link): link.fault for each in every for link in each.links if link.client is None}
    return "; ".join([f"{name} is away: {fault}" for name, fault in away.items()])


class HttpError(OSError):
    """The address cannot be used; the text is a sentence."""


# Two tables may have the same servers, so the number of the table is a label, too.
_LABELS = ("table", "source", "target")
# Attribute of `Counts`, name, help.
_OF_ROUTES = (
    ("messages", "gateway_relay_messages", "Messages that the target has confirmed."),
    ("nbytes", "gateway_relay_bytes", "Bytes of those messages, with their headers."),
    ("refused", "gateway_relay_messages_refused", "Messages that the target refuses; they were given back."),
    ("loops", "gateway_relay_messages_looped", "Messages that went in a circle; they were given back."),
)


class RelayMetrics(Collector):
    """Metrics of all directions and of the process, read at each scrape."""

    def __init__(self, every: Sequence[RelayStatus]) -> None:
        self._every = [
            ([str(number), each.ends["source"], each.ends["target"]], each) for number, each in enumerate(every, 1)
        ]
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def render(self, accept: str) -> tuple[bytes, str]:
        """The exposition and its content type, in the format of an Accept header."""
        encode, media_type = choose_encoder(accept)
        return encode(self._registry), media_type

    def collect(self) -> Iterator[Metric]:
        for attribute, name, text in _OF_ROUTES:
            routes = CounterMetricFamily(name, text, labels=(*_LABELS, "route"))
            for labels, each in self._every:
                for route, counts in each.routes.items():
                    routes.add_metric([*labels, route], getattr(counts, attribute))
            yield routes
        yield from self._of_directions()
        yield from self._of_links()

    def _of_directions(self) -> Iterator[Metric]:
        held = GaugeMetricFamily(
            "gateway_relay_in_flight", "Messages that have come and are not confirmed.", labels=_LABELS
        )
        idle = GaugeMetricFamily(
            "gateway_relay_idle_seconds",
            "Seconds since a message was confirmed; without a first one, no series.",
            labels=_LABELS,
        )
        for labels, each in self._every:
            held.add_metric(labels, each.held)
            if (seconds := each.idle()) is not None:
                idle.add_metric(labels, seconds)
        yield held
        yield idle

    def _of_links(self) -> Iterator[Metric]:
        names = (*_LABELS, "end")
        there = GaugeMetricFamily("gateway_relay_connected", "1 while that server is connected; else 0.", labels=names)
        again = CounterMetricFamily("gateway_relay_reconnects", "Connections after the first one.", labels=names)
        for labels, each in self._every:
            for link in each.links:
                there.add_metric([*labels, link.role], float(link.client is not None))
                again.add_metric([*labels, link.role], max(0, link.opened - 1))
        yield there
        yield again


class _Pages(BaseHTTPRequestHandler):
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
        """Requests of the monitoring are not logged."""


def _json(said: dict[str, str]) -> bytes:
    return json.dumps(said).encode() + b"\n"


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True  # a request does not delay the end of the process

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
            log.exception("a page failed")


@contextmanager
def serving(address: Address | None, every: Sequence[RelayStatus]) -> Iterator[None]:
    """Serve for the time of the block; None: do not serve.  Raises HttpError: the address cannot be used."""
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
