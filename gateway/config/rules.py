"""The `[[rule]]` tables of the settings file: who may do what, as it is written there.

    [[rule]]
    destination = "/topic/prices.**"   # a pattern, or a list of patterns
    users = ["alice", "*"]             # and, or instead, groups = ["ops"]; neither: everybody
    transports = ["websocket"]         # left out: all
    addresses = ["10.0.0.0/8"]         # left out: from everywhere
    allow = ["subscribe"]              # or deny = [...]

The first rule that is for the user, the transport, the address, the destination and the action decides.  What a pattern
means is `gateway.broker.model.patterns`; here it is only brought into the form in which the broker knows destinations.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network

from gateway.broker.errors import NotAllowed
from gateway.broker.model import destinations
from gateway.broker.model.access import Action
from gateway.broker.model.destinations import APP, DIRECT, FANOUT, QUEUE, TOPIC, USER
from gateway.broker.model.patterns import ONE, WILDCARDS, check_pattern, check_words, split
from gateway.config.tables import TableError, lines_of, read_each, shown, unknown
from gateway.config.toml_file import SettingsFile

OWN = "{user}"
"""The word of a pattern that stands for the user's own name."""

EVERYTHING = "#"
"""The pattern of all destinations."""

KINDS = (QUEUE, TOPIC, DIRECT, FANOUT, USER, APP)
"""What patterns start with: the kinds of destinations that rules are for."""

TRANSPORTS = ("tcp", "websocket")
UNIX = "unix"
"""Instead of an address: those who come by a unix socket, and have none."""

KEYS = ("destination", "users", "groups", "transports", "addresses", "allow", "deny")
ACTIONS = tuple(action.value for action in Action)

_NEED_NO_RULE = {
    "/temp-queue/": "everybody may use temporary destinations of his own",
    "/temp-topic/": "everybody may use temporary destinations of his own",
    "/reply-queue/": "whoever knows the name of a temporary destination may send to it",
    "/reply-topic/": "whoever knows the name of a temporary destination may send to it",
    "/session/": "every session has what is its own",
    "/dsub/": "durable subscriptions go by the rules of their topics",
}
_OF_USERS = ("queue", "topic", "exchange")
# Bits in front of an address of IPv4 that IPv6 writes as its own.
_MAPPED = 96
# How a policy, a canonical name, or a SEND writes what is no part of a word.
_ESCAPE = re.compile("%(25|2F|2E|2A|23|3E|2C)", re.IGNORECASE)


class RuleError(TableError):
    """A table is wrong; `str()` says why, without the place."""

    kind = "rule"


@dataclass(frozen=True, slots=True)
class Table:
    """One `[[rule]]` table that is right.

    Attributes:
        destination: its patterns as they are written.
        patterns: the same as the broker names destinations; the word `{user}` is still in them.
        users: names; `*` is everybody who has one.
        groups: names; where users and groups are both empty, the rule is for everybody.
        transports: of `TRANSPORTS`; empty: all.
        addresses: networks, single addresses, and `UNIX`, each as Python writes it; empty: from everywhere.
        actions: what it speaks of.
        allows: whether it allows that, or denies it.
        line: of the file; 0: it comes from elsewhere.
    """

    destination: tuple[str, ...]
    patterns: tuple[str, ...]
    users: frozenset[str]
    groups: frozenset[str]
    transports: frozenset[str]
    addresses: frozenset[str]
    actions: frozenset[Action]
    allows: bool
    line: int = dataclasses.field(default=0, compare=False)

    @property
    def values(self) -> dict[str, object]:
        """The table as a file has it."""
        who = {key: sorted(getattr(self, key)) for key in ("users", "groups", "transports", "addresses")}
        actions = [action.value for action in Action if action in self.actions]
        return {
            "destination": self.destination[0] if len(self.destination) == 1 else list(self.destination),
            **{key: names for key, names in who.items() if names},
            "allow" if self.allows else "deny": actions,
        }


