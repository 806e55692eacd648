"""Rules by address: which of them are for a client, and in which networks it is."""

from __future__ import annotations

import pytest

from gateway.auth.rules_addresses import NOWHERE, Networks
from gateway.broker.model.access import Action
from gateway.broker.model.identity import Identity

from .test_rules import access, rule, rules

SEND = Action.SEND


class TestNetworks:
    TEXTS = ("10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "::/0", "2001:db8::/32", "unix")

    @pytest.mark.parametrize(
        ("address", "networks"),
        [
            ("10.1.2.3", "10.0.0.0/8 10.1.0.0/16 10.1.2.3"),
            ("10.1.2.4", "10.0.0.0/8 10.1.0.0/16"),
            ("10.2.0.0", "10.0.0.0/8"),
            ("9.255.255.255", ""),
            ("11.0.0.0", ""),
            ("2001:db8::a01:203", "::/0 2001:db8::/32"),
            ("::1", "::/0"),
            ("", "unix"),
        ],
    )
    def test_around(self, address: str, networks: str) -> None:
        assert Networks(self.TEXTS).around(address) == set(networks.split())

    def test_none(self) -> None:
        assert not Networks(())
        assert Networks(()).around("10.0.0.1") is Networks(()).around("") is NOWHERE
        assert Networks(["10.0.0.0/8"]).around("") is NOWHERE

    @pytest.mark.parametrize("text", ["unix", "10.0.0.0/8", "0.0.0.0/0"])
    def test_some(self, text: str) -> None:
        assert Networks([text])


class TestRules:
    @pytest.mark.parametrize(
        ("networks", "where"),
        [
            (["10.0.0.0/8"], "10.0.0.1 10.255.0.1"),
            (["10.0.0.0/8", "10.0.0.1", "2001:db8::/32"], "10.0.0.1 10.255.0.1 2001:db8::7"),
            (["10.0.0.1"], "10.0.0.1"),
            (["0.0.0.0/0"], "10.0.0.1 10.255.0.1 11.0.0.1"),
            (["::/0"], "2001:db8::7 2001:db9::7 ::1 fe80::1%eth0"),
            (["fe80::/10"], "fe80::1%eth0"),
            (["::1", "unix"], "::1 unix"),
            (["192.0.2.0/24"], ""),
        ],
    )
    def test_addresses(self, networks: list[str], where: str) -> None:
        """Of a rule that allows, and of one that denies."""
        allowed = rules(rule("/queue/a", "send", addresses=networks))
        denied = rules(rule("/queue/a", deny=["send"], addresses=networks), rule("**", "send"))
        for name in "10.0.0.1 10.255.0.1 11.0.0.1 2001:db8::7 2001:db9::7 ::1 fe80::1%eth0 unix".split():
            address = "" if name == "unix" else name
            is_there = name in where.split()
            assert access(allowed, address=address).may(SEND, "/queue/a") is is_there
            assert access(denied, address=address).may(SEND, "/queue/a") is not is_there

    def test_all_that_is_given_must_match(self) -> None:
        found = rules(
            rule("/queue/a", "send", users=["alice"], groups=["ops"], addresses=["10.0.0.0/8"], transports=["tcp"])
        )
        asked = [("alice", (), "10.0.0.1", "tcp"), ("bob", ("ops",), "10.0.0.1", "tcp"), ("bob", (), "10.0.0.1", "tcp")]
        asked += [("alice", (), "11.0.0.1", "tcp"), ("alice", (), "", "tcp"), ("alice", (), "10.0.0.1", "websocket")]
        allowed = [
            access(found, user, *groups, transport=transport, address=address).may(SEND, "/queue/a")
            for user, groups, address, transport in asked
        ]
        assert allowed == [True, True, False, False, False, False]

    def test_what_is_no_address(self) -> None:
        """Nobody knows which rule would be for it."""
        with pytest.raises(ValueError, match="nowhere"):
            access(rules(rule("/queue/a", deny=["send"], addresses=["10.0.0.0/8"])), address="nowhere")

    def test_where_from(self) -> None:
        found = rules(rule("/queue/a", "send", addresses=["10.0.0.0/8"]))
        from_ = ("10.0.0.1", "::1", "", None)
        said = [found.explain(Identity("bob"), "tcp", each, SEND, "/queue/a").text for each in from_]
        assert said == [
            "bob over tcp from 10.0.0.1 may send to '/queue/a': rule 1 allows it",
            "bob over tcp from ::1 may not send to '/queue/a': what no rule allows is refused",
            "bob over tcp from a unix socket may not send to '/queue/a': what no rule allows is refused",
            "bob over tcp from no known address may not send to '/queue/a': what no rule allows is refused",
        ]
