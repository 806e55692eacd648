"""Metadata of a message in the store, beside headers and body: a JSON object of all that differs from a plain, new one.

attempts   deliveries that were begun
failures, first_at, reason     of `History`
expires    milliseconds since the epoch
place      where it stands in for a message that it replaced
group, closes, key             of `SendOptions`
dead       it is a dead letter
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from gateway.codec import Head

from ..model.changes import Stored
from ..model.message import DEAD_LETTER, LOWEST_PRIORITY, History, Message
from ..model.options import PLAIN, SendOptions


class Metadata:
    """Messages to text and back.  `clock`: the broker's.  `epoch`: seconds since the epoch."""

    def __init__(self, clock: Callable[[], float], epoch: Callable[[], float]) -> None:
        self._clock = clock
        self._epoch = epoch

    def of(self, message: Message, row: int, extra: Mapping[str, object] | None = None) -> str | None:
        """The facts of a message as text; None: there are none.  `extra`: further facts to keep."""
        # The usual case: a message that is new and plain costs no JSON, neither here nor in the store.
        plain = not (message.attempts or message.expires) and message.history is None and message.place == row
        is_dead = message.head.derived is DEAD_LETTER
        if plain and not is_dead and not extra and message.options.is_plain:
            return None
        facts: dict[str, Any] = {"extra": extra} if extra else {}
        if message.attempts:
            facts["attempts"] = message.attempts
        # The broker's clock starts anew with each process.
        if message.expires:
            facts["expires"] = round((message.expires - self._clock() + self._epoch()) * 1000)
        if message.place != row:
            facts["place"] = message.place
        # The headers do not tell: a sender may write the same ones.
        if is_dead:
            facts["dead"] = True
        if message.history is not None:
            facts |= {
                "failures": message.history.failures,
                "first_at": message.history.first_at,
                "reason": message.history.reason,
            }
        # The headers do not tell all of it, for some are cut.
        options = message.options
        if options.group is not None:
            facts["group"] = options.group
            if options.closes_group:
                facts["closes"] = True
        if options.conflation_key is not None:
            facts["key"] = options.conflation_key
        # As few bytes as JSON needs: they are written with each such message.
        return json.dumps(facts, ensure_ascii=False, separators=(",", ":")) if facts else None

    def expires(self, text: str) -> float:
        """When a message with these facts expires, on the broker's clock."""
        # Never 0, which would be a message without an end.
        moment: float = json.loads(text)["expires"] / 1000
        return max(moment - self._epoch() + self._clock(), 1e-9)

    def message(self, stored: Stored) -> Message:
        """The message that a row is."""
        return self.read(stored)[0]

    def read(self, stored: Stored) -> tuple[Message, dict[str, Any]]:
        """The message that a row is, and what else was kept."""
        row, content = stored
        facts: dict[str, Any] = json.loads(row.facts) if row.facts else {}
        options = _properties(row.rank, facts)
        # The number is the content's: it makes the message-id, which copies in several queues share.
        message = Message(row.content, Head.of("SEND", content.headers), content.body, options)
        if "dead" in facts:
            message.head.derived = DEAD_LETTER
        message.row = -row.row if row.transient else row.row
        message.place = facts.get("place", row.row)
        message.attempts = facts.get("attempts", 0)
        if "expires" in facts:
            message.expires = max(facts["expires"] / 1000 - self._epoch() + self._clock(), 1e-9)
        if "failures" in facts:
            message.history = History(facts["first_at"])
            message.history.failures = facts["failures"]
            message.history.reason = facts["reason"]
        return message, facts.get("extra", {})


def _properties(rank: int, facts: dict[str, Any]) -> SendOptions:
    priority = LOWEST_PRIORITY - rank
    if priority == PLAIN.priority and not facts.keys() & {"group", "key"}:
        return PLAIN  # itself, by which others know a plain message
    return SendOptions(
        priority=priority,
        group=facts.get("group"),
        closes_group=facts.get("closes", False),
        conflation_key=facts.get("key"),
    )
