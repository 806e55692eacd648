"""A gateway that traces: what its clients get, what a collector gets, and what happens without one."""

from __future__ import annotations

import builtins
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog.testing
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from gateway.journal import found
from gateway.journal.schema import COLUMNS
from gateway.runtime.gateway import Gateway, StartError
from tests.journal.reading import Segment

from ..observe.collector import Collector, collecting, facts
from ..transports.peers import until
from .test_gateway import connected, running

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"


@pytest.fixture(autouse=True)
def _a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


@asynccontextmanager
async def tracing(endpoint: str, **values: object) -> AsyncIterator[Gateway]:
    async with running(trace_endpoint=endpoint, **values) as gateway:
        yield gateway
        await until(lambda: not gateway.broker.sessions)


async def carried(gateway: Gateway, **headers: str) -> dict[str, str]:
    """The headers of the MESSAGE that a SEND with those becomes; it is acknowledged."""
    peer = await connected(gateway, "tcp")
    await peer.subscribe("/queue/a", ack="client-individual")
    await peer.publish("/queue/a", b"hello", **headers)
    message = await peer.frame("MESSAGE")
    await peer.send_frame("ACK", id=message["ack"])
    await peer.settled()
    await peer.aclose()
    return message.headers


def spans_of(collector: Collector) -> list[Span]:
    """Those of the messages that `carried` sends."""
    return [span for span in collector.spans if span.name.endswith("/queue/a")]


class TestWithACollector:
    @pytest.mark.parametrize("journal", [None, "journal"])
    async def test_a_message_is_one_trace_with_its_sender_and_its_consumer(self, journal: str | None) -> None:
        with collecting() as collector:
            async with tracing(collector.endpoint, journal=journal, trace_ratio=0.0, server_name="gw") as gateway:
                headers = await carried(gateway, traceparent=SAMPLED, tracestate="vendor=1")
        spans = spans_of(collector)
        send, deliver, ack = spans
        assert headers["traceparent"] == f"00-{TRACE}-{send.span_id.hex()}-01"
        assert headers["tracestate"] == "vendor=1"
        assert [span.name for span in spans] == ["send /queue/a", "deliver /queue/a", "ack /queue/a"]
        assert {span.trace_id.hex() for span in spans} == {TRACE}
        assert [span.parent_span_id for span in spans] == [bytes.fromhex(PARENT), send.span_id, send.span_id]
        assert len({span.span_id for span in spans}) == 3
        assert [span.kind for span in spans] == [4, 1, 1]  # producer, internal
        assert send.trace_state == "vendor=1"
        assert send.start_time_unix_nano <= deliver.start_time_unix_nano <= deliver.end_time_unix_nano
        assert deliver.end_time_unix_nano <= ack.end_time_unix_nano
        assert facts(send) | {"messaging.client.id": "?"} == {
            "messaging.system": "stomp",
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": "/queue/a",
            "messaging.message.id": headers["message-id"],
            "messaging.message.body.size": 5,
            "messaging.client.id": "?",
        }
        assert facts(deliver)["gateway.attempt"] == 1
        assert facts(ack)["messaging.operation.type"] == "settle"
        assert collector.resources[0]["service.name"] == "gw"
        assert collector.kinds == {"application/x-protobuf"}

    async def test_the_journal_learns_what_the_sender_wrote(self) -> None:
        with collecting() as collector:
            async with tracing(collector.endpoint, journal="journal") as gateway:
                await carried(gateway, traceparent=SAMPLED)
        names = [column.name for column in COLUMNS]
        rows = [dict(zip(names, row, strict=True)) for path in found(Path("journal/gateway")) for row in Segment(path)]
        accepted: dict[str, Any] = next(row for row in rows if row["event"] == "accepted")
        assert accepted["headers"]["traceparent"] == SAMPLED
        assert [row["event"] for row in rows][2:5] == ["accepted", "delivered", "acked"]

    async def test_a_message_keeps_its_trace_in_the_store(self) -> None:
        with collecting() as collector:
            async with tracing(collector.endpoint, store="sqlite:store.db", trace_ratio=0.0) as gateway:
                peer = await connected(gateway, "tcp")
                await peer.publish("/queue/a", b"hello", traceparent=SAMPLED, persistent="true", receipt="1")
                await peer.frame("RECEIPT")
                await peer.aclose()
            (send,) = collector.spans
            async with tracing(collector.endpoint, store="sqlite:store.db", trace_ratio=0.0) as gateway:
                peer = await connected(gateway, "tcp")
                await peer.subscribe("/queue/a")
                message = await peer.frame("MESSAGE")
                await peer.aclose()
        assert message["traceparent"] == f"00-{TRACE}-{send.span_id.hex()}-01"
        deliver = collector.spans[1]
        assert (deliver.name, deliver.parent_span_id) == ("deliver /queue/a", send.span_id)
        assert deliver.start_time_unix_nano == deliver.end_time_unix_nano, "nobody knows when it came"


class TestWithout:
    async def test_nothing_is_traced_unless_it_is_asked_for(self) -> None:
        async with running() as gateway:
            assert gateway.tracing is None
            assert not gateway.broker.records.is_on
            headers = await carried(gateway, traceparent=SAMPLED, tracestate="vendor=1")
        assert (headers["traceparent"], headers["tracestate"]) == (SAMPLED, "vendor=1")

    async def test_a_collector_that_is_not_there(self) -> None:
        with collecting() as collector:
            gone = collector.endpoint
        with structlog.testing.capture_logs() as lines:
            async with tracing(gone, trace_ratio=0.0) as gateway:
                headers = await carried(gateway, traceparent=SAMPLED)
                assert gateway.tracing is not None
        assert headers["traceparent"] != SAMPLED
        assert [line["event"] for line in lines if "span" in line["event"]] == ["spans cannot be sent for now"]
        assert gateway.tracing.dropped == 3

    async def test_without_its_packages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = builtins.__import__

        def missing(name: str, *args: Any, **values: Any) -> Any:
            if name == "gateway.observe.spans":
                raise ModuleNotFoundError(name="opentelemetry")
            return real(name, *args, **values)

        monkeypatch.setattr(builtins, "__import__", missing)
        with pytest.raises(StartError) as caught:
            async with tracing("http://127.0.0.1:4318/v1/traces"):
                pass
        assert str(caught.value) == (
            "trace_endpoint (GATEWAY_TRACE_ENDPOINT) cannot be used: opentelemetry is not installed; "
            "pip install 'stomp-gateway[otel]' brings it"
        )
