"""The rules: who may do what, how much of a pattern, and what is remembered of it."""

from __future__ import annotations

import gc
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth import rules as module
from gateway.auth import rules_standing
from gateway.auth.rules import Granted, Rules
from gateway.broker.model.access import Action, Coverage
from gateway.broker.model.destinations import canonical_for
from gateway.broker.model.identity import Identity
from gateway.broker.model.patterns import Pattern
from gateway.config.rules import Table, read_tables

SEND, SUBSCRIBE, ADMIN = Action.SEND, Action.SUBSCRIBE, Action.ADMIN


def rule(destination: object, *allow: str, deny: object = (), **keys: object) -> dict[str, Any]:
    decides = {"allow": list(allow)} if allow else {"deny": deny}
    return {"destination": destination, **decides, **keys}


def rules(*tables: dict[str, Any]) -> Rules:
    return Rules(read_tables(list(tables)))


def access(found: Rules, user: str = "alice", *groups: str, transport: str = "tcp", address: str = "") -> Granted:
    granted = found.access_of(Identity(user, frozenset(groups)), transport, address)
    assert granted is not None
    return granted


class TestMay:
    def test_the_first_that_is_for_it_decides(self) -> None:
        found = access(
            rules(
                rule("/queue/a.x", deny=["send"]),
                rule("/queue/a.*", "send", "subscribe"),
                rule("/queue/**", deny=["send"]),
                rule("**", "send"),
            )
        )
        names = ("/queue/a.x", "/queue/a.y", "/queue/b", "/topic/b")
        assert [found.may(SEND, name) for name in names] == [False, True, False, True]
        assert [found.may(SUBSCRIBE, name) for name in names] == [True, True, False, False]
        assert not any(found.may(ADMIN, name) for name in names)

    @pytest.mark.parametrize(
        ("keys", "who"),
        [
            ({}, "alice bob anonymous"),
            ({"users": ["alice"]}, "alice"),
            ({"users": ["*"]}, "alice bob"),
            ({"users": ["*", "anonymous"]}, "alice bob anonymous"),
            ({"users": ["anonymous"]}, "anonymous"),
            ({"groups": ["of-bob"]}, "bob"),
            ({"groups": ["of-bob"], "users": ["alice"]}, "alice bob"),
            ({"groups": ["nobody's"]}, ""),
        ],
    )
    def test_who(self, keys: dict[str, object], who: str) -> None:
        found = rules(rule("/queue/a", "send", **keys))
        for user in ("alice", "bob", "anonymous"):
            assert access(found, user, f"of-{user}").may(SEND, "/queue/a") is (user in who.split())

    def test_transports(self) -> None:
        found = rules(rule("/queue/a", "send", transports=["websocket"]), rule("/queue/b", "send"))
        for transport, name, allowed in (
            ("tcp", "/queue/a", False),
            ("websocket", "/queue/a", True),
            ("tcp", "/queue/b", True),
        ):
            assert access(found, transport=transport).may(SEND, name) is allowed

    def test_the_same_pattern_twice(self) -> None:
        found = rules(
            rule(["/queue/#", "/queue/a"], "send", users=["bob"]),
            rule(["/queue/a", "/queue/#"], deny=["send"], users=["alice"]),
            rule("/queue/a", "send"),
        )
        assert [access(found, user).may(SEND, "/queue/a") for user in ("alice", "bob", "carl")] == [False, True, True]

    def test_a_pattern_without_wildcards_is_to_the_letter(self) -> None:
        found = access(rules(rule(["/queue/a.b", "/queue/{user}.c"], "send")))
        assert found.may(SEND, "/queue/a.b")
        assert found.may(SEND, "/queue/alice.c")
        assert not found.may(SEND, "/queue/a/b")
        assert not found.may(SEND, "/queue/alice/c")

    def test_no_rules(self) -> None:
        assert rules().access_of(Identity("alice"), "tcp", "") is None


class TestOwn:
    """`{user}` is one word, whatever the name is."""

    TABLES = (rule(["/topic/of.{user}.**", "/user/queue/**"], "subscribe"),)

    @pytest.mark.parametrize("user", ["*", "#", "**", ">", "a.b", "a/b", "", "{user}", "alice", "%2A", "bob.x", "a,b"])
    def test_nobody_gets_what_is_of_another(self, user: str) -> None:
        found = access(rules(*self.TABLES), user)
        for other in ("bob", "a", "b", "*", "#", "a.b", "alice"):
            if other != user:
                assert not found.may(SUBSCRIBE, f"/topic/of.{other}.x")
                assert not found.may(SUBSCRIBE, canonical_for(other, "/user/queue/x"))
        assert found.may(SUBSCRIBE, canonical_for(user, "/user/queue/x"))

    def test_the_word(self) -> None:
        assert access(rules(*self.TABLES), "a.b").may(SUBSCRIBE, "/topic/of.a%2Eb.x")
        assert not access(rules(*self.TABLES), "a.b").may(SUBSCRIBE, "/topic/of.a.b.x")

    def test_of_a_pattern(self) -> None:
        found = access(rules(rule("/topic/#.{user}.*", "subscribe")), "*")
        assert found.reach("/topic/a.b.*") is Coverage.NONE
        assert found.reach("/topic/a.%2A.*") is Coverage.ALL
        assert found.reach("/topic/a.*.*") is Coverage.SOME


