"""A frame, in two halves.

`Head` is what stands before the body: equal header blocks of one connection share one `Head` (see the decoder's
cache), so whoever derives something costly from a head may keep it in `Head.encoded` and pay once per block instead
of once per frame.  Shared means read-only: nobody changes `headers`.

Header names are unique here: of repeated entries the first counts (HDR-01), the others are gone.
"""

from __future__ import annotations

from typing import Any

# What a header costs in memory beside its octets, measured: two strings and their place in the dictionary.
_HEADER_OVERHEAD = 100


class Head:
    """Command and headers of a frame.

    Attributes:
        command: as the peer wrote it; in upper case in 1.0.
        headers: name -> value, unescaped, first entry of each name.  Do not change.
        content_length: octets of the body, or -1 where the header is missing.
        size: octets of the block on the wire.
        cost: octets of memory, nearly; a head that frames share counts for each of them.
        encoded: by version index, what `encoder.message` keeps here.
        derived: what the layer above keeps here.
        stamped: likewise, the head that goes on in its place; None: nobody has looked.
    """

    __slots__ = ("command", "content_length", "cost", "derived", "encoded", "headers", "size", "stamped")

    def __init__(self, command: str, headers: dict[str, str], content_length: int = -1, size: int = 0) -> None:
        self.command = command
        self.headers = headers
        self.content_length = content_length
        self.size = size
        self.cost = size + _HEADER_OVERHEAD * len(headers)
        self.encoded: list[bytes | None] | None = None
        self.derived: Any = None
        self.stamped: Head | None = None

    @classmethod
    def of(cls, command: str, headers: dict[str, str]) -> Head:
        """A head that did not come from a client."""
        return cls(command, headers, size=sum([len(name) + len(value) + 2 for name, value in headers.items()]))


class Frame:
    """One frame of a client: its head and its body.

    Attributes:
        receipt: the receipt that it asks for, where its head does not say so: it may be the one header that differs
            from those of other frames.
    """

    __slots__ = ("body", "head", "receipt")

    def __init__(self, head: Head, body: bytes, receipt: str | None = None) -> None:
        self.head = head
        self.body = body
        self.receipt = receipt

    @property
    def command(self) -> str:
        """The command, like `SEND`."""
        return self.head.command

    @property
    def headers(self) -> dict[str, str]:
        """Name -> value.  Shared by equal frames: do not change."""
        headers = self.head.headers
        return headers if self.receipt is None else {**headers, "receipt": self.receipt}

    def __repr__(self) -> str:
        return f"<{self.command} {self.headers!r} {len(self.body)} octets>"
