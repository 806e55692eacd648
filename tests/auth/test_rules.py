"""Rules: permissions by user, transport and address, coverage of patterns, memory, and reloads."""

from __future__ import annotations

import gc
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.rule_index import Permissions, RuleNetworks
from gateway.auth.rules import Rules, SessionAccess
from gateway.broker.model.access import Action, Coverage
from gateway.broker.model.destinations import canonical_for
from gateway.broker.model.identity import Identity
from gateway.broker.model.patterns import Pattern
from gateway.config.rules import RuleTable, read_tables
from gateway.config.settings import SettingsError

SEND, SUBSCRIBE, ADMIN = Action.SEND, Action.SUBSCRIBE, Action.ADMIN


def rule(destination: object, *allow: str, deny: object = (), **keys: object) -> dict[str, Any]:
    decides = {"allow": list(allow)} if allow else {"deny": deny}
    return {"destination": destination, **decides, **keys}


def read(*tables: dict[str, Any]) -> tuple[RuleTable, ...]:
    return read_tables(list(tables))


def rules(*tables: dict[str, Any]) -> Rules:
    return Rules(read(*tables))


def access(found: Rules, user: str = "alice", *groups: str, transport: str = "tcp", address: str = "") -> SessionAccess:
    granted = found.access_of(Identity(user, frozenset(groups)), transport, address)
    assert granted is not None
    return granted


OWN = rule(["/topic/of.{user}.**", "/user/queue/**"], "subscribe")


@pytest.mark.parametrize("user", ["*", "#", "**", ">", "a.b", "a/b", "", "{user}", "%2A", "bob.x", "a,b"])
def test_a_name_reaches_nothing_of_another_user(user: str) -> None:
    found = access(rules(OWN), user)
    for other in ("bob", "a", "b", "*", "#", "a.b", "alice"):
        if other != user:
            assert not found.may(SUBSCRIBE, f"/topic/of.{other}.x")
            assert not found.may(SUBSCRIBE, canonical_for(other, "/user/queue/x"))
    assert found.may(SUBSCRIBE, canonical_for(user, "/user/queue/x"))


def test_reach_of_patterns() -> None:
    found = access(
        rules(
            rule("/topic/news.**", "subscribe", users=["bob"]),
            rule("/topic/sport.**", "send"),
            rule("/topic/sport.a", "subscribe"),
            rule("/topic/prices.open.**", "subscribe"),
            rule("/topic/prices.open.not.**", deny=["subscribe"]),  # behind one that covers it: it decides nothing
            rule("/topic/prices.secret.**", deny=["subscribe"]),
            rule("/topic/prices.**", "subscribe"),
        )
    )
    expected = {
        Coverage.ALL: ["/topic/prices.gold.#", "/topic/prices.gold", "/topic/prices.open.#"],
        Coverage.SOME: ["/topic/prices.#", "/topic/#", "/topic/*.secret.x", "/topic/sport.*"],
        Coverage.NONE: ["/topic/prices.secret.#", "/topic/prices.secret", "/topic/news.*"],
    }
    for _ in range(2):  # the second answer is remembered
        for reach, patterns in expected.items():
            assert [found.reach(pattern) for pattern in patterns] == [reach] * len(patterns)