class TestReach:
    @pytest.mark.parametrize(
        ("pattern", "reach"),
        [
            ("/topic/prices.#", Coverage.SOME),
            ("/topic/prices.gold.#", Coverage.ALL),
            ("/topic/prices.secret.#", Coverage.NONE),
            ("/topic/prices.secret", Coverage.NONE),
            ("/topic/prices.gold", Coverage.ALL),
            ("/topic/#", Coverage.SOME),
            ("/topic/*.secret.x", Coverage.SOME),
            ("/topic/news.*", Coverage.NONE),
            ("/topic/sport.*", Coverage.SOME),
        ],
    )
    def test_of_patterns(self, pattern: str, reach: Coverage) -> None:
        found = access(
            rules(
                rule("/topic/news.**", "subscribe", users=["bob"]),
                rule("/topic/sport.**", "send"),
                rule("/topic/sport.a", "subscribe"),
                rule("/topic/prices.secret.**", deny=["subscribe"]),
                rule("/topic/prices.**", "subscribe"),
            )
        )
        for _ in range(2):
            assert found.reach(pattern) is reach

    def test_nothing_behind_a_rule_that_takes_all(self) -> None:
        found = access(rules(rule("/topic/**", "subscribe"), rule("/topic/a.**", deny=["subscribe"])))
        assert found.reach("/topic/a.*") is found.reach("/topic/#") is Coverage.ALL


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


def is_from(table: Table, address: str) -> bool:
    """Whether a rule is for those from there."""
    if not table.addresses or not address:
        return not table.addresses or "unix" in table.addresses
    return any(ip_address(address) in ip_network(text) for text in table.addresses - {"unix"})


def by_hand(
    tables: tuple[Table, ...], user: str, groups: frozenset[str], transport: str, address: str, name: str
) -> bool:
    """Whether somebody may subscribe, as the page says it and one rule after the other."""
    for table in tables:
        is_for_all = not table.users and not table.groups
        who = is_for_all or user in table.users or "*" in table.users or bool(groups & table.groups)
        where = [Pattern(text.replace("{user}", user)).matches(name) for text in table.patterns]
        how = transport in (table.transports or {transport}) and is_from(table, address)
        if who and how and any(where) and SUBSCRIBE in table.actions:
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
            *("--group=-x y", "--group=a", "--group=b"),
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
            assert granted.reason(SEND, "/topic/a") == "what no rule allows is refused"
            assert granted.reason(SUBSCRIBE, "/topic/*") == "rule 1 denies it, rule 2 allows it"

    def test_not_all_rules_are_named(self) -> None:
        granted = access(rules(*[rule(f"/topic/a.{number}", deny=["subscribe"]) for number in range(9)]))
        found = granted.reason(SUBSCRIBE, "/topic/a.*")
        assert found.count("denies it") == 5
        assert found.endswith("rule 5 denies it and 5 more")

    def test_other_rules_other_reasons(self) -> None:
        found = Rules(
            read_tables([rule("/queue/a", deny=["send"])]),
            lambda: read_tables([rule("/queue/b", "send"), rule("/queue/a", deny=["send"])]),
        )
        granted = access(found)
        assert granted.reason(SEND, "/queue/a") == "rule 1 denies it"
        assert found.reload() is None
        assert granted.reason(SEND, "/queue/a") == "rule 2 denies it"


class TestRemembering:
    def test_equal_ones_share(self) -> None:
        found = rules(rule("**", "send", addresses=["10.0.0.0/8", "unix"]))
        first = access(found, "alice", "a", "b", address="10.0.0.1")
        same = access(found, "alice", "b", "a", address="10.0.0.2")
        assert same.standing is first.standing
        assert same.sendable is first.sendable
        others = [access(found, "bob", address="10.0.0.1"), access(found, "alice", "a", address="10.0.0.1")]
        others += [access(found, "alice", "a", "b", transport="x", address="10.0.0.1")]
        others += [access(found, "alice", "a", "b", address=address) for address in ("11.0.0.1", "")]
        assert first.standing not in [each.standing for each in others]

    def test_addresses_of_which_no_rule_speaks_are_the_same(self) -> None:
        found = rules(rule("**", "send"))
        assert access(found, address="10.0.0.1").standing is access(found, address="::1").standing

    def test_users_are_forgotten_when_nobody_has_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_MOST_RECENT", 2)
        found = rules(rule("**", "send"))
        first = access(found, "user-0")
        for number in range(10):
            access(found, f"user-{number}")
        gc.collect()
        assert len(found._living) == 3
        assert access(found, "user-0").standing is first.standing  # its session is still there

    def test_names_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rules_standing, "_MOST_NAMES", 3)
        granted = access(rules(rule("**", "send", "subscribe")))
        for number in range(20):
            for action in Action:
                assert granted.may(action, f"/queue/{number}") is (action is not ADMIN)
            assert granted.may(SEND, f"/queue/{number}" + 200 * "x")
            assert granted.reach(f"/topic/{number}.#") is Coverage.ALL
        known = [getattr(granted.standing, name) for name in ("send", "subscribe", "admin", "_reach")]
        assert [len(each) for each in known] == [2, 2, 2, 2]

    def test_a_thousand_rules(self) -> None:
        """Only those are looked at whose pattern matches."""
        found = rules(*[rule(f"/queue/{number}.{{user}}.*", "send") for number in range(1_000)], rule("**", "admin"))
        granted = access(found)
        assert granted.may(SEND, "/queue/999.alice.x")
        assert not granted.may(SEND, "/queue/999.bob.x")
        assert [entry.number for entry in found.index.matching("/queue/7.bob.x")] == [8, 1_001]
