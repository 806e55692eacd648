"""Limits of a frame, and the ERROR that names the exceeded limit and its setting (STOMP 1.2, Size Limits)."""

from dataclasses import dataclass

from .errors import LimitExceeded, MalformedFrame


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a frame."""

    headers: int = 1_000  # header lines
    header_line: int = 64 * 1024  # octets of one header line
    body: int = 16 * 1024 * 1024  # octets of the body
    origin: str = "max_"  # prefix of the settings of the first two, for the ERROR, like `max_`
    body_origin: str = "max_body"  # name of the setting of `body`

    @property
    def header_block(self) -> int:
        """Octets of all header lines together: four of the longest."""
        # An incomplete block is searched again with each chunk, so it must stay small.
        return 4 * self.header_line

    def check_count(self, block: bytes) -> None:
        """Refuse a header block with too many lines."""
        # The command has no LF before it, so each LF begins a header line.
        if block.count(b"\n") > self.headers:
            raise LimitExceeded(
                "too many headers", f"the frame has more than {self.headers} header lines ({self.origin}headers)"
            )

    def check_lines(self, block: bytes) -> None:
        """Refuse a header block with a line that is too long, or one that is too large as a whole."""
        if max(map(len, block.split(b"\n"))) > self.header_line:
            raise LimitExceeded(
                "header line too long", f"a header line exceeds {self.header_line} bytes ({self.origin}header_line)"
            )
        if len(block) > self.header_block:
            raise self.headers_too_large()

    def headers_too_large(self) -> LimitExceeded:
        """Error about a header block that is too large."""
        return LimitExceeded(
            "headers too large",
            f"the header lines exceed {self.header_block} bytes, four times {self.origin}header_line",
        )

    def check_body(self, size: int) -> None:
        """Refuse a body that has, or has so far, more octets than the limit."""
        # LIM-03: also before its end is known, so that an endless body stops at the limit.
        if size > self.body:
            raise LimitExceeded("body too large", f"the body exceeds {self.body} bytes ({self.body_origin})")

    def length_of(self, value: str) -> int:
        """The number of a `content-length`; an empty one is 0.

        Raises MalformedFrame: it is no number (BOD-10); LimitExceeded: it exceeds the limit, long before the body has
        come (LIM-03).
        """
        if not value:  # clients that always write all their headers, in frames without a body
            return 0
        # `isdigit` alone accepts digits of other scripts, and superscripts that int() refuses.
        if not (value.isascii() and value.isdigit()):
            raise MalformedFrame(
                "content-length is no number", f"{value[:40]!r} is not a number; write the bytes of the body"
            )
        # Cut first: int() of a megabyte of digits takes seconds, and sixteen digits exceed any limit.
        length = int(value if len(value) < 16 else value.lstrip("0")[:16] or "0")
        if length > self.body:
            raise LimitExceeded(
                "body too large", f"content-length exceeds the limit of {self.body} bytes ({self.body_origin})"
            )
        return length
