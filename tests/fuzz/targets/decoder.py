"""The STOMP decoder: however a stream is cut, the same frames come of it, or the same error; little is held."""

from __future__ import annotations

from gateway.codec import VERSIONS, Limits
from tests.codec.reading import cut, decoder_for, held, read, read_on

# So small that they are often met.
LIMITS = Limits(headers=8, header_line=64, body=256)


def run(octets: bytes) -> None:
    """The first octet says which version, the second where the stream is cut."""
    if len(octets) < 2:
        return
    version = (None, *VERSIONS)[octets[0] % 4]
    step, stream = octets[1] % 64 + 1, octets[2:]
    whole = read([stream] if stream else [], version, LIMITS)
    pieces = read(cut(stream, range(step, len(stream), step)), version, LIMITS)
    assert pieces.plain == whole.plain
    # A frame that is wrong in two ways is called by the one that is seen first.
    assert (pieces.error is None) == (whole.error is None)
    if whole.error is None:
        decoder = decoder_for(version, LIMITS)
        read_on(decoder, cut(stream, range(step, len(stream), step)), LIMITS, opened=version is not None)
        assert held(decoder) <= LIMITS.header_block + LIMITS.body + len(stream[-step:]) + 64
