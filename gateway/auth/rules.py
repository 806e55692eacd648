"""Authorization by the `[[rule]]` tables of the settings file.

The first rule that is for the user, the transport, the address, the destination and the action decides; without such a
rule the action is refused.  Without any rule at all, every client may do everything.

A session's own part, `SessionAccess`, is hardly more than its address.  Sessions that are the same to the rules share
one `Permissions` (`rule_index`), which is kept as long as one of them lives, or did so recently.  When rules with
other networks are in force, each session finds its permissions again at its next question.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from gateway.broker.model.access import Action, Coverage
from gateway.broker.model.identity import Identity
from gateway.broker.model.patterns import has_wildcard
from gateway.config import settings
from gateway.config.rules import TRANSPORTS, RuleTable

from .rule_index import Permissions, RuleIndex, RuleNetworks, coverage_by, reasons_of

MAX_RECENT = 1_000  # permissions that are kept although none of their sessions is left

_Key = tuple[str, frozenset[str], str, frozenset[str]]


class SessionAccess:
    """What the client of one session may do: an `Access`."""

    __slots__ = (
        *("_address", "_admin", "_groups", "_permissions", "_rules", "_send", "_subscribe", "_transport", "_user"),
        *("answerable", "sendable"),
    )

    def __init__(self, rules: Rules, user: str, groups: frozenset[str], transport: str, address: str) -> None:
        self._rules = rules
        self._user = user
        self._groups = groups
        self._transport = transport
        self._address = address
        self._find_permissions()

    def _find_permissions(self) -> None:
        networks = self._rules.index.networks.around(self._address)
        self._permissions = found = self._rules.permissions_of(self._user, self._groups, self._transport, networks)
        # Copied here, so that the check of a message is one look-up.
        self.sendable, self.answerable = found.sendable, found.answerable
        self._send, self._subscribe, self._admin = found.send, found.subscribe, found.admin

    @property
    def permissions(self) -> Permissions:
        """The permissions that it shares with other sessions."""
        if self._permissions.is_stale:
            self._find_permissions()
        return self._permissions

    def may(self, action: Action, name: str) -> bool:
        """True if the action is allowed at the destination of that canonical name."""
        if action is Action.SUBSCRIBE:
            known = self._subscribe
        elif action is Action.SEND:
            known = self._send
        elif action is Action.ADMIN:
            known = self._admin
        else:
            known = self.permissions.presence
        found = known.get(name)  # stale permissions are empty
        return self.permissions.find(action, name) if found is None else found

    def reach(self, pattern: str) -> Coverage:
        return self.permissions.reach(pattern)

    def reason(self, action: Action, name: str) -> str:
        return self.permissions.reason(action, name)

    def options(self) -> list[str]:
        """See `Access`: the groups, the transport and the address, as far as rules name any."""
        index = self._rules.index
        # With `=`, because a group may be called like an option.
        options = [f"--group={group}" for group in sorted(self._groups & index.groups)]
        if index.by_transport and self._transport != TRANSPORTS[0]:  # the command's default
            options.append(f"--transport={self._transport}")
        if index.networks and self._address:  # a unix socket is the command's default
            options.append(f"--address={self._address}")
        return options


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an action is allowed or refused."""

    action: Action
    name: str  # the canonical name, or pattern
    reach: Coverage  # how much of it is allowed; of one destination ALL or NONE
    rules: tuple[tuple[int, int], ...]  # those that decide, each by its number and line (0: it has none)
    default: bool  # True if no rule decides on it, or on a part of it, which is refused
    text: str  # all of it in one sentence


