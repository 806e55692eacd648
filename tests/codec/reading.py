"""Drives a `Decoder` the way a connection does, and writes down what came of it; one that goes in a loop fails."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.codec import V12, Decoder, Frame, Limits, ProtocolError, Version, negotiate

Plain = tuple[str, dict[str, str], bytes]


@dataclass
class Outcome:
    """All frames, and the error that ended the stream, if one did."""

    frames: list[Frame] = field(default_factory=list)
    error: ProtocolError | None = None

    @property
    def plain(self) -> list[Plain]:
        return [(frame.command, frame.headers, frame.body) for frame in self.frames]

    @property
    def kind(self) -> type[ProtocolError] | None:
        return None if self.error is None else type(self.error)


def decoder_for(version: Version | None, limits: Limits) -> Decoder:
    decoder = Decoder(limits)
    if version is not None:
        decoder.begin(version, limits)
    return decoder


def read_on(decoder: Decoder, chunks: Iterable[bytes], limits: Limits, *, opened: bool = True) -> Outcome:
    """Feed chunks; where the session is not open yet, the first frame opens it."""
    outcome = Outcome()
    fed = 0
    try:
        for chunk in chunks:
            fed += len(chunk)
            decoder.feed(chunk)
            while True:
                opening = False
                for frame in decoder.frames():
                    outcome.frames.append(frame)
                    assert len(outcome.frames) <= fed, "more frames than octets"
                    if not opened:
                        opened = opening = True
                        decoder.begin(negotiate(frame.headers.get("accept-version")) or V12, limits)
                        break  # as the handshake does; the rest of the chunk is asked for anew
                if not opening:
                    break
    except ProtocolError as error:
        outcome.error = error
    return outcome


def read(chunks: Iterable[bytes], version: Version | None, limits: Limits | None = None) -> Outcome:
    """What chunks mean: in a session of that version, or (None) from the first octet of a connection on."""
    limits = limits or Limits()
    return read_on(decoder_for(version, limits), chunks, limits, opened=version is not None)


def octet_by_octet(octets: bytes) -> list[bytes]:
    return [octets[place : place + 1] for place in range(len(octets))]


def cut(octets: bytes, places: Iterable[int]) -> list[bytes]:
    """Octets cut at places; a place named twice makes no empty chunk, for a socket yields none."""
    edges = [0, *sorted({place for place in places if 0 < place < len(octets)}), len(octets)]
    return [octets[start:stop] for start, stop in itertools.pairwise(edges) if stop > start]


def held(decoder: Decoder) -> int:
    """Octets that a decoder keeps of its stream."""
    return len(decoder._buffer) + decoder._later_size
