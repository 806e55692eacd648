"""What the subscriptions of one session may cost others: browsers and selectors.

A browser is a list of all that waits in a queue; a selector is asked about each message that somebody else sends.
"""

from __future__ import annotations

from .errors import NotAllowed
from .options import Options

MOST_BROWSERS = 16
MOST_SELECTORS = 64 * 1024
"""Characters of all selectors."""


class Allowance:
    """What one session has of both."""

    __slots__ = ("_browsers", "_characters")

    def __init__(self) -> None:
        self._browsers = 0
        self._characters = 0

    def check(self, options: Options) -> None:
        """Refuse a subscription that would be too much.

        Raises:
            NotAllowed: a limit would be exceeded.
        """
        if options.browser and self._browsers >= MOST_BROWSERS:
            raise NotAllowed("too many browsers", f"a session may have {MOST_BROWSERS} at the same time")
        if options.selector_text and self._characters + len(options.selector_text) > MOST_SELECTORS:
            raise NotAllowed(
                "too many selectors", f"the selectors of a session may have {MOST_SELECTORS} characters together"
            )

    def use(self, options: Options) -> None:
        """A subscription begins."""
        self._browsers += options.browser
        self._characters += len(options.selector_text)

    def give_back(self, options: Options) -> None:
        """A subscription has ended."""
        self._browsers -= options.browser
        self._characters -= len(options.selector_text)
