"""Index of the rules: the patterns and networks of all `[[rule]]` tables, and the permissions that follow from them.

Rules are many, so none of this goes through all of them for a message: the patterns stand in one trie, in which
`{user}` is a wildcard, and the patterns that it finds are compared with the user's own word.  Users are many, too: all
sessions with the same user, groups, transport and networks share one `Permissions`, which remembers the answers.

A subscription with wildcards is compared with the rules pattern by pattern: a rule may take all of it, and then no
later rule counts, or a part.  `Coverage.SOME` may stand where a finer comparison would find ALL, never the reverse.

Both patterns are sequences of words, in which `*` is any word and `#` any number of words.  Words that no pattern names
are all alike, so one word stands for them.  A pattern without wildcards is one exact name: `/topic/a.b` takes only a
part of `/topic/a.*`, which also matches `/topic/a/b`.  `covers` gives up, and says no, when it
would have to look at too many places.
"""

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address, ip_network
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, TypeVar

from gateway.broker.core.ports import ANONYMOUS
from gateway.broker.model.access import Action, Coverage
from gateway.broker.model.destinations import word_of
from gateway.broker.model.patterns import ONE, REST, WILDCARDS, Pattern, has_wildcard, overlap, pattern_words, split
from gateway.broker.model.trie import PatternTrie
from gateway.config.rules import OWN, UNIX, RuleTable

MAX_NAMES = 4_000  # destinations with remembered answers, for each action: some 200 KiB

# Longer names are not remembered.
_LONGEST_NAME = 200
# Rules that a reason names where more of them decide on a pattern.
_MOST_NAMED = 5

T = TypeVar("T")

MAX_PLACES = 2_000  # places that `covers` looks at; the patterns of clients and operators have a few dozen


def heads_differ(text: str, other: str) -> bool:
    """True if two patterns begin with different words, so that no name can match both; most do."""
    for word, others in zip(split(text), split(other), strict=False):
        if word in WILDCARDS or others in WILDCARDS:
            return False
        if word != others:
            return True
    return False


def covers(text: str, pattern: str, max_places: int = MAX_PLACES) -> bool:
    """True if the text matches all names that the pattern matches.  `pattern`: it has a wildcard."""
    if not has_wildcard(text):
        return False
    words = pattern_words(pattern)
    general = Pattern(text)
    every = (*general.named, None)
    # A place in the pattern, and all places in the text that the words before it may have led to.
    pending = [(0, 1)]
    seen = set(pending)
    while pending:
        at, reached = pending.pop()
        if at == len(words):
            if not general.ends(reached):
                return False
            continue
        if len(seen) > max_places:
            return False
        word = words[at]
        if word == REST:
            new = [(at + 1, reached), *[(at, general.behind(reached, each)) for each in every]]
        elif word == ONE:
            new = [(at + 1, general.behind(reached, each)) for each in every]
        else:
            new = [(at + 1, general.behind(reached, word))]
        pending += [each for each in new if each not in seen]
        seen.update(new)
    return True


class RuleNetworks:
    """The networks of all rules; an address is looked up once for each prefix length that occurs."""

    NONE: frozenset[str] = frozenset()

    def __init__(self, texts: Iterable[str]) -> None:
        self._has_unix = False
        # (IP version, bits of the host) -> bits of the network -> its text
        self._tables: dict[tuple[int, int], dict[int, str]] = {}
        for text in texts:
            if text == UNIX:
                self._has_unix = True
                continue
            network = ip_network(text)
            host = network.max_prefixlen - network.prefixlen
            self._tables.setdefault((network.version, host), {})[int(network.network_address) >> host] = text

    def __bool__(self) -> bool:
        return self._has_unix or bool(self._tables)

    def around(self, address: str) -> frozenset[str]:
        """The networks that an address is in; empty: of a unix socket.  Raises ValueError: it is no address."""
        if not self:
            return self.NONE
        if not address:
            return frozenset([UNIX]) if self._has_unix else self.NONE
        found = ip_address(address)
        bits = int(found)
        return frozenset(
            table[bits >> host]
            for (version, host), table in self._tables.items()
            if version == found.version and bits >> host in table
        )


class RulePattern(NamedTuple):
    """A pattern of a rule; `number` is the rule's, from 1, in the order of the file."""

    number: int
    table: RuleTable
    pattern: str


_number = attrgetter("number")


class RuleIndex:
    """The patterns of all rules, in the order of the file; and the groups and networks that rules name."""

    def __init__(self, tables: Sequence[RuleTable]) -> None:
        self.groups = frozenset[str]().union(*[table.groups for table in tables])
        self.by_transport = any(table.transports for table in tables)
        self.addresses = frozenset[str]().union(*[table.addresses for table in tables])
        self.networks = RuleNetworks(self.addresses)
        self.patterns = [
            RulePattern(number, table, text) for number, table in enumerate(tables, 1) for text in table.patterns
        ]
        found: dict[str, list[RulePattern]] = {}
        for each in self.patterns:
            found.setdefault(each.pattern.replace(OWN, ONE), []).append(each)
        self._trie: PatternTrie[list[RulePattern]] = PatternTrie()
        for text, patterns in found.items():
            self._trie.add(text, patterns)

    def matching(self, name: str) -> list[RulePattern]:
        """The patterns that may match a name, in the order of the file; any word stands for the user's."""
        return sorted(chain.from_iterable(self._trie.match(name)), key=_number)


