"""Who may do what, by the `[[rule]]` tables of the settings file.

The first rule decides that is for the user, the transport, the destination and the action; what no rule is for is
refused.  Without any rule, everybody may do everything.

Rules are many and destinations more, so nothing here goes through all of them for a message.  The patterns of all rules
stand in one tree, which finds those that match a name; there `{user}` is a wildcard, and whose word it is, is looked at
in what was found.  What was found out is remembered for each user, group and transport, as long as somebody of them is
there, or was not long ago.

What a subscription with wildcards may see is compared with the rules pattern by pattern: a rule may take all of it, and
then nothing behind that rule counts; or a part, of which nobody knows how large it is.  So `Reach.SOME` may stand where
a cleverer comparison would find that it is everything: each message is looked at then, and nothing is let through.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, TypeVar
from weakref import WeakValueDictionary

from gateway import settings
from gateway.broker.access import Action, Reach
from gateway.broker.destinations import word_of
from gateway.broker.identity import Identity
from gateway.broker.ports import ANONYMOUS
from gateway.broker.trie import PatternTrie
from gateway.broker.words import ONE, Pattern, has_wildcard
from gateway.rules import OWN, TRANSPORTS, Table

from .rules_patterns import covers, heads_differ, overlap

# Users whose answers are remembered though none of their sessions is left.
_MOST_RECENT = 1_000
# Rules that are named where more of them decide on a pattern.
_MOST_NAMED = 5
# Names whose answers are remembered for each: some 200 KiB when there are so many.  And the length of such a name.
_MOST_NAMES = 4_000
_LONGEST_NAME = 200

T = TypeVar("T")
_Key = tuple[str, frozenset[str], str]


class _Entry(NamedTuple):
    """A pattern of a rule; `number` is the rule's, from 1, in the order of the file."""

    number: int
    table: Table
    pattern: str


_number = attrgetter("number")


class _Index:
    """The patterns of all rules.

    Attributes:
        entries: in the order of the file.
        groups: that some rule speaks of.
        by_transport: some rule asks how a client came.
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        self.groups = frozenset[str]().union(*[table.groups for table in tables])
        self.by_transport = any(table.transports for table in tables)
        self.entries = [
            _Entry(number, table, text) for number, table in enumerate(tables, 1) for text in table.patterns
        ]
        found: dict[str, list[_Entry]] = {}
        for entry in self.entries:
            found.setdefault(entry.pattern.replace(OWN, ONE), []).append(entry)
        self._tree: PatternTrie[list[_Entry]] = PatternTrie()
        for text, entries in found.items():
            self._tree.add(text, entries)

    def matching(self, name: str) -> list[_Entry]:
        """What may match a name, in the order of the file; where a word stands for the user, any word is taken."""
        return sorted(chain.from_iterable(self._tree.match(name)), key=_number)


class Granted:
    """What somebody may do: an `Access`.

    Attributes:
        sendable: see there; so answerable.
    """

    __slots__ = (
        "__weakref__",
        "_admin",
        "_groups",
        "_reach",
        "_reasons",
        "_rules",
        "_send",
        "_subscribe",
        "_transport",
        "_user",
        "answerable",
        "sendable",
    )

    def __init__(self, rules: Rules, user: str, groups: frozenset[str], transport: str) -> None:
        self.sendable: set[str] = set()
        self.answerable: set[str] = set()
        self._rules = rules
        self._user = user
        self._groups = groups
        self._transport = transport
        self._send: dict[str, bool] = {}
        self._subscribe: dict[str, bool] = {}
        self._admin: dict[str, bool] = {}
        self._reach: dict[str, Reach] = {}
        self._reasons: dict[str, str] = {}

    def may(self, action: Action, name: str) -> bool:
        """Whether that is allowed at the destination of that canonical name."""
        if action is Action.SUBSCRIBE:
            known = self._subscribe
        elif action is Action.SEND:
            known = self._send
        else:
            known = self._admin
        found = known.get(name)
        if found is None:
            entry = self.deciding(action, name)
            found = entry is not None and entry.table.allows
            _remember(known, name, found)
        return found

    def reach(self, pattern: str) -> Reach:
        """How much of what a canonical pattern matches may be subscribed to; SOME where that cannot be told."""
        found = self._reach.get(pattern)
        if found is None:
            found = _reach_by(self.deciding_some(pattern))
            _remember(self._reach, pattern, found)
        return found

    def options(self) -> list[str]:
        """See `Access`: those groups and that transport that make a difference to some rule."""
        index = self._rules.index
        # With = in between, for a group may be called like an option.
        options = [f"--group={group}" for group in sorted(self._groups & index.groups)]
        is_asked = index.by_transport and self._transport != TRANSPORTS[0]  # the command takes that one by itself
        return [*options, f"--transport={self._transport}"] if is_asked else options

    def reason(self, action: Action, name: str) -> str:
        """See `Access`."""
        # When rules change, all sessions of a user may ask the same.
        key = f"{action.value} {name}"
        found = self._reasons.get(key)
        if found is None:
            reasons = [_reason(each) for each in self.all_deciding(action, name)]
            more = len(reasons) - _MOST_NAMED
            found = ", ".join(reasons[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
            _remember(self._reasons, key, found)
        return found

    def all_deciding(self, action: Action, name: str) -> list[_Entry | None]:
        """What decides on a canonical name, or, to subscribe, on the parts of what a pattern matches."""
        return list(self.deciding_some(name)) if has_wildcard(name) else [self.deciding(action, name)]

    def deciding(self, action: Action, name: str) -> _Entry | None:
        """The first rule that is for that; None: there is none."""
        for entry in self._rules.index.matching(name):
            is_his = OWN not in entry.pattern or Pattern(self._own(entry.pattern)).matches(name)
            if is_his and self._concerns(entry.table, action):
                return entry
        return None

    def deciding_some(self, pattern: str) -> Iterator[_Entry | None]:
        """Each rule that may be the first one for a part of what a pattern matches; None: for a part there is none."""
        for entry in self._rules.index.entries:
            if self._concerns(entry.table, Action.SUBSCRIBE):
                text = self._own(entry.pattern)
                if not heads_differ(text, pattern) and overlap(text, pattern):
                    yield entry
                    if covers(text, pattern):
                        return
        yield None

    def forget(self) -> None:
        """The rules have changed."""
        answers = (self._send, self._subscribe, self._admin, self._reach, self._reasons)
        for known in (*answers, self.sendable, self.answerable):
            known.clear()

    def _concerns(self, table: Table, action: Action) -> bool:
        """Whether a rule is for that user and action, wherever."""
        if action not in table.actions or (table.transports and self._transport not in table.transports):
            return False
        users, groups = table.users, table.groups
        if not users and not groups:
            return True
        has_name = "*" in users and self._user != ANONYMOUS
        return has_name or self._user in users or not groups.isdisjoint(self._groups)

    def _own(self, pattern: str) -> str:
        # Escaped as it is, the name cannot be more than one word, nor a wildcard.
        return pattern.replace(OWN, word_of(self._user))


def _reach_by(deciding: Iterable[_Entry | None]) -> Reach:
    answers = {entry is not None and entry.table.allows for entry in deciding}
    if len(answers) > 1:
        return Reach.SOME
    return Reach.ALL if True in answers else Reach.NONE


def _remember(known: dict[str, T], name: str, answer: T) -> None:
    if len(name) <= _LONGEST_NAME:
        if len(known) >= _MOST_NAMES:
            known.clear()
        known[name] = answer


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why somebody may do something, or not.

    Attributes:
        name: the canonical name, or pattern.
        reach: how much of it is allowed: of one destination ALL or NONE.
        rules: those that decide, in the order of the file, each by its number and line (0: it has none).
        default: no rule decides, of a pattern for a part of it: that is refused.
        text: all of it in one sentence.
    """

    action: Action
    name: str
    reach: Reach
    rules: tuple[tuple[int, int], ...]
    default: bool
    text: str


