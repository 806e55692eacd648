"""What the rules say to all whom they cannot tell apart, of one destination or of a pattern; and what is remembered.

Rules are many and destinations more, so nothing here goes through all of them for a message.  The patterns of all rules
stand in one tree, which finds those that match a name; there `{user}` is a wildcard, and whose word it is, is looked at
in what was found.

What a subscription with wildcards may see is compared with the rules pattern by pattern: a rule may take all of it, and
then nothing behind that rule counts; or a part, of which nobody knows how large it is.  So `Coverage.SOME` may stand
where a cleverer comparison would find that it is everything: each message is looked at then, and nothing is let
through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, TypeVar

from gateway.broker.core.ports import ANONYMOUS
from gateway.broker.model.access import Action, Coverage
from gateway.broker.model.destinations import word_of
from gateway.broker.model.patterns import ONE, Pattern, has_wildcard
from gateway.broker.model.trie import PatternTrie
from gateway.config.rules import OWN, Table

from .rules_addresses import Networks
from .rules_patterns import covers, heads_differ, overlap

# Rules that are named where more of them decide on a pattern.
_MOST_NAMED = 5
# Names whose answers are remembered for each: some 200 KiB when there are so many.  And the length of such a name.
_MOST_NAMES = 4_000
_LONGEST_NAME = 200

T = TypeVar("T")


class Entry(NamedTuple):
    """A pattern of a rule; `number` is the rule's, from 1, in the order of the file."""

    number: int
    table: Table
    pattern: str


_number = attrgetter("number")


class Index:
    """The patterns of all rules.

    Attributes:
        entries: in the order of the file.
        groups: that some rule speaks of.
        by_transport: some rule asks how a client came.
        addresses: the networks that rules name.
        networks: that sort a client's address into these.
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        self.groups = frozenset[str]().union(*[table.groups for table in tables])
        self.by_transport = any(table.transports for table in tables)
        self.addresses = frozenset[str]().union(*[table.addresses for table in tables])
        self.networks = Networks(self.addresses)
        self.entries = [Entry(number, table, text) for number, table in enumerate(tables, 1) for text in table.patterns]
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            found.setdefault(entry.pattern.replace(OWN, ONE), []).append(entry)
        self._tree: PatternTrie[list[Entry]] = PatternTrie()
        for text, entries in found.items():
            self._tree.add(text, entries)

    def matching(self, name: str) -> list[Entry]:
        """What may match a name, in the order of the file; where a word stands for the user, any word is taken."""
        return sorted(chain.from_iterable(self._tree.match(name)), key=_number)


class Standing:
    """What all may do whom the rules cannot tell apart.

    Attributes:
        sendable: see `Access`; so answerable.
        send: destination -> whether that is allowed there, as far as somebody has asked; so subscribe and admin.
        is_stale: rules with other networks are in force, by which these may differ: nobody asks it any more.
    """

    __slots__ = (
        "__weakref__",
        "_groups",
        "_index",
        "_networks",
        "_reach",
        "_reasons",
        "_transport",
        "_user",
        "admin",
        "answerable",
        "is_stale",
        "send",
        "sendable",
        "subscribe",
    )

    def __init__(
        self, index: Index, user: str, groups: frozenset[str], transport: str, networks: frozenset[str]
    ) -> None:
        self.sendable: set[str] = set()
        self.answerable: set[str] = set()
        self.send: dict[str, bool] = {}
        self.subscribe: dict[str, bool] = {}
        self.admin: dict[str, bool] = {}
        self.is_stale = False
        self._index = index
        self._user = user
        self._groups = groups
        self._transport = transport
        self._networks = networks
        self._reach: dict[str, Coverage] = {}
        self._reasons: dict[str, str] = {}

    def find(self, action: Action, name: str) -> bool:
        """Whether that is allowed at the destination of that canonical name; from now on it is known."""
        entry = self.deciding(action, name)
        found = entry is not None and entry.table.allows
        known = {Action.SUBSCRIBE: self.subscribe, Action.SEND: self.send, Action.ADMIN: self.admin}
        _remember(known[action], name, found)
        return found

    def reach(self, pattern: str) -> Coverage:
        """See `Access`."""
        found = self._reach.get(pattern)
        if found is None:
            found = reach_by(self.deciding_some(pattern))
            _remember(self._reach, pattern, found)
        return found

    def reason(self, action: Action, name: str) -> str:
        """See `Access`."""
        # When rules change, all sessions of a user may ask the same.
        key = f"{action.value} {name}"
        found = self._reasons.get(key)
        if found is None:
            reasons = [reason_of(each) for each in self.all_deciding(action, name)]
            more = len(reasons) - _MOST_NAMED
            found = ", ".join(reasons[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
            _remember(self._reasons, key, found)
        return found

    def all_deciding(self, action: Action, name: str) -> list[Entry | None]:
        """What decides on a canonical name, or, to subscribe, on the parts of what a pattern matches."""
        return list(self.deciding_some(name)) if has_wildcard(name) else [self.deciding(action, name)]

    def deciding(self, action: Action, name: str) -> Entry | None:
        """The first rule that is for that; None: there is none."""
        for entry in self._index.matching(name):
            is_his = OWN not in entry.pattern or Pattern(self._own(entry.pattern)).matches(name)
            if is_his and self._concerns(entry.table, action):
                return entry
        return None

    def deciding_some(self, pattern: str) -> Iterator[Entry | None]:
        """Each rule that may be the first one for a part of what a pattern matches; None: for a part there is none."""
        for entry in self._index.entries:
            if self._concerns(entry.table, Action.SUBSCRIBE):
                text = self._own(entry.pattern)
                if not heads_differ(text, pattern) and overlap(text, pattern):
                    yield entry
                    if covers(text, pattern):
                        return
        yield None

    def forget(self, index: Index) -> None:
        """Other rules are in force."""
        self._index = index
        answers = (self.send, self.subscribe, self.admin, self._reach, self._reasons)
        for known in (*answers, self.sendable, self.answerable):
            known.clear()

    def _concerns(self, table: Table, action: Action) -> bool:
        """Whether a rule is for that user and action, wherever."""
        if action not in table.actions or (table.transports and self._transport not in table.transports):
            return False
        if table.addresses and table.addresses.isdisjoint(self._networks):
            return False
        users, groups = table.users, table.groups
        if not users and not groups:
            return True
        has_name = "*" in users and self._user != ANONYMOUS
        return has_name or self._user in users or not groups.isdisjoint(self._groups)

    def _own(self, pattern: str) -> str:
        # Escaped as it is, the name cannot be more than one word, nor a wildcard.
        return pattern.replace(OWN, word_of(self._user))


def reach_by(deciding: Iterable[Entry | None]) -> Coverage:
    """How much is allowed by rules of which each may be the first one for a part; None: for a part there is none."""
    answers = {entry is not None and entry.table.allows for entry in deciding}
    if len(answers) > 1:
        return Coverage.SOME
    return Coverage.ALL if True in answers else Coverage.NONE


def _remember(known: dict[str, T], name: str, answer: T) -> None:
    if len(name) <= _LONGEST_NAME:
        if len(known) >= _MOST_NAMES:
            known.clear()
        known[name] = answer


def reason_of(entry: Entry | None) -> str:
    """What a rule decides, in words; None: there is none."""
    if entry is None:
        return "what no rule allows is refused"
    line = f" (line {entry.table.line})" if entry.table.line else ""
    return f"rule {entry.number}{line} {'allows' if entry.table.allows else 'denies'} it"