class Permissions:
    """The permissions of all sessions that are the same to the rules."""

    __slots__ = (
        *("__weakref__", "_groups", "_index", "_max_names", "_networks", "_reach", "_reasons", "_transport", "_user"),
        *("admin", "answerable", "is_stale", "presence", "send", "sendable", "subscribe"),
    )

    def __init__(
        self,
        index: RuleIndex,
        user: str,
        groups: frozenset[str],
        transport: str,
        networks: frozenset[str],
        max_names: int = MAX_NAMES,
    ) -> None:
        self.sendable: set[str] = set()  # as in `Access`, like `answerable`
        self.answerable: set[str] = set()
        self.send: dict[str, bool] = {}  # destination -> allowed, as far as asked
        self.subscribe: dict[str, bool] = {}
        self.admin: dict[str, bool] = {}
        self.presence: dict[str, bool] = {}
        self.is_stale = False  # rules with other networks are in force: sessions find their permissions again
        self._index = index
        self._user = user
        self._groups = groups
        self._transport = transport
        self._networks = networks
        self._max_names = max_names
        self._reach: dict[str, Coverage] = {}
        self._reasons: dict[str, str] = {}

    def find(self, action: Action, name: str) -> bool:
        """True if the action is allowed at the destination of that canonical name; the answer is remembered."""
        rule = self.deciding(action, name)
        allowed = rule is not None and rule.table.allows
        known = {Action.SUBSCRIBE: self.subscribe, Action.SEND: self.send, Action.ADMIN: self.admin}
        self._remember(known.get(action, self.presence), name, allowed)
        return allowed

    def reach(self, pattern: str) -> Coverage:
        found = self._reach.get(pattern)
        if found is None:
            found = coverage_by(self.deciding_parts(pattern))
            self._remember(self._reach, pattern, found)
        return found

    def reason(self, action: Action, name: str) -> str:
        # When rules change, all sessions of a user may ask the same.
        key = f"{action.value} {name}"
        found = self._reasons.get(key)
        if found is None:
            reasons = reasons_of(self.all_deciding(action, name))
            more = len(reasons) - _MOST_NAMED
            found = ", ".join(reasons[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
            self._remember(self._reasons, key, found)
        return found

    def all_deciding(self, action: Action, name: str) -> list[RulePattern | None]:
        """The rules that decide on a canonical name, or on the parts of a SUBSCRIBE pattern; None: no rule does."""
        return list(self.deciding_parts(name)) if has_wildcard(name) else [self.deciding(action, name)]

    def deciding(self, action: Action, name: str) -> RulePattern | None:
        """The rule that decides on a canonical name: the first that is for it; None: no rule does."""
        for rule in self._index.matching(name):
            matches = OWN not in rule.pattern or Pattern(self._own(rule.pattern)).matches(name)
            if matches and self._concerns(rule.table, action):
                return rule
        return None

    def deciding_parts(self, pattern: str) -> Iterator[RulePattern | None]:
        """Each rule that may decide on a part of a SUBSCRIBE pattern; None: no rule decides on a part."""
        before: list[str] = []
        for rule in self._index.patterns:
            if self._concerns(rule.table, Action.SUBSCRIBE):
                text = self._own(rule.pattern)
                if heads_differ(text, pattern) or not overlap(text, pattern):
                    continue
                if any(covers(earlier, text) for earlier in before):
                    continue  # an earlier rule decides on all that this one is for
                yield rule
                if covers(text, pattern):
                    return
                before.append(text)
        yield None

    def forget(self, index: RuleIndex) -> None:
        """Other rules are in force."""
        self._index = index
        answers = (self.send, self.subscribe, self.admin, self.presence, self._reach, self._reasons)
        for known in (*answers, self.sendable, self.answerable):
            known.clear()

    def _concerns(self, table: RuleTable, action: Action) -> bool:
        """True if a rule is for these users and that action, at any destination."""
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
        # Escaped, the name is exactly one word and never a wildcard.
        return pattern.replace(OWN, word_of(self._user))

    def _remember(self, known: dict[str, T], name: str, answer: T) -> None:
        if len(name) <= _LONGEST_NAME:
            if len(known) >= self._max_names:
                known.clear()
            known[name] = answer


def coverage_by(deciding: Iterable[RulePattern | None]) -> Coverage:
    """How much the rules allow that decide on parts of a pattern; None: no rule decides on a part."""
    answers = {rule is not None and rule.table.allows for rule in deciding}
    if len(answers) > 1:
        return Coverage.SOME
    return Coverage.ALL if True in answers else Coverage.NONE


def reasons_of(deciding: Sequence[RulePattern | None]) -> list[str]:
    """The decisions of rules in words; None: no rule decides."""
    reasons = []
    for rule in deciding:
        if rule is None:
            reasons.append("no rule allows it" if len(deciding) == 1 else "no rule allows the rest")
            continue
        line = f" (line {rule.table.line})" if rule.table.line else ""
        reasons.append(f"rule {rule.number}{line} {'allows' if rule.table.allows else 'denies'} it")
    return reasons