class Rules:
    """The rules in force, in the order of the file; an `Authorizer`.  `read` reads them again."""

    name = "rules"

    def __init__(
        self,
        tables: Sequence[RuleTable],
        read: Callable[[], Sequence[RuleTable]] = lambda: settings.load().rule,
        max_recent: int = MAX_RECENT,
    ) -> None:
        self._on_change: Callable[[], None] = lambda: None
        self.index = RuleIndex(tables)
        self._read = read
        self._max_recent = max_recent
        self._living: WeakValueDictionary[_Key, Permissions] = WeakValueDictionary()
        self._recent: OrderedDict[_Key, Permissions] = OrderedDict()

    def access_of(self, identity: Identity, transport: str, address: str) -> SessionAccess | None:
        """The access of a session, whose address is empty behind a unix socket; None: there are no rules."""
        if not self.index.patterns:
            return None
        return SessionAccess(self, identity.user, identity.groups, transport, address)

    def permissions_of(
        self, user: str, groups: frozenset[str], transport: str, networks: frozenset[str]
    ) -> Permissions:
        """The permissions of all sessions with these, one object as long as one of the sessions lives."""
        key = (user, groups, transport, networks)
        found = self._living.get(key)
        if found is None:
            found = self._living[key] = Permissions(self.index, *key)
        self._recent[key] = found
        self._recent.move_to_end(key)
        if len(self._recent) > self._max_recent:
            self._recent.popitem(last=False)
        return found

    def reload(self) -> str | None:
        """Read the rules again; returns why the old rules stay in force, as a sentence, or None."""
        try:
            tables = self._read()
        except settings.SettingsError as error:
            return str(error)
        if not tables and self.index.patterns:
            path = settings.config_file()
            gone = "" if path.is_file() else f"; {path} is gone"
            return (
                "there is no [[rule]] any more, and without any rule every client may do everything; restart if that "
                f"is meant{gone}"
            )
        if tables and not self.index.patterns:
            return "the first [[rule]] tables need a restart: the sessions that are open would go on without rules"
        before, self.index = self.index, RuleIndex(tables)
        has_other_networks = self.index.addresses != before.addresses
        for permissions in list(self._living.values()):
            permissions.forget(self.index)
            permissions.is_stale = has_other_networks
        if has_other_networks:
            self._living.clear()
            self._recent.clear()
        self._on_change()
        return None

    def on_change(self, call: Callable[[], None]) -> None:
        """Call a function whenever other rules are in force."""
        self._on_change = call

    def explain(
        self, identity: Identity, transport: str, address: str | None, action: Action, name: str
    ) -> Explanation:
        """The rules that decide on a canonical name, or with SUBSCRIBE on a pattern, and how.

        `address` is empty for a unix socket; None: not known, and in no network.  Raises ValueError: it is no address.
        """
        networks = self.index.networks
        around = RuleNetworks.NONE if address is None else networks.around(address)
        permissions = Permissions(self.index, identity.user, identity.groups, transport, around)
        deciding = permissions.all_deciding(action, name)
        reach = coverage_by(deciding)
        groups = f" ({', '.join(sorted(identity.groups))})" if identity.groups else ""
        place = "no known address" if address is None else address or "a unix socket"
        way = f"{transport} from {place}" if networks else transport
        if has_wildcard(name):
            what = f"{_HOW_MUCH[reach]}{name!r} matches"
        else:
            what = f"{_WHETHER[reach]} {_VERBS[action]} {name!r}"
        return Explanation(
            action,
            name,
            reach,
            tuple((rule.number, rule.table.line) for rule in deciding if rule is not None),
            None in deciding,
            f"{identity.user}{groups} over {way} {what}: {', '.join(reasons_of(deciding))}",
        )


_VERBS = {
    Action.SEND: "send to",
    Action.SUBSCRIBE: "subscribe to",
    Action.ADMIN: "administer",
    Action.PRESENCE: "see the presence of",
}
_WHETHER = {Coverage.ALL: "may", Coverage.NONE: "may not"}
_HOW_MUCH = {
    Coverage.ALL: "may subscribe to all that ",
    Coverage.SOME: "may subscribe to a part of what ",
    Coverage.NONE: "may not subscribe to anything that ",
}
