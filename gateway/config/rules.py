"""Rules: the `[[rule]]` tables of the settings file, and their checks.

    [[rule]]
    destination = "/topic/prices.**"   # a pattern, or a list of patterns
    users = ["alice", "*"]             # and, or instead, groups = ["ops"]; neither: all users
    transports = ["websocket"]         # left out: all
    addresses = ["10.0.0.0/8"]         # left out: from everywhere
    allow = ["subscribe"]              # or deny = [...]; send, subscribe, admin, presence

Patterns (`gateway.broker.model.patterns`) get the form in which the broker names destinations.
"""

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
from gateway.config.toml_file import SettingsFile, TableError, did_you_mean, lines_of, read_each, shown, unknown

OWN = "{user}"  # the word of a pattern that stands for the user's own name

EVERYTHING = "#"
"""The pattern of all destinations."""

KINDS = (QUEUE, TOPIC, DIRECT, FANOUT, USER, APP)  # starts of patterns: the kinds of destinations that have rules

TRANSPORTS = ("tcp", "websocket")
UNIX = "unix"  # in place of an address: clients of unix sockets, which have none

KEYS = ("destination", "users", "groups", "transports", "addresses", "allow", "deny")
ACTIONS = tuple(action.value for action in Action)

_NEED_NO_RULE = {
    "/temp-queue/": "every client may use its own temporary destinations",
    "/temp-topic/": "every client may use its own temporary destinations",
    "/reply-queue/": "a client that knows the name of a temporary destination may send to it",
    "/reply-topic/": "a client that knows the name of a temporary destination may send to it",
    "/session/": "every session may use its own",
    "/dsub/": "durable subscriptions have the rules of their topics",
    "/presence/": "the rules of its topic allow it, by the action presence",
}
_OF_USERS = ("queue", "topic", "exchange")
# Bits before the IPv4 address in an IPv4-mapped IPv6 address.
_MAPPED = 96
# Characters that cannot stand in a word, as policies, canonical names and SEND escape them.
_ESCAPE = re.compile("%(25|2F|2E|2A|23|3E|2C)", re.IGNORECASE)


class RuleError(TableError):
    kind = "rule"


@dataclass(frozen=True, slots=True)
class RuleTable:
    """One `[[rule]]` table that is right."""

    destination: tuple[str, ...]  # patterns as written
    patterns: tuple[str, ...]  # as the broker names destinations, with the word `{user}`
    users: frozenset[str]  # `*`: all users but `anonymous`
    groups: frozenset[str]  # without users and groups the rule is for all users
    transports: frozenset[str]  # of `TRANSPORTS`; empty: all
    addresses: frozenset[str]  # networks, single addresses, and `UNIX`, each as Python writes it; empty: all
    actions: frozenset[Action]
    allows: bool  # False for `deny`
    line: int = dataclasses.field(default=0, compare=False)  # in the file; 0: the table comes from elsewhere

    @property
    def values(self) -> dict[str, object]:
        """The table as a file has it."""
        names = {key: sorted(getattr(self, key)) for key in ("users", "groups", "transports", "addresses")}
        actions = [action.value for action in Action if action in self.actions]
        return {
            "destination": self.destination[0] if len(self.destination) == 1 else list(self.destination),
            **{key: value for key, value in names.items() if value},
            "allow" if self.allows else "deny": actions,
        }


def read_tables(value: object, settings: Collection[str] = ()) -> tuple[RuleTable, ...]:
    """Check the file's value of `rule`; tables that were read before stay as they are.

    Raises RuleError: the first error of the first wrong table.
    """
    if isinstance(value, tuple) and all(isinstance(each, RuleTable) for each in value):
        return value
    return read_each(value, RuleError, "rules", lambda table: _read_table(table, settings))


def placed(tables: Sequence[RuleTable], file: SettingsFile) -> tuple[RuleTable, ...]:
    """The tables with their lines in the file that they were read from."""
    lines = lines_of(file, RuleError.kind, len(tables))
    return tuple(dataclasses.replace(table, line=line) for table, line in zip(tables, lines, strict=True))