WORD = st.sampled_from(["a", "b", "{user}", "*", "**"])
PATTERN = st.one_of(
    st.lists(WORD, min_size=1, max_size=3).map(lambda words: "/topic/" + ".".join(words)),
    st.sampled_from(["**", "/user/queue/**", "/user/queue/a"]),
).filter(lambda text: text.count("**") < 3)
TABLE = st.fixed_dictionaries(
    {"destination": st.lists(PATTERN, min_size=1, max_size=2)},
    optional={
        "users": st.lists(st.sampled_from(["alice", "*", "a.b"]), min_size=1),
        "groups": st.lists(st.sampled_from(["ops"]), min_size=1),
        "transports": st.lists(st.sampled_from(["tcp", "websocket"]), min_size=1),
        "addresses": st.lists(st.sampled_from(["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "::/0", "unix"]), min_size=1),
    },
).flatmap(
    lambda table: st.tuples(
        st.sampled_from(["allow", "deny"]), st.lists(st.sampled_from(["send", "subscribe"]), min_size=1)
    ).map(lambda decides: table | dict([decides]))
)
ADDRESS = st.sampled_from(["", "10.1.2.3", "10.1.0.1", "10.2.0.1", "192.0.2.7", "2001:db8::1"])
NAMES = [
    *(f"/topic/{a}{b}{c}" for a in ("a", "alice", "c") for b in ("", ".b", "/a", ".alice") for c in ("", ".c", ".a")),
    "/user/alice/queue/a",
    "/user/alice/queue/b.c",
]


def is_from(table: RuleTable, address: str) -> bool:
    if not table.addresses or not address:
        return not table.addresses or "unix" in table.addresses
    return any(ip_address(address) in ip_network(text) for text in table.addresses - {"unix"})


def by_hand(
    tables: tuple[RuleTable, ...], user: str, groups: frozenset[str], transport: str, address: str, name: str
) -> bool:
    for table in tables:
        is_for_all = not table.users and not table.groups
        is_user = is_for_all or user in table.users or "*" in table.users or bool(groups & table.groups)
        where = [Pattern(text.replace("{user}", user)).matches(name) for text in table.patterns]
        how = transport in (table.transports or {transport}) and is_from(table, address)
        if is_user and how and any(where) and SUBSCRIBE in table.actions:
            return table.allows
    return False


@given(
    tables=st.lists(TABLE, min_size=1, max_size=5),
    groups=st.frozensets(st.just("ops")),
    transport=st.sampled_from(["tcp", "websocket"]),
    address=ADDRESS,
    pattern=st.lists(st.sampled_from(["a", "b", "alice", "*", "#"]), min_size=1, max_size=3)
    .map(lambda words: "/topic/" + ".".join(words))
    .filter(lambda text: "#" in text or "*" in text),
)
def test_any_rules(tables: list[Any], groups: frozenset[str], transport: str, address: str, pattern: str) -> None:
    """`may` is what the rules say one after the other; `reach` never says more than that; `explain` says the same."""
    found = rules(*tables)
    identity = Identity("alice", groups)
    granted = access(found, "alice", *groups, transport=transport, address=address)
    read = read_tables(tables)
    for name in NAMES:
        expected = by_hand(read, "alice", groups, transport, address, name)
        assert granted.may(SUBSCRIBE, name) is expected
        said = found.explain(identity, transport, address, SUBSCRIBE, name)
        assert said.reach is (Coverage.ALL if expected else Coverage.NONE)
        assert (" may subscribe to " in said.text) is expected
    matched = [granted.may(SUBSCRIBE, name) for name in NAMES if Pattern(pattern).matches(name)]
    reach = granted.reach(pattern)
    assert reach is not Coverage.ALL or all(matched)
    assert reach is not Coverage.NONE or not any(matched)
    assert found.explain(identity, transport, address, SUBSCRIBE, pattern).reach is reach


class TestWhy:
    def test_options(self) -> None:
        """What some rule asks for, and nothing else."""
        found = rules(rule("/queue/a", "send", groups=["b", "a", "-x y"]))
        assert access(found, "alice", "c").options() == []
        assert access(found, "alice", "b", "c", "a", "-x y", transport="websocket").options() == [
            *("--group=-x y", "--group=a", "--group=b")
        ]
        found = rules(rule("/queue/a", "send", transports=["tcp"]))
        assert access(found).options() == []
        assert access(found, transport="websocket", address="10.0.0.1").options() == ["--transport=websocket"]
        found = rules(rule("/queue/a", "send", addresses=["10.0.0.0/8"]))
        assert access(found).options() == []
        assert access(found, address="::1").options() == ["--address=::1"]

    def test_reason(self) -> None:
        found = rules(rule("/topic/a", deny=["subscribe"]), rule("/topic/*", "subscribe"))
        granted = access(found)
        for _ in range(2):
            assert granted.reason(SUBSCRIBE, "/topic/a") == "rule 1 denies it"
            assert granted.reason(SEND, "/topic/a") == "no rule allows it"
            assert granted.reason(SUBSCRIBE, "/topic/*") == "rule 1 denies it, rule 2 allows it"


class TestRemembering:
    def test_equal_ones_share(self) -> None:
        found = rules(rule("**", "send", addresses=["10.0.0.0/8", "unix"]))
        first = access(found, "alice", "a", "b", address="10.0.0.1")
        same = access(found, "alice", "b", "a", address="10.0.0.2")
        assert same.permissions is first.permissions
        assert same.sendable is first.sendable
        others = [access(found, "bob", address="10.0.0.1"), access(found, "alice", "a", address="10.0.0.1")]
        others += [access(found, "alice", "a", "b", transport="x", address="10.0.0.1")]
        others += [access(found, "alice", "a", "b", address=address) for address in ("11.0.0.1", "")]
        assert first.permissions not in [each.permissions for each in others]

    def test_permissions_without_sessions_are_forgotten(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = Rules(read_tables([rule("**", "send")]), max_recent=2)
        first = access(found, "user-0")
        for number in range(10):
            access(found, f"user-{number}")
        gc.collect()
        assert len(found._living) == 3
        assert access(found, "user-0").permissions is first.permissions  # its session is still there

    def test_names_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        index = rules(rule("**", "send", "subscribe", "presence")).index
        found = Permissions(index, "alice", frozenset(), "tcp", RuleNetworks.NONE, max_names=3)
        for number in range(20):
            for action in Action:
                assert found.find(action, f"/queue/{number}") is (action is not ADMIN)
            assert found.find(SEND, f"/queue/{number}" + 200 * "x")
            assert found.reach(f"/topic/{number}.#") is Coverage.ALL
        known = [getattr(found, name) for name in ("send", "subscribe", "admin", "presence", "_reach")]
        assert [len(each) for each in known] == [2, 2, 2, 2, 2]


def test_addresses() -> None:
    """With the zone of an interface; and the explanation names the address."""
    for networks in ("::/0", "fe80::/10"):
        found = rules(rule("/queue/a", "send", addresses=[networks]))
        assert access(found, address="fe80::1%eth0").may(SEND, "/queue/a")
    found = rules(rule("/queue/a", "send", addresses=["10.0.0.0/8"]))
    from_ = ("10.0.0.1", "::1", "", None)
    said = [found.explain(Identity("bob"), "tcp", each, SEND, "/queue/a").text for each in from_]
    assert said == [
        "bob over tcp from 10.0.0.1 may send to '/queue/a': rule 1 allows it",
        "bob over tcp from ::1 may not send to '/queue/a': no rule allows it",
        "bob over tcp from a unix socket may not send to '/queue/a': no rule allows it",
        "bob over tcp from no known address may not send to '/queue/a': no rule allows it",
    ]


class TestReload:
    def test_others_are_in_force_at_once(self) -> None:
        tables = [read(rule("/queue/a", "send"))]
        found = Rules(read(rule("**", "send", "subscribe")), lambda: tables[0])
        changes: list[str] = []
        found.on_change(lambda: changes.append("changed"))
        granted = access(found)
        assert granted.may(SEND, "/queue/b")
        assert granted.may(SUBSCRIBE, "/queue/b")
        assert granted.reach("/topic/#") is Coverage.ALL
        granted.sendable.add("/queue/b")
        granted.answerable.add("/queue/b")
        assert found.reload() is None
        assert changes == ["changed"]
        assert not granted.sendable
        assert not granted.answerable
        assert granted.reach("/topic/#") is Coverage.NONE
        assert not granted.may(SUBSCRIBE, "/queue/b")
        assert [granted.may(SEND, name) for name in ("/queue/a", "/queue/b")] == [True, False]
        assert access(found).permissions is granted.permissions

    def test_other_networks_sort_anew(self) -> None:
        """Sessions that were the same to the rules are no longer."""
        tables = read(
            rule("/queue/a", deny=["send"], addresses=["10.0.0.1"]),
            rule("/queue/b", "subscribe", addresses=["10.0.0.0/8"]),
            rule("/queue/a", "send"),
        )
        found = Rules(read(rule("**", "send", "subscribe")), lambda: tables)
        one, two, third = access(found, address="10.0.0.1"), access(found, address="10.0.0.2"), access(found)
        assert one.permissions is two.permissions is third.permissions
        for each in (one, two, third):
            assert each.may(SEND, "/queue/a")
            each.sendable.add("/queue/a")
        assert found.reload() is None
        assert not any(each.sendable or each.answerable for each in (one, two, third))
        assert [each.may(SEND, "/queue/a") for each in (two, one, third)] == [True, False, True]
        assert [each.may(SUBSCRIBE, "/queue/b") for each in (two, one, third)] == [True, True, False]
        two.sendable.add("/queue/a")
        assert not one.sendable
        assert [each.reason(SEND, "/queue/a")[:6] for each in (one, two)] == ["rule 1", "rule 3"]
        assert found.reload() is None
        assert not two.sendable
        assert access(found, address="10.7.7.7").permissions is two.permissions, (
            "the same networks, so nothing was sorted"
        )

    def test_wrong_ones_change_nothing(self) -> None:
        def read_again() -> tuple[RuleTable, ...]:
            raise SettingsError("gateway.toml line 1: wrong")

        found = Rules(read(rule("/queue/a", "send")), read_again)
        found.on_change(lambda: pytest.fail("nothing changed"))
        assert found.reload() == "gateway.toml line 1: wrong"
        assert access(found).may(SEND, "/queue/a")

    def test_the_first_rule_and_the_last_need_a_restart(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        found = Rules(read(rule("/queue/a", "send")), lambda: ())
        sentence = str(found.reload())
        assert sentence.startswith("there is no [[rule]] any more, and without any rule every client may do everything")
        assert sentence.endswith("; restart if that is meant; gateway.toml is gone")
        (tmp_path / "gateway.toml").touch()
        assert str(found.reload()).endswith("; restart if that is meant")
        assert not access(found).may(SEND, "/queue/b")
        found = Rules((), lambda: read(rule("/queue/a", "send")))
        assert str(found.reload()).startswith("the first [[rule]] tables need a restart")
        assert found.access_of(Identity("alice"), "tcp", "") is None
        assert Rules((), lambda: ()).reload() is None
