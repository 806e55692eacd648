"""Frames: a `Head` of command and headers, and a body.

Equal header blocks of one connection share one `Head` (see the cache of the decoder), so it is read-only.  Results that
are costly to derive from a head are kept in it, and so paid once per block and not once per frame.
"""

from __future__ import annotations

from typing import Any

# Memory of a header beside its octets, measured: two string objects and their entry in the dictionary.
_HEADER_OVERHEAD = 100


class Head:
    """Command and headers of a frame; of repeated headers the first (HDR-01)."""

    __slots__ = ("command", "content_length", "cost", "derived", "encoded", "headers", "size", "stamped")

    def __init__(self, command: str, headers: dict[str, str], content_length: int = -1, size: int = 0) -> None:
        self.command = command  # as the peer wrote it; in 1.0 in upper case
        self.headers = headers  # name -> value, unescaped.  Read-only.
        # -1 and not None, so that the decoder compares numbers only.
        self.content_length = content_length  # octets of the body; -1: the header is missing
        self.size = size  # octets of the block on the wire
        # Once per block: queues add it up for each message.
        # bytes of memory, nearly; a shared head counts for each of its frames
        self.cost = size + _HEADER_OVERHEAD * len(headers)
        # by index of the version, header lines that `encoder.message` keeps
        self.encoded: list[bytes | None] | None = None
        self.derived: Any = None  # a value that the layer above keeps; None: none yet
        # the head, kept by the layer above, that replaces this one in messages; None: none yet
        self.stamped: Head | None = None

    @classmethod
    def of(cls, command: str, headers: dict[str, str]) -> Head:
        """A head that no client sent."""
        # Two for the colon and the LF of each line, as if it had been on the wire.
        return cls(command, headers, size=sum([len(name) + len(value) + 2 for name, value in headers.items()]))


class Frame:
    """One frame of a client: its head and its body."""

    __slots__ = ("body", "head", "receipt")

    def __init__(self, head: Head, body: bytes, receipt: str | None = None) -> None:
        self.head = head
        self.body = body
        # the `receipt` header, if `head` lacks it; then the frame shares its head with frames of other receipts
        self.receipt = receipt

    @property
    def command(self) -> str:
        """The command, like `SEND`."""
        return self.head.command

    @property
    def headers(self) -> dict[str, str]:
        """Name -> value.  Shared by equal frames: read-only."""
        headers = self.head.headers
        # A copy only for the few frames whose receipt the decoder took out of the block.
        return headers if self.receipt is None else {**headers, "receipt": self.receipt}

    def __repr__(self) -> str:
        return f"<{self.command} {self.headers!r} {len(self.body)} bytes>"  # bodies are the users' data