def _read_table(table: Mapping[str, object], settings: Collection[str]) -> RuleTable:
    if "destination" not in table:
        _refuse_unknown(table, settings)
    destination, patterns = _read_destination(table)
    try:
        _refuse_unknown(table, settings)
        given = [key for key in ("allow", "deny") if key in table]
        if len(given) != 1:
            has = "both" if given else "neither"
            raise RuleError(f"a rule needs either allow or deny, and this one has {has}", given[-1] if given else "")
        return RuleTable(
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


def _refuse_unknown(table: Mapping[str, object], settings: Collection[str]) -> None:
    for key in table:
        if key not in KEYS:
            raise RuleError(unknown(key, RuleError.kind, KEYS, settings), key)


def _read_names(
    table: Mapping[str, object], key: str, refuse: Callable[[str], str], what: str = "names"
) -> frozenset[str]:
    if key not in table:
        return frozenset()
    names = table[key]
    if isinstance(names, str):  # a name may have commas, so a text is never split
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
    return "is no name: the only wildcard is *, for all users but anonymous" if is_pattern else ""


def _refuse_other(known: Sequence[str]) -> Callable[[str], str]:
    def refuse(name: str) -> str:
        hint = did_you_mean(name, known)
        return "" if name in known else f"is none of {', '.join(known)}{'; ' * bool(hint)}{hint}"

    return refuse


def _as_compared(text: str) -> str:
    """A network or an address in the form that is compared."""
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
    if network is None or "%" in text:  # % precedes the name of a link of one machine
        return f'is neither an address nor a network, like "10.0.0.0/8" or "2001:db8::7", nor "{UNIX}"'
    first = network.network_address
    if isinstance(first, IPv6Address) and first.ipv4_mapped and network.prefixlen >= _MAPPED:
        plain = _as_compared(f"{first.ipv4_mapped}/{network.prefixlen - _MAPPED}")
        return f"is an IPv4-mapped address, but clients have their IPv4 address here: write {shown(plain)}"
    address = text.partition("/")[0]
    if network.num_addresses > 1 and ip_address(address) != first:
        return f"has host bits set: write {shown(str(network))}, or {shown(address)} for the one address"
    return ""


def _read_destination(table: Mapping[str, object]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if "destination" not in table:
        raise RuleError('destination is missing; write the pattern of the rule, like destination = "/topic/prices.**"')
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
    """A pattern as the broker names destinations, from a pattern as clients name them.  Raises ValueError: it is no
    pattern, or no name can match it; `str()` continues a sentence about it."""
    if text.removeprefix("/") in WILDCARDS - {ONE}:
        return EVERYTHING
    pattern = _of_user(text[len(USER) :]) if text.startswith(USER) else _with_kind(text)
    for word in split(pattern):
        if word in WILDCARDS or word == OWN:
            continue
        if "*" in word:
            raise ValueError(f"has a wildcard inside the word {shown(word)}; it must be a whole word")
        if "{" in word or "}" in word:
            raise ValueError(f"has braces in the word {shown(word)}; only {OWN} may, as a whole word")
    try:
        check_words(pattern, text)
        check_pattern(pattern.replace(OWN, ONE), text)
    except NotAllowed as error:
        raise ValueError(f"has {error}: {error.detail}") from None
    return pattern


def _with_kind(text: str) -> str:
    """The pattern with the broker's kind of destination; a pattern without a kind is a queue's."""
    for start, why in _NEED_NO_RULE.items():
        if text.startswith(start):
            raise ValueError(f"needs no rule: {why}")
    if "," in text:
        raise ValueError("has a comma, which separates destinations; write a list")
    if text in ("", ONE):
        raise ValueError(f'is no destination; all destinations are "{EVERYTHING}" or "**", all queues "/queue/**"')
    if destinations.is_fanout(text):
        if text != FANOUT:  # the rule would seem to be for a part of the exchange
            raise ValueError(f"has a key, which the exchange ignores; write {shown(FANOUT)}")
        return FANOUT
    for start, kind in destinations.STARTS.items():
        if text.startswith(start):
            if text == start:
                raise ValueError(f'needs a name behind the last slash; all names are "{text}**"')
            return kind + text[len(start) :]
    if text.startswith("/"):
        meant = " or ".join(map(shown, destinations.meant(text)))
        raise ValueError(f"is of no kind of destination that has rules; did you mean {meant}?")
    if destinations.lacks_slash(text):
        raise ValueError(f"has no slash in front; did you mean {shown('/' + text)}? The queue is {shown(QUEUE + text)}")
    return QUEUE + text


def _of_user(rest: str) -> str:
    """A user destination: the user's own, as in SUBSCRIBE, or that of a named user, as in SEND."""
    user, _, left = rest.partition("/")
    if user in _OF_USERS and left:
        return f"{USER}{OWN}/{rest}"
    kind = left.partition("/")[0]
    if not (kind in _OF_USERS or kind in WILDCARDS or (user in WILDCARDS and not left)):
        raise ValueError("is no user destination: write /user/queue/NAME for the user's own, or /user/USER/queue/NAME")
    if user in WILDCARDS or user == OWN:
        return USER + rest
    if not WILDCARDS.isdisjoint(user) or "," in rest:
        raise ValueError("has a wildcard, or a comma, inside a user's name")
    named = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), user)
    return destinations.of_user(named) + left
