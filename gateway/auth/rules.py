"""Who may do what, by the `[[rule]]` tables of the settings file.

The first rule decides that is for the user, the transport, the address, the destination and the action; what no rule is
for is refused.  Without any rule, everybody may do everything.

Addresses are more than users, so nothing is remembered for each.  When a session starts, its address is sorted into the
networks that rules name (`rules_addresses`).  All of the same user, groups, transport and networks are the same to the
rules: what was found out about them is one `Standing`, which is kept as long as a session has it, or had not long ago.
A session's own part of that, `Granted`, is hardly more than its address; with that it finds its new standing when rules
with other networks are in force, as soon as it is asked something.
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
from gateway.config.rules import TRANSPORTS, Table

from .rules_addresses import NOWHERE
from .rules_standing import Index, Standing, reach_by, reason_of

# Users whose answers are remembered though none of their sessions is left.
_MOST_RECENT = 1_000

_Key = tuple[str, frozenset[str], str, frozenset[str]]


class Granted:
    """What the client of one session may do: an `Access`.

    Attributes:
        sendable: see there; so answerable.
    """

    __slots__ = (
        "_address",
        "_admin",
        "_groups",
        "_rules",
        "_send",
        "_standing",
        "_subscribe",
        "_transport",
        "_user",
        "answerable",
        "sendable",
    )

    def __init__(self, rules: Rules, user: str, groups: frozenset[str], transport: str, address: str) -> None:
        self._rules = rules
        self._user = user
        self._groups = groups
        self._transport = transport
        self._address = address
        self._sort()

    def _sort(self) -> None:
        """Take up the standing that it has by the rules in force."""
        index = self._rules.index
        networks = index.networks.around(self._address)
        self._standing = standing = self._rules.standing_of(self._user, self._groups, self._transport, networks)
        # Here as well: a message that is looked at costs one look-up, whoever shares what is found.
        self.sendable, self.answerable = standing.sendable, standing.answerable
        self._send, self._subscribe, self._admin = standing.send, standing.subscribe, standing.admin

    @property
    def standing(self) -> Standing:
        """What it has in common with others."""
        if self._standing.is_stale:
            self._sort()
        return self._standing

    def may(self, action: Action, name: str) -> bool:
        """Whether that is allowed at the destination of that canonical name."""
        if action is Action.SUBSCRIBE:
            known = self._subscribe
        elif action is Action.SEND:
            known = self._send
        else:
            known = self._admin
        found = known.get(name)  # a stale standing knows nothing
        return self.standing.find(action, name) if found is None else found

    def reach(self, pattern: str) -> Coverage:
        """How much of what a canonical pattern matches may be subscribed to; SOME where that cannot be told."""
        return self.standing.reach(pattern)

    def reason(self, action: Action, name: str) -> str:
        """See `Access`."""
        return self.standing.reason(action, name)

    def options(self) -> list[str]:
        """See `Access`: those groups, that transport and that address that make a difference to some rule."""
        index = self._rules.index
        # With = in between, for a group may be called like an option.
        options = [f"--group={group}" for group in sorted(self._groups & index.groups)]
        if index.by_transport and self._transport != TRANSPORTS[0]:  # the command takes that one by itself
            options.append(f"--transport={self._transport}")
        if index.networks and self._address:  # likewise
            options.append(f"--address={self._address}")
        return options


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
    reach: Coverage
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
        self.index = Index(tables)
        self._read = read
        self._living: WeakValueDictionary[_Key, Standing] = WeakValueDictionary()
        self._recent: OrderedDict[_Key, Standing] = OrderedDict()

    def access_of(self, identity: Identity, transport: str, address: str) -> Granted | None:
        """What that user may do who came that way; None: there are no rules.

        Args:
            address: where from; empty: by a unix socket.

        Raises:
            ValueError: it is no address.
        """
        if not self.index.entries:
            return None
        return Granted(self, identity.user, identity.groups, transport, address)

    def standing_of(self, user: str, groups: frozenset[str], transport: str, networks: frozenset[str]) -> Standing:
        """What those may do; as long as somebody of them is there, or was not long ago, it is one and the same."""
        key = (user, groups, transport, networks)
        standing = self._living.get(key)
        if standing is None:
            standing = self._living[key] = Standing(self.index, *key)
        self._recent[key] = standing
        self._recent.move_to_end(key)
        if len(self._recent) > _MOST_RECENT:
            self._recent.popitem(last=False)
        return standing

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
        before, self.index = self.index, Index(tables)
        is_other = self.index.addresses != before.addresses
        for standing in list(self._living.values()):
            standing.forget(self.index)
            standing.is_stale = is_other
        if is_other:
            self._living.clear()
            self._recent.clear()
        self.on_change()
        return None

    def explain(
        self, identity: Identity, transport: str, address: str | None, action: Action, name: str
    ) -> Explanation:
        """Which rule decides, and how.

        Args:
            address: empty: of a unix socket; None: not known, and in no network of the rules.
            name: the canonical name; with SUBSCRIBE also a pattern.

        Raises:
            ValueError: it is no address.
        """
        networks = self.index.networks
        around = NOWHERE if address is None else networks.around(address)
        standing = Standing(self.index, identity.user, identity.groups, transport, around)
        is_pattern = has_wildcard(name)
        deciding = standing.all_deciding(action, name)
        reach = reach_by(deciding)
        entries = [entry for entry in deciding if entry is not None]
        groups = f" ({', '.join(sorted(identity.groups))})" if identity.groups else ""
        place = "no known address" if address is None else address or "a unix socket"
        way = f"{transport} from {place}" if networks else transport
        what = f"{_HOW_MUCH[reach]}{name!r} matches" if is_pattern else f"{_WHETHER[reach]} {_VERBS[action]} {name!r}"
        return Explanation(
            action,
            name,
            reach,
            tuple((entry.number, entry.table.line) for entry in entries),
            None in deciding,
            f"{identity.user}{groups} over {way} {what}: {', '.join(map(reason_of, deciding))}",
        )


_VERBS = {Action.SEND: "send to", Action.SUBSCRIBE: "subscribe to", Action.ADMIN: "administer"}
_WHETHER = {Coverage.ALL: "may", Coverage.NONE: "may not"}
_HOW_MUCH = {
    Coverage.ALL: "may subscribe to all that ",
    Coverage.SOME: "may subscribe to a part of what ",
    Coverage.NONE: "may not subscribe to anything that ",
}
