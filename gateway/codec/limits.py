"""What a frame may measure, and the ERROR that says which limit it exceeds and how that is called in the settings."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import LimitExceeded, MalformedFrame


@dataclass(frozen=True, slots=True)
class Limits:
    """What a frame may measure.

    Attributes:
        headers: header lines.
        header_line: octets of one header line.
        body: octets of the body.
        origin: how the limits are called in the settings, for the ERROR: a prefix like `max_`.
        body_origin: the same for `body`, as a whole.
    """

    headers: int = 1_000
    header_line: int = 64 * 1024
    body: int = 16 * 1024 * 1024
    origin: str = "max_"
    body_origin: str = "max_body"

    @property
    def header_block(self) -> int:
        """Octets of all header lines together: four of the longest."""
        return 4 * self.header_line

    def check_count(self, block: bytes) -> None:
        """Refuse a header block with too many lines."""
        if block.count(b"\n") > self.headers:
            raise LimitExceeded(
                "too many headers", f"the frame has more than {self.headers} header lines ({self.origin}headers)"
            )

    def check_lines(self, block: bytes) -> None:
        """Refuse a header block that is too large, or has a line that is."""
        if max(map(len, block.split(b"\n"))) > self.header_line:
            raise LimitExceeded(
                "header line too long",
                f"a header line exceeds {self.header_line} octets ({self.origin}header_line)",
            )
        if len(block) > self.header_block:
            raise self.headers_too_large()

    def headers_too_large(self) -> LimitExceeded:
        """What is said of a header block that is too large."""
        return LimitExceeded(
            "headers too large",
            f"the header lines exceed {self.header_block} octets, four times {self.origin}header_line",
        )

    def check_body(self, size: int) -> None:
        """Refuse a body of so many octets, or one that has so many already."""
        if size > self.body:
            raise LimitExceeded("body too large", f"the body exceeds {self.body} octets ({self.body_origin})")

    def length_of(self, value: str) -> int:
        """The `content-length` as a number, unless it is none or too large; an empty one is 0."""
        if not value:  # of frames without a body, by clients that write all their headers always
            return 0
        # `isdigit` alone would let through digits that int() reads but nobody means.
        if not (value.isascii() and value.isdigit()):
            raise MalformedFrame("content-length is no number", f"{value[:40]!r} is not a number of octets")
        # Cut first: int() of a megabyte of digits takes seconds, and sixteen digits are over any limit.
        length = int(value if len(value) < 16 else value.lstrip("0")[:16] or "0")
        if length > self.body:
            raise LimitExceeded(
                "body too large", f"content-length exceeds the limit of {self.body} octets ({self.body_origin})"
            )
        return length
