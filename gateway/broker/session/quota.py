"""Quota of a session: the browsers, selectors and names that it may have, for others pay for them.

A browser is a list of all that waits in a queue; a selector is asked about each message that others send; ids
and destinations of subscriptions are kept, in no account of memory.
"""

from __future__ import annotations

from ..errors import NotAllowed
from ..model.options import SubscribeOptions

MOST_BROWSERS = 16
MOST_SELECTORS = 64 * 1024
"""Characters of all selectors."""
MOST_NAMES = 4 * 1024 * 1024
"""Characters of the ids and destinations of all subscriptions."""


class SessionQuota:
    """The browsers, selectors and names of one session."""

    __slots__ = ("_browsers", "_characters", "_names")

    def __init__(self) -> None:
        self._browsers = 0
        self._characters = 0
        self._names = 0

    def check(self, options: SubscribeOptions, names: int) -> None:
        """Refuse a subscription that would be too much.

        Args:
            names: characters of its id and its destination.

        Raises:
            NotAllowed: a limit would be exceeded.
        """
        if options.browser and self._browsers >= MOST_BROWSERS:
            raise NotAllowed("too many browsers", f"a session may have {MOST_BROWSERS} at the same time")
        if options.selector_text and self._characters + len(options.selector_text) > MOST_SELECTORS:
            raise NotAllowed(
                "too many selectors", f"the selectors of a session may have {MOST_SELECTORS} characters together"
            )

        if self._names + names > MOST_NAMES:
            raise NotAllowed(
                "too long names of subscriptions",
                f"the ids and destinations of a session's subscriptions may have {MOST_NAMES} characters together",
            )

    def use(self, options: SubscribeOptions, names: int) -> None:
        """A subscription begins."""
        self._names += names
        self._browsers += options.browser
        self._characters += len(options.selector_text)

    def give_back(self, options: SubscribeOptions, names: int) -> None:
        """A subscription has ended."""
        self._names -= names
        self._browsers -= options.browser
        self._characters -= len(options.selector_text)