class Rules:
    """The rules in force; an `Authorizer`.

    Attributes:
        name: what it is, for the log.
        index: the patterns of all rules.
        on_change: called when other rules are in force.

    Args:
        tables: in the order of the file.
        read: reads them again; SettingsError where they are wrong.
    """

    name = "rules"

    def __init__(
        self, tables: Sequence[Table], read: Callable[[], Sequence[Table]] = lambda: settings.load().rule
    ) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.index = _Index(tables)
        self._read = read
        self._living: WeakValueDictionary[_Key, Granted] = WeakValueDictionary()
        self._recent: OrderedDict[_Key, Granted] = OrderedDict()

    def access_of(self, identity: Identity, transport: str) -> Granted | None:
        """What that user may do who came that way; None: there are no rules."""
        if not self.index.entries:
            return None
        key = (identity.user, identity.groups, transport)
        granted = self._living.get(key)
        if granted is None:
            granted = self._living[key] = Granted(self, *key)
        self._recent[key] = granted
        self._recent.move_to_end(key)
        if len(self._recent) > _MOST_RECENT:
            self._recent.popitem(last=False)
        return granted

    def reload(self) -> str | None:
        """Read the rules again; they are in force at once.

        Returns:
            why they are not: the old ones stay.
        """
        try:
            tables = self._read()
        except settings.SettingsError as error:
            return str(error)
        if not tables and self.index.entries:
            path = settings.config_file()
            gone = "" if path.is_file() else f"; {path} is gone"
            return (
                "there is no [[rule]] any more, and without any everybody may do everything; restart if that is meant"
                f"{gone}"
            )
        if tables and not self.index.entries:
            return (
                "there were no rules, and the first [[rule]] tables need a restart: sessions would go on without them"
            )
        self.index = _Index(tables)
        for granted in list(self._living.values()):
            granted.forget()
        self.on_change()
        return None

    def explain(self, identity: Identity, transport: str, action: Action, name: str) -> Explanation:
        """Which rule decides, and how.

        Args:
            name: the canonical name; with SUBSCRIBE also a pattern.
        """
        granted = Granted(self, identity.user, identity.groups, transport)
        is_pattern = has_wildcard(name)
        deciding = granted.all_deciding(action, name)
        reach = _reach_by(deciding)
        entries = [entry for entry in deciding if entry is not None]
        groups = f" ({', '.join(sorted(identity.groups))})" if identity.groups else ""
        what = f"{_HOW_MUCH[reach]}{name!r} matches" if is_pattern else f"{_WHETHER[reach]} {_VERBS[action]} {name!r}"
        return Explanation(
            action,
            name,
            reach,
            tuple((entry.number, entry.table.line) for entry in entries),
            None in deciding,
            f"{identity.user}{groups} over {transport} {what}: {', '.join(map(_reason, deciding))}",
        )


_VERBS = {Action.SEND: "send to", Action.SUBSCRIBE: "subscribe to", Action.ADMIN: "administer"}
_WHETHER = {Reach.ALL: "may", Reach.NONE: "may not"}
_HOW_MUCH = {
    Reach.ALL: "may subscribe to all that ",
    Reach.SOME: "may subscribe to a part of what ",
    Reach.NONE: "may not subscribe to anything that ",
}


def _reason(entry: _Entry | None) -> str:
    if entry is None:
        return "what no rule allows is refused"
    line = f" (line {entry.table.line})" if entry.table.line else ""
    return f"rule {entry.number}{line} {'allows' if entry.table.allows else 'denies'} it"