def read_tables(value: object, settings: Collection[str] = ()) -> tuple[Table, ...]:
    """Check the rules of a settings file.

    Args:
        value: what the file has under `rule`; tables that were read before are as they are.
        settings: the names of settings, which are no keys of a rule.

    Raises:
        RuleError: the first fault of the first table that has one.
    """
    if isinstance(value, tuple) and all(isinstance(each, Table) for each in value):
        return value
    return read_each(value, RuleError, "rules", lambda table: _read_table(table, settings))


def placed(tables: Sequence[Table], file: SettingsFile) -> tuple[Table, ...]:
    """The same with the lines on which they stand in the file that they were read from."""
    lines = lines_of(file, RuleError.kind, len(tables))
    return tuple(dataclasses.replace(table, line=line) for table, line in zip(tables, lines, strict=True))


def _read_table(table: Mapping[str, object], settings: Collection[str]) -> Table:
    destination, patterns = _read_destination(table)
    try:
        for key in table:
            if key not in KEYS:
                raise RuleError(unknown(key, RuleError.kind, KEYS, settings), key)
        given = [key for key in ("allow", "deny") if key in table]
        if len(given) != 1:
            has = "has both" if given else "has none"
            raise RuleError(f"a rule has one of allow and deny, and this one {has}", given[-1] if given else "")
        return Table(
            destination,
            patterns,
            _read_names(table, "users", _refuse_name),
            _read_names(table, "groups", _refuse_name),
            _read_names(table, "transports", _refuse_other(TRANSPORTS)),
            frozenset(map(_as_compared, _read_names(table, "addresses", _refuse_network, "addresses"))),
            frozenset(map(Action, _read_names(table, given[0], _refuse_other(ACTIONS)))),
            given == ["allow"],
        )
    except RuleError as error:
        error.match = destination
        raise


def _read_names(
    table: Mapping[str, object], key: str, refuse: Callable[[str], str], what: str = "names"
) -> frozenset[str]:
    if key not in table:
        return frozenset()
    names = table[key]
    if isinstance(names, str):  # a name may have commas: one must not be taken for several
        raise RuleError(f"{key} must be a list: write {key} = [{shown(names)}]", key)
    if not isinstance(names, (list, tuple)) or not names or not all(isinstance(name, str) for name in names):
        raise RuleError(f"{key} must be a list of {what} that is not empty, not {shown(names)}", key)
    for name in names:
        reason = refuse(name)
        if reason:
            raise RuleError(f"{key}: {shown(name)} {reason}", key)
    return frozenset(names)


def _refuse_name(name: str) -> str:
    if not name or name != name.strip():
        return "is no name: it is empty, or has spaces around it"
    is_pattern = name != "*" and ("*" in name or OWN in name)
    return "is no name: of wildcards there is only *, for everybody who has a name" if is_pattern else ""


def _refuse_other(known: Sequence[str]) -> Callable[[str], str]:
    return lambda name: "" if name in known else f"is none of {', '.join(known)}"


# addresses


def _as_compared(text: str) -> str:
    """A network, or an address, in the one way in which it is compared."""
    if text == UNIX:
        return text
    network = ip_network(text)
    return str(network.network_address) if network.num_addresses == 1 else str(network)


def _refuse_network(text: str) -> str:
    if text == UNIX:
        return ""
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        network = None
    if network is None or "%" in text:  # behind it stands a name that one machine has for a link of its own
        return f'is neither an address nor a network, like "10.0.0.0/8" or "2001:db8::7", nor "{UNIX}"'
    first = network.network_address
    if isinstance(first, IPv6Address) and first.ipv4_mapped and network.prefixlen >= _MAPPED:
        plain = _as_compared(f"{first.ipv4_mapped}/{network.prefixlen - _MAPPED}")
        return f"is an IPv4-mapped address, and clients are known by their IPv4 address: write {shown(plain)}"
    address = text.partition("/")[0]
    if network.num_addresses > 1 and ip_address(address) != first:
        return f"has host bits set: write {shown(str(network))}, or {shown(address)} for the one address"
    return ""


