"""A collector of traces: an HTTP server in a thread of the test, which reads what OTLP says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class Collector:
    """What has come.

    Attributes:
        endpoint: its address.
        status: of its answers.
        resources: the attributes of each request's resource.
        kinds: content types.
    """

    endpoint: str = ""
    status: int = 200
    spans: list[Span] = field(default_factory=list)
    resources: list[dict[str, str]] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)

    def take(self, kind: str, content: bytes) -> None:
        self.kinds.add(kind)
        if self.status != 200:
            return
        request = ExportTraceServiceRequest()
        request.ParseFromString(content)
        for resource in request.resource_spans:
            self.resources.append({each.key: each.value.string_value for each in resource.resource.attributes})
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)


def facts(span: Span) -> dict[str, Any]:
    found = {}
    for each in span.attributes:
        kind = each.value.WhichOneof("value")
        found[each.key] = getattr(each.value, kind)
    return found


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free port of loopback."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.headers["content-type"], self.rfile.read(int(self.headers["content-length"])))
            self.send_response(collector.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    collector.endpoint = f"http://127.0.0.1:{server.server_address[1]}/v1/traces"
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
