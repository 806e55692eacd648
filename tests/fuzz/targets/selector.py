"""Selectors: what parses evaluates to a truth value, of any headers; what does not is refused in words."""

from __future__ import annotations

from gateway.broker import selectors
from gateway.broker.errors import NotAllowed
from tests.fuzz.targets import check_refusal


def run(octets: bytes) -> None:
    """The selector, and behind the first NUL the headers: name and value in turn."""
    text, _, rest = octets.decode(errors="replace").partition("\0")
    words = rest.split("\0")
    headers = dict(zip(words[::2], words[1::2], strict=False))
    try:
        selector = selectors.parse(text)
    except NotAllowed as refusal:
        check_refusal(refusal)
        return
    assert selector(headers) in (True, False, None)
    assert selector({}) in (True, False, None)