# destinations


def _read_destination(table: Mapping[str, object]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if "destination" not in table:
        raise RuleError('destination is missing, which names the destinations, like destination = "/topic/prices.**"')
    value = table["destination"]
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)) or not texts or not all(isinstance(text, str) for text in texts):
        raise RuleError(f"destination must be a pattern, or a list of patterns, not {shown(value)}", "destination")
    patterns = []
    for text in texts:
        try:
            patterns.append(canonical(text))
        except ValueError as error:
            raise RuleError(f"destination: {shown(text)} {error}", "destination") from None
    return tuple(texts), tuple(patterns)


def canonical(text: str) -> str:
    """A pattern as the broker names destinations, from how clients name them.

    Raises:
        ValueError: no name could match it, or it is no pattern; `str()` continues a sentence about it.
    """
    if text.removeprefix("/") in WILDCARDS - {ONE}:
        return EVERYTHING
    pattern = _of_user(text[len(USER) :]) if text.startswith(USER) else _with_kind(text)
    for word in split(pattern):
        if word in WILDCARDS or word == OWN:
            continue
        if "*" in word:
            raise ValueError(f"has a wildcard inside of the word {shown(word)}; it must be a whole word")
        if "{" in word or "}" in word:
            raise ValueError(f"has braces in the word {shown(word)}; only {OWN} may have some, as a whole word")
    try:
        check_words(pattern, text)
        check_pattern(pattern.replace(OWN, ONE), text)
    except NotAllowed as error:
        raise ValueError(f"has {error}: {error.detail}") from None
    return pattern


def _with_kind(text: str) -> str:
    """The pattern with the kind of destination as the broker writes it, which may be left out for queues."""
    for start, why in _NEED_NO_RULE.items():
        if text.startswith(start):
            raise ValueError(f"needs no rule: {why}")
    if "," in text:
        raise ValueError("has a comma, which stands between two destinations; write a list")
    if text in ("", ONE):
        raise ValueError(f'is no destination; all of them are "{EVERYTHING}" or "**", all queues "/queue/**"')
    if destinations.is_fanout(text):
        if text != FANOUT:  # such a rule would seem to be for less than it is
            raise ValueError(f"has a key, which counts for nothing there; write {shown(FANOUT)}")
        return FANOUT
    for start, kind in destinations.STARTS.items():
        if text.startswith(start):
            if text == start:
                raise ValueError(f'needs a name behind the last slash; all of them are "{text}**"')
            return kind + text[len(start) :]
    if text.startswith("/"):
        raise ValueError(f"does not start like the destinations that rules are for: {', '.join(KINDS)}, or a name")
    if destinations.lacks_slash(text):
        raise ValueError(f"has no slash in front; did you mean {shown('/' + text)}? The queue is {shown(QUEUE + text)}")
    return QUEUE + text


def _of_user(rest: str) -> str:
    """A user's mail: one's own, as SUBSCRIBE names it, or that of somebody, as SEND does."""
    who, _, mail = rest.partition("/")
    if who in _OF_USERS and mail:
        return f"{USER}{OWN}/{rest}"
    kind = mail.partition("/")[0]
    if not (kind in _OF_USERS or kind in WILDCARDS or (who in WILDCARDS and not mail)):
        raise ValueError("is nobody's mail: write /user/queue/NAME for one's own, or /user/WHO/queue/NAME")
    if who in WILDCARDS or who == OWN:
        return USER + rest
    if not WILDCARDS.isdisjoint(who) or "," in rest:
        raise ValueError("has a wildcard, or a comma, inside of a user's name")
    named = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), who)
    return destinations.mail_of(named) + mail
