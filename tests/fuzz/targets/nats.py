"""The protocol of NATS: however a stream is cut, the same events come of it, or the same refusal."""

from __future__ import annotations

from gateway.cluster.nats.protocol import Event, NatsProtocolError, Parser
from tests.codec.reading import cut
from tests.fuzz.targets import check_refusal


def run(data: bytes) -> None:
    """The first byte says where the stream is cut."""
    if not data:
        return
    step, stream = data[0] % 32 + 1, data[1:]
    whole, refused = _parsed([stream])
    pieces, also = _parsed(cut(stream, range(step, len(stream), step)))
    assert also == refused
    if not refused:
        assert pieces == whole
        assert len(whole) <= len(stream)


def _parsed(chunks: list[bytes]) -> tuple[list[Event], str]:
    parser = Parser()
    try:
        return [event for chunk in chunks for event in parser.feed(chunk)], ""
    except NatsProtocolError as refusal:
        check_refusal(refusal)
        return [], str(refusal)
