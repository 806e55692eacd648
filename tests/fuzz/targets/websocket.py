"""The deframer: however a stream is cut, the same payload comes of it; a Close is answered by a whole frame."""

from __future__ import annotations

from gateway.transports.wire.websocket_framing import Deframer, WebSocketError
from tests.codec.reading import cut


def run(octets: bytes) -> None:
    """The first octet says where the stream is cut."""
    if not octets:
        return
    step, stream = octets[0] % 32 + 1, octets[1:]
    whole = deframed([stream])
    # Of a broken stream the payload before the fault may be told or not, as the chunks have it.
    pieces = deframed(cut(stream, range(step, len(stream), step)))
    assert pieces[1:] == whole[1:]
    if whole[1] is None:
        assert pieces[0] == whole[0]
        assert len(whole[0]) <= len(stream)


def deframed(chunks: list[bytes]) -> tuple[bytes, int | None, bytes, bool]:
    """Payload, the code of the fault, the last pong, and whether a Close came."""
    deframer, payload = Deframer(), b""
    try:
        for chunk in chunks:
            payload += deframer.feed(chunk)
    except WebSocketError as error:
        return b"", int(error.code), b"", False
    assert deframer.closed == bool(deframer.close_reply)
    assert len(deframer.pong) <= 127
    return payload, None, deframer.pong, deframer.closed
